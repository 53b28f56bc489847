// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/decision"
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

// Unanswered reports whether actions on the pod have been without an answer for a long time, and returns the reason to report. The pod may
// currently be left for another reason, such as the disruption budget.
func (p *Pass) Unanswered(d decision.Decision) (decision.Reason, bool) {
	return p.backoffs.Unanswered(d.Pod)
}

// resizeRefused blocks a resize during the back-off after a refusal.
func (t *candidate) resizeRefused() (decision.Reason, bool) {
	last, ok := t.lastResize(t.d)
	if !ok || t.retries {
		return decision.Reason{}, false
	}
	return t.backoff.ResizeRefused(last, t.d.With)
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
