// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"math"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// sayProfile reports whether the profile that an autoscaler names can be used. It cannot be used if it is deleted or invalid, or if the
// target has model state for the profile of another autoscaler.
func (r *recommender) sayProfile(adv *advice, choice *sizing.Choice, conflict sizing.Problem) {
	problem := r.catalog.Problem(adv.to)
	if problem.Reason == "" {
		problem = conflict
	}
	switch {
	case problem.Reason != "":
		adv.say(v1alpha1.ConditionSizingProfileUsable, watcher.False, string(problem.Reason), problem.Message)
	case choice.Usable:
		adv.say(v1alpha1.ConditionSizingProfileUsable, watcher.Removed, "", "")
	}
}

// sayDisruption reports whether a profile that is meant for resizes in place is applied by evictions. If there are no pods, the condition
// is neither added nor removed: the pods of a workload may come and go with each run.
func (r *recommender) sayDisruption(adv *advice, choice *sizing.Choice, governing, hasPods bool) {
	if !choice.Usable {
		return
	}
	problem := sizing.ModeProblem(adv.to, choice)
	switch {
	case !governing || problem.Reason == "":
		adv.say(v1alpha1.ConditionDisruptiveProfile, watcher.Removed, "", "")
	case hasPods:
		adv.say(v1alpha1.ConditionDisruptiveProfile, watcher.True, string(problem.Reason), problem.Message)
	}
}

// sayLeaks reports the containers whose memory usage grows steadily, if the profile of the autoscaler detects this.
func (r *recommender) sayLeaks(adv *advice, choice *sizing.Choice, now time.Time, snapshot *cluster.Snapshot) {
	if choice.Usable && !choice.Edition.ModelState {
		adv.say(v1alpha1.ConditionMemoryLeakSuspected, watcher.Removed, "", "")
		return
	}
	var found []string
	for _, history := range r.usageStore.All(adv.to.Target) {
		container := history.Container()
		policy := adv.to.Policy(container)
		if history.Extension() == nil || history.Stale() || !policy.Controls().Has(cluster.Memory) {
			continue
		}
		bound := memoryBound{field: "limit"}
		bound.bytes = r.limits.get(snapshot, usage.Ref{Workload: adv.to.Target, Container: container}, func() int64 {
			return memoryLimit(snapshot.PodsOf(adv.to.Target), container)
		})
		if bound.bytes == 0 && policy != nil {
			bound = memoryBound{"maxAllowed", policy.MaxAllowed.Memory}
		}
		if leak, ok := recommend.LeakOf(history, float64(bound.bytes), now); ok {
			found = append(found, leakMessage(container, &leak, bound, now))
		}
	}
	if len(found) == 0 {
		adv.say(v1alpha1.ConditionMemoryLeakSuspected, watcher.Removed, "", "")
		return
	}
	adv.say(v1alpha1.ConditionMemoryLeakSuspected, watcher.True, v1alpha1.ReasonGrowth, strings.Join(found, " "))
}

// A memoryBound is the memory that a container cannot exceed, and the field that sets it.
type memoryBound struct {
	field string
	bytes int64 // 0: not set
}

// memoryLimit returns the lowest memory limit of a container in live pods, in bytes; 0 if it has none.
func memoryLimit(pods []*cluster.Pod, container string) int64 {
	lowest := int64(0)
	for _, p := range pods {
		c := p.Container(container)
		if c == nil || !p.Live() {
			continue
		}
		_, limits := c.Running()
		if limits.Memory > 0 && (lowest == 0 || limits.Memory < lowest) {
			lowest = limits.Memory
		}
	}
	return lowest
}

// leakMessage describes the growth of a container's memory. Amounts are rounded, so the message changes rarely.
func leakMessage(container string, leak *recommend.Suspicion, bound memoryBound, now time.Time) string {
	var b strings.Builder
	perDay := cluster.Format(cluster.Memory, rounded(leak.PerDay))
	if growing := now.Sub(leak.Last) < 48*time.Hour; growing {
		fmt.Fprintf(&b, "Memory of container %s has grown by about %s a day since %s", container, perDay, leak.Since.Format(time.DateOnly))
		if !leak.Full.IsZero() {
			fmt.Fprintf(&b, ", and at this rate reaches its %s of %s about %s", bound.field, cluster.Format(cluster.Memory, bound.bytes), leak.Full.Format(time.DateOnly))
		}
	} else {
		fmt.Fprintf(&b, "Memory of container %s grew by about %s a day from %s to %s", container, perDay, leak.Since.Format(time.DateOnly), leak.Last.Format(time.DateOnly))
	}
	if leak.Most > 0 {
		fmt.Fprintf(&b, "; leakBound of its profile limits its recommendation to %s until two weeks after the growth has stopped. If this growth is intended, raise leakBound or set minAllowed",
			cluster.Format(cluster.Memory, rounded(leak.Most)))
	}
	return b.String() + "."
}

// rounded rounds bytes to two significant digits, in whole MiB from 1 MiB on.
func rounded(bytes float64) int64 {
	const mib = 1 << 20
	value := bytes
	unit := 1.0
	if bytes >= mib {
		value = bytes / mib
		unit = mib
	}
	step := math.Pow(10, max(math.Floor(math.Log10(max(value, 1)))-1, 0))
	return int64(math.Round(value/step) * step * unit)
}
