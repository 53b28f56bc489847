// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

// The bounds of a search, in comparisons of a pod with a node. The work for a pod does not grow with the number of nodes.
const (
	maxSpots    = 256    // nodes that are considered for a pod: those with the most free room, of the resource of which they have less
	tryVisits   = 50_000 // for the pods of one node at a time
	mostDetours = 8      // moves in addition to those that are necessary at least
)

// A search looks for moves that empty a node or make room on it. No pod moves to that node. Pods of other nodes move first: what they free is there
// before the pods of the node need it.
type search struct {
	*Input
	sites  []site // of Nodes, with the moves so far
	spots  map[cluster.Reach][]int
	unused map[cluster.Reach]string // a node without pods, for pods with spots
	node   int
	want   room.Amount // room on the node; zero: all pods leave it
	items  []*item     // pods of the node that may leave it, the largest first
	others []*item     // pods that may move, also of other nodes
	moves  []Move      // that were found, the last one first
	visits int
	limit  int
	cut    bool // a search ended at its limit
	some   bool // not all nodes were considered for each pod (maxSpots)
}

// A site is a node and what is free on it.
type site struct {
	*placement.Room
	free  room.Amount
	slots int     // further pods
	own   []*item // pods without those of DaemonSets and static pods, the largest first; on a node without any, none starts
	holds []Hold
}

// An item is a pod on a node.
type item struct {
	*cluster.Pod
	size  room.Amount
	next  room.Amount // after a move there or back
	node  int
	moves bool
}

func newSearch(in *Input) *search {
	s := &search{Input: in, unused: map[cluster.Reach]string{}}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		r := in.Rooms.Nodes[n.Name]
		at := site{Room: r, free: r.Open, slots: r.Slots, holds: []Hold{}}
		for _, p := range r.Pods {
			if p.Deleting || p.Static || p.Controller.Kind == "DaemonSet" {
				continue
			}
			size := placement.Counted(p)
			at.own = append(at.own, &item{p, size, size.Add(size.Lacking(in.Sizes[p.Key])), i, s.mayMove(p)})
			if h := s.holdOf(p, false); h.Cause != "" {
				h.Pod = p.String()
				cluster.FindOrAdd(&at.holds, func(o *Hold) bool { return o.Message == h.Message }, h).Pods++
			}
		}
		if n.Kept {
			at.holds = append(at.holds, nodeProtected)
		}
		slices.SortFunc(at.own, func(a, b *item) int {
			return cmp.Or(larger(a.size, b.size, n), cmp.Compare(a.Priority, b.Priority), a.Compare(b.Key))
		})
		s.sites = append(s.sites, at)
	}
	return s
}

// shares returns the parts of the CPU and of the memory of a node that an amount takes.
func shares(a room.Amount, n *cluster.Node) (cpu, memory float64) {
	return float64(a.CPU) / float64(max(n.Allocatable.CPU, 1)), float64(a.Memory) / float64(max(n.Allocatable.Memory, 1))
}

// share returns the larger one.
func share(a room.Amount, n *cluster.Node) float64 { return max(shares(a, n)) }

// larger orders amounts, the larger part of a node first.
func larger(a, b room.Amount, n *cluster.Node) int {
	return cmp.Or(cmp.Compare(share(b, n), share(a, n)), cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory))
}

// holdOf returns why an autoscaler does not evict a pod; no cause if it does. Its own rules do not apply if strict is true.
func (s *search) holdOf(p *cluster.Pod, strict bool) Hold {
	marks := cmp.Or(p.Marks, &cluster.Marks{})
	safe := marks.Evictable && !strict
	labels := strings.Split(marks.Labels, ",")
	budgets := cluster.Selecting(s.Budgets[p.Namespace], labels)
	avoided := func(s cluster.Selector) bool { return s.Matches(labels) }
	refused := len(budgets) > 1 || len(budgets) == 1 && budgets[0].Healthy <= budgets[0].Desired // the API server refuses if several select the pod
	switch {
	case p.IsProtected():
		return Hold{Cause: protected.Cause, Message: protected.Message + marks.Protection}
	case p.Controller.IsZero() && !safe:
		return noController
	case p.LocalData && !safe:
		return localStorage
	case p.Tied || p.Overhead || p.Place == cluster.Somewhere || p.Tolerance >= cluster.Unlisted || slices.ContainsFunc(slices.Concat(s.Avoided[p.Namespace], s.Avoided[""]), avoided):
		return constraints
	case s.Budgets == nil && !strict, len(budgets) > 0 && !budgets[0].Current:
		return budgetsUnknown
	case refused:
		return Hold{Cause: noEviction.Cause, Message: noEviction.Message + budgets[0].Name}
	case p.Namespace == "kube-system" && len(budgets) == 0 && !safe && !strict:
		return systemPod
	}
	return Hold{}
}

// mayMove reports whether a pod may be evicted by the rules of the updater. Pods whose priority is reserved for Kubernetes stay.
func (s *search) mayMove(p *cluster.Pod) bool {
	g := s.Groups[p.Controller]
	return s.holdOf(p, true).Cause == "" && p.Priority <= 1_000_000_000 && p.Controller.Kind != "Job" && p.Phase == cluster.Running && p.Ready &&
		!p.IsResizing() && !p.IsBoosted() && g != nil && g.Known && !g.Below && g.MayChange(disruption.Serving)
}

// fewest returns the fewest moves that free one of the nodes or, if want is not zero, make room on it.
func (s *search) fewest(nodes []int, want room.Amount) (best Plan) {
	type start struct{ node, least int }
	var starts []start
	s.others = nil
	untainted := slices.ContainsFunc(nodes, func(i int) bool { return !s.Nodes[i].Tainted })
	for _, i := range nodes {
		s.begin(i, want, 0)
		s.others = append(s.others, s.items...)
		if least := s.least(0); s.isAim(&s.sites[i], least, untainted) {
			starts = append(starts, start{i, least})
		}
	}
	slices.SortStableFunc(starts, func(a, b start) int { return cmp.Compare(a.least, b.least) })
	s.cut = false
	end := s.visits + tryVisits*(len(nodes)/2+50)
	for more := range mostDetours + 1 {
		for _, c := range starts {
			if best.Node != "" && c.least+more >= len(best.Moves) || more > 0 && s.Waiting {
				break
			}
			s.begin(c.node, want, min(tryVisits, end-s.visits))
			if s.solve(0, more, c.least+more) {
				slices.Reverse(s.moves)
				best = Plan{Node: s.Nodes[c.node].Name, Moves: s.moves}
				for _, m := range s.moves {
					best.Unused = cmp.Or(best.Unused, s.unused[m.Of.Reach()])
				}
			}
		}
	}
	best.Proven = len(starts) == 0 || best.Node != "" && (len(best.Moves) <= starts[0].least || !s.cut && !s.some && starts[0].least+mostDetours+1 >= len(best.Moves))
	return best
}

// isAim reports whether a node may be freed or get room: the node of the search, after begin. At least a number of pods must leave it.
func (s *search) isAim(at *site, least int, untainted bool) bool {
	asked := s.Input.Node == at.Node.Name
	switch {
	case s.Input.Node != "" && !asked:
		return false
	case s.want == (room.Amount{}):
		return least > 0 && least == len(at.own)
	}
	return (at.Node.TakesPods() || asked) && !at.Unknown && !(untainted && at.Node.Tainted) && least <= len(s.items)
}

// begin starts a search for moves of pods from a node that ends after a number of visits.
func (s *search) begin(node int, want room.Amount, visits int) {
	s.node = node
	s.items = slices.DeleteFunc(slices.Clone(s.sites[node].own), func(it *item) bool { return !it.moves })
	s.want = want
	s.moves = []Move{}
	s.limit = s.visits + visits
}

// solve reports whether at most a number of moves reach the aim: of pods of the node from an index on and, before the first of them, of some others.
func (s *search) solve(i, others, most int) bool {
	least := s.least(i)
	if least == 0 || least > min(most, len(s.items)-i) {
		return least == 0
	}
	if s.visits > s.limit {
		s.cut = true
		return false
	}
	if s.try(s.items[i], i+1, 0, most-1) {
		return true
	}
	for k := 0; others > 0 && least < most && k < len(s.others) && s.visits <= s.limit; k++ {
		if it := s.others[k]; it.node != s.node && it.Node == s.Nodes[it.node].Name && s.try(it, 0, others-1, most-1) {
			return true
		}
	}
	next := i + 1 // after pods like this one, which would not help either
	for next < len(s.items) && s.items[next].size == s.items[i].size && s.items[next].next == s.items[i].next && s.items[next].Reach() == s.items[i].Reach() {
		next++
	}
	return s.want != (room.Amount{}) && s.solve(next, 0, most)
}

// try moves a pod, and goes on with the pods of the node from an index on.
func (s *search) try(it *item, i, others, most int) bool {
	from := it.node
	for _, to := range s.options(it) {
		s.move(it, to)
		found := s.solve(i, others, most)
		s.move(it, from)
		if found {
			s.moves = append(s.moves, Move{it.String(), s.Nodes[from].Name, s.Nodes[to].Name, it.next, it.Pod})
			return true
		}
	}
	return false
}

// least returns how many pods from an index on must leave the node at least. It is more than there are if that is not enough.
func (s *search) least(i int) int {
	if s.want == (room.Amount{}) {
		return len(s.items) - i
	}
	at := &s.sites[s.node]
	lack := at.free.Lacking(s.want)
	largest := room.Amount{CPU: 1, Memory: 1}
	var sum room.Amount
	for _, it := range s.items[i:] {
		largest = room.Amount{CPU: max(largest.CPU, it.size.CPU), Memory: max(largest.Memory, it.size.Memory)}
		sum = sum.Add(it.size)
	}
	if !sum.Holds(lack) {
		return math.MaxInt32
	}
	return max(0, 1-at.slots, int((lack.CPU+largest.CPU-1)/largest.CPU), int((lack.Memory+largest.Memory-1)/largest.Memory))
}

// options returns the nodes that accept a pod and have room for it, those with the least room first.
func (s *search) options(it *item) (out []int) {
	spots := cluster.Memo(&s.spots, it.Reach(), func() []int { return s.spotsOf(it.Reach()) })
	s.visits += 1 + len(spots)
	for _, i := range spots {
		if at := &s.sites[i]; i != s.node && i != it.node && at.slots > 0 && at.free.Holds(it.next) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(larger(s.sites[b].free, s.sites[a].free, s.sites[a].Node), cmp.Compare(a, b))
	})
	return out
}

// spotsOf returns the nodes on which pods may start.
func (s *search) spotsOf(reach cluster.Reach) (out []int) {
	usable := cluster.SetOf(s.Rooms.Usable(reach), func(r *placement.Room) *placement.Room { return r })
	for i := range s.sites {
		switch at := &s.sites[i]; {
		case !usable[at.Room] || at.Unknown:
		case len(at.own) == 0:
			s.unused[reach] = at.Node.Name
		default:
			out = append(out, i)
		}
	}
	scarce := func(i int) float64 { return min(shares(s.sites[i].Open, s.sites[i].Node)) }
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(scarce(b), scarce(a)) })
	s.some = s.some || len(out) > maxSpots
	return out[:min(len(out), maxSpots)]
}

func (s *search) move(it *item, to int) {
	from := &s.sites[it.node]
	from.free = from.free.Add(it.size)
	from.slots++
	it.node = to
	it.size, it.next = it.next, it.size
	at := &s.sites[to]
	at.free = at.free.Sub(it.size)
	at.slots--
}
