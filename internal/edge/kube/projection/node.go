// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// Node returns the projection of a node.
func Node(n *corev1.Node, in *Interner) cluster.Node {
	out := cluster.Node{
		Labels:      pairs(n.Labels, in),
		Name:        n.Name,
		Allocatable: kube.Amounts(n.Status.Allocatable),
		Capacity:    kube.Amounts(n.Status.Capacity),
		Cordoned:    n.Spec.Unschedulable,
		Kernel:      in.String(n.Status.NodeInfo.KernelVersion),
	}
	out.Taints = reserving(n.Spec.Taints, in)
	out.Tainted = len(out.Taints) > 0
	for i := range n.Status.Conditions {
		switch c := &n.Status.Conditions[i]; c.Type {
		case corev1.NodeReady:
			out.Ready = c.Status == corev1.ConditionTrue
		case corev1.NodeMemoryPressure:
			out.LowMemory = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// reserving returns the taints that reserve a node for certain pods.
func reserving(taints []corev1.Taint, in *Interner) []cluster.Taint {
	var out []cluster.Taint
	for i := range taints {
		t := &taints[i]
		if !transientTaints[t.Key] && (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) {
			out = append(out, cluster.Taint{Key: in.String(t.Key), Value: in.String(t.Value), Effect: in.String(string(t.Effect))})
		}
	}
	return out
}

// transientTaints are the taints that Kubernetes sets on a node while a condition of the node is bad or the node is cordoned. The
// conditions and the spec of the node have the same information. These taints do not reserve the node for certain pods.
var transientTaints = map[string]bool{
	corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeUnschedulable: true,
	corev1.TaintNodeMemoryPressure: true, corev1.TaintNodeDiskPressure: true, corev1.TaintNodePIDPressure: true,
	corev1.TaintNodeNetworkUnavailable: true,
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
