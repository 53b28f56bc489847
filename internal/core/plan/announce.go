// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/headroom"
)

// mustAnnounce reports whether an action is carried out only if it was announced: the next updater, which does not know of it, could repeat
// it or exceed a limit. These actions need no announcement:
//
//   - A resize that restarts no container. Requests to resize a pod to the same size again change nothing. The resize of a canary needs one,
//     because the next updater would choose another canary, and so does each resize if the share of requests that changes in an hour is limited.
//   - The resize or eviction of an OOM-killed pod that is not ready. It serves nobody, and a replacement is a rescue only after an OOM kill of
//     its own. A deletion needs one, because no disruption budget limits deletions.
func (s *pass) mustAnnounce(d *entry, do decision.Act, canary bool) bool {
	if d.Rescue && (do == decision.Resize || do == decision.Evict) && s.counter.Health(d.Pod) == disruption.Down {
		return false
	}
	if do != decision.Resize || change.Restarts(d.Pod, d.With) {
		return true
	}
	return !d.Rescue && d.Wanted.Code != decision.BoostOver && (canary || s.radius != nil)
}

// MustAnnounce reports whether a decision is carried out only if it was announced.
func (p *Pass) MustAnnounce(d decision.Decision) bool {
	own := p.entryOf(d.Pod)
	return p.mustAnnounce(own, d.Do, own.canary)
}

// notAnnounced returns a check that blocks an action that must be announced and cannot be now.
func notAnnounced(do decision.Act) func(*candidate) (decision.Reason, bool) {
	return func(t *candidate) (decision.Reason, bool) {
		r, blocked := t.w.Unannounced.Of(t.d.Pod.Workload())
		return r, blocked && t.mustAnnounce(t.d, do, t.canary.IsNeeded(t.d.Decision))
	}
}

// NotAnnounced reports that a request for capacity was not created, because of a freeze, or because the action on the workload could not be announced.
func (p *Pass) NotAnnounced(step *headroom.Step, why decision.Reason) {
	p.entryOf(step.Pod).leave(why)
}
