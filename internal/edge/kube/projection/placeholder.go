// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import corev1 "k8s.io/api/core/v1"

// The marks of a placeholder pod. All of them are required, so that no other pod is taken for one. A ProvisioningRequest and its
// PodTemplate have the label and the annotations.
const (
	PlaceholderClass = "podfit-placeholder"             // its PriorityClass
	PlaceholderLabel = "podfit.dev/placeholder"         // label with the value true
	PlaceholderUID   = "podfit.dev/placeholder-for-uid" // annotation: the UID of the pod that is going to be evicted
	PlaceholderPod   = "podfit.dev/placeholder-for"     // annotation: its name
)

// IsPlaceholder reports whether a pod is a placeholder pod of podfit.
func IsPlaceholder(p *corev1.Pod) bool {
	return p.Labels[PlaceholderLabel] == "true" && p.Spec.PriorityClassName == PlaceholderClass
}
