// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// localData reports whether a pod has volumes with data that its replacement does not have, and whether one of them is not an emptyDir: the
// data is deleted together with the pod, or stays on the node, where the replacement may not run. An emptyDir in memory does not count, because its data is as
// short-lived as that of a process. Neither does a PersistentVolumeClaim that the pod does not own: the replacement mounts it again.
func localData(volumes []corev1.Volume) (local, own bool) {
	for i := range volumes {
		v := &volumes[i]
		switch {
		case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
			local = true
		case v.HostPath != nil, v.Ephemeral != nil, v.CSI != nil && (v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly):
			return true, true
		}
	}
	return local, false
}

// isTied reports whether a pod has a scheduling constraint that podfit does not evaluate, so that it is not known whether another
// node would take it. Preferences do not count.
func isTied(spec *corev1.PodSpec) bool {
	spread := cluster.Find(spec.TopologySpreadConstraints, func(c *corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule })
	claim := cluster.Find(spec.Volumes, func(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	a := cmp.Or(spec.Affinity, new(corev1.Affinity))
	near := cmp.Or(a.PodAffinity, new(corev1.PodAffinity)).RequiredDuringSchedulingIgnoredDuringExecution
	apart := cmp.Or(a.PodAntiAffinity, new(corev1.PodAntiAffinity)).RequiredDuringSchedulingIgnoredDuringExecution
	return len(near) > 0 || len(apart) > 0 || spread != nil || claim != nil || spec.HostNetwork || len(spec.ResourceClaims) > 0 || spec.Resources != nil && needsMore(&corev1.Container{Resources: *spec.Resources}) || cluster.Find(spec.Containers, needsMore) != nil || cluster.Find(spec.InitContainers, needsMore) != nil
}

// avoid adds the pods that a required anti-affinity of a pod keeps away to Avoided, by namespace: "" if other namespaces count, too.
func (in *Interner) avoid(p *corev1.Pod) {
	if in == nil || in.Avoided == nil || p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, term := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		ns := p.Namespace
		if term.NamespaceSelector != nil || len(term.Namespaces) > 0 {
			ns = ""
		}
		all := in.Avoided[ns]
		added := selectorOf(term.LabelSelector, nil)
		cluster.FindOrAdd(&all, func(s *cluster.Selector) bool { return reflect.DeepEqual(*s, added) }, added)
		in.Avoided[ns] = all
	}
}

// needsMore reports whether a container needs something of a node besides CPU and memory.
func needsMore(c *corev1.Container) bool {
	if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 }) {
		return true
	}
	for _, amounts := range [...]corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name := range amounts {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				return true
			}
		}
	}
	return false
}
