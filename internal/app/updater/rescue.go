// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// rescueShown is how long the condition OOMRescue shows what was done.
const rescueShown = time.Hour

type conditionWriter interface {
	WriteConditions(ctx context.Context, a *cluster.Autoscaler, now time.Time, say ...watcher.Condition) (bool, error)
}

// A rescueState is the condition OOMRescue of an autoscaler.
type rescueState struct {
	status          watcher.Status // watcher.Removed if there is no condition
	reason, message string
	done            time.Time // when a pod was rescued last
	rank            int       // 2 for a pod that is left for a reason that may need attention, 1 for a rescued pod, 0 for one that waits
}

// writeRescues updates the condition OOMRescue of autoscalers, those that change no pods, too: what was done for OOM-killed pods, or why they are left.
func (c *conditionReporter) writeRescues(ctx context.Context, now time.Time, all map[cluster.Key]*cluster.Autoscaler, decisions []decision.Decision) {
	if c.writer == nil || c.config.DryRun {
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
		if !known || this.rank > state.rank {
			next[d.Autoscaler.Key] = this
		}
	}
	var due []conditionWrite
	for _, key := range slices.SortedFunc(maps.Keys(all), cluster.Key.Compare) {
		a := all[key]
		report := c.rescues.of(a.Key)
		state, active := next[a.Key]
		isShown := report.last.status == watcher.True && now.Before(report.last.done.Add(rescueShown))
		if isShown && (!active || state.rank == 0) {
			state = report.last
		}
		report.set(state)
		if report.isDue(now) {
			due = append(due, conditionWrite{a, []watcher.Condition{{
				Type: v1alpha1.ConditionOOMRescue, Status: state.status, Reason: state.reason, Message: state.message,
			}}, &report.conditionAttempt})
		}
	}
	c.write(ctx, now, due)
	maps.DeleteFunc(c.rescues, func(key cluster.Key, _ *report[rescueState]) bool { return all[key] == nil })
}

// rescueReasons are the reasons of the condition OOMRescue after an action.
var rescueReasons = map[decision.Act]string{decision.Resize: v1alpha1.ReasonResized, decision.Evict: v1alpha1.ReasonEvicted, decision.Delete: v1alpha1.ReasonDeleted}

func stateOf(d *decision.Decision, now time.Time) rescueState {
	if d.Do != decision.Leave {
		return rescueState{status: watcher.True, reason: rescueReasons[d.Do], message: rescueText(d), done: now, rank: 1}
	}
	why := d.Reason
	why.Until = time.Time{} // changes with each attempt
	rank := 0
	if why.Code.NeedsAttention() {
		rank = 2
	}
	return rescueState{
		status: watcher.False, reason: why.Code.String(), rank: rank,
		message: "Pod " + d.Pod.Name + " is OOM-killed and does not get more memory. " + why.String(),
	}
}

// rescueText returns the text of the event and the condition about a rescued pod.
func rescueText(d *decision.Decision) string {
	done := map[decision.Act]string{decision.Resize: "resized in place", decision.Evict: "evicted", decision.Delete: "deleted"}[d.Do]
	return "Pod " + d.Pod.Name + " was " + done + " at once to give it more memory. " + d.Reason.String()
}
