// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// crash returns the fields of a pod that only an OOM rescue uses, or nil if the pod is ready or no container was OOM-killed.
// projected is the projection of the pod.
func crash(p *corev1.Pod, projected *cluster.Pod, in *Interner) *cluster.Crash {
	if projected.Ready || !oomKilled(projected) {
		return nil
	}
	return &cluster.Crash{Version: strings.Clone(p.ResourceVersion), Labels: pairs(p.Labels, in), Data: hasData(p.Spec.Volumes)}
}

func oomKilled(p *cluster.Pod) bool {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Role == cluster.Regular && c.Exit != nil && c.Exit.OOM {
			return true
		}
	}
	return false
}

// hasData reports whether one of the volumes has content that is lost when the pod is deleted, or that stays on the node where the
// replacement may not run. The content of a PersistentVolumeClaim that the pod does not own is kept.
func hasData(volumes []corev1.Volume) bool {
	for i := range volumes {
		v := &volumes[i]
		switch {
		case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
			return true
		case v.HostPath != nil, v.Ephemeral != nil, v.CSI != nil && (v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly):
			return true
		}
	}
	return false
}

// CountKills sets the number of consecutive OOM kills of each container of a pod. before is the state of the same pod that the watch
// delivered before, or nil. A kill that the watch did not deliver is not counted.
func CountKills(before, now *cluster.Pod) {
	for i := range now.Containers {
		c := &now.Containers[i]
		if c.Exit == nil || !c.Exit.OOM {
			continue
		}
		c.Exit.Kills = 1
		if before == nil || i >= len(before.Containers) || before.Containers[i].Name != c.Name {
			continue
		}
		last := before.Containers[i].Exit
		switch {
		case last == nil || !last.OOM:
		case last.Finished.Equal(c.Exit.Finished):
			c.Exit.Kills = last.Kills
		case last.Kills < math.MaxUint8:
			c.Exit.Kills = last.Kills + 1
		default:
			c.Exit.Kills = last.Kills
		}
	}
}
