// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet determines how large a pod can be on the nodes of a cluster, and on those that can be added to it. Node selectors, affinities,
// taints and the pods of DaemonSets count; the pods that run on a node do not: the size of a pod must not change with its neighbours.
//
// Package policy bounds the size of a pod by the result, and package plan asks whether a node can be added.
package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// Sizes are the sizes of the nodes that may take a pod: allocatable minus the pods of DaemonSets. None of them is smaller than
// another one in both resources. CPU falls, memory rises. If there are none, the nodes are unknown or not bounded.
type Sizes struct{ Largest []cluster.Resources }

// Hold reports whether a pod with the given requests fits on one of the nodes. It is true if the nodes are unknown.
func (n *Sizes) Hold(requests cluster.Resources) bool {
	return n == nil || len(n.Largest) == 0 ||
		slices.ContainsFunc(n.Largest, func(size cluster.Resources) bool { return requests.CPU <= size.CPU && requests.Memory <= size.Memory })
}

// Memory returns the memory of the node that has the most; 0 if none is known.
func (n *Sizes) Memory() int64 {
	if n == nil || len(n.Largest) == 0 {
		return 0
	}
	return n.Largest[len(n.Largest)-1].Memory
}

// Config is the input of New.
type Config struct {
	Nodes       []cluster.Node
	Daemons     []cluster.Daemon
	Selectors   []cluster.NodeSelector // of pods, from cluster.Selected on (Pod.Place)
	Tolerations []cluster.Tolerations  // tolerations of pods, from cluster.FirstListed on (Pod.Tolerance)

	// New are the nodes that an autoscaler of the cluster can add.
	New []cluster.NewNode

	// Unscaled is true if pods are not scaled down to the nodes. Then Of and For return nil.
	Unscaled bool
}

// A Fleet contains the sizes of the nodes of a cluster, and of those that can be added to it. Readiness is ignored: it changes often,
// and a request must not change with it. Cordoned nodes do not count. Of is not safe for concurrent use, the other methods are.
type Fleet struct {
	config Config
	nodes  []node
	byName map[string]int
	added  []node
	sizes  map[cluster.Reach]*Sizes // cache of Of
}

// A node is a node and what DaemonSets leave of it.
type node struct {
	*cluster.Node
	left  cluster.Resources
	group *cluster.NodeGroup // of a node that can be added
	like  *cluster.Node      // its labels and taints decide for which pods the node is added; nil: they are not known
}

// New returns the fleet of a cluster.
func New(c Config) *Fleet {
	f := &Fleet{config: c, byName: make(map[string]int, len(c.Nodes))}
	members := map[string]*cluster.Node{} // the first node of each group by name
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Allocatable.CPU <= 0 || n.Allocatable.Memory <= 0 {
			continue // the kubelet has not reported its size yet
		}
		f.byName[n.Name] = len(f.nodes)
		f.nodes = append(f.nodes, node{Node: n, left: left(n, c.Daemons, cluster.Key{})})
		if member := members[n.Group]; n.Group != "" && (member == nil || n.Name < member.Name) {
			members[n.Group] = n
		}
	}
	for i := range c.New {
		if a := &c.New[i]; !a.Unsized {
			unbounded := cluster.Amounts(math.MaxInt64, math.MaxInt64)
			n := &cluster.Node{Allocatable: a.Size.Or(unbounded), Taints: a.Taints}
			f.added = append(f.added, node{n, left(n, c.Daemons, cluster.Key{}), &a.NodeGroup, likeOf(a, members[a.Name])})
		}
	}
	return f
}

// likeOf returns what a cluster autoscaler compares with pods: a node of the group, or else what the group declares; nil if it declares no labels.
func likeOf(a *cluster.NewNode, member *cluster.Node) *cluster.Node {
	switch {
	case a.Labels == nil:
		return nil
	case member == nil:
		return &cluster.Node{Labels: a.Labels}
	}
	isOwn := func(label string) bool { return strings.HasPrefix(label, "kubernetes.io/hostname=") }
	return &cluster.Node{Labels: slices.DeleteFunc(slices.Clone(member.Labels), isOwn), Taints: member.Taints}
}

// left returns the allocatable amounts of a node minus the requests of its DaemonSet pods, except those of one DaemonSet.
func left(n *cluster.Node, daemons []cluster.Daemon, except cluster.Key) cluster.Resources {
	out := cluster.Amounts(n.Allocatable.CPU, n.Allocatable.Memory)
	for i := range daemons {
		if d := &daemons[i]; d.Key != except && d.RunsOn(n) {
			out = cluster.Amounts(max(out.CPU-d.Requests.CPU, 0), max(out.Memory-d.Requests.Memory, 0))
		}
	}
	return out
}

// Of returns the sizes of the nodes that may take a pod. A pod of a DaemonSet stays on its node. For other pods, node selector, required
// node affinity and tolerations count.
func (f *Fleet) Of(p *cluster.Pod) *Sizes {
	if f.config.Unscaled {
		return nil
	}
	if p.Controller.Kind == "DaemonSet" { // of any API group, as in the webhook
		return f.OnNode(p.Node, cluster.Key{Namespace: p.Controller.Namespace, Name: p.Controller.Name})
	}
	return cluster.Memo(&f.sizes, p.Reach(), func() *Sizes {
		selector, _ := cluster.SelectorOf(f.config.Selectors, p.Place) // nothing is required by one that is not known
		tolerations, known := cluster.TolerationsOf(f.config.Tolerations, p.Tolerance)
		anyTaint := !known && p.Tolerance != cluster.Unlisted // of unlisted ones none is known, so that the size is not larger than in the webhook
		return f.For(selector, tolerations, anyTaint)
	})
}

// fullNode is the share of its node from which a pod counts as scaled down to it. The DaemonSets of the node may have changed since.
const fullNode = 0.9

// HoldsBack reports whether a pod has almost all that its node can give to a pod, and the requests that it should have fit only on a larger node,
// which exists. A nil fleet holds none back.
func (f *Fleet) HoldsBack(p *cluster.Pod, has, wants cluster.Resources) bool {
	if f == nil || f.config.Unscaled {
		return false
	}
	i, known := f.byName[p.Node]
	if !known {
		return false
	}
	left := f.nodes[i].left
	for _, res := range cluster.All {
		isFull := float64(has.Amount(res)) >= fullNode*float64(left.Amount(res))
		if isFull && wants.Amount(res) > left.Amount(res) && wants.Amount(res) > has.Amount(res) {
			sizes := f.Of(p)
			return sizes != nil && len(sizes.Largest) > 0 && sizes.Hold(wants)
		}
	}
	return false
}

// OnNode returns the size of the node that a pod of a DaemonSet runs on, without the pod itself.
func (f *Fleet) OnNode(node string, daemon cluster.Key) *Sizes {
	if f.config.Unscaled {
		return nil
	}
	i, known := f.byName[node]
	if !known {
		return &Sizes{}
	}
	return &Sizes{Largest: []cluster.Resources{left(f.nodes[i].Node, f.config.Daemons, daemon)}}
}

// For returns the sizes of the nodes that accept a pod by their labels, names and taints. If no existing node does, the nodes for the
// pod are unknown, unless nodes can be added.
func (f *Fleet) For(selector cluster.NodeSelector, tolerations cluster.Tolerations, anyTaint bool) *Sizes {
	if f.config.Unscaled {
		return nil
	}
	var usable []cluster.Resources
	for i := range f.nodes {
		if n := &f.nodes[i]; !n.Cordoned && n.Matches(selector) && (anyTaint || tolerations.Tolerate(n.Taints)) {
			usable = append(usable, n.left)
		}
	}
	for i := range f.added {
		if n := &f.added[i]; anyTaint || tolerations.Tolerate(n.Taints) {
			usable = append(usable, n.left)
		}
	}
	return &Sizes{Largest: Largest(usable)}
}

// Largest sorts sizes, and returns those that are not smaller than another one in both resources. CPU falls, memory rises.
func Largest(sizes []cluster.Resources) []cluster.Resources {
	slices.SortFunc(sizes, func(a, b cluster.Resources) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory))
	})
	var out []cluster.Resources
	for _, n := range sizes {
		if len(out) == 0 || n.Memory > out[len(out)-1].Memory {
			out = append(out, n)
		}
	}
	return out
}
