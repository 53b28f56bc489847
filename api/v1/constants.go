// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the types of autoscaling.k8s.io/v1, the API of the Kubernetes Vertical Pod Autoscaler.
//
// The types read and write the same JSON as upstream's types. So manifests, kubectl plug-ins and controllers for upstream work
// with podfit, and the other way round. The CustomResourceDefinitions are generated from this package. The package does not
// validate objects and does not interpret them: internal/core does.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.k8s.io
// +versionName=v1
package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

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

// The condition types of an autoscaler's status. Conditions of other types that other programs set are kept.
const (
	// RecommendationProvided is True if at least one container has a recommendation.
	RecommendationProvided VerticalPodAutoscalerConditionType = "RecommendationProvided"
	// LowConfidence is True if the recommendation is based on little history.
	LowConfidence VerticalPodAutoscalerConditionType = "LowConfidence"
	// NoPodsMatched is True while the target has no pods, and absent otherwise.
	NoPodsMatched VerticalPodAutoscalerConditionType = "NoPodsMatched"
	// FetchingHistory is True while history is being read. No checkpoint is written during that time.
	FetchingHistory VerticalPodAutoscalerConditionType = "FetchingHistory"
	// ConfigDeprecated is True if the configuration is deprecated.
	ConfigDeprecated VerticalPodAutoscalerConditionType = "ConfigDeprecated"
	// ConfigUnsupported is True while the target cannot be resolved, and absent otherwise.
	ConfigUnsupported VerticalPodAutoscalerConditionType = "ConfigUnsupported"
)

// Annotations on pods.
const (
	// AnnotationUpdates describes for people what the webhook changed in a pod.
	AnnotationUpdates = "vpaUpdates"
	// AnnotationObservedContainers lists the containers of the pod at the time of the webhook, separated by ", ". A container
	// that is not in the list was injected later. Its recommendation is not a reason to update the pod.
	AnnotationObservedContainers = "vpaObservedContainers"
	// AnnotationInPlaceUpdated is "true" on a pod that was resized in place.
	AnnotationInPlaceUpdated = "vpaInPlaceUpdated"
	// AnnotationStartupBoostPrefix, followed by the name of a container, contains the resources of the container without its
	// startup boost, as JSON. It is removed together with the boost.
	AnnotationStartupBoostPrefix = "vpaCpuStartupBoost/"
)

// Annotations on autoscalers. The key is the prefix, the name of the container and the suffix. If the value is "true", the
// recommended CPU of the container is rounded up to whole cores.
const (
	AnnotationPostProcessorPrefix = "vpa-post-processor.kubernetes.io/"
	AnnotationIntegerCPUSuffix    = "_integerCPU"
)

// AnnotationMakeRoom is an annotation on autoscalers that only podfit has. It overrides the flag --make-room of the updater for the
// pods of the autoscaler: off, shrink, split or move.
const AnnotationMakeRoom = "podfit.dev/make-room"

// AnnotationMover is an annotation on autoscalers that only podfit has. It overrides the flag --mover of the updater for the pods of the
// autoscaler: evict, room or surge.
const AnnotationMover = "podfit.dev/mover"

// Annotations that the kubelet sets on the Event of a pod that it evicted. The values are comma-separated lists of equal
// length.
const (
	AnnotationOffendingContainers      = "offending_containers"
	AnnotationOffendingContainersUsage = "offending_containers_usage"
	AnnotationStarvedResource          = "starved_resource"
)
