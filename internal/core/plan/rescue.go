// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rescue"
)

// kindsOfRescue are the kinds of changes of OOM-killed pods.
var kindsOfRescue = map[kind]kind{evict: rescueEvict, resize: rescueResize}

func (t *decider) kindOf(usual kind) kind {
	if t.d.Rescue {
		return kindsOfRescue[usual]
	}
	return usual
}

func (t *candidate) isDown() bool { return t.health().IsDown() }

// isSafeToRescue reports whether a resize that rescues the pod takes nothing out of service, or the user waives the minimum for resizes.
func (t *candidate) isSafeToRescue() bool {
	return t.isDown() || !change.Restarts(t.d.Pod, t.d.With) || t.isInPlace()
}

func (t *candidate) budgetOfOthers() (decision.Reason, bool) {
	missing := 0
	if t.isFirst() {
		missing = t.g.Replaced
	}
	return t.rescue.BudgetOfOthers(t.d.Pod, missing)
}

// delete decides on the deletion of a pod to rescue, if no check blocks it. If one does, it is the reason to leave the pod.
func (t *decider) delete() {
	if !t.d.Rescue || t.b.Rescue != rescue.ByDeletion || !t.rescue.IsCrashing(t.d.Pod) {
		return
	}
	if r, blocked := t.firstBlocked(deletePod); blocked {
		t.d.leave(r)
		return
	}
	t.d.Do = decision.Delete
	t.d.Reason = t.d.Wanted
	t.d.Fallback = false
	t.d.Reason.Fallback = decision.DisruptionBudget
	t.d.again = t.rescue.IsRepeated(t.d.Pod)
	t.quotas.Reserve(t.d.Decision, decision.Evict)
	t.backoff.Begin(t.d.Pod)
	t.rescue.Begin(t.d.Pod)
}

// endRescue lets the next pass delete a pod of the workload if the deletion of this one was not carried out.
func (s *pass) endRescue(d *entry, why decision.RefusalKind) {
	if d.Do == decision.Delete && why != decision.OutcomeIsUnknown {
		d.scope.rescue.End(d.Pod)
	}
}
