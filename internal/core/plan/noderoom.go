// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// rooms is the room on all nodes.
type rooms struct {
	known bool // false: some nodes or pods are not known
	nodes map[string]*nodeRoom
}

// A nodeRoom is the room on one node.
type nodeRoom struct {
	node    *cluster.Node
	pods    []*cluster.Pod
	free    room.Amount // allocatable minus what the pods hold according to the kubelet: room for resizes
	open    room.Amount // allocatable minus what the scheduler counts, which includes resizes that wait: room for new pods
	leaving bool        // a pod terminates
	unknown bool        // a pod has an overhead that is not known
	plan    *room.Plan  // nil if none of its pods needs room, or it was not made
}

// nodeRooms returns the room on all nodes, from one look at all pods.
func (s *pass) nodeRooms() *rooms {
	if s.rooms != nil {
		return s.rooms
	}
	s.rooms = &rooms{known: len(s.w.Pods) > 0 && len(s.w.Nodes) > 0}
	if !s.rooms.known {
		return s.rooms
	}
	s.rooms.nodes = make(map[string]*nodeRoom, len(s.w.Nodes))
	for i := range s.w.Nodes {
		n := &s.w.Nodes[i]
		s.rooms.nodes[n.Name] = &nodeRoom{node: n, free: room.Of(n.Allocatable), open: room.Of(n.Allocatable)}
	}
	for _, p := range s.w.Pods {
		n := s.rooms.nodes[p.Node]
		if n == nil || p.Phase == cluster.Succeeded || p.Phase == cluster.Failed {
			continue
		}
		n.pods = append(n.pods, p)
		n.free = n.free.Sub(held(p))
		n.open = n.open.Sub(counted(p))
		n.leaving = n.leaving || p.Deleting
		n.unknown = n.unknown || p.Overhead
	}
	return s.rooms
}

// held returns what a pod takes of its node for the kubelet, which has allocated the present requests to a pod whose resize waits.
// While it is not known which requests the kubelet has allocated, it is the larger of the present and the new ones.
func held(p *cluster.Pod) room.Amount {
	waits := p.Resize != nil && (p.Resize.State == cluster.ResizeDeferred || p.Resize.State == cluster.ResizeInfeasible)
	return sumOf(p, waits)
}

// counted returns what the scheduler counts for a pod: the larger of its present and its new requests, unless its node can never
// provide the new ones.
func counted(p *cluster.Pod) room.Amount {
	return sumOf(p, p.Resize != nil && p.Resize.State == cluster.ResizeInfeasible)
}

// sumOf returns the requests of a pod: the present ones, or the larger of those and the ones in the spec.
func sumOf(p *cluster.Pod, present bool) room.Amount {
	spec := room.Of(change.Total(p, nil))
	var fits []policy.Fitted
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Applied != nil && c.Role == cluster.Regular {
			fits = append(fits, policy.Fitted{Container: c.Name, Requests: c.Applied.Requests})
		}
	}
	if fits == nil {
		return spec
	}
	now := room.Of(change.Total(p, fits))
	if present {
		return now
	}
	return room.Amount{CPU: max(now.CPU, spec.CPU), Memory: max(now.Memory, spec.Memory)}
}

// maxSpots bounds the nodes that are considered for the replacement of a pod: those with the most free memory and those with the
// most free CPU.
const maxSpots = 32

// spots are the nodes that may take the pods of one node.
type spots struct {
	rooms  *rooms
	from   *nodeRoom
	others []room.Spot
	index  map[string]int // of others, by node
	byKey  map[nodeKey][]int
}

func newSpots(all *rooms, from *nodeRoom) *spots {
	return &spots{rooms: all, from: from, index: map[string]int{}, byKey: map[nodeKey][]int{}}
}

// candidateFor returns what moving a pod means.
func (s *pass) candidateFor(d *entry, at *spots) *room.Candidate {
	p, t := d.Pod, s.roomCandidate(d)
	c := &room.Candidate{Size: room.Of(change.Total(p, d.With)), DeletionCost: p.DeletionCost, Spots: s.spotsFor(p, at)}
	if t.g != nil {
		c.Ready, c.Wanted = t.g.ready-t.g.spent, t.g.wanted
	}
	if !p.Started.IsZero() && p.ReadySince.After(p.Started) {
		c.StartSeconds = int64(p.ReadySince.Sub(p.Started).Seconds())
	}
	return c
}

// spotsFor returns the indices of the nodes that accept a pod by their labels and taints.
func (s *pass) spotsFor(p *cluster.Pod, at *spots) []int {
	key := nodeKey{p.Place, p.Tolerance}
	if known, ok := at.byKey[key]; ok {
		return known
	}
	var usable []*nodeRoom
	accepts := s.nodeSizes.accepting(key)
	for i := range s.w.Nodes {
		n := &s.w.Nodes[i]
		if r := at.rooms.nodes[n.Name]; r != at.from && n.Ready && !n.Cordoned && !r.unknown && accepts(n) {
			usable = append(usable, r)
		}
	}
	byName := func(a, b *nodeRoom) int { return cmp.Compare(a.node.Name, b.node.Name) }
	slices.SortFunc(usable, func(a, b *nodeRoom) int { return cmp.Or(cmp.Compare(b.open.Memory, a.open.Memory), byName(a, b)) })
	most := slices.Clone(usable[:min(len(usable), maxSpots/2)])
	rest := usable[len(most):]
	slices.SortFunc(rest, func(a, b *nodeRoom) int { return cmp.Or(cmp.Compare(b.open.CPU, a.open.CPU), byName(a, b)) })
	most = append(most, rest[:min(len(rest), maxSpots/2)]...)
	slices.SortFunc(most, byName)
	out := make([]int, 0, len(most))
	for _, r := range most {
		i, known := at.index[r.node.Name]
		if !known {
			i = len(at.others)
			at.index[r.node.Name] = i
			at.others = append(at.others, room.Spot{Node: r.node.Name, Free: r.open})
		}
		out = append(out, i)
	}
	at.byKey[key] = out
	return out
}
