// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// Hold returns recommendations that are nowhere lower than those in the status of an autoscaler. It adds the containers, of those that
// exist, that have a recommendation in the status only. The arguments are sorted by container. The caller applies the policies of
// the autoscaler afterwards.
func Hold(a *cluster.Autoscaler, containers []string, recommended []cluster.Advice) []cluster.Advice {
	held := slices.Clone(recommended)
	for _, container := range containers {
		status := a.AdviceFor(container)
		controls := a.Policy(container).Controls()
		if status == nil || controls.Empty() {
			continue
		}
		target := status.Uncapped.Or(status.Target).Only(controls)
		if target.Has.Empty() {
			continue
		}
		i, found := slices.BinarySearchFunc(held, container, func(x cluster.Advice, name string) int { return strings.Compare(x.Container, name) })
		if !found {
			held = slices.Insert(held, i, cluster.Advice{Container: container})
		}
		h := &held[i]
		h.Target = higher(h.Target, target)
		h.Upper = higher(higher(h.Upper, status.Upper.Only(controls)), h.Target)
		h.Lower = higher(h.Lower, status.Lower.Only(controls))
		h.Uncapped = h.Target
	}
	return held
}

// LimitCPU returns recommendations whose CPU is at most the target in the status of an autoscaler. The uncapped target stays. A container
// without recommendation for CPU in the status is not limited.
func LimitCPU(a *cluster.Autoscaler, recommended []cluster.Advice) []cluster.Advice {
	limited := slices.Clone(recommended)
	for i := range limited {
		l := &limited[i]
		status := cmp.Or(a.AdviceFor(l.Container), new(cluster.Advice))
		most, ok := status.Target.Get(cluster.CPU) // the uncapped target is not limited by nodes
		if !ok {
			continue
		}
		for _, r := range []*cluster.Resources{&l.Lower, &l.Target, &l.Upper} {
			if v, has := r.Get(cluster.CPU); has {
				*r = r.Set(cluster.CPU, min(v, most))
			}
		}
	}
	return limited
}

func higher(a, b cluster.Resources) cluster.Resources {
	for _, r := range cluster.All {
		if v, ok := b.Get(r); ok && v > a.Amount(r) {
			a = a.Set(r, v)
		}
	}
	return a
}
