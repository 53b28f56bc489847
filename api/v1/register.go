// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the autoscaler and its checkpoints.
const GroupName = "autoscaling.k8s.io"

// The plural names by which the API server serves the two kinds.
const (
	ResourceAutoscalers = "verticalpodautoscalers"
	ResourceCheckpoints = "verticalpodautoscalercheckpoints"
)

// GroupVersion returns autoscaling.k8s.io/v1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1"}
}

// AddToScheme registers the types of this package, and the list options its clients send.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&VerticalPodAutoscaler{},
		&VerticalPodAutoscalerList{},
		&VerticalPodAutoscalerCheckpoint{},
		&VerticalPodAutoscalerCheckpointList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
