// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// A nodeIndex finds the pools with nodes that accept a pod. Pods may have thousands of different node selectors, and a cluster thousands of
// nodes, so not each selector is compared with each node. A label that only one node has, such as its host name, names that node. Nodes with
// the same pool, the same taints and the same other labels are a class, and a selector without an affinity is compared with each class. Only
// selectors with an affinity, of which there are few, are compared with each node.
type nodeIndex struct {
	*World
	owner    map[string]int // by label: the node that has it, or -1 if several have it
	nodes    []nodeKind     // each node alone
	classes  []nodeKind     // nodes of the same kind with the same labels, but for labels that only one node has
	places   map[cluster.Place][]nodeKind
	compared int // nodes and classes that were compared with selectors
}

// A nodeKind are nodes of a pool with the same taints.
type nodeKind struct {
	acceptor
	node *cluster.Node // one of them
	kind int           // equal for nodes of the same kind
}

// add adds what further nodes can hold.
func (a *acceptor) add(o acceptor) {
	a.most = cluster.Amounts(max(a.most.CPU, o.most.CPU), max(a.most.Memory, o.most.Memory))
	a.unknown = a.unknown || o.unknown
}

// newNodeIndex returns the index of the nodes of a world. names are those of their pools.
func newNodeIndex(w *World, names []string) *nodeIndex {
	x := &nodeIndex{World: w, owner: map[string]int{}}
	for i := range w.Nodes {
		for _, label := range w.Nodes[i].Labels {
			if _, known := x.owner[label]; known {
				x.owner[label] = -1
			} else {
				x.owner[label] = i
			}
		}
	}
	type class struct {
		kind   int
		labels string
	}
	kinds, classes := map[string]int{}, map[class]int{}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		key := fmt.Sprintf("%q %q %t", names[i], n.Taints, n.Tainted)
		kind := cluster.Memo(&kinds, key, func() int { return len(kinds) })
		node := nodeKind{acceptor{names[i], n.Allocatable, n.Allocatable.CPU <= 0 || n.Allocatable.Memory <= 0}, n, kind}
		x.nodes = append(x.nodes, node)
		shared := slices.DeleteFunc(slices.Clone(n.Labels), func(label string) bool { return x.owner[label] >= 0 })
		of := class{kind, strings.Join(shared, "\x00")}
		if at, known := classes[of]; known {
			x.classes[at].add(node.acceptor)
		} else {
			classes[of] = len(x.classes)
			x.classes = append(x.classes, node)
		}
	}
	return x
}

// accepting returns the pools with a node that accepts a pod by its labels and taints, also if the node is not schedulable now.
func (x *nodeIndex) accepting(p *cluster.Pod) []acceptor {
	matching := cluster.Memo(&x.places, p.Place, func() []nodeKind { return x.matching(p.Place) })
	tolerations, _ := cluster.TolerationsOf(x.Tolerations, p.Tolerance)
	var out []acceptor
	for i := range matching {
		k := &matching[i]
		if k.node.Tainted && !tolerations.Tolerate(k.node.Taints) {
			continue
		}
		at, known := slices.BinarySearchFunc(out, k.pool, func(a acceptor, name string) int { return strings.Compare(a.pool, name) })
		if !known {
			out = slices.Insert(out, at, acceptor{pool: k.pool})
		}
		out[at].add(k.acceptor)
	}
	return out
}

// matching returns the nodes of each kind that a place selects. A kind without such a node is not among them.
func (x *nodeIndex) matching(place cluster.Place) []nodeKind {
	s, known := cluster.SelectorOf(x.Selectors, place)
	if !known && place != cluster.Somewhere {
		return nil
	}
	candidates := x.classes
	if len(s.Terms) > 0 {
		candidates = x.nodes
	}
	for _, label := range s.Labels {
		owner, exists := x.owner[label]
		if !exists {
			return nil
		}
		if owner >= 0 {
			candidates = x.nodes[owner : owner+1]
		}
	}
	x.compared += len(candidates)
	found := map[int]nodeKind{}
	for _, c := range candidates {
		if !c.node.Matches(s) {
			continue
		}
		if k, known := found[c.kind]; known {
			k.add(c.acceptor)
			c = k
		}
		found[c.kind] = c
	}
	return slices.SortedFunc(maps.Values(found), func(a, b nodeKind) int { return a.kind - b.kind })
}
