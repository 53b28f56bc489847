// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/occupancy"
	"podfit.dev/podfit/internal/core/room"
)

// apply changes the decisions as the plan of a node requires.
func (s *roomMaker) apply(p room.Plan) {
	for _, step := range p.Steps {
		d := s.byUID[step.ID]
		if d == nil {
			continue
		}
		switch step.Do {
		case room.ShrinkPod:
			s.applyShrink(d, step)
		case room.GrowPart:
			s.applyPart(d, step)
		case room.GrowPod:
			if d.Reason.Code == decision.AwaitingRoom { // a deferred resize needs nothing: the kubelet completes it
				s.askInFull(d)
			}
		case room.MovePod: // all moves for a pod are made together, see below
		case room.Wait:
			s.applyWait(d, step)
		}
	}
	for len(p.Steps) > 0 {
		step := p.Steps[0]
		p.Steps = p.Steps[1:]
		if step.Do != room.MovePod {
			continue
		}
		moves := []room.Step{step}
		for len(p.Steps) > 0 && p.Steps[0].Do == room.MovePod && p.Steps[0].ForID == step.ForID && step.ForID != "" {
			moves = append(moves, p.Steps[0])
			p.Steps = p.Steps[1:]
		}
		s.applyMoves(moves)
	}
}

// applyWait leaves a pod whose resize would take the room of another one, and returns its budget. A pod for which others move once the kubelet
// has deferred its resize is asked for all of its increase.
func (s *roomMaker) applyWait(d *entry, step room.Step) {
	switch {
	case step.ForID != "" && d.Do == decision.Resize:
		s.occupancy.Vacate(d.Pod)
		s.withdraw(d, s.occupancy.Yields(d.Pod, step.For))
		s.withdrawn[d.Pod.Controller] = true
		s.withdrawn[cluster.Workload{Namespace: d.Pod.Namespace}] = true
	case step.ForID == "" && step.Asks && d.Reason.Code == decision.AwaitingRoom:
		s.askInFull(d)
	}
}

// askInFull resizes a pod that has a part of its increase by the rest. The scheduler counts the rest from now on.
func (s *roomMaker) askInFull(d *entry) {
	if s.decider(d).tries(decision.Resize, resize, decision.Fits) {
		s.occupancy.Occupy(d.Decision)
	}
}

// holdForRoom leaves a pod for which budget became free, if its resize would take the room of another pod. It returns false if the pod is not
// left for that reason. Then its resize takes free room, too.
func (s *pass) holdForRoom(d *entry) bool {
	if r, reserved := s.occupancy.Reserved(d.Decision); reserved {
		s.withdraw(d, r)
		return true
	}
	if d.Do == decision.Resize {
		s.occupancy.TakeFree(d.Decision)
	}
	return false
}

// applyShrink resizes a pod in place to its lower target, unless it does that anyway.
func (s *roomMaker) applyShrink(d *entry, step room.Step) {
	if step.ForID == "" || d.Do != decision.Leave {
		return
	}
	d.Do, d.Reason, d.Fallback = decision.Resize, occupancy.ShrinkReason(d.Decision, step.For), false
	s.quotas.Reserve(d.Decision, decision.Resize)
}

func (s *roomMaker) applyPart(d *entry, step room.Step) {
	with, ok := s.occupancy.Part(d.Decision, step)
	if !ok || d.Do == decision.Leave && !s.decider(d).tries(decision.Resize, resize, decision.Fits) {
		return
	}
	d.With = with
	d.Fallback = false
	d.Reason.Part = true
}

// applyMoves moves pods that make room for the same pod, or the pod itself. It moves all of them or none.
func (s *roomMaker) applyMoves(moves []room.Step) {
	var done []*entry
	var before []decision.Reason
	for _, step := range moves {
		d := s.byUID[step.ID]
		reason := d.Reason
		if !s.applyMove(d, step) {
			for i, undo := range done {
				s.withdraw(undo, before[i])
				undo.placed = false
			}
			return
		}
		done = append(done, d)
		before = append(before, reason)
	}
	for _, step := range moves {
		n := s.occupancy.Rooms().Nodes[step.Node]
		n.Open = n.Open.Sub(step.To)
	}
}

// applyMove moves a pod, if no check blocks that.
func (s *roomMaker) applyMove(d *entry, step room.Step) bool {
	because := decision.Fits
	if step.ForID == "" { // its own resize waits for room
		because = decision.ResizeWaiting
	}
	t := s.decider(d)
	do, against := t.moves(step.ForID != "")
	if !t.tries(do, against, because) {
		return false
	}
	d.placed = true
	if step.ForID != "" {
		d.Reason = occupancy.About(decision.MovesForRoom, d.Pod, step.For)
		d.roomFor = s.byUID[step.ForID].Pod
	}
	return true
}

// moves returns how a pod is moved to make room for another one or itself: by a surge, or by an eviction, with the kind of the change. A pod that can
// be surged is not evicted because its surge must wait, for example for another one of the workload.
func (t *decider) moves(forOther bool) (decision.Act, kind) {
	switch surges := t.surges(true); {
	case surges && forOther:
		return decision.Surge, moveBySurge
	case surges:
		return decision.Surge, surgePod
	case forOther:
		return decision.Evict, move
	}
	return decision.Evict, evict
}

// tries is try for a pod that is left, which keeps its reason if a check blocks the action. It reports whether none does.
func (t *decider) tries(do decision.Act, against kind, because decision.ReasonCode) bool {
	before := t.d.Reason
	t.try(do, against, because)
	if t.d.Do == decision.Leave {
		t.d.Reason = before
	}
	return t.d.Do != decision.Leave
}
