// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The conditions that podfit sets in the status of autoscalers beside upstream's.
const (
	// ConditionSizingProfileUsable is False while the SizingProfile that an autoscaler names is broken (ReasonInvalid) or has
	// been deleted (ReasonDeleted), or while what is remembered of its target is for another autoscaler's profile and of no use
	// to its own (ReasonOtherProfile), and absent otherwise.
	ConditionSizingProfileUsable = "SizingProfileUsable"
	// ConditionMemoryLeakSuspected is True while the memory of a container grows as if it leaked, and absent otherwise.
	ConditionMemoryLeakSuspected = "MemoryLeakSuspected"
	// ConditionDisruptiveProfile is True where a profile that is meant for resizes in place meets an update mode that evicts for
	// each of them, and there are pods that it governs; and absent otherwise.
	ConditionDisruptiveProfile = "DisruptiveProfile"
	// ConditionHistoryIncomplete is True while the usage history of the target is being read from Prometheus
	// (ReasonBackfillRunning), or after that has failed (ReasonBackfillFailed), and absent otherwise.
	ConditionHistoryIncomplete = "HistoryIncomplete"
	// ConditionOOMKillLoop is True while a container is killed for lack of memory again and again, and does not get the memory that
	// is recommended for it (ReasonRequestBelowTarget, ReasonLimitFixed), or not enough is recommended because of maxAllowed
	// (ReasonTargetAtMaximum), and absent otherwise.
	ConditionOOMKillLoop = "OOMKillLoop"
	// ConditionRecommendationNotAdmitted is True while the API server would refuse pods with the recommended size: they get the
	// nearest size that it admits (ReasonHeldToAdmitted), or keep their own (ReasonNoSizeAdmitted). It is absent otherwise.
	ConditionRecommendationNotAdmitted = "RecommendationNotAdmitted"
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

	ReasonHeldToAdmitted = "HeldToAdmitted"
	ReasonNoSizeAdmitted = "NoSizeAdmitted"
)

// Conditions returns the types of all conditions that podfit sets.
func Conditions() []string {
	return []string{
		ConditionSizingProfileUsable, ConditionMemoryLeakSuspected, ConditionDisruptiveProfile, ConditionHistoryIncomplete, ConditionOOMKillLoop,
		ConditionRecommendationNotAdmitted,
	}
}
