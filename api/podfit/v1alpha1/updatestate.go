// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UpdateState stores what the updater has recorded about its actions on the pods of a workload: attempts with their outcomes, when
// they may be repeated, evicted pods without a replacement, pods that were deleted by an OOM rescue, and pods whose node is too full
// for their resize. The updater writes it, and reads it when it becomes the leader.
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

// MaxUpdateStateSize is the maximum size of the spec and the status of an UpdateState together, in bytes of JSON. The updater leaves out the
// records of pods with the oldest attempts until the object is smaller.
const MaxUpdateStateSize = 32 << 10

// UpdateStateStatus contains the records of a workload. The fields of the records are not listed here: the updater checks what it reads, and
// leaves out what is invalid. docs/updater.md describes them.
//
// +kubebuilder:pruning:PreserveUnknownFields
type UpdateStateStatus struct {
	// updated is the time at which the updater wrote the object.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`

	// writer is the updater that wrote the object: the name of its host, which is the name of its pod in a cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Writer string `json:"writer,omitempty"`
}
