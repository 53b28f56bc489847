// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerticalPodAutoscaler configures vertical autoscaling for the pods of one workload: resource requests are set according to
// usage.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=vpa
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.updatePolicy.updateMode"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.recommendation.containerRecommendations[0].target.cpu"
// +kubebuilder:printcolumn:name="Mem",type="string",JSONPath=".status.recommendation.containerRecommendations[0].target.memory"
// +kubebuilder:printcolumn:name="Provided",type="string",JSONPath=".status.conditions[?(@.type=='RecommendationProvided')].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="MinReplicas",type="integer",JSONPath=".spec.updatePolicy.minReplicas",priority=1
// +kubebuilder:printcolumn:name="OOMSeconds",type="integer",JSONPath=".spec.updatePolicy.evictAfterOOMSeconds",priority=1
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
type VerticalPodAutoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the configuration of the autoscaler.
	Spec VerticalPodAutoscalerSpec `json:"spec"`

	// status is the current recommendation and the conditions of the autoscaler.
	// +optional
	Status VerticalPodAutoscalerStatus `json:"status,omitempty"`
}

// VerticalPodAutoscalerList is a list of VerticalPodAutoscaler objects.
//
// +kubebuilder:object:root=true
type VerticalPodAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []VerticalPodAutoscaler `json:"items"`
}

// VerticalPodAutoscalerSpec is the configuration of an autoscaler.
type VerticalPodAutoscalerSpec struct {
	// targetRef references the controller of the pods to autoscale: a Deployment, StatefulSet, DaemonSet, ReplicaSet,
	// ReplicationController, Job or CronJob, or any other resource with a scale subresource. It must be the topmost controller
	// of its pods. If the target cannot be used, the condition ConfigUnsupported is True.
	TargetRef *autoscalingv1.CrossVersionObjectReference `json:"targetRef"`

	// updatePolicy controls how recommendations are applied to pods. If unset, each field has its default.
	// +optional
	UpdatePolicy *PodUpdatePolicy `json:"updatePolicy,omitempty"`

	// resourcePolicy controls the recommendations per container. If unset, all containers are autoscaled without minimum and
	// maximum.
	// +optional
	ResourcePolicy *PodResourcePolicy `json:"resourcePolicy,omitempty"`

	// recommenders names the recommender or the sizing profile that computes the recommendation. At most one entry. Default: the
	// recommender named "default".
	// +optional
	Recommenders []*VerticalPodAutoscalerRecommenderSelector `json:"recommenders,omitempty"`

	// startupBoost gives each container more CPU during startup. If unset, there is no boost.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
}

// VerticalPodAutoscalerRecommenderSelector selects a recommender or a sizing profile.
type VerticalPodAutoscalerRecommenderSelector struct {
	// name is the name of the recommender or of the sizing profile.
	Name string `json:"name"`
}

// StartupBoost configures the additional resources of a container during startup.
type StartupBoost struct {
	// cpu is the CPU boost. If unset, there is no boost.
	// +optional
	CPU *GenericStartupBoost `json:"cpu,omitempty"`
}

// GenericStartupBoost configures the startup boost of one resource.
//
// +union
// +kubebuilder:validation:XValidation:rule="(self.type == 'Factor') == has(self.factor)",message="factor is required when type is Factor and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Quantity') == has(self.quantity)",message="quantity is required when type is Quantity and forbidden otherwise"
type GenericStartupBoost struct {
	// type is Factor, which multiplies the amount by factor, or Quantity, which adds quantity to the amount.
	// +unionDiscriminator
	// +required
	Type StartupBoostType `json:"type"`

	// factor is the number by which the amount is multiplied. Required if type is Factor, otherwise forbidden.
	// +unionMember=Factor
	// +optional
	Factor *int32 `json:"factor,omitempty"`

	// quantity is added to the amount. Required if type is Quantity, otherwise forbidden.
	// +unionMember=Quantity
	// +optional
	Quantity *resource.Quantity `json:"quantity,omitempty"`

	// durationSeconds is the time in seconds for which the boost continues after the pod is Ready. Default: 0.
	// +optional
	DurationSeconds *int32 `json:"durationSeconds,omitempty"`
}

// StartupBoostType is the type of a startup boost.
//
// +kubebuilder:validation:Enum=Factor;Quantity
type StartupBoostType string

// The types of a startup boost.
const (
	FactorStartupBoostType   StartupBoostType = "Factor"   // multiplies the amount
	QuantityStartupBoostType StartupBoostType = "Quantity" // adds to the amount
)

// PodUpdatePolicy controls how recommendations are applied to pods.
type PodUpdatePolicy struct {
	// updateMode is the way in which recommendations are applied. Off: not applied. Initial: to new pods only. Recreate: also to
	// running pods, by eviction. InPlaceOrRecreate: also to running pods, by in-place resize or by eviction if that is not
	// possible. InPlace: also to running pods, by in-place resize only. Auto: deprecated, same as Recreate. Default: Recreate.
	// +optional
	UpdateMode *UpdateMode `json:"updateMode,omitempty"`

	// minReplicas is the minimum number of live pods that the workload must have before a pod is evicted. At least 1. It
	// overrides the updater's flag --min-replicas. PodDisruptionBudgets apply in addition.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// evictionRequirements lists requirements that must all be met before a pod is evicted. Default: no requirements.
	// +optional
	EvictionRequirements []*EvictionRequirement `json:"evictionRequirements,omitempty"`

	// evictAfterOOMSeconds is a time in seconds. If a container is OOM-killed within this time after its start, its pod is
	// updated immediately. At least 1. It overrides the updater's flag --evict-after-oom-threshold.
	// +optional
	// +kubebuilder:validation:Minimum=1
	EvictAfterOOMSeconds *int32 `json:"evictAfterOOMSeconds,omitempty"`
}

// UpdateMode is the way in which recommendations are applied to pods.
//
// +kubebuilder:validation:Enum=Off;Initial;Recreate;InPlaceOrRecreate;InPlace;Auto
type UpdateMode string

// The update modes.
const (
	UpdateModeOff               UpdateMode = "Off"               // recommendations are not applied
	UpdateModeInitial           UpdateMode = "Initial"           // applied to new pods only
	UpdateModeRecreate          UpdateMode = "Recreate"          // also applied to running pods, by eviction
	UpdateModeInPlaceOrRecreate UpdateMode = "InPlaceOrRecreate" // also applied to running pods, by in-place resize or else by eviction
	UpdateModeInPlace           UpdateMode = "InPlace"           // also applied to running pods, by in-place resize only
	UpdateModeAuto              UpdateMode = "Auto"              // deprecated, same as Recreate
)

// EvictionRequirement is a requirement on the change of requests that must be met before a pod is evicted.
type EvictionRequirement struct {
	// resources lists the resources that are checked. The requirement is met if at least one of them meets it.
	Resources []corev1.ResourceName `json:"resources"`
	// changeRequirement is the required direction of the change.
	ChangeRequirement EvictionChangeRequirement `json:"changeRequirement"`
}

// EvictionChangeRequirement is the direction in which the target must differ from the request.
//
// +kubebuilder:validation:Enum:=TargetHigherThanRequests;TargetLowerThanRequests
type EvictionChangeRequirement string

// The values of EvictionChangeRequirement.
const (
	TargetHigherThanRequests EvictionChangeRequirement = "TargetHigherThanRequests" // the target is above the request
	TargetLowerThanRequests  EvictionChangeRequirement = "TargetLowerThanRequests"  // the target is below the request
)

// PodResourcePolicy controls the recommendations for the containers of a pod.
type PodResourcePolicy struct {
	// containerPolicies lists the policies of containers. The policy for "*" applies to all containers without a policy of
	// their own.
	// +optional
	// +patchMergeKey=containerName
	// +patchStrategy=merge
	ContainerPolicies []ContainerResourcePolicy `json:"containerPolicies,omitempty" patchStrategy:"merge" patchMergeKey:"containerName"`
}

// ContainerResourcePolicy controls the recommendation for one container.
type ContainerResourcePolicy struct {
	// containerName is the name of the container, or "*" for all containers without a policy of their own.
	ContainerName string `json:"containerName,omitempty"`

	// mode is Auto, or Off to exclude the container from autoscaling. Default: Auto.
	// +optional
	Mode *ContainerScalingMode `json:"mode,omitempty"`

	// minAllowed is the minimum amount of each resource that is recommended. Default: no minimum.
	// +optional
	MinAllowed corev1.ResourceList `json:"minAllowed,omitempty"`

	// maxAllowed is the maximum amount of each resource that is recommended. Default: no maximum.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`

	// controlledResources lists the resources that are autoscaled. Default: cpu and memory.
	// +patchStrategy=merge
	ControlledResources *[]corev1.ResourceName `json:"controlledResources,omitempty" patchStrategy:"merge"`

	// controlledValues is RequestsAndLimits, which changes limits in proportion to requests, or RequestsOnly, which does not
	// change limits. Default: RequestsAndLimits.
	// +optional
	ControlledValues *ContainerControlledValues `json:"controlledValues,omitempty"`

	// oomBumpUpRatio is the factor by which the memory of the container is multiplied after an OOM kill. At least 1. It
	// overrides the recommender's flag --oom-bump-up-ratio.
	// +optional
	OOMBumpUpRatio *resource.Quantity `json:"oomBumpUpRatio,omitempty"`

	// oomMinBumpUp is the minimum increase of memory after an OOM kill, in bytes. It overrides the recommender's flag
	// --oom-min-bump-up-bytes.
	// +optional
	OOMMinBumpUp *resource.Quantity `json:"oomMinBumpUp,omitempty"`

	// memoryAggregationIntervalSeconds is the length of a memory window in seconds. Only the peak usage of each window is
	// used. At least 1. It overrides the recommender's flag --memory-aggregation-interval.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryAggregationIntervalSeconds *int32 `json:"memoryAggregationIntervalSeconds,omitempty"`

	// memoryAggregationIntervalCount is the number of memory windows that make up the memory history. At least 1. It overrides
	// the recommender's flag --memory-aggregation-interval-count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryAggregationIntervalCount *int64 `json:"memoryAggregationIntervalCount,omitempty"`

	// startupBoost overrides spec.startupBoost for this container.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
}

// ContainerScalingMode enables or disables autoscaling of a container.
//
// +kubebuilder:validation:Enum=Auto;Off
type ContainerScalingMode string

// The values of ContainerScalingMode.
const (
	ContainerScalingModeAuto ContainerScalingMode = "Auto" // the container is autoscaled
	ContainerScalingModeOff  ContainerScalingMode = "Off"  // the container is not autoscaled
)

// ContainerControlledValues selects the values of a container that are changed.
//
// +kubebuilder:validation:Enum=RequestsAndLimits;RequestsOnly
type ContainerControlledValues string

// The values of ContainerControlledValues.
const (
	ContainerControlledValuesRequestsAndLimits ContainerControlledValues = "RequestsAndLimits" // limits keep their ratio to requests
	ContainerControlledValuesRequestsOnly      ContainerControlledValues = "RequestsOnly"      // limits do not change
)

// VerticalPodAutoscalerStatus is the current recommendation and the conditions of an autoscaler.
type VerticalPodAutoscalerStatus struct {
	// recommendation is the latest recommendation.
	// +optional
	Recommendation *RecommendedPodResources `json:"recommendation,omitempty"`

	// conditions describe the state of the autoscaler and its problems.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []VerticalPodAutoscalerCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// observedGeneration is the metadata.generation for which this status was computed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
}

// RecommendedPodResources contains the recommendations for the containers of a pod.
type RecommendedPodResources struct {
	// containerRecommendations has an entry for each autoscaled container whose usage is known.
	// +optional
	ContainerRecommendations []RecommendedContainerResources `json:"containerRecommendations,omitempty"`
}

// RecommendedContainerResources is the recommendation for one container.
type RecommendedContainerResources struct {
	// containerName is the name of the container.
	ContainerName string `json:"containerName,omitempty"`

	// target is the recommended request, within minAllowed and maxAllowed.
	Target corev1.ResourceList `json:"target"`

	// lowerBound is the minimum request that does not need an update, within minAllowed and maxAllowed.
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`

	// upperBound is the maximum request that does not need an update, within minAllowed and maxAllowed.
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`

	// uncappedTarget is the recommended request without minAllowed and maxAllowed. It is for information only.
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`
}

// VerticalPodAutoscalerConditionType is the type of a condition.
type VerticalPodAutoscalerConditionType string

// VerticalPodAutoscalerCondition describes one aspect of the state of an autoscaler.
type VerticalPodAutoscalerCondition struct {
	// type is the type of the condition.
	Type VerticalPodAutoscalerConditionType `json:"type"`

	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// lastTransitionTime is the time of the last change of status.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is the reason for the status, in one CamelCase word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message explains the status to people.
	// +optional
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation for which the condition was computed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// VerticalPodAutoscalerCheckpoint stores the usage history of one container of one autoscaler, so that it survives a restart
// of the recommender. It has no status subresource: spec and status are written together.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=vpacheckpoint
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
type VerticalPodAutoscalerCheckpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the autoscaler and the container.
	// +optional
	Spec VerticalPodAutoscalerCheckpointSpec `json:"spec,omitempty"`

	// status is the stored usage history.
	// +optional
	Status VerticalPodAutoscalerCheckpointStatus `json:"status,omitempty"`
}

// VerticalPodAutoscalerCheckpointList is a list of VerticalPodAutoscalerCheckpoint objects.
//
// +kubebuilder:object:root=true
type VerticalPodAutoscalerCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []VerticalPodAutoscalerCheckpoint `json:"items"`
}

// VerticalPodAutoscalerCheckpointSpec identifies the autoscaler and the container of a checkpoint.
type VerticalPodAutoscalerCheckpointSpec struct {
	// vpaObjectName is the name of the VerticalPodAutoscaler object.
	VPAObjectName string `json:"vpaObjectName,omitempty"`

	// containerName is the name of the container.
	ContainerName string `json:"containerName,omitempty"`
}

// VerticalPodAutoscalerCheckpointStatus is the stored usage history of a container.
type VerticalPodAutoscalerCheckpointStatus struct {
	// lastUpdateTime is the time at which the checkpoint was written.
	// +nullable
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`

	// version is the version of the data format: v3.
	Version string `json:"version,omitempty"`

	// cpuHistogram is the decaying histogram of CPU usage, in cores.
	CPUHistogram HistogramCheckpoint `json:"cpuHistogram,omitempty"`

	// memoryHistogram is the decaying histogram of memory peaks, in bytes.
	MemoryHistogram HistogramCheckpoint `json:"memoryHistogram,omitempty"`

	// firstSampleStart is the time of the oldest sample.
	// +nullable
	FirstSampleStart metav1.Time `json:"firstSampleStart,omitempty"`

	// lastSampleStart is the time of the newest sample.
	// +nullable
	LastSampleStart metav1.Time `json:"lastSampleStart,omitempty"`

	// totalSamplesCount is the number of samples.
	TotalSamplesCount int `json:"totalSamplesCount,omitempty"`
}

// HistogramCheckpoint is the stored form of a decaying histogram.
type HistogramCheckpoint struct {
	// referenceTimestamp is the time at which a sample has weight 1.
	// +nullable
	ReferenceTimestamp metav1.Time `json:"referenceTimestamp,omitempty"`

	// bucketWeights maps the index of a bucket to its weight. Weights are scaled so that the largest is 10000.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:XPreserveUnknownFields
	BucketWeights map[int]uint32 `json:"bucketWeights,omitempty"`

	// totalWeight is the sum of the weights before scaling.
	TotalWeight float64 `json:"totalWeight,omitempty"`
}
