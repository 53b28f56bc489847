// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// sayProfile reports whether the profile that an autoscaler names can be used. It cannot be used if it is deleted or invalid, or if the
// target has model state for the profile of another autoscaler.
func (a *advice) sayProfile(conflict sizing.Problem) {
	problem := a.by.catalog.Problem(a.to)
	if problem.Reason == "" {
		problem = conflict
	}
	switch {
	case problem.Reason != "":
		a.say(v1alpha1.ConditionSizingProfileUsable, watcher.False, string(problem.Reason), problem.Message)
	case a.choice.Usable:
		a.report(v1alpha1.ConditionSizingProfileUsable, "", "")
	}
}

// sayDisruption reports whether a profile that is meant for resizes in place is applied by evictions. If there are no pods, the condition
// is neither added nor removed: the pods of a workload may come and go with each run.
func (a *advice) sayDisruption(isSupported bool) {
	if !a.choice.Usable {
		return
	}
	problem := sizing.ModeProblem(a.to, a.choice)
	switch {
	case !a.governing || !isSupported || problem.Reason == "":
		a.report(v1alpha1.ConditionDisruptiveProfile, "", "")
	case len(a.pods) > 0:
		a.report(v1alpha1.ConditionDisruptiveProfile, string(problem.Reason), problem.Message)
	}
}

// sayLeaks reports the containers whose memory usage grows steadily, if the profile of the autoscaler detects this.
func (a *advice) sayLeaks() {
	if a.choice.Usable && !a.choice.Edition.ModelState {
		a.report(v1alpha1.ConditionMemoryLeakSuspected, "", "")
		return
	}
	var found []string
	for _, history := range a.by.usageStore.All(a.to.Target) {
		container := history.Container()
		own := a.to.Policy(container)
		if history.Extension() == nil || history.Stale() || !own.Controls().Has(cluster.Memory) {
			continue
		}
		field := "limit" // that sets the memory which the container cannot exceed; 0 bytes: it is not set
		bound := cluster.Memo(&a.in.limits, usage.Ref{Workload: a.to.Target, Container: container}, func() int64 {
			lowest, _ := policy.MemoryLimitsOf(a.pods, container)
			return lowest
		})
		if bound == 0 && own != nil {
			field, bound = "maxAllowed", own.MaxAllowed.Memory
		}
		if leak, ok := recommend.LeakOf(history, float64(bound), a.now); ok {
			found = append(found, leak.Message(container, field, bound, a.now))
		}
	}
	reason := ""
	if len(found) > 0 {
		reason = v1alpha1.ReasonGrowth
	}
	a.report(v1alpha1.ConditionMemoryLeakSuspected, reason, strings.Join(found, " "))
}

// The reasons of conditions that are not part of podfit's API: upstream's, and that of ConditionTargetConflict.
const (
	ReasonNoPodsMatched = "NoPodsMatched"
	ReasonOlderGoverns  = "OlderAutoscalerGoverns"
)

// ConditionReasons are the reasons of each condition that the recommender sets and that only podfit has.
var ConditionReasons = map[string][]string{
	v1alpha1.ConditionSizingProfileUsable:       {v1alpha1.ReasonInvalid, v1alpha1.ReasonDeleted, v1alpha1.ReasonOtherProfile},
	v1alpha1.ConditionMemoryLeakSuspected:       {v1alpha1.ReasonGrowth},
	v1alpha1.ConditionDisruptiveProfile:         {v1alpha1.ReasonModeEvicts},
	v1alpha1.ConditionHistoryIncomplete:         {v1alpha1.ReasonBackfillRunning, v1alpha1.ReasonBackfillFailed},
	v1alpha1.ConditionOOMKillLoop:               {v1alpha1.ReasonRequestBelowTarget, v1alpha1.ReasonTargetAtMaximum, v1alpha1.ReasonLimitFixed},
	v1alpha1.ConditionRecommendationNotAdmitted: {v1alpha1.ReasonHeldToAdmitted, v1alpha1.ReasonNoSizeAdmitted},
	v1alpha1.ConditionNeedsLargerNode:           {v1alpha1.ReasonScaledDown, v1alpha1.ReasonNoNodeFits},
	v1alpha1.ConditionNeedsMoreReplicas:         {v1alpha1.ReasonAboveNodeShare, v1alpha1.ReasonReplicasFixed},
	v1alpha1.ConditionCriticalityInvalid:        {v1alpha1.ReasonLabelInvalid},
	v1alpha1.ConditionPackingNotPossible:        {v1alpha1.ReasonNodesNotKnown, v1alpha1.ReasonTooYoung, v1alpha1.ReasonLargerThanHalf, v1alpha1.ReasonLimitByRequest},
	v1alpha1.ConditionHorizontalPodAutoscaler:   {v1alpha1.ReasonRequestLeft, v1alpha1.ReasonScalePointPreserved, v1alpha1.ReasonOthersReset},
	v1alpha1.ConditionUsageAboveRequest:         {v1alpha1.ReasonRequestTooLow, v1alpha1.ReasonOneReplica, v1alpha1.ReasonStarting, v1alpha1.ReasonNodeHasSpare},
	v1alpha1.ConditionCPUThrottled:              {v1alpha1.ReasonAtLimit, v1alpha1.ReasonKernelTooOld, v1alpha1.ReasonBurstsOfThreads},
	v1alpha1.ConditionNoCPURequest:              {v1alpha1.ReasonNotControlled, v1alpha1.ReasonNotApplied},
	v1alpha1.ConditionJVMSeesAllCores:           {v1alpha1.ReasonRequestInBand},
}
