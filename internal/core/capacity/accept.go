// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
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
	names    []string       // of the pool of each node
	owner    map[string]int // by label: the node that has it, or -1 if several have it
	classes  []nodeClass    // in the order of their first nodes
	kinds    []nodeKind     // of nodes, by pool and taints
	kindOf   []int          // of each node
	places   map[cluster.Place][]nodeKind
	compared int // nodes and classes that were compared with selectors
}

// A nodeKind are nodes of a pool with the same taints.
type nodeKind struct {
	acceptor
	node *cluster.Node // one of them
	kind int
}

// A nodeClass are nodes of the same kind with the same labels, but for labels that only one node has.
type nodeClass struct{ nodeKind }

// add adds what a node can hold.
func (a *acceptor) add(most cluster.Resources, unknown bool) {
	a.most = cluster.Amounts(max(a.most.CPU, most.CPU), max(a.most.Memory, most.Memory))
	a.unknown = a.unknown || unknown
}

// newNodeIndex returns the index of the nodes of a world. names are those of their pools.
func newNodeIndex(w *World, names []string) *nodeIndex {
	x := &nodeIndex{World: w, names: names, owner: map[string]int{}, kindOf: make([]int, len(w.Nodes)), places: map[cluster.Place][]nodeKind{}}
	for i := range w.Nodes {
		for _, label := range w.Nodes[i].Labels {
			if _, known := x.owner[label]; known {
				x.owner[label] = -1
			} else {
				x.owner[label] = i
			}
		}
	}
	kinds, classes := map[string]int{}, map[string]int{}
	var key strings.Builder
	write := func(parts ...string) {
		for _, part := range parts {
			key.WriteString(part)
			key.WriteByte(0)
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		key.Reset()
		write(names[i])
		for _, taint := range n.Taints {
			write(taint.Key, taint.Value, taint.Effect)
		}
		if n.Tainted {
			write("", "tainted")
		}
		kind, known := kinds[key.String()]
		if !known {
			kind = len(x.kinds)
			kinds[key.String()] = kind
			x.kinds = append(x.kinds, nodeKind{acceptor{pool: names[i]}, n, kind})
		}
		x.kindOf[i] = kind
		write("")
		for _, label := range n.Labels {
			if x.owner[label] < 0 {
				write(label)
			}
		}
		at, known := classes[key.String()]
		if !known {
			at = len(x.classes)
			classes[key.String()] = at
			x.classes = append(x.classes, nodeClass{nodeKind{acceptor{pool: names[i]}, n, kind}})
		}
		most, unknown := holdsOf(n)
		x.classes[at].add(most, unknown)
	}
	return x
}

// holdsOf returns what a node can hold, and whether that is not known.
func holdsOf(n *cluster.Node) (cluster.Resources, bool) {
	return n.Allocatable, n.Allocatable.CPU <= 0 || n.Allocatable.Memory <= 0
}

// accepting returns the pools with a node that accepts a pod by its labels and taints, also if the node is not schedulable now.
func (x *nodeIndex) accepting(p *cluster.Pod) []acceptor {
	matching, known := x.places[p.Place]
	if !known {
		matching = x.matching(p.Place)
		x.places[p.Place] = matching
	}
	var out []acceptor
	for i := range matching {
		k := &matching[i]
		if !x.tolerates(k.node, p.Tolerance) {
			continue
		}
		at, known := slices.BinarySearchFunc(out, k.pool, func(a acceptor, name string) int { return strings.Compare(a.pool, name) })
		if !known {
			out = slices.Insert(out, at, acceptor{pool: k.pool})
		}
		out[at].add(k.most, k.unknown)
	}
	return out
}

// matching returns the nodes of each kind that a place selects. A kind without such a node is not among them.
func (x *nodeIndex) matching(place cluster.Place) []nodeKind {
	var s cluster.NodeSelector
	if i := int(place) - int(cluster.Selected); i >= len(x.Selectors) {
		return nil
	} else if i >= 0 {
		s = x.Selectors[i]
	}
	found := map[int]*nodeKind{}
	add := func(n *cluster.Node, kind int, most cluster.Resources, unknown bool) {
		x.compared++
		if !n.Matches(s) {
			return
		}
		if found[kind] == nil {
			found[kind] = &nodeKind{acceptor{pool: x.kinds[kind].pool}, n, kind}
		}
		found[kind].add(most, unknown)
	}
	addNode := func(i int) {
		most, unknown := holdsOf(&x.Nodes[i])
		add(&x.Nodes[i], x.kindOf[i], most, unknown)
	}
	only := -1
	one := false
	for _, label := range s.Labels {
		owner, exists := x.owner[label]
		if !exists {
			return nil
		}
		if owner >= 0 {
			only, one = owner, true
		}
	}
	switch {
	case one:
		addNode(only)
	case len(s.Terms) > 0:
		for i := range x.Nodes {
			addNode(i)
		}
	default:
		for i := range x.classes {
			c := &x.classes[i]
			add(c.node, c.kind, c.most, c.unknown)
		}
	}
	out := make([]nodeKind, 0, len(found))
	for i := range x.kinds {
		if k := found[i]; k != nil {
			out = append(out, *k)
		}
	}
	return out
}

// tolerates reports whether pods with a tolerance may run on a node in spite of its taints.
func (x *nodeIndex) tolerates(n *cluster.Node, t cluster.Tolerance) bool {
	if !n.Tainted || t == cluster.AnyTaint {
		return true
	}
	i := int(t) - int(cluster.FirstListed)
	return i >= 0 && i < len(x.Tolerations) && x.Tolerations[i].Tolerate(n.Taints)
}
