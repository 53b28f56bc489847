// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// daemon returns what a pod of a DaemonSet takes of a node, according to its template. It returns nil if the DaemonSet does not take room
// of all nodes that it selects: if most of its pods are not ready, or if its template names a node. Any tenant can create such a DaemonSet
// with large requests, and the sizes of the pods of others depend on what DaemonSets leave.
func daemon(o *appsv1.DaemonSet, in *Interner) *cluster.Daemon {
	spec := &o.Spec.Template.Spec
	ready := o.Status.NumberReady
	desired := o.Status.DesiredNumberScheduled
	if ready <= 0 || ready < desired-ready || spec.NodeName != "" {
		return nil
	}
	demand := admissible.DemandOf(policy.Limits{}, Pod(&corev1.Pod{Spec: *spec}, nil), cluster.Standing{}, nil)
	if requests := demand.Most().Requests; requests.CPU <= 0 && requests.Memory <= 0 {
		return nil
	}
	key := cluster.Key{Namespace: in.String(o.Namespace), Name: in.String(o.Name)}
	selector, known := NodeSelector(spec, in)
	return &cluster.Daemon{Key: key, Requests: demand.Most().Requests, Selector: selector, Somewhere: !known, Tolerations: tolerations(spec)}
}

// isRollingOut reports whether a DaemonSet has ready pods, and most of them may have an earlier template. Their requests are not known then:
// with the update strategy OnDelete, or if the new pods cannot start, the new template can have any requests for any time.
func isRollingOut(o *appsv1.DaemonSet) bool {
	ready := int64(o.Status.NumberReady)
	desired := int64(o.Status.DesiredNumberScheduled)
	earlier := desired - int64(o.Status.UpdatedNumberScheduled) // pods with an earlier template, which may be ready
	current := ready - earlier
	return ready > 0 && (o.Status.ObservedGeneration < o.Generation || earlier > 0 && current < desired-current)
}

// TolerationsOf returns the tolerations of a pod. It returns false if there are too many, so that the pod counts as tolerating all taints.
func TolerationsOf(p *corev1.PodSpec) (all cluster.Tolerations, ok bool) {
	all = tolerations(p)
	return all, len(all) <= maxTolerations
}
