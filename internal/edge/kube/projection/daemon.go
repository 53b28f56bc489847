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
		Key: cluster.Key{Namespace: in.String(o.Namespace), Name: in.String(o.Name)}, Requests: demand.Most().Requests,
	}
	var known bool
	d.Selector, known = NodeSelector(spec, in)
	d.Somewhere = !known
	d.Tolerations, _ = TolerationsOf(spec)
	return d
}

// TolerationsOf returns the tolerations of a pod. It returns false if there are too many, so that the pod counts as tolerating all taints.
func TolerationsOf(p *corev1.PodSpec) (all cluster.Tolerations, ok bool) {
	all = tolerations(p)
	return all, len(all) <= maxTolerations
}
