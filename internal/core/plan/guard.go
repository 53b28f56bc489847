// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/wording"
)

// guardNodes moves a pod from each node that is nearly out of memory (ledger.Ledger.Guard), before the kubelet evicts one: of the pods that use more memory than
// they request, which the kubelet evicts first, one whose priority is the lowest of theirs and whose move costs least for what it frees. So no pod moves
// for another one of a lower priority, and none that keeps to its request. All checks of a move apply.
func (s *pass) guardNodes(ds []entry) {
	alarms := s.w.Ledger.Guard.Alarms
	if len(alarms) == 0 || !s.occupancy.Rooms().Known {
		return
	}
	alarmed := cluster.SetOf(alarms, func(a guard.Alarm) string { return a.Node })
	on := map[string][]*entry{}
	for i := range ds {
		if node := ds[i].Pod.Node; alarmed[node] {
			on[node] = append(on[node], &ds[i])
		}
	}
	for i := range alarms {
		alarm := &alarms[i]
		n := s.occupancy.Rooms().Nodes[alarm.Node]
		leaves := func(d *entry) bool {
			return d.Do == decision.Evict || d.Do == decision.Surge || d.Do == decision.Delete
		}
		if n == nil || alarm.Rests || alarm.Waits || n.Leaving || slices.ContainsFunc(on[alarm.Node], leaves) ||
			slices.ContainsFunc(n.Pods, func(p *cluster.Pod) bool { return s.w.Ledger.IsEvicted(s.now, p) || s.w.Surges.Removes(p) }) {
			continue // what leaves may be enough
		}
		for _, m := range s.movesFrom(n, alarm, alarmed, on[alarm.Node]) {
			if s.moveFrom(alarm, m) {
				break
			}
		}
	}
}

// A guardMove is a pod that may move from a node that is nearly out of memory.
type guardMove struct {
	*entry
	to    *placement.Room
	size  room.Amount // of the replacement
	value float64     // share of the excess that it frees, per cost
}

// movesFrom returns the pods that may move, the best first.
func (s *pass) movesFrom(n *placement.Room, alarm *guard.Alarm, alarmed map[string]bool, on []*entry) []guardMove {
	var lowest *cluster.Pod // of those that use more than they request, also if they may not move
	for _, p := range n.Pods {
		if alarm.Usage[p.Key] > p.Requested().Memory && (lowest == nil || p.Priority < lowest.Priority) {
			lowest = p
		}
	}
	spots := s.occupancy.Rooms().Beside(n)
	var out []guardMove
	for _, d := range on {
		used := alarm.Usage[d.Pod.Key]
		if used <= d.Pod.Requested().Memory || d.Pod.Priority > lowest.Priority || s.occupancy.Allowed(d.Autoscaler) == room.Off || !s.occupancy.CanLeave(d.Decision) {
			continue
		}
		c := s.candidateFor(d, spots)
		for _, at := range c.Spots {
			to := spots.All[at]
			if !alarmed[to.Node] && to.Free.Holds(c.Size) && s.w.Ledger.Guard.MayMove(d.Pod.Workload(), used, to.Node) {
				value := min(1, float64(used)/float64(alarm.Excess)) / float64(room.CostOf(&room.Pod{Priority: d.Pod.Priority, Move: c}))
				out = append(out, guardMove{d, s.occupancy.Rooms().Nodes[to.Node], c.Size, value})
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b guardMove) int { return cmp.Or(cmp.Compare(b.value, a.value), byName(*a.entry, *b.entry)) })
	return out
}

// moveFrom moves a pod, if no check blocks that.
func (s *pass) moveFrom(alarm *guard.Alarm, m guardMove) bool {
	before := m.Reason
	t := s.roomDecider(m.entry)
	do, against := t.moves(moveBySurge, move)
	t.try(do, against, decision.Fits)
	if m.Do == decision.Leave {
		m.Reason = before
		return false
	}
	m.placed = true
	m.to.Open = m.to.Open.Sub(m.size)
	when := "use"
	if alarm.Coming {
		when = "will soon use more than " + wording.Percent(guard.Line) + " of its memory and now use"
	}
	share := wording.Percent(float64(alarm.Used) / float64(alarm.Allocatable))
	m.Reason = decision.Reason{Code: decision.NodeNearlyFull, Text: fmt.Sprintf("%s %s %s of its memory", alarm.Node, when, share)}
	return true
}

// noteMove remembers a move from a node that is nearly out of memory.
func (p *Pass) noteMove(d *entry) {
	if d.Reason.Code == decision.NodeNearlyFull {
		p.w.Ledger.Guard.Moved(p.now, d.Pod.Workload(), d.Pod.Node)
	}
}
