// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerticalPodAutoscaler keeps the pods of one workload at the size their usage calls for.
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

	// spec is what the user asks for.
	Spec VerticalPodAutoscalerSpec `json:"spec"`

	// status is what has been found out, and what is recommended.
	// +optional
	Status VerticalPodAutoscalerStatus `json:"status,omitempty"`
}

// VerticalPodAutoscalerList is a list of autoscalers.
//
// +kubebuilder:object:root=true
type VerticalPodAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []VerticalPodAutoscaler `json:"items"`
}

// VerticalPodAutoscalerSpec is what the user asks for.
type VerticalPodAutoscalerSpec struct {
	// targetRef names the controller whose pods are sized: a Deployment, StatefulSet, DaemonSet, ReplicaSet,
	// ReplicationController, Job or CronJob, or any other resource with a scale subresource. It must be the topmost such
	// controller of its pods. A target that cannot be used is reported in the condition ConfigUnsupported.
	TargetRef *autoscalingv1.CrossVersionObjectReference `json:"targetRef"`

	// updatePolicy says how recommendations reach the pods. Without it, every part has its default.
	// +optional
	UpdatePolicy *PodUpdatePolicy `json:"updatePolicy,omitempty"`

	// resourcePolicy bounds what is recommended, container by container. Without it, all containers are sized, without bounds.
	// +optional
	ResourcePolicy *PodResourcePolicy `json:"resourcePolicy,omitempty"`

	// recommenders names who computes the recommendation: at most one. Empty means the one called "default".
	// +optional
	Recommenders []*VerticalPodAutoscalerRecommenderSelector `json:"recommenders,omitempty"`

	// startupBoost gives every container more CPU while it starts.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
}

// VerticalPodAutoscalerRecommenderSelector names a recommender.
type VerticalPodAutoscalerRecommenderSelector struct {
	// name is the recommender's name.
	Name string `json:"name"`
}

// StartupBoost is what a container gets on top while it starts.
type StartupBoost struct {
	// cpu is the additional CPU. Without it there is no boost.
	// +optional
	CPU *GenericStartupBoost `json:"cpu,omitempty"`
}

// GenericStartupBoost is a boost of one resource.
//
// +union
// +kubebuilder:validation:XValidation:rule="(self.type == 'Factor') == has(self.factor)",message="factor is required when type is Factor and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Quantity') == has(self.quantity)",message="quantity is required when type is Quantity and forbidden otherwise"
type GenericStartupBoost struct {
	// type chooses between multiplying (Factor) and adding (Quantity).
	// +unionDiscriminator
	// +required
	Type StartupBoostType `json:"type"`

	// factor multiplies the amount. It belongs to type Factor.
	// +unionMember=Factor
	// +optional
	Factor *int32 `json:"factor,omitempty"`

	// quantity is added to the amount. It belongs to type Quantity.
	// +unionMember=Quantity
	// +optional
	Quantity *resource.Quantity `json:"quantity,omitempty"`

	// durationSeconds is how long the boost stays after the pod has become Ready; 0, the default, ends it at once.
	// +optional
	DurationSeconds *int32 `json:"durationSeconds,omitempty"`
}

// StartupBoostType says how a boost is measured.
//
// +kubebuilder:validation:Enum=Factor;Quantity
type StartupBoostType string

// The ways to measure a boost.
const (
	FactorStartupBoostType   StartupBoostType = "Factor"   // a multiple of the amount
	QuantityStartupBoostType StartupBoostType = "Quantity" // an amount on top
)

// PodUpdatePolicy says how recommendations reach the pods.
type PodUpdatePolicy struct {
	// updateMode chooses the way; the default is Recreate.
	// +optional
	UpdateMode *UpdateMode `json:"updateMode,omitempty"`

	// minReplicas is how many pods must be alive before one of them is evicted; positive. It stands above the updater's
	// --min-replicas. PodDisruptionBudgets hold besides.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// evictionRequirements must all hold before a pod is evicted.
	// +optional
	EvictionRequirements []*EvictionRequirement `json:"evictionRequirements,omitempty"`

	// evictAfterOOMSeconds: a container killed for memory sooner than this after its start makes its pod a candidate for an
	// update. It stands above the updater's --evict-after-oom-threshold.
	// +optional
	// +kubebuilder:validation:Minimum=1
	EvictAfterOOMSeconds *int32 `json:"evictAfterOOMSeconds,omitempty"`
}

// UpdateMode is a way in which recommendations reach the pods.
//
// +kubebuilder:validation:Enum=Off;Initial;Recreate;InPlaceOrRecreate;InPlace;Auto
type UpdateMode string

// The update modes.
const (
	UpdateModeOff               UpdateMode = "Off"               // only recommend
	UpdateModeInitial           UpdateMode = "Initial"           // size pods when they are created
	UpdateModeRecreate          UpdateMode = "Recreate"          // and replace running pods by evicting them
	UpdateModeInPlaceOrRecreate UpdateMode = "InPlaceOrRecreate" // and resize running pods, evicting where that cannot be done
	UpdateModeInPlace           UpdateMode = "InPlace"           // and resize running pods, never evicting
	UpdateModeAuto              UpdateMode = "Auto"              // the old name of Recreate
)

// EvictionRequirement is a relation between recommendation and request that must hold before a pod is evicted.
type EvictionRequirement struct {
	// resources are looked at one by one; the requirement holds when it holds for one of them.
	Resources []corev1.ResourceName `json:"resources"`
	// changeRequirement is the relation.
	ChangeRequirement EvictionChangeRequirement `json:"changeRequirement"`
}

// EvictionChangeRequirement is a direction of change.
//
// +kubebuilder:validation:Enum:=TargetHigherThanRequests;TargetLowerThanRequests
type EvictionChangeRequirement string

// The directions of change.
const (
	TargetHigherThanRequests EvictionChangeRequirement = "TargetHigherThanRequests" // the pod would grow
	TargetLowerThanRequests  EvictionChangeRequirement = "TargetLowerThanRequests"  // the pod would shrink
)

// PodResourcePolicy bounds what is recommended.
type PodResourcePolicy struct {
	// containerPolicies has one entry for a container, and perhaps one for "*", which is for all containers without their own.
	// +optional
	// +patchMergeKey=containerName
	// +patchStrategy=merge
	ContainerPolicies []ContainerResourcePolicy `json:"containerPolicies,omitempty" patchStrategy:"merge" patchMergeKey:"containerName"`
}

// ContainerResourcePolicy bounds what is recommended for one container.
type ContainerResourcePolicy struct {
	// containerName is the container's name, or "*".
	ContainerName string `json:"containerName,omitempty"`

	// mode Off leaves the container alone; the default is Auto.
	// +optional
	Mode *ContainerScalingMode `json:"mode,omitempty"`

	// minAllowed is the least that is recommended; no minimum by default.
	// +optional
	MinAllowed corev1.ResourceList `json:"minAllowed,omitempty"`

	// maxAllowed is the most that is recommended; no maximum by default.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`

	// controlledResources are the resources that are sized; cpu and memory by default.
	// +patchStrategy=merge
	ControlledResources *[]corev1.ResourceName `json:"controlledResources,omitempty" patchStrategy:"merge"`

	// controlledValues says whether limits follow requests (RequestsAndLimits, the default) or stay (RequestsOnly).
	// +optional
	ControlledValues *ContainerControlledValues `json:"controlledValues,omitempty"`

	// oomBumpUpRatio multiplies the memory at which the container was killed; at least 1. It stands above --oom-bump-up-ratio.
	// +optional
	OOMBumpUpRatio *resource.Quantity `json:"oomBumpUpRatio,omitempty"`

	// oomMinBumpUp is the least that is added to the memory at which the container was killed, in bytes. It stands above
	// --oom-min-bump-up-bytes.
	// +optional
	OOMMinBumpUp *resource.Quantity `json:"oomMinBumpUp,omitempty"`

	// memoryAggregationIntervalSeconds: of the memory used in each such interval only the peak counts. It stands above
	// --memory-aggregation-interval.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryAggregationIntervalSeconds *int32 `json:"memoryAggregationIntervalSeconds,omitempty"`

	// memoryAggregationIntervalCount is how many such intervals are remembered. It stands above
	// --memory-aggregation-interval-count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryAggregationIntervalCount *int64 `json:"memoryAggregationIntervalCount,omitempty"`

	// startupBoost replaces spec.startupBoost for the container.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
}

// ContainerScalingMode switches the sizing of a container on or off.
//
// +kubebuilder:validation:Enum=Auto;Off
type ContainerScalingMode string

// The switch's positions.
const (
	ContainerScalingModeAuto ContainerScalingMode = "Auto" // size the container
	ContainerScalingModeOff  ContainerScalingMode = "Off"  // leave it alone
)

// ContainerControlledValues says what is changed in a container.
//
// +kubebuilder:validation:Enum=RequestsAndLimits;RequestsOnly
type ContainerControlledValues string

// What is changed in a container.
const (
	ContainerControlledValuesRequestsAndLimits ContainerControlledValues = "RequestsAndLimits" // limits keep their ratio to requests
	ContainerControlledValuesRequestsOnly      ContainerControlledValues = "RequestsOnly"      // limits stay as they are
)

// VerticalPodAutoscalerStatus is what has been found out, and what is recommended.
type VerticalPodAutoscalerStatus struct {
	// recommendation is the latest one.
	// +optional
	Recommendation *RecommendedPodResources `json:"recommendation,omitempty"`

	// conditions say whether the autoscaler works, and if not, why.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []VerticalPodAutoscalerCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// observedGeneration is the metadata.generation this status belongs to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
}

// RecommendedPodResources is a recommendation for the containers of a pod.
type RecommendedPodResources struct {
	// containerRecommendations has an entry for each container that is sized and whose usage is known.
	// +optional
	ContainerRecommendations []RecommendedContainerResources `json:"containerRecommendations,omitempty"`
}

// RecommendedContainerResources is a recommendation for one container.
type RecommendedContainerResources struct {
	// containerName is the container's name.
	ContainerName string `json:"containerName,omitempty"`

	// target is what the container should request, within the user's bounds.
	Target corev1.ResourceList `json:"target"`

	// lowerBound is the least request that is still left alone, within the user's bounds.
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`

	// upperBound is the largest request that is still left alone, within the user's bounds.
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`

	// uncappedTarget is what the target would be without the user's bounds; for information.
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`
}

// VerticalPodAutoscalerConditionType names a condition.
type VerticalPodAutoscalerConditionType string

// VerticalPodAutoscalerCondition is one thing that holds, or does not.
type VerticalPodAutoscalerCondition struct {
	// type names the condition.
	Type VerticalPodAutoscalerConditionType `json:"type"`

	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// lastTransitionTime is when status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is why, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is why, in a sentence.
	// +optional
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation the condition was derived from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// VerticalPodAutoscalerCheckpoint keeps what was learnt about one container of one autoscaler over a restart. It has no status
// subresource: all of it is written through the resource itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=vpacheckpoint
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
type VerticalPodAutoscalerCheckpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the checkpoint is about.
	// +optional
	Spec VerticalPodAutoscalerCheckpointSpec `json:"spec,omitempty"`

	// status is what was learnt.
	// +optional
	Status VerticalPodAutoscalerCheckpointStatus `json:"status,omitempty"`
}

// VerticalPodAutoscalerCheckpointList is a list of checkpoints.
//
// +kubebuilder:object:root=true
type VerticalPodAutoscalerCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []VerticalPodAutoscalerCheckpoint `json:"items"`
}

// VerticalPodAutoscalerCheckpointSpec says what a checkpoint is about.
type VerticalPodAutoscalerCheckpointSpec struct {
	// vpaObjectName is the autoscaler's name.
	VPAObjectName string `json:"vpaObjectName,omitempty"`

	// containerName is the container's name.
	ContainerName string `json:"containerName,omitempty"`
}

// VerticalPodAutoscalerCheckpointStatus is what was learnt about a container.
type VerticalPodAutoscalerCheckpointStatus struct {
	// lastUpdateTime is when the checkpoint was written.
	// +nullable
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`

	// version is the format of the data: v3.
	Version string `json:"version,omitempty"`

	// cpuHistogram is the CPU usage, in cores.
	CPUHistogram HistogramCheckpoint `json:"cpuHistogram,omitempty"`

	// memoryHistogram is the memory peaks, in bytes.
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

// HistogramCheckpoint is a decaying histogram, written down.
type HistogramCheckpoint struct {
	// referenceTimestamp is the time at which a sample has weight 1.
	// +nullable
	ReferenceTimestamp metav1.Time `json:"referenceTimestamp,omitempty"`

	// bucketWeights maps the number of a bucket to its weight, scaled so that the heaviest has 10000.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:XPreserveUnknownFields
	BucketWeights map[int]uint32 `json:"bucketWeights,omitempty"`

	// totalWeight is the sum of the weights before they were scaled.
	TotalWeight float64 `json:"totalWeight,omitempty"`
}
