// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// Rooms are the room on all nodes.
type Rooms struct {
	Known bool             // false: some nodes or pods are not known
	Nodes map[string]*Room // by name

	sizes  *Sizes
	usable map[cluster.Reach][]*Room // nodes that accept new pods, by name
	full   map[roomKey]bool          // what no node has room for; the room on nodes only shrinks while it is given away
}

// A roomKey identifies replacements that have room on the same nodes.
type roomKey struct {
	nodes cluster.Reach
	size  room.Amount
}

// A Room is the room on one node.
type Room struct {
	Node    *cluster.Node
	Pods    []*cluster.Pod
	Free    room.Amount // allocatable minus what the pods hold according to the kubelet: room for resizes
	Open    room.Amount // allocatable minus what the scheduler counts, which includes resizes that wait: room for new pods
	Leaving bool        // a pod terminates
	Unknown bool        // a pod has an overhead that is not known
	Slots   int         // how many pods more the node may have
}

// RoomsOf returns the room on all nodes, from one look at all pods. Without nodes or pods, it is not known.
func RoomsOf(nodes []cluster.Node, pods []*cluster.Pod, s *Sizes) *Rooms {
	r := &Rooms{Known: len(pods) > 0 && len(nodes) > 0, sizes: s, full: map[roomKey]bool{}}
	if !r.Known {
		return r
	}
	r.Nodes = make(map[string]*Room, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		r.Nodes[n.Name] = &Room{Node: n, Free: room.Of(n.Allocatable), Open: room.Of(n.Allocatable), Slots: cmp.Or(n.MaxPods, math.MaxInt32)}
	}
	for _, p := range pods {
		n := r.Nodes[p.Node]
		if n == nil || p.HasFinished() {
			continue
		}
		n.Pods = append(n.Pods, p)
		n.Slots--
		n.Free = n.Free.Sub(Held(p))
		n.Open = n.Open.Sub(Counted(p))
		n.Leaving = n.Leaving || p.Deleting
		n.Unknown = n.Unknown || p.Overhead
	}
	return r
}

// Take reserves room for the replacement of a pod on a node that has it: its own one, where the room of the pod itself counts, because the
// eviction frees it, or else another one that is known to accept it. It returns false if no node has room.
func (r *Rooms) Take(p *cluster.Pod, size room.Amount) bool {
	key := roomKey{p.Reach(), size}
	if n := r.Nodes[p.Node]; n != nil && n.Node.TakesPods() && r.sizes.MayReturn(p, n.Node) {
		open := n.Open.Add(Counted(p))
		if open.Holds(size) {
			n.Open = n.Open.Sub(Counted(p).Lacking(size)) // what becomes free is not given to others before the pod is gone
			return true
		}
	}
	if p.Tied || r.full[key] {
		return false
	}
	for _, n := range r.Usable(key.nodes) {
		if n.Node.Name != p.Node && n.Slots > 0 && n.Open.Holds(size) {
			n.Open = n.Open.Sub(size)
			n.Slots--
			return true
		}
	}
	r.full[key] = true
	return false
}

// How long a new pod is expected to wait for its node.
const (
	schedulable = 2 * time.Minute  // if it exists
	addable     = 10 * time.Minute // if it is added
)

// TakeForNew reserves room for the new pods that have no node yet, to which the scheduler gives it first.
func (r *Rooms) TakeForNew(now time.Time, pods []*cluster.Pod) {
	for _, p := range waiting(pods, now.Add(-schedulable)) {
		r.Take(p, Counted(p))
	}
}

// waiting returns the pods without a node that were created after a time, in the order of the scheduler.
func waiting(pods []*cluster.Pod, after time.Time) []*cluster.Pod {
	var out []*cluster.Pod
	for _, p := range pods {
		if p.Node == "" && p.Live() && !p.Placeholder && (p.Marks == nil || !p.Marks.Gated) && p.Created.After(after) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), a.Key.Compare(b.Key))
	})
	return out
}

// Usable returns the nodes that take new pods, and accept a pod by their labels and taints, by name.
func (r *Rooms) Usable(key cluster.Reach) []*Room {
	return cluster.Memo(&r.usable, key, func() (out []*Room) {
		accepts, _ := r.sizes.Accepting(key)
		for _, n := range r.Nodes {
			if n.Node.TakesPods() && accepts(n.Node) {
				out = append(out, n)
			}
		}
		slices.SortFunc(out, func(a, b *Room) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
		return out
	})
}

// maxSpots bounds the nodes that are considered for the replacement of a pod: those with the most free memory and those with the
// most free CPU.
const maxSpots = 32

// Spots are the nodes that may take the pods of one node.
type Spots struct {
	All []room.Spot

	rooms *Rooms
	from  *Room
	index map[string]int // of All, by node
	byKey map[cluster.Reach][]int
}

// Beside returns the spots for the pods of a node. It has none before For.
func (r *Rooms) Beside(from *Room) *Spots {
	return &Spots{rooms: r, from: from}
}

// Visits returns how many nodes were looked at.
func (s *Spots) Visits() int { return len(s.byKey) * len(s.rooms.Nodes) }

// For returns the indices of the nodes that accept a pod by their labels and taints.
func (s *Spots) For(p *cluster.Pod) []int {
	key := p.Reach()
	return cluster.Memo(&s.byKey, key, func() []int {
		usable := slices.DeleteFunc(slices.Clone(s.rooms.Usable(key)), func(r *Room) bool { return r == s.from || r.Unknown || r.Slots <= 0 })
		byName := func(a, b *Room) int { return cmp.Compare(a.Node.Name, b.Node.Name) }
		slices.SortFunc(usable, func(a, b *Room) int { return cmp.Or(cmp.Compare(b.Open.Memory, a.Open.Memory), byName(a, b)) })
		most := slices.Clone(usable[:min(len(usable), maxSpots/2)])
		rest := usable[len(most):]
		slices.SortFunc(rest, func(a, b *Room) int { return cmp.Or(cmp.Compare(b.Open.CPU, a.Open.CPU), byName(a, b)) })
		most = append(most, rest[:min(len(rest), maxSpots/2)]...)
		slices.SortFunc(most, byName)
		out := make([]int, 0, len(most))
		for _, r := range most {
			out = append(out, cluster.Memo(&s.index, r.Node.Name, func() int {
				s.All = append(s.All, room.Spot{Node: r.Node.Name, Free: r.Open})
				return len(s.All) - 1
			}))
		}
		return out
	})
}

// Held returns what a pod takes of its node for the kubelet, which has allocated the present requests to a pod whose resize waits.
// While it is not known which requests the kubelet has allocated, it is the larger of the present and the new ones.
func Held(p *cluster.Pod) room.Amount {
	waits := p.Resize != nil && (p.Resize.State == cluster.ResizeDeferred || p.Resize.State == cluster.ResizeInfeasible)
	return Sum(p, waits)
}

// Counted returns what the scheduler counts for a pod: the larger of its present and its new requests, unless its node can never
// provide the new ones.
func Counted(p *cluster.Pod) room.Amount {
	return Sum(p, p.Resize != nil && p.Resize.State == cluster.ResizeInfeasible)
}

// Sum returns the requests of a pod. If present is true, these are the ones with which it runs; otherwise, each is the larger of that and the one
// in the spec.
func Sum(p *cluster.Pod, present bool) room.Amount {
	spec := room.Of(change.Total(p, nil))
	var fits []policy.Fitted
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Applied != nil && c.IsSized() {
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
