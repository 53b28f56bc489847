// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 declares autoscaling.k8s.io/v1beta2 for the CustomResourceDefinitions.
//
// The version is not served, and no new objects are stored in it. But a cluster that stored objects in this version lists it in
// status.storedVersions of the definition, and the API server rejects a definition that removes a listed version. Clients cannot
// send or receive objects of this version, so the schema only preserves all fields of stored objects. The generator uses this
// package; podfit does not import it.
//
// +kubebuilder:object:generate=false
// +groupName=autoscaling.k8s.io
// +versionName=v1beta2
package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VerticalPodAutoscaler is the stored form of an autoscaler before v1.
//
// +kubebuilder:resource:shortName=vpa
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="autoscaling.k8s.io/v1beta2 API is deprecated"
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
type VerticalPodAutoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// VerticalPodAutoscalerCheckpoint is the stored form of a checkpoint before v1.
//
// +kubebuilder:resource:shortName=vpacheckpoint
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="autoscaling.k8s.io/v1beta2 API is deprecated"
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
type VerticalPodAutoscalerCheckpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
