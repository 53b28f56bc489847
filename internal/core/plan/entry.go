// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rescue"
)

// An entry is a decision with what only the pass needs to know about it.
type entry struct {
	*decision.Decision

	placed  bool         // the room for the replacement is known; only set on Evict
	roomFor *cluster.Pod // the pod that gets the room of this one; only set on Evict and Surge

	canary     bool      // the pod is the canary of its workload
	rank       int       // position in the order in which the pods of the autoscaler are decided on
	slot       slot      // position in the order of execution
	refused    time.Time // when an action on the pod was last refused; zero if none was
	scope      *scope
	taken      bool // the decision is counted in the budget of its group
	unanswered bool // a resize of the pod had no answer in this pass, so that its budget stays spent
	health     disruption.Health
	again      bool        // Delete: the replacement of an earlier deletion was OOM-killed, too
	gates      []gate.Gate // of World.Explained: the results of the checks
}

// attempt returns the action of a decision that was tried, for the ledger.
func (d *entry) attempt(now time.Time, tried decision.Decision) ledger.Attempt {
	a := ledger.Attempt{
		Pod: tried.Pod, Autoscaler: tried.Autoscaler.Key, Do: tried.Do, With: tried.With, Rescue: tried.Rescue,
		Part: tried.Reason.Part, RoomFor: d.roomFor, Repeated: d.again,
	}
	if d.scope != nil {
		a.Newest = d.scope.newest
	}
	if a.Do == decision.Delete {
		kill, _ := rescue.KillOf(now, attempt.HistoryTTL, tried.Autoscaler, a.Pod, a.With)
		a.Memory = kill.To
	}
	return a
}

// leave leaves the pod instead of changing it.
func (d *entry) leave(r decision.Reason) {
	d.Do = decision.Leave
	d.Reason = r
	d.Fallback = false
	d.roomFor = nil
	d.Request = nil
}

// group returns the pods with which the pod shares a budget, or nil if it was never a candidate.
func (d *entry) group() *disruption.Group {
	if d.scope == nil {
		return nil
	}
	return d.scope.groups[d.Pod.Controller]
}
