// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
)

// replacementRefused blocks a change if the API server would refuse a pod with the new requests. An eviction would have no effect:
// the admission controller does not change such a pod.
func (t *candidate) replacementRefused() (decision.Reason, bool) {
	r := admissible.Refused(t.w.Limits[t.d.Pod.Namespace], t.d.Pod, t.d.With)
	if !r.Refused() {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.ReplacementRefused, Text: r.String()}, true
}

// unansweredAfter is how long actions on a pod may be without an answer before an event is written. Single lost answers and short
// outages of the API server are shorter.
const unansweredAfter = 10 * time.Minute

// Unanswered reports whether actions on the pod have been without an answer for longer than unansweredAfter, and returns the reason
// to report. The pod may currently be left for another reason, such as the disruption budget.
func (p *Pass) Unanswered(d decision.Decision) (decision.Reason, bool) {
	var longest ledger.FailedAttempt
	for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
		r, ok := p.w.Ledger.LastFailure(d.Pod, do)
		if ok && !r.LostSince.IsZero() && (longest.LostSince.IsZero() || r.LostSince.Before(longest.LostSince)) {
			longest = r
		}
	}
	if longest.LostSince.IsZero() || p.now.Before(longest.LostSince.Add(unansweredAfter)) {
		return decision.Reason{}, false
	}
	r := decision.Reason{Code: decision.Unanswered, Text: longest.Text, For: p.now.Sub(longest.LostSince)}
	if until := longest.Until(p.b.Delays); p.now.Before(until) {
		r.Until = until
	}
	return r, true
}

// evictionRefused blocks an eviction during the back-off after a refusal. If a PodDisruptionBudget refused it, the eviction is tried
// again at once when more other pods are ready than at any refused attempt in a row.
func (t *candidate) evictionRefused() (decision.Reason, bool) {
	r, ok := t.w.Ledger.LastFailure(t.d.Pod, decision.Evict)
	if !ok || !t.now.Before(r.Until(t.b.Delays)) {
		return decision.Reason{}, false
	}
	if r.Kind == decision.DeniedByBudget && t.g != nil && r.MayAllow(t.now, t.counter.ReadyBeside(t.g, t.d.Pod)) && !t.now.Before(r.At.Add(r.RetryAfter)) {
		return decision.Reason{}, false
	}
	return r.Reason(t.b.Delays, decision.Evict), true
}

// resizeRefused blocks a resize during the back-off after a refusal.
func (t *candidate) resizeRefused() (decision.Reason, bool) {
	r, ok := t.lastResize(t.d)
	if !ok || t.retries || !t.now.Before(r.Until(t.b.Delays)) || r.Kind.DependsOnSize() && t.asksEnoughLess(r) || t.asksLessThanQuotaRefused(r) {
		return decision.Reason{}, false
	}
	return r.Reason(t.b.Delays, decision.Resize), true
}

// asksLessThanQuotaRefused reports whether a refused resize did not lead to an eviction because a quota had refused the same size, and the
// pod is asked for a much smaller one now. The resize is tried again during the back-off, which shows whether the pod is evicted instead.
func (t *candidate) asksLessThanQuotaRefused(r ledger.FailedAttempt) bool {
	return r.OverQuota != nil && r.IsOverQuota(r.At, r.With) && change.AsksSmaller(t.d.With, r.OverQuota, t.b.Threshold)
}

// asksEnoughLess reports whether a resize that a node or quota refused may be tried again: during the back-off with much smaller
// requests, and none that is higher: otherwise a resize by a part, which shrinks no container, and one in full, which does, would be tried
// in turn. After the back-off, what a node refused is tried again if any request is lower.
func (t *candidate) asksEnoughLess(r ledger.FailedAttempt) bool {
	return change.AsksSmaller(t.d.With, r.With, t.b.Threshold) ||
		r.Kind == decision.DeniedByNode && !t.now.Before(r.Until(t.b.Delays)) && change.AsksLessThan(t.d.With, r.With, 0)
}

// isAwaited reports whether evicted pods of the group have no replacement yet, or one is evicted in this pass to test whether it is
// replaced.
func (s *pass) isAwaited(controller cluster.Workload, g *disruption.Group) bool {
	return g.Trial || s.w.Ledger.Missing(controller) > 0 && !s.counter.Complete[controller]
}

// awaiting returns the reason to leave a pod whose resize was refused until an evicted pod has its replacement.
func (t *decider) awaiting(last ledger.FailedAttempt) decision.Reason {
	if r, missing := t.replacementMissing(); missing {
		return r
	}
	return decision.Reason{Code: decision.AwaitingReplacement, Text: last.Text}
}

// replacementMissing blocks evictions while evicted pods have no replacement.
func (t *candidate) replacementMissing() (decision.Reason, bool) {
	if s, short := t.short[t.d.Pod.Controller]; short {
		return decision.Reason{Code: decision.ReplacementMissing, Have: s.Present, Want: s.Wanted, For: t.now.Sub(s.Since)}, true
	}
	return decision.Reason{}, false
}
