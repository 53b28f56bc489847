// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
)

// CapacitySteps returns the requests for capacity to create and to delete, in this order of execution: deletions first.
func (p *Pass) CapacitySteps() []headroom.Step { return p.headroom.Steps }

// CapacityDone reports that a step was carried out.
func (p *Pass) CapacityDone(step *headroom.Step) { p.headroom.Done(step) }

// CapacityRefused reports that the API server refused a step, or that its outcome is unknown.
func (p *Pass) CapacityRefused(step *headroom.Step, r decision.Refusal) {
	if why, refused := p.headroom.Refused(step, r); refused {
		p.entryOf(step.Pod).leave(why)
	}
}

// checkHeadroom leaves pods whose replacement has no room on any node now, and decides which requests for capacity are created and deleted.
func (s *pass) checkHeadroom(ds []entry) {
	decisions := map[cluster.Key]*decision.Decision{} // by request
	for i := range ds {
		if d := &ds[i]; s.headroom.Of(d.Pod) != nil {
			decisions[cluster.PlaceholderOf(d.Pod)] = d.Decision
		}
	}
	if s.w.Provider != headroom.NotAsked {
		s.headroom.Begin(s.occupancy.Rooms(), decisions)
	}
	if s.headroom.IsOn() {
		evictions := cluster.Where(ds, func(d *entry) bool { return d.Do == decision.Evict })
		var waiting []*entry
		withdrawn := map[cluster.Workload]bool{} // direct controllers that have got back budget, and namespaces that have got back quota
		for _, d := range inTurn(evictions, s.w.Ledger.Served, byPriority) {
			if r, lacks := s.lacksHeadroom(d); lacks {
				s.withdraw(d, r)
				waiting = append(waiting, d)
				withdrawn[d.Pod.Controller] = true
				withdrawn[cluster.Workload{Namespace: d.Pod.Namespace}] = true
			}
		}
		s.offerBudget(ds, withdrawn, s.holdBack)
		s.headroom.Ask(s.inTurnForCapacity(waiting))
	}
	s.headroom.Release(decisions)
}

// inTurnForCapacity returns the decisions of pods that wait for capacity: those of the namespaces in turn, and in a namespace first those of
// workloads for which it was never asked.
func (s *pass) inTurnForCapacity(waiting []*entry) []*decision.Decision {
	turns := s.w.Ledger.Headroom.Turns
	lastOf := func(d entry) time.Time { return turns.LastOf(d.Pod.Namespace, d.Pod.Workload().String()) }
	ordered := inTurn(waiting, turns.Last, func(a, b entry) int { return cmp.Or(lastOf(a).Compare(lastOf(b)), byPriority(a, b)) })
	return cluster.Each(ordered, func(d **entry) *decision.Decision { return (*d).Decision })
}

// lacksHeadroom reports whether an eviction must wait because no node has room for the replacement, and why. Otherwise it reserves the room. A
// pod that is down serves nothing, so it does not wait.
func (s *pass) lacksHeadroom(d *entry) (decision.Reason, bool) {
	if !s.headroom.IsOn() || d.placed || d.Pod.Controller.Kind == "DaemonSet" || s.counter.Health(d.Pod).IsDown() {
		return decision.Reason{}, false
	}
	r, lacks := s.headroom.Lacks(d.Decision)
	d.placed = !lacks
	if lacks {
		r.Note = s.sizes.AtMaximum(d.Pod, change.Total(d.Pod, d.Replacement()))
	}
	return r, lacks
}

// holdBack leaves a pod for which budget became free, if its resize would take the room of another pod, or its replacement has no room. The
// next pass asks for capacity.
func (s *pass) holdBack(d *entry) {
	if s.holdForRoom(d) || d.Do != decision.Evict {
		return
	}
	if r, lacks := s.lacksHeadroom(d); lacks {
		s.withdraw(d, r)
	}
}
