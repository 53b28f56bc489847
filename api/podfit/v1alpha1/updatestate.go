// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateState stores what the updater has recorded about its actions on the pods of a workload: attempts with their outcomes, when
// they may be repeated, and evicted pods without a replacement. The updater writes it, and reads it when it becomes the leader.
// Deleting the object discards the records.
//
// An object exists only while there are such records. The updater deletes it afterwards.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=us,categories=podfit
// +kubebuilder:printcolumn:name="Kind",type="string",JSONPath=".spec.target.kind"
// +kubebuilder:printcolumn:name="Target",type="string",JSONPath=".spec.target.name"
// +kubebuilder:printcolumn:name="Last pod",type="string",JSONPath=".status.pods[0].name"
// +kubebuilder:printcolumn:name="Action",type="string",JSONPath=".status.pods[0].action"
// +kubebuilder:printcolumn:name="Outcome",type="string",JSONPath=".status.pods[0].outcome"
// +kubebuilder:printcolumn:name="Attempts",type="integer",JSONPath=".status.pods[0].attempts"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.pods[0].nextTime",priority=1
// +kubebuilder:printcolumn:name="Updated",type="date",JSONPath=".status.updated"
type UpdateState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the workload. The name of the object has no meaning.
	Spec UpdateStateSpec `json:"spec"`

	// status contains the records.
	// +optional
	Status UpdateStateStatus `json:"status,omitempty"`
}

// UpdateStateList is a list of UpdateState objects.
//
// +kubebuilder:object:root=true
type UpdateStateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []UpdateState `json:"items"`
}

// UpdateStateSpec identifies the workload of the records.
type UpdateStateSpec struct {
	// target is the workload: the topmost controller of the pods. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target cannot be changed"
	Target WorkloadReference `json:"target"`
}

// WorkloadReference identifies a workload in the namespace of the object.
type WorkloadReference struct {
	// group is the API group of the workload. Empty means the core API group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// kind is the kind of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`

	// name is the name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// The limits of an UpdateState.
const (
	// MaxUpdateStateSize is the maximum size of the spec and the status together, in bytes of JSON. The updater leaves out the records
	// of pods with the oldest attempts until the object is smaller.
	MaxUpdateStateSize = 32 << 10
	// MaxPodUpdates is the maximum number of entries of status.pods.
	MaxPodUpdates = 50
	// MaxMissingReplacements is the maximum number of entries of status.missingReplacements.
	MaxMissingReplacements = 4
	// MaxEvictedPods is the maximum number of entries of evicted.
	MaxEvictedPods = 30
	// MaxRequestedSizes is the maximum number of entries of requested.
	MaxRequestedSizes = 32
)

// UpdateStateStatus contains the records of a workload. All times except evictions.newestPod are by the clock of the updater.
type UpdateStateStatus struct {
	// updated is the time at which the updater wrote the object.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`

	// writer is the updater that wrote the object: the name of its host, which is the name of its pod in a cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Writer string `json:"writer,omitempty"`

	// actingSince is set while the updater changes pods of the workload, and removed when the outcomes are recorded. If an updater ends
	// before that, the next one changes no pod of the workload for 5 minutes after this time.
	// +optional
	ActingSince *metav1.MicroTime `json:"actingSince,omitempty"`

	// lastEviction is the time of the last eviction of a pod of the workload, if the attempts of an entry of pods depend on it.
	// +optional
	LastEviction *metav1.MicroTime `json:"lastEviction,omitempty"`

	// pods contains the last attempt at each action on each pod, the most recent attempt first. At most 50: after a restart of the
	// updater, the other pods count as if nothing was tried.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	Pods []PodUpdate `json:"pods,omitempty"`

	// omittedPods is the number of entries for which pods has no room.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedPods int32 `json:"omittedPods,omitempty"`

	// evictions describes the last eviction, until a replacement with the requested resources is observed.
	// +optional
	Evictions *EvictionRecord `json:"evictions,omitempty"`

	// missingReplacements lists evicted pods whose replacements have not been observed yet, by controller. At most 4.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	MissingReplacements []MissingReplacement `json:"missingReplacements,omitempty"`

	// capacity describes the last request for capacity before an eviction, while it is open or its failure delays the next one.
	// +optional
	Capacity *CapacityRecord `json:"capacity,omitempty"`

	// Records of further features are added here, one typed field per feature.
}

// PodUpdate is the last attempt at an action on a pod.
type PodUpdate struct {
	// name is the name of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid is the UID of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`

	// action is Evict or Resize. Entries with an unknown action are ignored.
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action"`

	// outcome is Done if the API server carried out the action, NoAnswer if that is unknown, and otherwise the cause for which it did
	// not: Denied, DisruptionBudget, NodeCapacity, Quota, Unsupported, WebhookFailed, ServerBusy or NotReached. Entries with an unknown
	// outcome are ignored.
	// +kubebuilder:validation:MaxLength=32
	Outcome string `json:"outcome"`

	// message is the answer of the API server, shortened to about 300 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// attempts is the number of consecutive attempts without success. For a resize with outcome Done, it is the number of
	// consecutive earlier resizes that were undone by another client.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// lastTime is the time of the last attempt.
	LastTime metav1.MicroTime `json:"lastTime"`

	// nextTime is the time from which the action may be tried again. It is for information only.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`

	// requested contains the requests and limits that the action should apply. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Requested []RequestedSize `json:"requested,omitempty"`

	// transientFailures is the number of the consecutive last attempts that failed for a cause that may pass by itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TransientFailures int32 `json:"transientFailures,omitempty"`

	// lastUnanswered is the time of the last attempt without an answer.
	// +optional
	LastUnanswered *metav1.MicroTime `json:"lastUnanswered,omitempty"`

	// unansweredSince is the time of the first of the consecutive last attempts without an answer.
	// +optional
	UnansweredSince *metav1.MicroTime `json:"unansweredSince,omitempty"`

	// readyPods is the number of ready pods of the controller at the last attempt.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyPods int32 `json:"readyPods,omitempty"`

	// overQuota contains the last requests and limits that a ResourceQuota or LimitRange refused.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	OverQuota []RequestedSize `json:"overQuota,omitempty"`

	// overQuotaTime is the time of that refusal.
	// +optional
	OverQuotaTime *metav1.MicroTime `json:"overQuotaTime,omitempty"`
}

// RequestedSize is the requested size of one container.
type RequestedSize struct {
	// container is the name of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`

	// requests are the requests of the container.
	// +optional
	Requests *RequestedAmounts `json:"requests,omitempty"`

	// limits are the limits of the container.
	// +optional
	Limits *RequestedAmounts `json:"limits,omitempty"`

	// inserted is true if the container has no recommendation of its own.
	// +optional
	Inserted bool `json:"inserted,omitempty"`
}

// RequestedAmounts are amounts of resources.
type RequestedAmounts struct {
	// cpu is an amount of CPU.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is an amount of memory.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// CapacityRecord describes the last request for capacity before an eviction: a placeholder pod that holds room for the replacement.
type CapacityRecord struct {
	// uid is the UID of the pod that is going to be evicted. It is empty if there is no open request.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid,omitempty"`

	// pod is the name of that pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// requestTime is the time at which the placeholder pod was created, or may have been.
	// +optional
	RequestTime *metav1.MicroTime `json:"requestTime,omitempty"`

	// failures is the number of consecutive failed requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// failureTime is the time of the last failure.
	// +optional
	FailureTime *metav1.MicroTime `json:"failureTime,omitempty"`

	// message is the cause of the last failure, shortened to about 300 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// EvictionRecord describes the last eviction of a pod of the workload.
type EvictionRecord struct {
	// lastTime is the time of the eviction.
	LastTime metav1.MicroTime `json:"lastTime"`

	// newestPod is the creation time of the newest pod of the workload at that time, by the clock of the API server. Pods that were
	// created later are replacements.
	// +optional
	NewestPod *metav1.MicroTime `json:"newestPod,omitempty"`

	// requested contains the requests and limits that the replacement should get. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Requested []RequestedSize `json:"requested,omitempty"`

	// ineffective is the number of consecutive evictions whose replacement did not get the requested resources.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ineffective int32 `json:"ineffective,omitempty"`

	// judged is true if the replacement of the last eviction was observed and ineffective counts it.
	// +optional
	Judged bool `json:"judged,omitempty"`

	// unansweredPod is the UID of the pod if it is unknown whether the eviction was carried out.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UnansweredPod string `json:"unansweredPod,omitempty"`

	// before describes the last eviction that was carried out, if unansweredPod is set.
	// +optional
	Before *PriorEviction `json:"before,omitempty"`
}

// PriorEviction describes the eviction before one whose outcome is unknown.
type PriorEviction struct {
	// lastTime is the time of the eviction.
	LastTime metav1.MicroTime `json:"lastTime"`

	// newestPod is the creation time of the newest pod of the workload at that time, by the clock of the API server.
	// +optional
	NewestPod *metav1.MicroTime `json:"newestPod,omitempty"`

	// requested contains the requests and limits that the replacement should get. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Requested []RequestedSize `json:"requested,omitempty"`

	// ineffective is the number of consecutive evictions whose replacement did not get the requested resources.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ineffective int32 `json:"ineffective,omitempty"`

	// judged is true if the replacement of the eviction was observed and ineffective counts it.
	// +optional
	Judged bool `json:"judged,omitempty"`
}

// MissingReplacement lists the evicted pods of a controller whose replacements have not been observed.
type MissingReplacement struct {
	// controller is the direct controller of the pods.
	Controller WorkloadReference `json:"controller"`

	// verticalPodAutoscaler is the name of the VerticalPodAutoscaler by which the pods were evicted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VerticalPodAutoscaler string `json:"verticalPodAutoscaler"`

	// evicted contains the evicted pods, the oldest eviction first. At most the last 30.
	// +optional
	// +kubebuilder:validation:MaxItems=30
	// +listType=atomic
	Evicted []EvictedPod `json:"evicted,omitempty"`
}

// EvictedPod is a pod that was evicted, or may have been.
type EvictedPod struct {
	// uid is the UID of the pod.
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`

	// time is the time of the eviction.
	Time metav1.MicroTime `json:"time"`
}
