// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// places knows how large a pod any node could take if it were empty.
type places struct {
	unknown bool
	largest []cluster.Resources // nodes that no other node exceeds in both resources: CPU falls, memory rises
	byName  map[string]cluster.Resources
}

func placesOf(nodes []cluster.Node) places {
	pl := places{unknown: len(nodes) == 0, byName: make(map[string]cluster.Resources, len(nodes))}
	var usable []cluster.Resources
	for _, n := range nodes {
		if n.Ready && !n.Cordoned {
			usable = append(usable, n.Allocatable)
			pl.byName[n.Name] = n.Allocatable
		}
	}
	slices.SortFunc(usable, func(a, b cluster.Resources) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory))
	})
	for _, n := range usable {
		if len(pl.largest) == 0 || n.Memory > pl.largest[len(pl.largest)-1].Memory {
			pl.largest = append(pl.largest, n)
		}
	}
	return pl
}

// take reports whether a pod of a size could be placed. A pod of a DaemonSet comes back to the node it is on.
func (pl places) take(p *cluster.Pod, size cluster.Resources) bool {
	fits := func(n cluster.Resources) bool { return size.CPU <= n.CPU && size.Memory <= n.Memory }
	if pl.unknown {
		return true
	}
	if p.Controller.Kind == "DaemonSet" {
		if n, ok := pl.byName[p.Node]; ok {
			return fits(n)
		}
		return true
	}
	return slices.ContainsFunc(pl.largest, fits)
}
