// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func projectNode(n *corev1.Node) cluster.Node {
	out := cluster.Node{
		Name:        n.Name,
		Allocatable: amounts(n.Status.Allocatable),
		Cordoned:    n.Spec.Unschedulable,
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}
