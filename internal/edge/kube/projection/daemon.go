// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// daemon returns what a pod of a DaemonSet takes of a node, according to its template.
func daemon(o *appsv1.DaemonSet, in *Interner) *cluster.Daemon {
	spec := &o.Spec.Template.Spec
	demand := policy.DemandOf(policy.Limits{}, Pod(&corev1.Pod{Spec: *spec}, nil), cluster.Standing{}, nil)
	d := &cluster.Daemon{
		Key: cluster.Key{Namespace: in.String(o.Namespace), Name: in.String(o.Name)}, Selector: NodeSelector(spec, in),
		Somewhere: hasRequiredNodeAffinity(spec), Requests: demand.Most().Requests,
	}
	d.Tolerations, _ = TolerationsOf(spec)
	return d
}

// NodeSelector returns the node selector of a pod, each as "key=value", sorted.
func NodeSelector(p *corev1.PodSpec, in *Interner) []string { return pairs(p.NodeSelector, in) }

// TolerationsOf returns the tolerations of a pod. It returns false if there are too many, so that the pod counts as tolerating all taints.
func TolerationsOf(p *corev1.PodSpec) (all cluster.Tolerations, ok bool) {
	all = tolerations(p)
	return all, len(all) <= maxTolerations
}

func hasRequiredNodeAffinity(p *corev1.PodSpec) bool {
	a := p.Affinity
	return a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}
