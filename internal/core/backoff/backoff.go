// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package backoff tells which actions on a pod wait because of earlier ones: the API server refused them, they were undone or had no effect, or
// their effect is not known yet. Package ledger records the earlier actions.
package backoff

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
)

// A Book is the earlier actions and their delays, in a pass.
type Book struct {
	*disruption.Counter
	Delays *attempt.Delays
}

// secondDryRun is after what time a dry run is repeated. An admission controller whose watch works knows a target by then.
const secondDryRun = 10 * time.Second

// NotSized returns the reason to leave a pod if the last dry run for its workload shows that replacements do not get the recommended
// requests. The next dry run is made after the first delay of evictions without effect, which does not double: it disrupts nothing. The first
// one that an admission controller took part in is repeated soon: it learns of a new target by its own watch, and may have been late.
func (b *Book) NotSized(p *cluster.Pod) (decision.Reason, bool) {
	u, found := b.Ledger.LastUnsized(p.Workload())
	if !found {
		return decision.Reason{}, false
	}
	r := decision.Reason{
		Code: decision.NotSizedAtAdmission, Until: u.At.Add(b.Delays.EvictionBackoff), Text: u.Failed,
		Container: need.NameUnlessSole(p)(u.Container), Resource: u.Resource, From: u.Got, To: u.Want,
	}
	switch {
	case u.First:
		r.Code = decision.NotYetAtAdmission
		r.Until = u.At.Add(secondDryRun)
	case u.Called:
		r.Want = 1
	}
	return r, b.Now.Before(r.Until)
}

// Undone returns why a resize waits: the back-off after resizes that were undone, or the watch may not show the last one yet.
func (b *Book) Undone(p *cluster.Pod) (decision.Reason, bool) {
	if b.Ledger.Awaited(b.Now, p) != nil {
		return decision.Reason{Code: decision.ResizeRunning}, true
	}
	if b.Need.UpstreamRules {
		return decision.Reason{}, false
	}
	return b.after(b.Ledger.Undone(p), b.Ledger.LastResize(p), b.Delays.BackoffBase, "resize")
}

// after returns the back-off after n actions in a row without effect.
func (b *Book) after(n int, last time.Time, base time.Duration, what string) (decision.Reason, bool) {
	if n == 0 {
		return decision.Reason{}, false
	}
	until := last.Add(attempt.Doubled(base, b.Delays.BackoffMax, n))
	return decision.Reason{Code: decision.BackingOff, Until: until, Have: n, Text: what}, b.Now.Before(until)
}

// shortestRescue and longestRescue bound the back-off between the rescue of a pod and that of its replacement. It is the back-off of the kubelet for
// containers that crash: the first restart follows at once.
const (
	shortestRescue = 10 * time.Second
	longestRescue  = 5 * time.Minute
)

// TooOften returns why the next round of evictions waits, or the rescue of a replacement: the back-off after the last eviction of the workload.
func (b *Book) TooOften(p *cluster.Pod, rescue bool) (decision.Reason, bool) {
	r, next := b.Ledger.NextRound(p, rescue)
	if !next || r.Count < 2 {
		return decision.Reason{}, false
	}
	base, most := b.Delays.EvictionBackoff, b.Delays.BackoffMax
	if rescue {
		base, most = shortestRescue, longestRescue
	}
	until := r.At.Add(attempt.Doubled(base, most, r.Count-1))
	return decision.Reason{Code: decision.ChangesTooOften, Until: until, Have: r.Count}, b.Now.Before(until)
}

// EvictionRefused returns why an eviction waits after a refusal. If a PodDisruptionBudget refused it, the eviction is tried again at once when
// more other pods are ready than at any refused attempt in a row. g is the group of the pod, or nil.
func (b *Book) EvictionRefused(p *cluster.Pod, g *disruption.Group) (decision.Reason, bool) {
	r, ok := b.Ledger.LastFailure(p, decision.Evict)
	if !ok || !b.Now.Before(r.Until(*b.Delays)) {
		return decision.Reason{}, false
	}
	if r.Kind == decision.DeniedByBudget && g != nil && r.MayAllow(b.Now, b.ReadyBeside(g, p)) && !b.Now.Before(r.At.Add(r.RetryAfter)) {
		return decision.Reason{}, false
	}
	return r.Reason(*b.Delays, decision.Evict), true
}

// ResizeRefused returns why a resize waits after a refusal. If a refused resize did not lead to an eviction because a quota had refused the same
// size, and the pod is asked for a much smaller one now, the resize is tried again during the back-off, which shows whether the pod is evicted
// instead.
func (b *Book) ResizeRefused(last ledger.FailedAttempt, with []policy.Fitted) (decision.Reason, bool) {
	asksLessThanQuota := last.OverQuota != nil && last.IsOverQuota(last.At, last.With) && change.AsksSmaller(with, last.OverQuota, b.Need.Threshold)
	if !b.Now.Before(last.Until(*b.Delays)) || last.Kind.DependsOnSize() && b.AsksEnoughLess(last, with) || asksLessThanQuota {
		return decision.Reason{}, false
	}
	return last.Reason(*b.Delays, decision.Resize), true
}

// AsksEnoughLess reports whether a resize that a node or quota refused may be tried again: during the back-off with much smaller
// requests, and none that is higher: otherwise a resize by a part, which shrinks no container, and one in full, which does, would be tried
// in turn. After the back-off, what a node refused is tried again if any request is lower.
func (b *Book) AsksEnoughLess(last ledger.FailedAttempt, with []policy.Fitted) bool {
	return change.AsksSmaller(with, last.With, b.Need.Threshold) ||
		last.Kind == decision.DeniedByNode && !b.Now.Before(last.Until(*b.Delays)) && change.AsksLessThan(with, last.With, 0)
}

// unansweredAfter is how long actions on a pod may be without an answer before an event is written. Single lost answers and short
// outages of the API server are shorter.
const unansweredAfter = 10 * time.Minute

// Unanswered reports whether actions on a pod have been without an answer for longer than unansweredAfter, and returns the reason to report.
func (b *Book) Unanswered(p *cluster.Pod) (decision.Reason, bool) {
	var longest ledger.FailedAttempt
	for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
		r, ok := b.Ledger.LastFailure(p, do)
		if ok && !r.LostSince.IsZero() && (longest.LostSince.IsZero() || r.LostSince.Before(longest.LostSince)) {
			longest = r
		}
	}
	if longest.LostSince.IsZero() || b.Now.Before(longest.LostSince.Add(unansweredAfter)) {
		return decision.Reason{}, false
	}
	r := decision.Reason{Code: decision.Unanswered, Text: longest.Text, For: b.Now.Sub(longest.LostSince)}
	if until := longest.Until(*b.Delays); b.Now.Before(until) {
		r.Until = until
	}
	return r, true
}

// maxDiagnoses is the maximum number of workloads that one pass diagnoses.
const maxDiagnoses = 10

// Undiagnosed returns one pod of each workload whose last eviction had no effect for an unknown cause. A dry run of its replacement may show
// the cause. After one that did not, the next one is made after the first delay of evictions without effect, and after those of other workloads.
func (b *Book) Undiagnosed(ds []decision.Decision) []decision.Decision {
	if b.Need.UpstreamRules {
		return nil // the cause would have no consequence
	}
	asked := map[cluster.Workload]time.Time{}
	var out []decision.Decision
	for i := range ds {
		d := &ds[i]
		w := d.Pod.Workload()
		if _, seen := asked[w]; seen || d.Do != decision.Leave || d.Wanted.Code == decision.Fits {
			continue
		}
		last, undiagnosed := b.Ledger.Undiagnosed(w)
		since := b.Now.Sub(last) // negative if the clock was set back
		r, waits := b.NotSized(d.Pod)
		tooSoon := r.Code != decision.NotYetAtAdmission && !last.IsZero() && since >= 0 && since < b.Delays.EvictionBackoff
		if waits || !undiagnosed || tooSoon {
			continue
		}
		asked[w] = last
		out = append(out, *d)
	}
	slices.SortStableFunc(out, func(x, y decision.Decision) int { return asked[x.Pod.Workload()].Compare(asked[y.Pod.Workload()]) })
	return out[:min(len(out), maxDiagnoses)]
}
