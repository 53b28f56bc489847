// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The annotations by which podfit works together with a HorizontalPodAutoscaler (HPA).
const (
	// AnnotationHPA on a VerticalPodAutoscaler selects what podfit does with a request by which an HPA scales. Its only value is
	// PreserveScalePoint. Without the annotation, or with another value, podfit does not change the request.
	AnnotationHPA = "podfit.dev/hpa"
	// PreserveScalePoint is the value of AnnotationHPA with which podfit changes the request, and the target utilization of the HPA so
	// that target × request stays the same.
	PreserveScalePoint = "preserve-scale-point"
	// AnnotationScalePoint on an HPA is podfit's record of the targets that it rewrites, as JSON. To make podfit start anew, restore
	// the targets and remove the annotation.
	AnnotationScalePoint = "podfit.dev/scale-point"
)

// The annotations of a VerticalPodAutoscaler about containers whose language runtime podfit knows.
const (
	// AnnotationRuntimeGuards is a comma-separated list of RuntimeGuard. It overrides the field runtimeGuards of the SizingProfile; the
	// value GuardNone switches all guards off.
	AnnotationRuntimeGuards = "podfit.dev/runtime-guards"
	// GuardNone is the value of AnnotationRuntimeGuards without any guard.
	GuardNone = "none"
	// AnnotationInjectCPUCount selects that the webhook adds the environment variable by which a runtime takes its number of processors to
	// new pods. Its only value is InjectFromRequest. Without the annotation, podfit adds no variables.
	AnnotationInjectCPUCount = "podfit.dev/inject-cpu-count"
	// InjectFromRequest is the value of AnnotationInjectCPUCount with which the number is the CPU request, rounded up to whole cores.
	InjectFromRequest = "request"
	// AnnotationInjectHeapPercent is the percentage of the memory limit, 1 to 100, that the webhook sets as the heap of JVMs in new pods
	// (-XX:MaxRAMPercentage).
	AnnotationInjectHeapPercent = "podfit.dev/inject-heap-percent"
)

// AnnotationCPULimits on a VerticalPodAutoscaler is a LimitRule for CPU: keep or remove. It overrides the field limits.cpu of the
// SizingProfile.
const AnnotationCPULimits = "podfit.dev/cpu-limits"

// AnnotationMemoryLimits on a VerticalPodAutoscaler is a MemoryLimitRule: proportional, keep or peaks. It overrides the field limits.memory of
// the SizingProfile.
const AnnotationMemoryLimits = "podfit.dev/memory-limits"

// AnnotationLearnStartupBoost on a VerticalPodAutoscaler is true or false: whether podfit learns the startup boost of its containers. It
// overrides the field startupBoost.learn of the SizingProfile.
const AnnotationLearnStartupBoost = "podfit.dev/learn-startup-boost"

// The resource names under which the recommender stores a learnt startup boost, in
// status.recommendation.containerRecommendations[].uncappedTarget of a VerticalPodAutoscaler. Values are whole numbers.
const (
	// StartupBoostPercent is the factor in percent: 250 is 2.5 times the recommended CPU request. It is absent if starts need no more CPU.
	StartupBoostPercent = "podfit.dev/startup-boost-percent"
	// StartupBoostSeconds is the time from Ready to the end of the boost.
	StartupBoostSeconds = "podfit.dev/startup-boost-seconds"
	// StartupBoostStarts is the number of starts that the boost is learnt from.
	StartupBoostStarts = "podfit.dev/startup-boost-starts"

	// GroupSizeSuffix stands between the name of a resource and a role: "cpu.role.podfit.dev/replica" is the target of the pods with that role. Its
	// value is an amount of the resource. Pods of a role without an amount get the target of the container.
	GroupSizeSuffix = ".role.podfit.dev/"

	// SharedPrefix stands before the name of a resource: "podfit.dev/shared-cpu" is the part of a container of what a pod needs as a whole. Pods with
	// pod-level resources get it instead of the target.
	SharedPrefix = "podfit.dev/shared-"

	// MemoryLimit is the memory limit of the container by the rule LimitByPeaks, in bytes.
	MemoryLimit = "podfit.dev/memory-limit"

	// MemoryPeak is the name of the highest memory usage of a container, for which MemoryLimit is, in uncappedTarget.
	MemoryPeak = "podfit.dev/memory-peak"
)

// AnnotationSurge on a Deployment is podfit's record of a surge in progress, as JSON: spec.replicas is one more than the replicas of the
// record until the pod of the record is removed. podfit writes it together with spec.replicas, and removes it at the end of the surge.
const AnnotationSurge = "podfit.dev/surge"

// LabelNamespace marks a VerticalPodAutoscaler that podfit maintains for a namespace that opts in. Its value is the name of the namespace.
const LabelNamespace = "podfit.dev/namespace"

// AnnotationOptInEnded on such a VerticalPodAutoscaler is when podfit saw that the namespace does not opt in any more.
const AnnotationOptInEnded = "podfit.dev/opt-in-ended"
