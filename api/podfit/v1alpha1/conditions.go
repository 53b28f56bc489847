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

	ReasonHeldToAdmitted = "HeldToAdmitted"
	ReasonNoSizeAdmitted = "NoSizeAdmitted"
)
