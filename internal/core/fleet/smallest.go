// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "podfit.dev/podfit/internal/core/cluster"

// Nodes returns the smallest node that pods may run on.
type Nodes struct {
	Known     bool // the nodes of the cluster are known, although all may be cordoned
	all       []*cluster.Node
	byName    map[string]*cluster.Node
	selectors []cluster.NodeSelector
	least     map[cluster.Place]NodeSizes // cache of open
}

// NewNodes takes the nodes that are not cordoned, and the node selectors of pods, from cluster.Selected on. Readiness is ignored: it
// changes often, and a request must not change with it.
func NewNodes(all []cluster.Node, selectors []cluster.NodeSelector) *Nodes {
	n := &Nodes{Known: len(all) > 0, byName: make(map[string]*cluster.Node, len(all)), selectors: selectors}
	for i := range all {
		if !all[i].Cordoned && all[i].Allocatable.CPU > 0 {
			n.all = append(n.all, &all[i])
			n.byName[all[i].Name] = &all[i]
		}
	}
	return n
}

// Smallest returns the sizes of the smallest node that any of the pods may run on, or zero values if there are no live pods or no nodes for
// them. A pod may run on its current node, and on nodes without taints that match its node selector and required node affinity.
// Tolerations are ignored. If the affinity is not evaluated, only its current node counts.
func (n *Nodes) Smallest(pods []*cluster.Pod) NodeSizes {
	var least NodeSizes
	copies := map[string]int{} // by node
	for _, p := range pods {
		if !p.Live() {
			continue
		}
		if p.Node != "" {
			copies[p.Node]++
			least.Copies = max(least.Copies, copies[p.Node])
		}
		least = least.smaller(n.open(p.Place))
		if on := n.byName[p.Node]; on != nil {
			least = least.smaller(sizesOf(on))
		}
	}
	return least
}

// NodeSizes are the sizes of the smallest nodes that the pods of a workload may run on; 0: not known. They may be of different nodes.
type NodeSizes struct {
	Allocatable, Capacity int64 // CPU, in millicores
	Memory                int64 // allocatable, in bytes
	Copies                int   // the most pods of the workload on one node
}

// Of returns the CPU of a base.
func (n NodeSizes) Of(base cluster.NodeBase) int64 {
	if base == cluster.OfCapacity {
		return n.Capacity
	}
	return n.Allocatable
}

// sizesOf returns the CPU of a node. A node that does not report its capacity counts with what is allocatable.
func sizesOf(n *cluster.Node) NodeSizes {
	return NodeSizes{Allocatable: n.Allocatable.CPU, Capacity: max(n.Capacity.CPU, n.Allocatable.CPU), Memory: n.Allocatable.Memory}
}

// smaller returns the smaller known size of each base.
func (n NodeSizes) smaller(o NodeSizes) NodeSizes {
	n.Allocatable = smallest(n.Allocatable, o.Allocatable)
	n.Capacity = smallest(n.Capacity, o.Capacity)
	n.Memory = smallest(n.Memory, o.Memory)
	return n
}

func smallest(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// open returns the sizes of the smallest nodes without taints that a place allows.
func (n *Nodes) open(place cluster.Place) NodeSizes {
	return cluster.Memo(&n.least, place, func() (least NodeSizes) {
		selector, known := cluster.SelectorOf(n.selectors, place)
		for _, c := range n.all {
			if known && !c.Tainted && c.Matches(selector) {
				least = least.smaller(sizesOf(c))
			}
		}
		return least
	})
}
