// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityPlan shows for each pool of nodes how much of its capacity is requested, when it will be full, by when nodes must be ordered, and
// what workloads could give back. The recommender creates the object named cluster, computes its status, and keeps the history of the last
// 90 days in it. Objects with other names are ignored. Deleting the object discards the history.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cap,categories=podfit
// +kubebuilder:printcolumn:name="Above threshold",type="string",JSONPath=".status.conditions[?(@.type=='CapacityAboveThreshold')].status"
// +kubebuilder:printcolumn:name="Order now",type="string",JSONPath=".status.conditions[?(@.type=='CapacityOrderNow')].status"
// +kubebuilder:printcolumn:name="Can lose a node",type="string",JSONPath=".status.conditions[?(@.type=='CanLoseANode')].status"
// +kubebuilder:printcolumn:name="Forecast",type="string",JSONPath=".status.conditions[?(@.type=='ForecastAvailable')].status"
// +kubebuilder:printcolumn:name="Updated",type="date",JSONPath=".status.updated"
type CapacityPlan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the settings. All of them are optional.
	// +optional
	Spec CapacityPlanSpec `json:"spec,omitempty"`

	// status is what the recommender found.
	// +optional
	Status CapacityPlanStatus `json:"status,omitempty"`
}

// CapacityPlanList is a list of CapacityPlan objects.
//
// +kubebuilder:object:root=true
type CapacityPlanList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []CapacityPlan `json:"items"`
}

// CapacityPlanName is the name of the CapacityPlan that podfit uses.
const CapacityPlanName = "cluster"

// The values of spec.base.
const (
	CapacityBaseCapacity    = "Capacity"
	CapacityBaseAllocatable = "Allocatable"
)

// CapacityPlanSpec contains the settings of a plan.
type CapacityPlanSpec struct {
	// leadTimeDays is the number of days from an order of nodes until they run pods. Default 14.
	// +optional
	// +kubebuilder:default=14
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=730
	LeadTimeDays *int32 `json:"leadTimeDays,omitempty"`

	// thresholds are percentages of the capacity for which the plan shows when requests reach them. 100 is always one of them. Default 70.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=set
	Thresholds []CapacityPercent `json:"thresholds,omitempty"`

	// base is the amount that counts as the capacity of a node: Capacity (of the machine) or Allocatable (what pods can request). Default
	// Capacity.
	// +optional
	// +kubebuilder:validation:Enum=Capacity;Allocatable
	Base string `json:"base,omitempty"`

	// poolLabel is the label of nodes whose value is the name of their pool. Default: the labels of Karpenter, EKS, GKE and AKS, the instance
	// type, or the role of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	PoolLabel string `json:"poolLabel,omitempty"`

	// pools assigns nodes to pools. The first entry that matches counts. Nodes without one belong to the pool that poolLabel names.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Pools []CapacityPool `json:"pools,omitempty"`
}

// CapacityPercent is a percentage of the capacity.
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=99
type CapacityPercent int32

// CapacityPool assigns nodes to a pool.
type CapacityPool struct {
	// name is the name of the pool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// nodeLabels are the labels that the nodes of the pool have. Without labels, the entry sets only the lead time of the pool.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// leadTimeDays replaces spec.leadTimeDays for this pool.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=730
	LeadTimeDays int32 `json:"leadTimeDays,omitempty"`
}

// The limits of a CapacityPlan.
const (
	// MaxCapacityPlanSize is the maximum size of the status, in bytes of JSON. The recommender leaves out workloads, then changes, then
	// the oldest days, until the status is smaller.
	MaxCapacityPlanSize = 256 << 10
	// MaxCapacityPools is the maximum number of entries of status.pools.
	MaxCapacityPools = 16
	// MaxCapacityDays is the maximum number of days of a history.
	MaxCapacityDays = 90
	// MaxCapacityChanges is the maximum number of entries of changes of a pool.
	MaxCapacityChanges = 32
	// MaxCapacityWorkloads is the maximum number of entries of history.workloads of a pool.
	MaxCapacityWorkloads = 64
)

// The condition types of a CapacityPlan. The message of each names the pools.
const (
	// PlanAboveThreshold is True if the requests of a pool are above one of the thresholds.
	PlanAboveThreshold = "CapacityAboveThreshold"
	// PlanOrderNow is True if the order-by date of a pool is today or past.
	PlanOrderNow = "CapacityOrderNow"
	// PlanCanLoseANode is False if the requests of a pool exceed its capacity without the largest node.
	PlanCanLoseANode = "CanLoseANode"
	// PlanForecast is False if there is no forecast for a pool, for example because the history is too short.
	PlanForecast = "ForecastAvailable"
)

// CapacityPlanStatus is what the recommender found.
type CapacityPlanStatus struct {
	// observedGeneration is the generation of the spec that the status is computed with.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// updated is the time at which the recommender wrote the status.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`

	// conditions summarize the pools: CapacityAboveThreshold, CapacityOrderNow, CanLoseANode and ForecastAvailable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// pools contains an entry per pool of nodes.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Pools []CapacityPoolStatus `json:"pools,omitempty"`

	// unplacedPods describes pending pods that no node accepts, because of their node selector, node affinity or tolerations, or because
	// they are larger than every node.
	// +optional
	UnplacedPods *UnplacedPods `json:"unplacedPods,omitempty"`
}

// UnplacedPods are pending pods that no node accepts or can hold.
type UnplacedPods struct {
	// count is the number of pods.
	Count int32 `json:"count"`
	// cpu is the CPU that they request.
	CPU resource.Quantity `json:"cpu"`
	// memory is the memory that they request.
	Memory resource.Quantity `json:"memory"`
	// example is one of them, as namespace/name.
	Example string `json:"example"`
}

// CapacityPoolStatus describes a pool of nodes.
type CapacityPoolStatus struct {
	// name is the name of the pool.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// nodes is the number of nodes.
	Nodes int32 `json:"nodes"`

	// schedulableNodes is the number of nodes that are ready and not cordoned. Only these have capacity.
	SchedulableNodes int32 `json:"schedulableNodes"`

	// pods is the number of pods whose requests count, pending ones included.
	Pods int32 `json:"pods"`

	// pendingPods is the number of pods that are not on a node and probably run in this pool.
	PendingPods int32 `json:"pendingPods"`

	// workloadsWithoutRecommendation is the number of workloads without a VPA with a recommendation. What they could give back is not known.
	WorkloadsWithoutRecommendation int32 `json:"workloadsWithoutRecommendation"`

	// leadTimeDays is the lead time of the pool.
	LeadTimeDays int32 `json:"leadTimeDays"`

	// cpu describes CPU.
	CPU CapacityResource `json:"cpu"`

	// memory describes memory.
	Memory CapacityResource `json:"memory"`

	// changes are the largest changes of requests in the last 28 days.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Changes []CapacityChange `json:"changes,omitempty"`

	// history contains a value per day.
	// +optional
	History CapacityHistory `json:"history,omitempty"`
}

// CapacityResource describes a resource of a pool.
type CapacityResource struct {
	// capacity is the capacity of the schedulable nodes.
	Capacity resource.Quantity `json:"capacity"`

	// capacityWithoutLargestNode is the capacity that remains if the largest node is lost.
	CapacityWithoutLargestNode resource.Quantity `json:"capacityWithoutLargestNode"`

	// requested is the sum of the requests of all pods, pending ones included.
	Requested resource.Quantity `json:"requested"`

	// used is the present usage. It is absent if it is not known.
	// +optional
	Used *resource.Quantity `json:"used,omitempty"`

	// recoverable is the sum of requests above recommended ones.
	Recoverable resource.Quantity `json:"recoverable"`

	// recoverableWorkloads is the number of workloads with such requests.
	RecoverableWorkloads int32 `json:"recoverableWorkloads"`

	// largestPod is the largest pod that still fits on a node.
	// +optional
	LargestPod *CapacityRoom `json:"largestPod,omitempty"`

	// thresholds contains when requests reach each threshold.
	// +optional
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=percent
	Thresholds []CapacityThreshold `json:"thresholds,omitempty"`

	// orderBy is the last day for an order: the first day on which the pool may be full, minus the lead time, minus 3 days. It may be in the
	// past. It is absent if no order is needed within the forecast, or there is no forecast.
	// +optional
	OrderBy string `json:"orderBy,omitempty"`

	// forecastDays is how far the forecast looks ahead: three times the length of the history, at most 90 days. 0 means that there is no forecast.
	ForecastDays int32 `json:"forecastDays"`

	// growthPerDay is the trend of requests, without steps.
	// +optional
	GrowthPerDay *resource.Quantity `json:"growthPerDay,omitempty"`

	// advice is what to do: Wait, NoForecast, OrderLater, GiveBack or OrderNow.
	Advice string `json:"advice"`

	// message explains the advice.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// growth is why requests changed in the last 28 days.
	// +optional
	Growth *CapacityGrowth `json:"growth,omitempty"`
}

// CapacityRoom is the free room on a node.
type CapacityRoom struct {
	// node is the name of the node.
	Node string `json:"node"`
	// cpu is its free CPU.
	CPU resource.Quantity `json:"cpu"`
	// memory is its free memory.
	Memory resource.Quantity `json:"memory"`
}

// CapacityThreshold is when requests reach a share of the capacity. Days are in UTC, such as 2026-11-22.
type CapacityThreshold struct {
	// percent is the share of the capacity.
	Percent int32 `json:"percent"`
	// state is Above, Ahead, NotWithin (not within the forecast) or Unknown.
	State string `json:"state"`
	// since is the day since which requests are above it without interruption.
	// +optional
	Since string `json:"since,omitempty"`
	// earliest is the first day on which requests may reach it: the 90 % line of the forecast.
	// +optional
	Earliest string `json:"earliest,omitempty"`
	// expected is the day on which they are expected to.
	// +optional
	Expected string `json:"expected,omitempty"`
	// latest is the day on which the 10 % line of the forecast reaches it. It is absent if that is after the forecast.
	// +optional
	Latest string `json:"latest,omitempty"`
}

// CapacityGrowth is why requests changed. Amounts are negative if requests fell.
type CapacityGrowth struct {
	// days is the time between the days that are compared.
	Days int32 `json:"days"`
	// total is the whole change.
	Total resource.Quantity `json:"total"`
	// newWorkloads is the part of workloads that arrived.
	NewWorkloads resource.Quantity `json:"newWorkloads"`
	// goneWorkloads is the part of workloads that left.
	GoneWorkloads resource.Quantity `json:"goneWorkloads"`
	// replicas is the part of workloads that have more or fewer pods.
	Replicas resource.Quantity `json:"replicas"`
	// requestsPerPod is the part of pods with other requests.
	RequestsPerPod resource.Quantity `json:"requestsPerPod"`
}

// CapacityChange is a change of the requests of a workload.
type CapacityChange struct {
	// day is the day of the change.
	Day string `json:"day"`
	// cause is Arrived, Left, Scaled (more or fewer pods) or Resized (other requests per pod).
	Cause string `json:"cause"`
	// workload is the workload.
	Workload CapacityWorkload `json:"workload"`
}

// CapacityWorkload is a workload with requests.
type CapacityWorkload struct {
	// group is the API group of the workload. Empty means the core API group.
	// +optional
	Group string `json:"group,omitempty"`
	// kind is the kind of the workload.
	Kind string `json:"kind"`
	// namespace is the namespace of the workload.
	Namespace string `json:"namespace"`
	// name is the name of the workload.
	Name string `json:"name"`
	// pods is the number of pods.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// cpu is the CPU, in millicores.
	CPU int64 `json:"cpu"`
	// memory is the memory, in MiB.
	Memory int64 `json:"memory"`
}

// CapacityHistory contains a value per day.
type CapacityHistory struct {
	// days are the days, in UTC, such as 2026-11-22. Days without values are missing.
	// +optional
	// +kubebuilder:validation:MaxItems=90
	// +listType=atomic
	Days []string `json:"days,omitempty"`

	// cpu contains the values of CPU, in millicores.
	// +optional
	CPU CapacitySeries `json:"cpu,omitempty"`

	// memory contains the values of memory, in MiB.
	// +optional
	Memory CapacitySeries `json:"memory,omitempty"`

	// workloads are the largest workloads on the last day, for the comparison with the next one.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Workloads []CapacityWorkload `json:"workloads,omitempty"`

	// workloadsOmitted is true if the pool has more workloads.
	// +optional
	WorkloadsOmitted bool `json:"workloadsOmitted,omitempty"`
}

// CapacitySeries contains the values of a resource, one per day of the history. -1 means that a value is not known. The lists about growth
// contain only the last days.
type CapacitySeries struct {
	// requested is the highest sum of requests on each day.
	// +optional
	// +kubebuilder:validation:MaxItems=90
	// +listType=atomic
	Requested []int64 `json:"requested,omitempty"`
	// capacity is the last capacity of the schedulable nodes on each day.
	// +optional
	// +kubebuilder:validation:MaxItems=90
	// +listType=atomic
	Capacity []int64 `json:"capacity,omitempty"`
	// used is the highest sum of usage on each day.
	// +optional
	// +kubebuilder:validation:MaxItems=90
	// +listType=atomic
	Used []int64 `json:"used,omitempty"`
	// new is the growth by workloads that arrived.
	// +optional
	// +kubebuilder:validation:MaxItems=28
	// +listType=atomic
	New []int64 `json:"new,omitempty"`
	// gone is the growth by workloads that left: 0 or negative.
	// +optional
	// +kubebuilder:validation:MaxItems=28
	// +listType=atomic
	Gone []int64 `json:"gone,omitempty"`
	// replicas is the growth by more or fewer pods.
	// +optional
	// +kubebuilder:validation:MaxItems=28
	// +listType=atomic
	Replicas []int64 `json:"replicas,omitempty"`
	// perPod is the growth because pods request more.
	// +optional
	// +kubebuilder:validation:MaxItems=28
	// +listType=atomic
	PerPod []int64 `json:"perPod,omitempty"`
}
