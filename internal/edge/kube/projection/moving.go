// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	corev1 "k8s.io/api/core/v1"
)

// hasLocalData reports whether a pod has volumes whose data stays on the node when the pod is evicted. An emptyDir in memory does not
// count, because its data is as short-lived as that of a process. A claim may be on a local disk, which only its PersistentVolume
// shows: such a pod is tied to its node (isTied).
func hasLocalData(volumes []corev1.Volume) bool {
	for i := range volumes {
		v := &volumes[i]
		if v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory {
			return true
		}
	}
	return false
}

// isTied reports whether a pod has a scheduling constraint that podfit does not evaluate, so that it is not known whether another
// node would take it. Preferences do not count.
func isTied(spec *corev1.PodSpec) bool {
	for i := range spec.TopologySpreadConstraints {
		if spec.TopologySpreadConstraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	if a := spec.Affinity; a != nil {
		near, apart := a.PodAffinity, a.PodAntiAffinity
		if near != nil && len(near.RequiredDuringSchedulingIgnoredDuringExecution) > 0 || apart != nil && len(apart.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	if spec.HostNetwork || len(spec.ResourceClaims) > 0 {
		return true
	}
	for _, all := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range all {
			if needsMore(&all[i]) {
				return true
			}
		}
	}
	return false
}

// needsMore reports whether a container needs something of a node besides CPU and memory.
func needsMore(c *corev1.Container) bool {
	for i := range c.Ports {
		if c.Ports[i].HostPort > 0 {
			return true
		}
	}
	for name := range c.Resources.Requests {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return true
		}
	}
	for name := range c.Resources.Limits {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return true
		}
	}
	return false
}
