// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UsageHistory stores the model state of a workload: the history of its containers that sizing profiles need in addition to the
// checkpoints of autoscaling.k8s.io. The recommender writes it, and reads it at startup. Deleting the object discards the stored
// history.
//
// It has no owner reference: a workload that is deleted and created again continues with its history, as long as a
// VerticalPodAutoscaler references the workload. The recommender deletes histories that are no longer needed.
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

	// spec identifies the workload. The name of the object has no meaning.
	Spec UsageHistorySpec `json:"spec"`

	// status is the stored history.
	// +optional
	Status UsageHistoryStatus `json:"status,omitempty"`
}

// UsageHistoryList is a list of UsageHistory objects.
//
// +kubebuilder:object:root=true
type UsageHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []UsageHistory `json:"items"`
}

// UsageHistorySpec identifies the workload of a history.
type UsageHistorySpec struct {
	// target is the workload: the topmost controller of the pods. For the pods with one role, its name is NAME/ROLE. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target cannot be changed"
	Target WorkloadReference `json:"target"`
}

// The limits of a UsageHistory. An object that reaches all of them takes about 550 KiB.
const (
	// MaxContainerHistories is the maximum number of entries of status.histories.
	MaxContainerHistories = 32
	// MaxContainerHistoryData is the maximum length of the data of one entry, in bytes of their base64 text.
	MaxContainerHistoryData = 16384
)

// UsageHistoryStatus is the stored history of a workload.
type UsageHistoryStatus struct {
	// updated is the time of the newest entry of histories.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`

	// containers is the number of entries of histories.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Containers int32 `json:"containers"`

	// size is the total number of bytes of the data of all entries, before base64 encoding.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Size int32 `json:"size"`

	// histories contains an entry per container. At most 32: the containers with the most recent samples.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=container
	Histories []ContainerHistory `json:"histories,omitempty"`
}

// ContainerHistory is the stored history of one container of a workload, over all pods.
type ContainerHistory struct {
	// container is the name of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`

	// format identifies the algorithm and the version of the data format. Entries with an unknown format are ignored.
	// +kubebuilder:validation:MaxLength=64
	Format string `json:"format"`

	// updated is the time at which the entry was last changed.
	Updated metav1.Time `json:"updated"`

	// lastSample is the time of the newest sample in data.
	// +optional
	LastSample *metav1.Time `json:"lastSample,omitempty"`

	// data is the history in a binary format of podfit.
	// +kubebuilder:validation:MaxLength=16384
	Data []byte `json:"data"`
}
