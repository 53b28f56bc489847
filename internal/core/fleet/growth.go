// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "podfit.dev/podfit/internal/core/cluster"

// A Growth counts the nodes that must be added for the pods of one pass, which share what groups of nodes can add. It is not safe for concurrent use.
type Growth struct {
	fleet     *Fleet
	used      []float64               // of each of Fleet.added: the part of what its group can add on which pods rely
	parts     map[string]addition     // by UID of the pod
	accepting map[cluster.Reach][]int // cache of acceptingFor
}

// An addition is the part of what a group can add that a pod needs, from 0 to 1. group is an index of Fleet.added.
type addition struct {
	group int
	part  float64
}

// NewGrowth returns the growth of a fleet without pods. No node can be added to a nil fleet.
func NewGrowth(f *Fleet) *Growth {
	if f == nil {
		f = &Fleet{}
	}
	return &Growth{fleet: f, used: make([]float64, len(f.added)), parts: map[string]addition{}}
}

// CanAdd reports whether a node can be added for a pod with the given requests, beside those on which other pods rely. now is false if it could only if
// its group was not at its maximum.
func (g *Growth) CanAdd(p *cluster.Pod, requests cluster.Resources) (now, ever bool) {
	at, ever := g.find(p, requests)
	return at.group >= 0, ever
}

// Take counts a node for a pod with the given requests, if one can be added.
func (g *Growth) Take(p *cluster.Pod, requests cluster.Resources) {
	at, _ := g.find(p, requests)
	g.Release(p)
	if at.group >= 0 {
		g.used[at.group] += at.part
		g.parts[p.UID] = at
	}
}

// Release returns what was counted for a pod.
func (g *Growth) Release(p *cluster.Pod) {
	if own, counted := g.parts[p.UID]; counted {
		g.used[own.group] -= own.part
		delete(g.parts, p.UID)
	}
}

// find returns the smallest addition for a pod, whatever the order of the groups. Its group is -1 if no node can be added now.
func (g *Growth) find(p *cluster.Pod, requests cluster.Resources) (at addition, ever bool) {
	const whole = 1 + 1e-9 // sums of parts are rounded
	at = addition{-1, whole}
	own := g.parts[p.UID]
	for _, i := range g.acceptingFor(p) {
		n := &g.fleet.added[i]
		if requests.CPU > n.left.CPU || requests.Memory > n.left.Memory {
			continue
		}
		ever = true
		used := g.used[i]
		if own.group == i {
			used -= own.part
		}
		part := n.part(requests)
		if n.group.BackedOff || used+part > whole {
			continue
		}
		if part < at.part || part == at.part && n.group.Name < g.fleet.added[at.group].group.Name {
			at = addition{i, part}
		}
	}
	return at, ever
}

// acceptingFor returns the indices of Fleet.added that are known to accept a pod by their labels and taints. A pod of a DaemonSet stays on its node.
func (g *Growth) acceptingFor(p *cluster.Pod) []int {
	if p.Controller.Kind == "DaemonSet" {
		return nil
	}
	return cluster.Memo(&g.accepting, p.Reach(), func() (out []int) {
		selector, isPlaceKnown := cluster.SelectorOf(g.fleet.config.Selectors, p.Place)
		tolerations, known := cluster.TolerationsOf(g.fleet.config.Tolerations, p.Tolerance)
		for i, n := range g.fleet.added {
			isSelected := n.like == nil || n.like.Matches(selector) && tolerations.Tolerate(n.like.Taints)
			if isPlaceKnown && known && isSelected && tolerations.Tolerate(n.Taints) {
				out = append(out, i)
			}
		}
		return out
	})
}

// part returns the part of what the group can add that a pod needs: one of as many as could be added if all were like it.
func (n *node) part(requests cluster.Resources) float64 {
	const most = 1 << 30 // pods on a node, if its size is not bounded
	perNode := min(n.left.CPU/max(requests.CPU, 1), n.left.Memory/max(requests.Memory, 1), most)
	group := *n.group
	group.More *= int(perNode)
	return 1 / float64(max(group.Addable(requests), 0))
}
