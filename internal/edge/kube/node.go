// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func projectNode(n *corev1.Node, in *Interner) cluster.Node {
	out := cluster.Node{
		Labels:      pairs(n.Labels, in),
		Name:        n.Name,
		Allocatable: amounts(n.Status.Allocatable),
		Cordoned:    n.Spec.Unschedulable,
	}
	for i := range n.Spec.Taints {
		e := n.Spec.Taints[i].Effect
		out.Tainted = out.Tainted || e == corev1.TaintEffectNoSchedule || e == corev1.TaintEffectNoExecute
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// pairs returns labels as "key=value", sorted.
func pairs(labels map[string]string, in *Interner) []string {
	if len(labels) == 0 {
		return nil
	}
	out := make([]string, 0, len(labels))
	for k, v := range labels {
		out = append(out, in.String(k+"="+v))
	}
	slices.Sort(out)
	return out
}
