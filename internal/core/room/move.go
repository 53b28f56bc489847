// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"cmp"
	"math/bits"
	"slices"
)

// exactUpTo is the number of candidates with which the search for moves is exact; with more, it is greedy.
const exactUpTo = 20

// MaxVisits is the largest useful value of Pod.Visits.
const MaxVisits = 100_000

// CostOf returns what the eviction of a pod costs: the seconds until its replacement is ready, multiplied by the share of the
// replicas that is missing meanwhile and by a weight of its priority, which doubles with the priority squared. The cost is at least 1.
func CostOf(p *Pod) int64 {
	c := p.Move
	priority := int64(1 + bits.Len32(uint32(max(p.Priority, 0))))
	seconds := min(max(c.StartSeconds, 1), 600)
	missing := int64(max(c.Wanted-c.Ready, 0)) + 1
	share := 1 + 100*missing/int64(max(c.Wanted, 1)) // percent of the replicas that are not ready after the eviction
	return priority * seconds * share
}

// A move is a candidate with its cost.
type move struct {
	*pod
	cost int64
}

// A chosen move has a node for its replacement.
type chosenMove struct {
	move
	spot int // index into the other nodes
}

// moveFor moves pods to other nodes so that the pod gets its room, or moves the pod itself if that is cheaper. It returns false if
// no moves give it its room. lack is what is missing with the given shrinks. If the kubelet does not know the new size of the pod
// yet, nothing moves now: the scheduler would use the free room for another pod.
func (m *maker) moveFor(p *pod, lack Amount, shrinks []*pod) bool {
	candidates := m.movable(p, shrinks)
	set := m.search(candidates, lack, min(p.Visits, MaxVisits))
	if p.Move != nil {
		self := chosenMove{move{p, CostOf(&p.Pod)}, tightest(m.others, p.Move)}
		if self.spot >= 0 && (set == nil || self.cost < cost(set)) {
			set, shrinks = []chosenMove{self}, nil
		}
	}
	if set == nil {
		return false
	}
	m.shrinkAll(shrinks, p)
	if !p.Asked {
		m.wait(p, p.Target.Sub(p.Holds))
		m.steps[len(m.steps)-1].Asks = true
		m.keep(p, p.Target.Sub(p.Holds))
		m.later = append(m.later, m.afterDeferral(p, set))
		return true
	}
	for _, c := range set {
		m.others[c.spot].Free = m.others[c.spot].Free.Sub(c.Move.Size)
		m.steps = append(m.steps, m.stepOf(c, p))
		if c.pod != p {
			m.free = m.free.Add(c.Holds)
		}
		c.used = true
	}
	m.still = true
	if !p.used {
		m.grow(p, p.Target)
	}
	return true
}

// stepOf returns the step of a move that makes room for a pod, or moves that pod itself.
func (m *maker) stepOf(c chosenMove, needing *pod) Step {
	s := Step{Do: MovePod, ID: c.ID, Name: c.Name, From: c.Holds, To: c.Move.Size, Node: m.others[c.spot].Node}
	if c.pod != needing {
		s.For = needing.Name
		s.ForID = needing.ID
	}
	return s
}

// afterDeferral returns the steps that follow when the kubelet has deferred the resize of a pod.
func (m *maker) afterDeferral(p *pod, set []chosenMove) []Step {
	var out []Step
	stays := true
	for _, c := range set {
		out = append(out, m.stepOf(c, p))
		stays = stays && c.pod != p
	}
	if stays {
		out = append(out, Step{Do: GrowPod, ID: p.ID, Name: p.Name, From: p.Holds, To: p.Target})
	}
	return out
}

// movable returns the pods that may move for another one, without those that shrink for it and those with a higher priority, the
// cheapest first.
func (m *maker) movable(need *pod, shrinks []*pod) []move {
	var out []move
	for i := range m.pods {
		c := &m.pods[i]
		if c == need || c.used || c.Move == nil || c.Needs || c.Priority > need.Priority || slices.Contains(shrinks, c) {
			continue
		}
		out = append(out, move{c, CostOf(&c.Pod)})
	}
	slices.SortStableFunc(out, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.Move.DeletionCost, b.Move.DeletionCost))
	})
	return out
}

// search returns the cheapest set of moves that frees what is lacking, and whose replacements fit on the other nodes; nil if there
// is none. It looks at a limited number of sets, and returns the best one so far then.
func (m *maker) search(candidates []move, lack Amount, limit int) []chosenMove {
	before := m.visits
	best := m.greedy(candidates, lack, limit)
	limit -= m.visits - before
	if len(candidates) > exactUpTo || limit <= 0 {
		return best
	}
	s := search{maker: m, candidates: candidates, best: best, limit: limit}
	if best != nil {
		s.cost = cost(best)
	}
	s.rest = make([]Amount, len(candidates)+1)
	for i := len(candidates) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1].Add(candidates[i].Holds)
	}
	s.spots, s.accepts = slices.Clone(m.others), acceptedBy(candidates, len(m.others))
	s.from(0, lack, 0)
	return s.best
}

func cost(set []chosenMove) int64 {
	var sum int64
	for _, c := range set {
		sum += c.cost
	}
	return sum
}

// greedy takes the moves with the lowest cost for what they free, until enough is free, and then drops those that are not needed,
// the dearest first. It returns nil if it would look at more sets than the limit.
func (m *maker) greedy(candidates []move, lack Amount, limit int) []chosenMove {
	left := lack
	var set []chosenMove
	spots := slices.Clone(m.others)
	used := make([]bool, len(candidates))
	for !left.isZero() {
		if limit -= len(candidates); limit < 0 {
			return nil
		}
		best := -1
		bestSpot := 0
		bestValue := 0.0
		for i, c := range candidates {
			m.visits++
			value := coverage(c.Holds, left) / float64(c.cost)
			if used[i] || value <= bestValue {
				continue
			}
			if spot := tightest(spots, c.Move); spot >= 0 {
				best, bestSpot, bestValue = i, spot, value
			}
		}
		if best < 0 {
			return nil
		}
		c := candidates[best]
		used[best] = true
		spots[bestSpot].Free = spots[bestSpot].Free.Sub(c.Move.Size)
		set = append(set, chosenMove{c, bestSpot})
		left = left.Sub(c.Holds).positive()
	}
	return withoutUnneeded(set, lack)
}

// coverage returns how much of what is lacking an amount covers: from 0 to the number of resources.
func coverage(a, lack Amount) float64 {
	part := func(a, lack int64) float64 {
		if lack <= 0 {
			return 0
		}
		return min(1, max(0, float64(a)/float64(lack)))
	}
	return part(a.CPU, lack.CPU) + part(a.Memory, lack.Memory)
}

func withoutUnneeded(set []chosenMove, lack Amount) []chosenMove {
	var freed Amount
	for _, c := range set {
		freed = freed.Add(c.Holds)
	}
	slices.SortStableFunc(set, func(a, b chosenMove) int { return cmp.Compare(b.cost, a.cost) })
	return slices.DeleteFunc(set, func(c chosenMove) bool {
		without := freed.Sub(c.Holds)
		if !without.Holds(lack) {
			return false
		}
		freed = without
		return true
	})
}

// tightest returns the node with the least room that still holds the replacement, or -1.
func tightest(spots []Spot, c *Candidate) int {
	best := -1
	for _, i := range c.Spots {
		if !spots[i].Free.Holds(c.Size) {
			continue
		}
		a, b := spots[i], spots[max(best, 0)]
		if best < 0 || cmp.Or(cmp.Compare(a.Free.Memory, b.Free.Memory), cmp.Compare(a.Free.CPU, b.Free.CPU), cmp.Compare(a.Node, b.Node)) < 0 {
			best = i
		}
	}
	return best
}

// A search is the exact search for the cheapest set of moves: depth first over the candidates, each moved to each node or not at
// all. It leaves out branches that cannot become cheaper than the best set, or cannot free enough.
type search struct {
	*maker
	candidates []move
	rest       []Amount // what the candidates from an index on free together
	spots      []Spot
	accepts    []uint32 // for each of spots a set of the candidates that its node accepts
	set        []chosenMove
	best       []chosenMove
	cost       int64
	limit      int
}

// sameSpots is what nodes have in common between which the search need not choose.
type sameSpots struct {
	free    Amount
	accepts uint32
}

// acceptedBy returns for each node a set of the candidates that it accepts: the bits are their indices, of which there are at most exactUpTo.
func acceptedBy(candidates []move, nodes int) []uint32 {
	out := make([]uint32, nodes)
	for i, c := range candidates {
		for _, at := range c.Move.Spots {
			out[at] |= 1 << i
		}
	}
	return out
}

// from decides on the candidates from index i on. spent is the cost of the set so far.
func (s *search) from(i int, lack Amount, spent int64) {
	s.visits++
	s.limit--
	if s.best != nil && spent >= s.cost || s.limit < 0 {
		return
	}
	if lack.isZero() {
		s.best = slices.Clone(s.set)
		s.cost = spent
		return
	}
	if i == len(s.candidates) || !s.rest[i].Holds(lack) {
		return
	}
	c := s.candidates[i]
	if coverage(c.Holds, lack) > 0 {
		tried := map[sameSpots]bool{}
		for _, at := range c.Move.Spots {
			free := s.spots[at].Free
			same := sameSpots{free, s.accepts[at]}
			if !free.Holds(c.Move.Size) || tried[same] {
				continue
			}
			tried[same] = true
			s.spots[at].Free = free.Sub(c.Move.Size)
			s.set = append(s.set, chosenMove{c, at})
			s.from(i+1, lack.Sub(c.Holds).positive(), spent+c.cost)
			s.set = s.set[:len(s.set)-1]
			s.spots[at].Free = free
		}
	}
	s.from(i+1, lack, spent)
}
