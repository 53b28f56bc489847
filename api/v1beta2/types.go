// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

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
