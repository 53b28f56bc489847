// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

// The conditions of an autoscaler's status. Conditions of other types, set by others, are kept.
const (
	// RecommendationProvided is True when at least one container has a recommendation.
	RecommendationProvided VerticalPodAutoscalerConditionType = "RecommendationProvided"
	// LowConfidence says that the history behind a recommendation is thin.
	LowConfidence VerticalPodAutoscalerConditionType = "LowConfidence"
	// NoPodsMatched is True while the target has no pods, and absent otherwise.
	NoPodsMatched VerticalPodAutoscalerConditionType = "NoPodsMatched"
	// FetchingHistory says that older samples are still being read; no checkpoint is written meanwhile.
	FetchingHistory VerticalPodAutoscalerConditionType = "FetchingHistory"
	// ConfigDeprecated marks a configuration that works but will not for ever.
	ConfigDeprecated VerticalPodAutoscalerConditionType = "ConfigDeprecated"
	// ConfigUnsupported is True while the target cannot be resolved, and absent otherwise.
	ConfigUnsupported VerticalPodAutoscalerConditionType = "ConfigUnsupported"
)

// Annotations on pods.
const (
	// AnnotationUpdates tells what the webhook set in a pod, in words.
	AnnotationUpdates = "vpaUpdates"
	// AnnotationObservedContainers lists the containers the webhook saw, separated by ", ". A container that is not in it was
	// injected later and is not a reason to replace the pod.
	AnnotationObservedContainers = "vpaObservedContainers"
	// AnnotationInPlaceUpdated is "true" on a pod that was resized in place.
	AnnotationInPlaceUpdated = "vpaInPlaceUpdated"
	// AnnotationStartupBoostPrefix, followed by a container's name, holds the resources the container had before its start-up
	// boost, as JSON. It goes when the boost goes.
	AnnotationStartupBoostPrefix = "vpaCpuStartupBoost/"
)

// Annotations on autoscalers: the prefix, the container's name, and the suffix make the key; the value "true" has the
// container's CPU rounded up to whole cores.
const (
	AnnotationPostProcessorPrefix = "vpa-post-processor.kubernetes.io/"
	AnnotationIntegerCPUSuffix    = "_integerCPU"
)

// Annotations the kubelet puts on the Event of a pod it evicted; comma-separated lists of equal length.
const (
	AnnotationOffendingContainers      = "offending_containers"
	AnnotationOffendingContainersUsage = "offending_containers_usage"
	AnnotationStarvedResource          = "starved_resource"
)

// DefaultContainerResourcePolicy as a policy's container name stands for every container without a policy of its own.
const DefaultContainerResourcePolicy = "*"

// CheckpointVersion is the format of checkpoint status that is read and written.
const CheckpointVersion = "v3"
