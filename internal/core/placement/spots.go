// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

// maxSpots bounds the nodes that are considered for the replacement of a pod: those with the most free memory and those with the
// most free CPU.
const maxSpots = 32

// Spots are the nodes that may take the pods of one node.
type Spots struct {
	All []room.Spot

	rooms *Rooms
	from  *Room
	index map[string]int // of All, by node
	byKey map[Key][]int
}

// Beside returns the spots for the pods of a node. It has none before For.
func (r *Rooms) Beside(from *Room) *Spots {
	return &Spots{rooms: r, from: from, index: map[string]int{}, byKey: map[Key][]int{}}
}

// Visits returns how many nodes were looked at.
func (s *Spots) Visits() int { return len(s.byKey) * len(s.rooms.Nodes) }

// For returns the indices of the nodes that accept a pod by their labels and taints.
func (s *Spots) For(p *cluster.Pod) []int {
	key := KeyOf(p)
	if known, ok := s.byKey[key]; ok {
		return known
	}
	var usable []*Room
	for _, r := range s.rooms.Usable(key) {
		if r != s.from && !r.Unknown {
			usable = append(usable, r)
		}
	}
	byName := func(a, b *Room) int { return cmp.Compare(a.Node.Name, b.Node.Name) }
	slices.SortFunc(usable, func(a, b *Room) int { return cmp.Or(cmp.Compare(b.Open.Memory, a.Open.Memory), byName(a, b)) })
	most := slices.Clone(usable[:min(len(usable), maxSpots/2)])
	rest := usable[len(most):]
	slices.SortFunc(rest, func(a, b *Room) int { return cmp.Or(cmp.Compare(b.Open.CPU, a.Open.CPU), byName(a, b)) })
	most = append(most, rest[:min(len(rest), maxSpots/2)]...)
	slices.SortFunc(most, byName)
	out := make([]int, 0, len(most))
	for _, r := range most {
		i, known := s.index[r.Node.Name]
		if !known {
			i = len(s.All)
			s.index[r.Node.Name] = i
			s.All = append(s.All, room.Spot{Node: r.Node.Name, Free: r.Open})
		}
		out = append(out, i)
	}
	s.byKey[key] = out
	return out
}
