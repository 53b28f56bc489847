// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of what podfit adds.
const GroupName = "podfit.dev"

// KindSizingProfile is the kind of a SizingProfile.
const KindSizingProfile = "SizingProfile"

// ResourceSizingProfiles is the plural name by which the API server serves SizingProfiles.
const ResourceSizingProfiles = "sizingprofiles"

// KindUsageHistory is the kind of a UsageHistory.
const KindUsageHistory = "UsageHistory"

// ResourceUsageHistories is the plural name by which the API server serves UsageHistories.
const ResourceUsageHistories = "usagehistories"

// KindUpdateState is the kind of an UpdateState.
const KindUpdateState = "UpdateState"

// ResourceUpdateStates is the plural name by which the API server serves UpdateStates.
const ResourceUpdateStates = "updatestates"

// KindCapacityPlan is the kind of a CapacityPlan.
const KindCapacityPlan = "CapacityPlan"

// ResourceCapacityPlans is the plural name by which the API server serves CapacityPlans.
const ResourceCapacityPlans = "capacityplans"

// GroupVersion returns podfit.dev/v1alpha1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme registers the types of this package, and the list options its clients send.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&SizingProfile{},
		&SizingProfileList{},
		&UsageHistory{},
		&UsageHistoryList{},
		&UpdateState{},
		&UpdateStateList{},
		&CapacityPlan{},
		&CapacityPlanList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
