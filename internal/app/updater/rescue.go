// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"maps"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// rescueShown is how long the condition OOMRescue shows what was done.
const rescueShown = time.Hour

// conditionWriter writes conditions of autoscalers.
type conditionWriter interface {
	WriteConditions(ctx context.Context, a *cluster.Autoscaler, now time.Time, say ...watcher.Condition) (bool, error)
}

// A rescueState is the condition OOMRescue of an autoscaler.
type rescueState struct {
	status, reason, message string    // status is watcher.Removed if there is no condition
	done                    time.Time // when a pod was rescued last
}

// A rescueReport is the condition OOMRescue of an autoscaler, and whether it was written.
type rescueReport struct {
	rescueState
	conditionAttempt
}

// writeRescueConditions updates the condition OOMRescue of the autoscalers of the pass: what was done for OOM-killed pods, or why they
// are left.
func (e *execution) writeRescueConditions(ctx context.Context, now time.Time, autoscalers []*cluster.Autoscaler, decisions []decision.Decision) {
	if e.conditions == nil || e.config.DryRun || e.config.OOMRescue == rescueOff {
		return
	}
	next := map[cluster.Key]rescueState{}
	for i := range decisions {
		d := &decisions[i]
		if !d.Rescue {
			continue
		}
		state, known := next[d.Autoscaler.Key]
		this := stateOf(d, now)
		// A pod that needs attention comes first, then one that was rescued.
		if !known || rank(&this) > rank(&state) {
			next[d.Autoscaler.Key] = this
		}
	}
	var due []conditionWrite
	for _, a := range autoscalers {
		report := e.rescueStates[a.Key]
		if report == nil {
			report = new(rescueReport)
			e.rescueStates[a.Key] = report
		}
		state, active := next[a.Key]
		isShown := report.status == watcher.True && now.Before(report.done.Add(rescueShown))
		if isShown && (!active || rank(&state) == 0) {
			state = report.rescueState
		}
		if state != report.rescueState {
			report.rescueState, report.written = state, false
		}
		if report.isDue(now) {
			due = append(due, conditionWrite{a, []watcher.Condition{{
				Type: v1alpha1.ConditionOOMRescue, Status: state.status, Reason: state.reason, Message: state.message,
			}}, &report.conditionAttempt})
		}
	}
	e.writeConditions(ctx, now, due)
	maps.DeleteFunc(e.rescueStates, func(key cluster.Key, _ *rescueReport) bool { return !e.governs(key) })
}

// rescueReasons are the reasons of the condition OOMRescue after an action.
var rescueReasons = map[decision.Act]string{decision.Resize: v1alpha1.ReasonResized, decision.Evict: v1alpha1.ReasonEvicted, decision.Delete: v1alpha1.ReasonDeleted}

func stateOf(d *decision.Decision, now time.Time) rescueState {
	if d.Do != decision.Leave {
		return rescueState{status: watcher.True, reason: rescueReasons[d.Do], message: rescueText(d), done: now}
	}
	why := d.Reason
	why.Until = time.Time{} // changes with each attempt
	return rescueState{
		status: watcher.False, reason: d.Reason.Code.String(),
		message: "Pod " + d.Pod.Name + " is OOM-killed and does not get more memory. " + why.String(),
	}
}

// rank returns 2 for a pod that is left for a reason that may need attention, 1 for a rescued pod, and 0 for one that waits.
func rank(s *rescueState) int {
	switch {
	case s.status == watcher.True:
		return 1
	case attentionNames[s.reason]:
		return 2
	}
	return 0
}

// attentionNames are the names of the reasons that may need attention.
var attentionNames = func() map[string]bool {
	out := map[string]bool{}
	for code := range decision.Codes() {
		if code.NeedsAttention() {
			out[code.String()] = true
		}
	}
	return out
}()

// rescueText returns the text of the event and the condition about a rescued pod.
func rescueText(d *decision.Decision) string {
	done := map[decision.Act]string{decision.Resize: "resized in place", decision.Evict: "evicted", decision.Delete: "deleted"}[d.Do]
	return "Pod " + d.Pod.Name + " was " + done + " at once to give it more memory. " + d.Reason.String()
}
