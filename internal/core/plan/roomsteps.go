// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
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

// applyWait leaves a pod whose resize would take the room of another one. A pod for which others move once the kubelet has deferred its
// resize is asked for all of its increase.
func (s *roomMaker) applyWait(d *entry, step room.Step) {
	switch {
	case step.ForID != "":
		s.leaveRoom(d, step.For)
	case step.Asks && d.Reason.Code == decision.AwaitingRoom:
		s.askInFull(d)
	}
}

// askInFull resizes a pod that has a part of its increase by the rest. The scheduler counts the rest from now on.
func (s *roomMaker) askInFull(d *entry) {
	if s.tryResize(d) {
		s.occupy(d)
	}
}

// leaveRoom leaves a pod instead of resizing it, and returns its budget.
func (s *roomMaker) leaveRoom(d *entry, other string) {
	if d.Do != decision.Resize {
		return
	}
	s.vacate(d)
	s.release(d)
	s.withdraw(d, s.roomReserved(d, other))
	if s.withdrawn == nil {
		s.withdrawn = map[cluster.Workload]bool{}
	}
	s.withdrawn[d.Pod.Controller] = true
}

// roomReserved returns the reason to leave a pod because another one gets the room first.
func (s *pass) roomReserved(d *entry, other string) decision.Reason {
	since := s.w.Ledger.YieldsSince(d.Pod)
	if since.IsZero() || since.After(s.now) {
		since = s.now
	}
	r := aboutPod(decision.RoomReserved, d.Pod, other)
	r.Until = since.Add(s.b.DeferredFor)
	return r
}

// aboutPod returns a reason about another pod, which it names openly only within one namespace.
func aboutPod(code decision.ReasonCode, p *cluster.Pod, other string) decision.Reason {
	if strings.HasPrefix(other, p.Namespace+"/") {
		return decision.Reason{Code: code, Text: other}
	}
	return decision.Reason{Code: code, Elsewhere: other}
}

// takesRoom reports whether the resize of a pod would take room that the plan of its node reserves for another pod, and for which one.
func (s *pass) takesRoom(d *entry) (string, bool) {
	if d.Do != decision.Resize || !s.needsRoom(d) {
		return "", false
	}
	plan := s.plannedOn[d.Pod.Node]
	if plan == nil {
		return "", false
	}
	other := plan.ReservedFor(&room.Pod{Priority: d.Pod.Priority, Urgent: isUrgent(d), Overdue: s.isOverdue(d)}, increaseOf(d))
	return other, other != ""
}

// holdForRoom leaves a pod for which budget became free, if its resize would take the room of another pod. It returns false if the pod is not
// left for that reason. Then its resize takes free room, too.
func (s *pass) holdForRoom(d *entry) bool {
	if other, takes := s.takesRoom(d); takes {
		s.release(d)
		s.withdraw(d, s.roomReserved(d, other))
		return true
	}
	if d.Do == decision.Resize {
		s.takeFreeRoom(d)
	}
	return false
}

// takeFreeRoom takes the increase of a pod, which was decided on after all others, from the free room of its node.
func (s *pass) takeFreeRoom(d *entry) {
	if s.rooms == nil || s.rooms.Nodes[d.Pod.Node] == nil {
		return
	}
	s.occupy(d)
	if plan := s.plannedOn[d.Pod.Node]; plan != nil {
		plan.Give(room.Pod{ID: d.Pod.UID, Name: d.Pod.Key.String()}, increaseOf(d))
	}
}

// applyShrink resizes a pod in place to its lower target, unless it does that anyway.
func (s *roomMaker) applyShrink(d *entry, step room.Step) {
	if step.ForID == "" || d.Do != decision.Leave {
		return
	}
	r := aboutPod(decision.MakesRoom, d.Pod, step.For)
	for x := range change.Pairs(d.Pod, d.With, false) {
		if !x.Limit && r.Resource == 0 && change.Compare(x.Resource, x.To, x.From) < 0 {
			r.Resource, r.From, r.To, r.Container = x.Resource, x.From, x.To, need.NameUnlessSole(d.Pod)(x.Container.Name)
		}
	}
	d.Do, d.Reason, d.Fallback = decision.Resize, r, false
	s.reserve(d, decision.Resize)
}

// tryResize resizes a pod that is left, if no check blocks that. It keeps the reason to leave the pod otherwise.
func (s *roomMaker) tryResize(d *entry) bool {
	before := d.Reason
	s.decider(d).try(decision.Resize, resize, decision.Fits)
	if d.Do == decision.Leave {
		d.Reason = before
	}
	return d.Do == decision.Resize
}

// applyPart makes a pod grow by a part.
func (s *roomMaker) applyPart(d *entry, step room.Step) {
	with, ok := s.partOf(d, step)
	if !ok || d.Do == decision.Leave && !s.tryResize(d) {
		return
	}
	d.With, d.Fallback = with, false
	d.Reason.Part = true
}

// partOf returns the requests and limits of the containers for growth by a part: each container gets the same share of its increase
// of a resource. No container shrinks. It returns false if the API server would refuse them, or they change nothing.
func (s *roomMaker) partOf(d *entry, step room.Step) ([]policy.Fitted, bool) {
	p := d.Pod
	out := slices.Clone(d.With)
	for i := range out {
		f := &out[i]
		c := p.Container(f.Container)
		if c == nil {
			return nil, false
		}
		requests, limits := c.Running()
		for _, res := range cluster.All {
			share := shareOf(res, p, d.With, step)
			unit := unitOf(d.Autoscaler, c.Name, res)
			f.Requests = growBy(res, requests, f.Requests, share, unit)
			f.Limits = growBy(res, limits, f.Limits, share, unit)
		}
	}
	size := room.Of(change.Total(p, out)).Sub(step.From)
	if !step.To.Sub(step.From).Holds(size) || !change.Grows(p, out) || change.IsAsked(p, out) ||
		change.ChangesQoS(s.w.Limits[p.Namespace], p, out) || admissible.Refused(s.w.Limits[p.Namespace], p, out).Refused() {
		return nil, false
	}
	return out, true
}

// shareOf returns the fraction of the increases of the containers that the pod gets now.
func shareOf(res cluster.Resource, p *cluster.Pod, with []policy.Fitted, step room.Step) float64 {
	given := step.To.Memory - step.From.Memory
	if res == cluster.CPU {
		given = step.To.CPU - step.From.CPU
	}
	increase := int64(0)
	for x := range change.Pairs(p, with, false) {
		if !x.Limit && x.Resource == res {
			increase += max(0, x.To-x.From)
		}
	}
	if increase == 0 {
		return 0
	}
	return min(1, float64(given)/float64(increase))
}

const mebibyte = 1 << 20

// unitOf returns the unit to which amounts of a container are rounded down: whole cores if its autoscaler wants that.
func unitOf(a *cluster.Autoscaler, container string, res cluster.Resource) int64 {
	switch {
	case res == cluster.Memory:
		return mebibyte
	case slices.Contains(a.IntegerCPU, container):
		return 1000
	}
	return 1
}

// growBy returns wanted amounts with one resource set to what the container has and a share of its increase. Amounts that would
// shrink stay as they are.
func growBy(res cluster.Resource, had, wanted cluster.Resources, share float64, unit int64) cluster.Resources {
	to, ok := wanted.Get(res)
	if !ok {
		return wanted
	}
	from := had.Amount(res)
	if to <= from || share >= 1 {
		return wanted.Set(res, max(to, from))
	}
	now := from + int64(float64(to-from)*share)
	return wanted.Set(res, max(from, now-now%unit))
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
				s.endSurge(undo)
				s.release(undo)
				s.withdraw(undo, before[i])
				undo.roomFor, undo.placed = nil, false
			}
			return
		}
		done, before = append(done, d), append(before, reason)
	}
	for _, step := range moves {
		n := s.rooms.Nodes[step.Node]
		n.Open = n.Open.Sub(step.To)
	}
}

// applyMove moves a pod, if no check blocks that.
func (s *roomMaker) applyMove(d *entry, step room.Step) bool {
	before := d.Reason
	t := s.roomDecider(d)
	if step.ForID == "" { // its own resize waits for room
		t.move(surgePod, evict, decision.ResizeWaiting)
	} else {
		wanted := d.Wanted
		t.move(moveBySurge, move, decision.Fits)
		d.Wanted = wanted
	}
	if d.Do == decision.Leave {
		d.Reason = before
		return false
	}
	d.placed = true
	if step.ForID != "" {
		d.Reason, d.roomFor = aboutPod(decision.MovesForRoom, d.Pod, step.For), s.byUID[step.ForID].Pod
	}
	return true
}
