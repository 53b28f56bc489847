// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The condition types that podfit sets in the status of autoscalers in addition to upstream's. Each condition is absent if it does
// not apply.
const (
	// ConditionSizingProfileUsable is False if the SizingProfile that the autoscaler names is invalid (ReasonInvalid) or has been
	// deleted (ReasonDeleted), or if the target has model state for the profile of another autoscaler, which the profile of this
	// one cannot use (ReasonOtherProfile).
	ConditionSizingProfileUsable = "SizingProfileUsable"
	// ConditionMemoryLeakSuspected is True if the memory usage of a container grows steadily.
	ConditionMemoryLeakSuspected = "MemoryLeakSuspected"
	// ConditionDisruptiveProfile is True if the profile is designed for in-place resizes but the update mode evicts a pod for each
	// change, and the autoscaler governs pods.
	ConditionDisruptiveProfile = "DisruptiveProfile"
	// ConditionHistoryIncomplete is True while the backfill of the target's usage history from Prometheus runs
	// (ReasonBackfillRunning), or if it failed (ReasonBackfillFailed).
	ConditionHistoryIncomplete = "HistoryIncomplete"
	// ConditionOOMKillLoop is True if a container is OOM-killed repeatedly and does not get the recommended memory
	// (ReasonRequestBelowTarget, ReasonLimitFixed), or the recommendation is limited by maxAllowed (ReasonTargetAtMaximum).
	ConditionOOMKillLoop = "OOMKillLoop"
	// ConditionOOMRescue is True for an hour after the updater has resized, evicted or deleted an OOM-killed pod at once (ReasonResized,
	// ReasonEvicted, ReasonDeleted). It is False while an OOM-killed pod does not get more memory; the reason is that of the decision.
	// The updater sets it.
	ConditionOOMRescue = "OOMRescue"
	// ConditionUpdating is True while pods of the autoscaler do not have the recommended size; the reason is the most frequent one for
	// which they wait, or ReasonInProgress. It is False with ReasonUpToDate if all pods have it, and Unknown with ReasonPaused while the
	// updater changes no pods at all. It is absent if the update mode changes no running pods, or there are none. The updater sets it.
	ConditionUpdating = "Updating"
	// ConditionAnnotationInvalid is True if an annotation about the time or the rollout of changes, or about language runtimes, is invalid
	// (ReasonInvalid). The updater sets it.
	ConditionAnnotationInvalid = "AnnotationInvalid"
	// ConditionReverted is True while a recommendation is held back because a canary failed with it (ReasonOOMKilled, ReasonRestarted,
	// ReasonNotReady, ReasonThrottled). The updater sets it.
	ConditionReverted = "Reverted"
	// ConditionMemoryLimitInProportion is True if memory limits should follow the highest usage, and a ResourceQuota that bounds limits.memory keeps their
	// ratio to the request (ReasonQuota). The updater sets it, if it may read quotas.
	ConditionMemoryLimitInProportion = "MemoryLimitInProportion"
	// ConditionRecommendationNotAdmitted is True if the API server would reject pods with the recommended size. The pods get the
	// nearest size that the API server admits (ReasonHeldToAdmitted), or keep their own (ReasonNoSizeAdmitted).
	ConditionRecommendationNotAdmitted = "RecommendationNotAdmitted"
	// ConditionNeedsLargerNode is True if pods with the recommended size fit on no node that may take them. The pods get a smaller size
	// (ReasonScaledDown), or the recommendation is not applied or its pods stay Pending (ReasonNoNodeFits). The status keeps the
	// recommendation.
	ConditionNeedsLargerNode = "NeedsLargerNode"
	// ConditionHorizontalPodAutoscaler is True if a HorizontalPodAutoscaler scales the target by the utilization of a request that the
	// autoscaler controls. podfit leaves the request alone (ReasonRequestLeft, ReasonOthersReset), or changes it together with the
	// target of the HPA (ReasonScalePointPreserved).
	ConditionHorizontalPodAutoscaler = "HorizontalPodAutoscaler"
	// ConditionUsageAboveRequest is True if a container has used more CPU than its request for 30 minutes, by more than 50m. The reason is
	// the cause: ReasonRequestTooLow, ReasonOneReplica, ReasonStarting or ReasonNodeHasSpare.
	ConditionUsageAboveRequest = "UsageAboveRequest"
	// ConditionCPUThrottled is True if a container is throttled in more than a quarter of its CPU periods. The reason is the cause:
	// ReasonAtLimit, ReasonKernelTooOld or ReasonBurstsOfThreads. It needs Prometheus.
	ConditionCPUThrottled = "CPUThrottled"
	// ConditionNoCPURequest is True if a container has had no CPU request for an hour, because the autoscaler does not control it
	// (ReasonNotControlled) or the recommendation is not applied (ReasonNotApplied).
	ConditionNoCPURequest = "NoCPURequest"
	// ConditionJVMSeesAllCores is True if the CPU request of a JVM is in a range that a JVM may take for no request (ReasonRequestInBand).
	ConditionJVMSeesAllCores = "JVMSeesAllCores"
	// ConditionNeedsMoreReplicas is True if the profile limits the CPU of a pod to a share of a node, and the pods need more
	// (ReasonAboveNodeShare). It is False if they do and the workload cannot have more replicas (ReasonReplicasFixed).
	ConditionNeedsMoreReplicas = "NeedsMoreReplicas"
	// ConditionCriticalityInvalid is True if a pod has an invalid value of the label podfit.dev/criticality (ReasonLabelInvalid), and the profile
	// has a criticality.
	ConditionCriticalityInvalid = "CriticalityInvalid"
	// ConditionPackingNotPossible is True if the profile sizes pods for full nodes, and a container gets the request of profile balanced instead. The
	// reason is the cause: ReasonNodesNotKnown, ReasonTooYoung, ReasonLargerThanHalf or ReasonLimitByRequest.
	ConditionPackingNotPossible = "PackingNotPossible"
	// ConditionTargetConflict is True if an older autoscaler has the same target.
	ConditionTargetConflict = "TargetConflict"
)

// The reasons of these conditions.
const (
	ReasonInvalid      = "Invalid"
	ReasonDeleted      = "Deleted"
	ReasonOtherProfile = "OtherProfileRemembered"
	ReasonGrowth       = "SteadyGrowth"
	ReasonModeEvicts   = "UpdateModeEvicts"

	ReasonBackfillRunning = "BackfillRunning"
	ReasonBackfillFailed  = "BackfillFailed"

	ReasonRequestBelowTarget = "RequestBelowTarget"
	ReasonTargetAtMaximum    = "TargetAtMaximum"
	ReasonLimitFixed         = "LimitFixed"

	ReasonResized = "Resized"
	ReasonEvicted = "Evicted"

	ReasonUpToDate   = "UpToDate"
	ReasonInProgress = "InProgress"
	ReasonPaused     = "Paused"

	ReasonHeldToAdmitted = "HeldToAdmitted"
	ReasonNoSizeAdmitted = "NoSizeAdmitted"

	ReasonOOMKilled = "OOMKilled"
	ReasonRestarted = "Restarted"
	ReasonNotReady  = "NotReady"
	ReasonThrottled = "Throttled"

	ReasonQuota = "ResourceQuota"

	ReasonScaledDown = "ScaledDown"
	ReasonNoNodeFits = "NoNodeFits"

	ReasonRequestLeft         = "RequestLeft"
	ReasonOthersReset         = "TargetResetByOthers"
	ReasonScalePointPreserved = "ScalePointPreserved"

	ReasonRequestTooLow = "RequestTooLow"
	ReasonOneReplica    = "OneReplica"
	ReasonStarting      = "Starting"
	ReasonNodeHasSpare  = "NodeHasSpare"

	ReasonAtLimit         = "AtLimit"
	ReasonKernelTooOld    = "KernelTooOld"
	ReasonBurstsOfThreads = "BurstsOfThreads"

	ReasonNotControlled = "NotControlled"
	ReasonNotApplied    = "NotApplied"

	ReasonRequestInBand = "RequestInBand"

	ReasonAboveNodeShare = "AboveNodeShare"
	ReasonReplicasFixed  = "ReplicasFixed"
	ReasonLabelInvalid   = "LabelInvalid"

	ReasonNodesNotKnown  = "NodesNotKnown"
	ReasonTooYoung       = "TooYoung"
	ReasonLargerThanHalf = "LargerThanHalf"
	ReasonLimitByRequest = "LimitByRequest"
)

// AllConditions returns the types of all conditions that podfit sets in addition to upstream's.
func AllConditions() []string {
	return append(Conditions(), ConditionUpdating, ConditionOOMRescue, ConditionAnnotationInvalid, ConditionReverted, ConditionMemoryLimitInProportion, ConditionTargetConflict)
}

// Conditions returns the types of all conditions that the recommender of podfit sets in addition to upstream's.
func Conditions() []string {
	return []string{
		ConditionSizingProfileUsable, ConditionMemoryLeakSuspected, ConditionDisruptiveProfile, ConditionHistoryIncomplete, ConditionOOMKillLoop,
		ConditionRecommendationNotAdmitted, ConditionNeedsLargerNode, ConditionHorizontalPodAutoscaler,
		ConditionUsageAboveRequest, ConditionCPUThrottled, ConditionNoCPURequest, ConditionJVMSeesAllCores,
		ConditionNeedsMoreReplicas, ConditionCriticalityInvalid, ConditionPackingNotPossible,
	}
}
