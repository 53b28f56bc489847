// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UsageHistory is what podfit remembers of a workload's containers for sizing profiles that need more than the checkpoints
// of autoscaling.k8s.io have room for. The recommender writes it and reads it when it starts; nobody else needs to. To delete
// one makes the profile begin anew.
//
// It has no owner: a workload that is deleted and created again goes on with what it has learnt, as long as a
// VerticalPodAutoscaler names it. The recommender removes histories that nobody needs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=uh,categories=podfit
// +kubebuilder:printcolumn:name="Kind",type="string",JSONPath=".spec.target.kind"
// +kubebuilder:printcolumn:name="Target",type="string",JSONPath=".spec.target.name"
// +kubebuilder:printcolumn:name="Containers",type="integer",JSONPath=".status.containers"
// +kubebuilder:printcolumn:name="Size",type="integer",JSONPath=".status.size"
// +kubebuilder:printcolumn:name="Updated",type="date",JSONPath=".status.updated",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type UsageHistory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says whose history it is. The name of the object does not.
	Spec UsageHistorySpec `json:"spec"`

	// status is what is remembered.
	// +optional
	Status UsageHistoryStatus `json:"status,omitempty"`
}

// UsageHistoryList is a list of histories.
//
// +kubebuilder:object:root=true
type UsageHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []UsageHistory `json:"items"`
}

// UsageHistorySpec says whose history it is.
type UsageHistorySpec struct {
	// target is the workload: the topmost controller of its pods.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target cannot be changed: a history belongs to one workload"
	Target UsageHistoryTarget `json:"target"`
}

// UsageHistoryTarget names a workload in the namespace of the object.
type UsageHistoryTarget struct {
	// group is the API group of the workload, empty for that of Kubernetes' core.
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

// The bounds of a UsageHistory. With all of them reached, an object takes some 550 KiB.
const (
	// MaxContainerHistories is the maximum number of entries of status.histories.
	MaxContainerHistories = 32
	// MaxContainerHistoryData is the maximum length of the data of one entry, in bytes of their base64 text.
	MaxContainerHistoryData = 16384
)

// UsageHistoryStatus is what is remembered of a workload.
type UsageHistoryStatus struct {
	// updated is when the newest of it was remembered.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`

	// containers is how many there are histories of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Containers int32 `json:"containers"`

	// size is how many bytes all data take, before they are encoded as text.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Size int32 `json:"size"`

	// histories are those of the containers, by their names. At most 32: those with the most recent samples.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=container
	Histories []ContainerHistory `json:"histories,omitempty"`
}

// ContainerHistory is what is remembered of one container of all pods of a workload.
type ContainerHistory struct {
	// container is its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`

	// format is how data are to be read: the way to size that they are for, and a version. What is of another one is not read.
	// +kubebuilder:validation:MaxLength=64
	Format string `json:"format"`

	// updated is when this was remembered.
	Updated metav1.Time `json:"updated"`

	// lastSample is when the last measurement was taken that data know of.
	// +optional
	LastSample *metav1.Time `json:"lastSample,omitempty"`

	// data are in podfit's own format.
	// +kubebuilder:validation:MaxLength=16384
	Data []byte `json:"data"`
}
