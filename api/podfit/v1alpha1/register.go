// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the types of podfit.dev/v1alpha1, podfit's own API in addition to autoscaling.k8s.io.
//
// The CustomResourceDefinitions are generated from this package, including the range of each field and the messages of validation
// rules. The package does not interpret the objects: internal/core does.
//
// +kubebuilder:object:generate=true
// +groupName=podfit.dev
// +versionName=v1alpha1
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of what podfit adds.
const GroupName = "podfit.dev"

// The kinds of this group.
const (
	KindSizingProfile = "SizingProfile"
	KindUsageHistory  = "UsageHistory"
	KindUpdateState   = "UpdateState"
	KindCapacityPlan  = "CapacityPlan"
)

// The plural names by which the API server serves the kinds.
const (
	ResourceSizingProfiles = "sizingprofiles"
	ResourceUsageHistories = "usagehistories"
	ResourceUpdateStates   = "updatestates"
	ResourceCapacityPlans  = "capacityplans"
)

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
