// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
)

// A Pool is a group of nodes of the same kind.
type Pool struct {
	Name    string
	Label   string // the label that names the pool; "" if the nodes have none of the known ones
	Nodes   int
	Ready   int // ready nodes that accept new pods
	Totals  Totals
	Largest cluster.Resources // free amounts of the node with the most free memory among those with free CPU
	OnNode  string            // that node
}

// otherNodes is the pool of nodes without such a label.
const otherNodes = "all other nodes"

func poolName(n *cluster.Node) (name, label string) {
	if name, label = n.Pool(); name != "" {
		return name, label
	}
	return otherNodes, ""
}

// poolsOf returns the pools, sorted by name.
func poolsOf(w *World, used map[place]cluster.Resources) []Pool {
	requested := make(map[string]*Totals, len(w.Nodes))
	for i := range w.Nodes {
		requested[w.Nodes[i].Name] = new(Totals)
	}
	for _, p := range w.Snapshot.Pods {
		t := requested[p.Node]
		if t == nil || !p.Live() {
			continue
		}
		t.Requested = t.Requested.Add(review.RequestsOf(p, nil))
		for i := range p.Containers {
			t.Used = t.Used.Add(used[place{p.Key, p.Containers[i].Name}])
		}
	}
	pools := make(map[string]*Pool)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		name, label := poolName(n)
		pool := pools[label+"="+name]
		if pool == nil {
			pool = &Pool{Name: name, Label: label}
			pools[label+"="+name] = pool
		}
		pool.add(n, requested[n.Name])
	}
	out := make([]Pool, 0, len(pools))
	for _, pool := range slices.SortedFunc(maps.Values(pools), func(a, b *Pool) int { return strings.Compare(a.Name+" "+a.Label, b.Name+" "+b.Label) }) {
		out = append(out, *pool)
	}
	if len(out) == 1 && out[0].Label == "" {
		out[0].Name = "all nodes"
	}
	return out
}

// add counts a node.
func (p *Pool) add(n *cluster.Node, t *Totals) {
	p.Nodes++
	p.Totals.add(t)
	p.Totals.Capacity = p.Totals.Capacity.Add(n.Allocatable)
	if !n.Ready || n.Cordoned {
		return
	}
	p.Ready++
	free := cluster.Amounts(max(n.Allocatable.CPU-t.Requested.CPU, 0), max(n.Allocatable.Memory-t.Requested.Memory, 0))
	if free.CPU > 0 && free.Memory > p.Largest.Memory {
		p.Largest = free
		p.OnNode = n.Name
	}
}
