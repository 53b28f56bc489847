// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/occupancy"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

// A resize that does not fit on its node waits there, in the state Deferred. A roomMaker decides what is done about that after all
// other decisions are made: other pods on the node shrink in place, the pod grows by a part, or pods move to other nodes. Package
// room decides which; this file translates pods and decisions, and checks that each step is allowed.
//
//	asked in full ─▶ Deferred ─▶ the kubelet completes it when there is room (after shrinks and moves)
//	     │              │
//	     ▼              ▼
//	asked in part ─▶ AwaitingRoom ─▶ asked in full when it fits ─▶ done
//
// A pod that waits longer than Budget.DeferredFor is evicted, if its mode allows that and its requests are outside their bounds.

// Limits of the search for moves. A few nodes have their search in each pass, in turn by the namespaces and pods that need room there. Others
// have it while the pass is not too long.
const (
	nodesByTurn = 5
	passVisits  = 500_000 // sets of moves that the searches of the other nodes look at
	nodeVisits  = 100_000 // sets for one node; its namespaces share them, and in each the pods
)

// A roomMaker changes the decisions of a pass on nodes that are too full for the resizes of their pods.
type roomMaker struct {
	*pass
	byUID     map[string]*entry         // decisions on the pods of these nodes
	withdrawn map[cluster.Workload]bool // direct controllers that have got back the budget of resizes, and namespaces that have got back quota
	visits    int                       // of the searches for moves, without those of nodes whose turn it is
}

func (s *roomMaker) make(ds []entry) {
	needs := map[string][]*entry{}
	for i := range ds {
		if d := &ds[i]; s.occupancy.Needs(d.Decision) {
			needs[d.Pod.Node] = append(needs[d.Pod.Node], d)
		}
	}
	if len(needs) == 0 && s.w.Provider == headroom.NotAsked || !s.occupancy.Rooms().Known {
		return
	}
	s.byUID = map[string]*entry{}
	s.withdrawn = map[cluster.Workload]bool{}
	for i := range ds {
		d := &ds[i]
		if needs[d.Pod.Node] != nil {
			s.byUID[d.Pod.UID] = d
		}
		if d.Do == decision.Resize {
			s.occupancy.Occupy(d.Decision)
		}
	}
	byTurn := s.nodesInTurn(needs)
	for _, node := range slices.Sorted(maps.Keys(needs)) {
		var total room.Amount
		for _, d := range needs[node] {
			total = total.Add(occupancy.IncreaseOf(d.Decision))
		}
		n := s.occupancy.Rooms().Nodes[node]
		if n != nil {
			s.headroom.GiveUp(n, total)
		}
		switch {
		case n == nil || n.Unknown:
		case n.Free.Holds(total):
			s.planAll(n, needs[node])
		default:
			before := s.visits
			s.makeRoomOn(n, byTurn[node] || s.visits+nodeVisits <= passVisits, needs[node][0].Autoscaler)
			if byTurn[node] {
				s.visits = before
			}
		}
	}
	if len(s.withdrawn) > 0 {
		s.offerBudget(ds, s.withdrawn, func(d *entry) { s.holdForRoom(d) })
	}
}

// nodesInTurn returns the nodes whose turn it is to have their search for moves.
func (s *roomMaker) nodesInTurn(needs map[string][]*entry) map[string]bool {
	var moving []*entry
	for _, of := range needs {
		for _, d := range of {
			if s.occupancy.Allowed(d.Autoscaler) == room.Move {
				moving = append(moving, d)
			}
		}
	}
	turns := s.w.Ledger.Searches
	lastOf := func(d entry) time.Time { return turns.LastOf(d.Pod.Namespace, d.Pod.UID) }
	out := map[string]bool{}
	for _, d := range inTurn(moving, turns.Last, func(a, b entry) int { return cmp.Or(lastOf(a).Compare(lastOf(b)), byPriority(a, b)) }) {
		if len(out) < nodesByTurn {
			out[d.Pod.Node] = true
		}
	}
	return out
}

// planAll plans on a node that has room for all resizes of its pods.
func (s *roomMaker) planAll(n *placement.Room, needs []*entry) {
	r := s.occupancy.RequestFor(n)
	for _, d := range needs {
		p := s.needOf(d)
		p.Least = 0
		r.Pods = append(r.Pods, p)
	}
	plan := room.Make(r)
	s.occupancy.Planned(&plan)
}

// makeRoomOn plans on one node and applies the steps. searches is whether it searches for moves. If it panics, it records a Failure, and the node is left as it is.
func (s *roomMaker) makeRoomOn(n *placement.Room, searches bool, blamed *cluster.Autoscaler) {
	defer s.noteFailure(blamed)
	r := s.occupancy.RequestFor(n)
	var spots *placement.Spots
	if searches {
		spots = s.occupancy.Rooms().Beside(n)
	}
	moving := map[string][]int{} // pods for which others may move, by namespace
	for _, p := range n.Pods {
		d := s.byUID[p.UID]
		leaves := p.Deleting || s.w.Ledger.IsEvicted(s.now, p) || s.w.Surges.Leaves(s.now, p) || d != nil && (d.Do == decision.Evict || d.Do == decision.Surge)
		r.Leaving = r.Leaving || leaves
		if leaves {
			continue
		}
		r.Pods = append(r.Pods, s.roomPod(p, d, spots))
		if last := &r.Pods[len(r.Pods)-1]; spots != nil && last.Needs && last.Allowed == room.Move {
			moving[p.Namespace] = append(moving[p.Namespace], len(r.Pods)-1)
			s.searched = append(s.searched, p)
		}
	}
	for _, of := range moving {
		for _, i := range of {
			r.Pods[i].Visits = nodeVisits / len(moving) / len(of)
		}
	}
	if spots != nil {
		r.Others = spots.All
		s.visits += spots.Visits()
	}
	plan := room.Make(r)
	s.visits += plan.Visits
	s.Rooms = append(s.Rooms, plan)
	s.occupancy.Planned(&plan)
	s.apply(plan)
}

// roomPod describes a pod for the plan of its node. A pod without a decision takes no part in it. Without spots, it does not move.
func (s *roomMaker) roomPod(p *cluster.Pod, d *entry, spots *placement.Spots) room.Pod {
	out := s.occupancy.PodOf(p)
	switch {
	case out.Planned || d == nil:
		return out
	case s.occupancy.Needs(d.Decision):
		out = s.needOf(d)
	case d.Do == decision.Resize:
		out.Target = occupancy.TargetOf(d.Decision)
		out.Shrinks = true
		out.Planned = true
	case s.occupancy.CanShrink(d.Decision) && !s.isBlocked(d, shrink):
		out.Target = occupancy.TargetOf(d.Decision)
		out.Shrinks = true
	}
	if spots != nil && !out.Planned && s.mayMove(d) {
		out.Move = s.candidateFor(d, spots)
	}
	return out
}

// needOf describes a pod that needs room. A resize that is tried once more before the pod is evicted, see triesAgain, is tried in full: the
// refusal of a part would not lead to the eviction.
func (s *roomMaker) needOf(d *entry) room.Pod {
	out := s.occupancy.NeedOf(d.Decision)
	last, failed := s.lastResize(d)
	standsForEviction := d.Do == decision.Resize && d.Fallback && failed && last.IsLasting()
	out.Divisible = out.Divisible && !standsForEviction && (d.Do == decision.Resize || !s.isBlocked(d, resize))
	return out
}

// mayMove reports whether a pod may be evicted so that its replacement runs on another node.
func (s *roomMaker) mayMove(d *entry) bool {
	if !s.occupancy.CanMove(d.Decision) {
		return false
	}
	_, against := s.decider(d).moves(!s.occupancy.Needs(d.Decision))
	return !s.isBlocked(d, against)
}

func (s *pass) isBlocked(d *entry, against kind) bool {
	_, blocked := s.decider(d).blocked(against)
	return blocked
}

// whileShortOfRoom decides on a pod that has a part of its increase. As with a resize that the kubelet defers, the pod is evicted
// after Budget.DeferredFor, but only if its requests are outside their bounds, and if no quota refused the rest of the increase: it
// would refuse the replacement, too. If the quotas are not known, the pod is first asked for the rest, so that a quota can refuse it. After
// such a refusal, it is asked again when the back-off ends. r is the reason to leave the pod.
func (t *decider) whileShortOfRoom(r decision.Reason) {
	since := t.w.Ledger.LackOfRoom(t.d.Pod).Since
	known := t.knowsQuotas() // the checks for an eviction read known quotas
	last, failed := t.lastResize(t.d)
	switch {
	case failed && !known && last.IsOverQuota(t.now, t.d.With) && t.now.Before(last.Until(t.b.Delays)):
		t.d.leave(last.Reason(t.b.Delays, decision.Resize)) // room on the node would not help
	case t.d.Wanted.Code == decision.Incomplete, t.now.Sub(since) <= t.b.DeferredFor:
		t.d.leave(r)
	case !known && t.d.Autoscaler.Mode.Evicts() && (!t.w.Ledger.IsAskedInFull(t.d.Pod) || failed && last.IsOverQuota(t.now, t.d.With)):
		t.try(decision.Resize, t.kindOf(resize), decision.Fits)
	default:
		t.evictOr(decision.ResizeWaiting, r)
	}
}

// shrinkFirst puts the resizes on a node that only lower requests in front of those that need room there. A resize that was refused
// gives no room, so it keeps its place: otherwise, with a rate limit, it would be tried in each pass instead of the others.
func (s *pass) shrinkFirst(acts []*entry) {
	first := map[string]slot{} // of the resizes that need room, by node
	for _, d := range acts {
		if d.Do != decision.Resize || !s.occupancy.Needs(d.Decision) {
			continue
		}
		if at, ok := first[d.Pod.Node]; !ok || d.slot.compare(at) < 0 {
			first[d.Pod.Node] = d.slot
		}
	}
	if len(first) == 0 {
		return
	}
	for _, d := range acts {
		at, ok := first[d.Pod.Node]
		switch {
		case !ok || d.Do != decision.Resize:
		case s.occupancy.Needs(d.Decision):
			d.slot.late = true
		case d.refused.IsZero() && at.compare(d.slot) < 0:
			d.slot = at
		}
	}
}

// candidateFor returns what moving a pod means.
func (s *pass) candidateFor(d *entry, at *placement.Spots) *room.Candidate {
	p := d.Pod
	t := s.decider(d)
	c := &room.Candidate{Size: room.Of(change.Total(p, d.Replacement())), DeletionCost: p.DeletionCost, Spots: at.For(p)}
	if t.g != nil {
		c.Ready = t.g.Ready - t.g.Spent
		c.Wanted = t.g.Wanted
	}
	if !p.Started.IsZero() && p.ReadySince.After(p.Started) {
		c.StartSeconds = int64(p.ReadySince.Sub(p.Started).Seconds())
	}
	return c
}
