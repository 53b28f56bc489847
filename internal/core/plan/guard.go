// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

// guardedNodes is the number of nodes from which pods move in a pass: those with the largest share of the memory for peaks in use.
const guardedNodes = 10

// guardNodes moves a pod from each node that is nearly out of memory (ledger.Ledger.Guard), before the kubelet evicts one: of the pods that use more memory
// than they request, which the kubelet evicts first, one whose priority is the lowest of theirs, and of those whose usage is not known. So no pod moves
// for another one of a lower priority, and none that keeps to its request. All checks of a move apply.
func (s *pass) guardNodes(ds []entry) {
	if len(s.w.Ledger.Guard.Alarms) == 0 || s.b.UpstreamRules || !s.occupancy.Rooms().Known {
		return
	}
	alarms := slices.SortedStableFunc(slices.Values(s.w.Ledger.Guard.Alarms), func(a, b guard.Alarm) int { return cmp.Compare(b.Share(), a.Share()) })
	alarmed := cluster.SetOf(alarms, func(a guard.Alarm) string { return a.Node })
	on := map[string][]*entry{}
	for i := range ds {
		if node := ds[i].Pod.Node; alarmed[node] {
			on[node] = append(on[node], &ds[i])
		}
	}
	alarms = slices.DeleteFunc(alarms, func(a guard.Alarm) bool { return a.Rests || a.Waits || len(on[a.Node]) == 0 })
	if len(alarms) > guardedNodes { // they take turns
		from := s.w.Ledger.Guard.Turn * guardedNodes % len(alarms)
		alarms = slices.Concat(alarms[from:], alarms[:from])[:guardedNodes]
	}
	var moves []guard.Move
	for i := range alarms {
		moves = s.guardNode(&alarms[i], alarmed, on[alarms[i].Node], moves)
	}
}

// guardNode moves a pod from a node beside others, and returns these and that one. If it panics, it records a Failure.
func (s *pass) guardNode(alarm *guard.Alarm, alarmed map[string]bool, on []*entry, moves []guard.Move) (all []guard.Move) {
	all = moves
	defer s.noteFailure(on[0].Autoscaler)
	n := s.occupancy.Rooms().Nodes[alarm.Node]
	leaves := func(d *entry) bool { return d.Do != decision.Leave && d.Do != decision.Resize }
	if n == nil || slices.ContainsFunc(on, leaves) ||
		slices.ContainsFunc(n.Pods, func(p *cluster.Pod) bool { return s.w.Ledger.IsEvicted(s.now, p) || s.w.Surges.Leaves(s.now, p) }) {
		return all // what leaves may be enough
	}
	for _, m := range s.movesFrom(n, alarm, alarmed, on, moves) {
		if s.moveFrom(alarm, n, m) {
			return append(all, m.Move)
		}
	}
	return all
}

// A guardMove is a pod that may move from a node that is nearly out of memory.
type guardMove struct {
	*entry
	guard.Move
	to   *placement.Room
	size room.Amount // of the replacement
	cost float64     // for each byte above the request, so that a pod that uses far more moves before its victims
}

// movesFrom returns the pods that may move, the best first: those that free enough with the moves that are left, by cost, and then those that use most.
func (s *pass) movesFrom(n *placement.Room, alarm *guard.Alarm, alarmed map[string]bool, on []*entry, beside []guard.Move) []guardMove {
	var lowest *cluster.Pod // of those that use more than they request, also if they may not move, and of those whose usage is not known
	var found bool          // one is known to use more
	for _, p := range n.Pods {
		if p.Controller.Kind == "DaemonSet" || p.Controller.Kind == "Node" {
			continue
		}
		used := alarm.Usage[p.Key]
		counts := used > p.Requested().Memory && used >= alarm.Excess/20
		found = found || counts
		if (counts || alarm.Unmeasured[p.Key]) && (lowest == nil || p.Priority < lowest.Priority) {
			lowest = p
		}
	}
	spots := s.occupancy.Rooms().Beside(n)
	var out []guardMove
	for _, d := range on {
		used := alarm.Usage[d.Pod.Key]
		if !found || used <= d.Pod.Requested().Memory || d.Pod.Priority > lowest.Priority || s.occupancy.Allowed(d.Autoscaler) == room.Off || !s.occupancy.CanLeave(d.Decision) {
			continue
		}
		c := s.candidateFor(d, spots)
		cost := float64(room.CostOf(&room.Pod{Priority: d.Pod.Priority, Move: c})) / float64(used-d.Pod.Requested().Memory)
		for _, at := range c.Spots {
			to := spots.All[at]
			next := guard.Move{Of: d.Pod.Workload(), Bytes: used, To: to.Node, Pressed: alarm.Pressure > 0}
			if !alarmed[to.Node] && to.Free.Holds(c.Size) && s.w.Ledger.Guard.MayMove(next, beside) {
				out = append(out, guardMove{d, next, s.occupancy.Rooms().Nodes[to.Node], c.Size, cost})
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b guardMove) int {
		few := func(m guardMove) bool { return m.Bytes < alarm.Excess/guard.MostMoves }
		if few(a) || few(b) {
			return cmp.Or(integer.FalseFirst(few(a), few(b)), cmp.Compare(b.Bytes, a.Bytes), byName(*a.entry, *b.entry))
		}
		return cmp.Or(cmp.Compare(a.cost, b.cost), byName(*a.entry, *b.entry))
	})
	return out
}

// moveFrom moves a pod, if no check blocks that. It is not surged if its node has room for the new pod, which would then use its memory, too.
func (s *pass) moveFrom(alarm *guard.Alarm, n *placement.Room, m guardMove) bool {
	t := s.decider(m.entry)
	do, against := t.moves(true)
	if do == decision.Surge && n.Open.Holds(m.size) {
		do, against = decision.Evict, move
	}
	if !t.tries(do, against, decision.Fits) {
		return false
	}
	m.placed = true
	m.guardTo = m.To
	m.to.Open = m.to.Open.Sub(m.size)
	m.Reason = decision.Reason{Code: decision.NodeNearlyFull, Have: int(math.Round(100 * alarm.Pressure)), Text: alarm.Text()}
	return true
}

// noteMove remembers a move from a node that is nearly out of memory: it was made, or may have been, or was only tried.
func (p *Pass) noteMove(d *entry, made bool) {
	book := &p.w.Ledger.Guard
	if at := slices.IndexFunc(book.Alarms, func(a guard.Alarm) bool { return a.Node == d.Pod.Node }); at >= 0 && d.guardTo != "" {
		alarm := &book.Alarms[at]
		book.Tried(p.now, d.Pod.Node, guard.Move{Of: d.Pod.Workload(), Bytes: alarm.Usage[d.Pod.Key], To: d.guardTo, Pressed: alarm.Pressure > 0}, made)
		d.guardTo = ""
	}
}
