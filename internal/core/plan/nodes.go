// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
)

// nodeSizes returns whether a pod would fit on an empty node.
type nodeSizes struct {
	unknown     bool
	nodes       []cluster.Node // nodes that accept new pods
	selectors   []cluster.NodeSelector
	tolerations []cluster.Tolerations
	largest     map[nodeKey][]cluster.Resources
	byName      map[string]cluster.Resources
	fleet       *fleet.Fleet // nil if nodes that can be added are not known
}

// LimitsOf returns the bounds of the size of a pod.
func (w *World) LimitsOf(p *cluster.Pod) policy.Limits {
	l := w.Limits[p.Namespace]
	if w.Fleet != nil {
		l.Nodes = w.Fleet.Of(p)
	}
	return l
}

// A nodeKey identifies the nodes that may take a pod.
type nodeKey struct {
	place     cluster.Place
	tolerance cluster.Tolerance
}

func nodeSizesOf(w World) nodeSizes {
	pl := nodeSizes{
		unknown: len(w.Nodes) == 0, selectors: w.Selectors, tolerations: w.Tolerations,
		largest: map[nodeKey][]cluster.Resources{}, byName: make(map[string]cluster.Resources, len(w.Nodes)), fleet: w.Fleet,
	}
	for _, n := range w.Nodes {
		if n.Ready && !n.Cordoned {
			pl.nodes = append(pl.nodes, n)
			pl.byName[n.Name] = n.Allocatable
		}
	}
	return pl
}

// fit reports whether a pod with the given requests fits on a node, or on one that can be added. A pod of a DaemonSet is replaced on its own node. For other
// pods, node selector, required node affinity and tolerations count.
func (pl nodeSizes) fit(p *cluster.Pod, size cluster.Resources) bool {
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
	return slices.ContainsFunc(pl.largestFor(nodeKey{p.Place, p.Tolerance}), fits) || pl.fleet.CanAdd(p, size)
}

// largestFor returns the allocatable resources of the nodes that may take a pod, without nodes that are smaller than another one in
// both resources. The result is sorted: CPU falls, memory rises.
func (pl nodeSizes) largestFor(key nodeKey) []cluster.Resources {
	largest, known := pl.largest[key]
	if known {
		return largest
	}
	accepts := pl.accepting(key)
	var usable []cluster.Resources
	for i := range pl.nodes {
		if n := &pl.nodes[i]; accepts(n) {
			usable = append(usable, n.Allocatable)
		}
	}
	slices.SortFunc(usable, func(a, b cluster.Resources) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory))
	})
	for _, n := range usable {
		if len(largest) == 0 || n.Memory > largest[len(largest)-1].Memory {
			largest = append(largest, n)
		}
	}
	pl.largest[key] = largest
	return largest
}

// accepting returns whether a node accepts a pod by its labels and taints.
func (pl nodeSizes) accepting(key nodeKey) func(*cluster.Node) bool {
	var selector cluster.NodeSelector
	if i := int(key.place) - int(cluster.Selected); i >= 0 && i < len(pl.selectors) {
		selector = pl.selectors[i]
	}
	var tolerations cluster.Tolerations
	i := int(key.tolerance) - int(cluster.FirstListed)
	anyTaint := i >= len(pl.tolerations)
	if i >= 0 && !anyTaint {
		tolerations = pl.tolerations[i]
	}
	return func(n *cluster.Node) bool { return n.Matches(selector) && (anyTaint || tolerations.Tolerate(n.Taints)) }
}
