// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package room plans how the pods of one node get the room that their resizes need: which pods shrink in place, which pod grows in
// part for now, and which pods move to other nodes.
//
// Make is a function of its input: the same node gives the same steps, whatever the order of the pods. It works on the total
// requests of pods, because nodes have room for pods, not for containers. It does not decide whether a pod may be resized or
// evicted at all: the caller passes only pods and steps that are allowed.
package room

import (
	"cmp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A Kind is what a step does.
type Kind uint8

// The kinds of steps, in the order in which they are taken.
const (
	ShrinkPod Kind = iota // resize a pod in place to its target, which is smaller
	MovePod               // evict a pod; its replacement fits on another node
	GrowPod               // resize a pod in place to its target
	GrowPart              // resize a pod in place by what fits now
	Wait                  // the pod keeps waiting: there is not enough room
)

var kindNames = [...]string{"shrink", "move", "grow", "grow in part", "wait"}

// String returns the kind as a verb.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// A Step is one action on one pod. The steps of a plan are taken in order.
type Step struct {
	Do       Kind
	ID, Name string // of the pod
	From, To Amount
	For      string // the name of the pod that gets the room; "" if it is the pod itself; set for Wait if the free room is reserved for that pod
	ForID    string
	Node     string // where the replacement fits; set for MovePod
	Lacks    Amount // what the node lacks; set for Wait and GrowPart
	Asks     bool   // the moves for the pod follow when the kubelet has deferred its resize; only set for Wait
}

// A Plan is the steps on one node.
type Plan struct {
	Node  string
	Free  Amount // before the first step
	Steps []Step

	// Next are the steps that follow when the kubelet has deferred the resizes that Steps leave waiting, as far as they can be planned now.
	// They are shown, and not carried out: the plan is made again then.
	Next []Step

	// Visits is how many sets of moves the search looked at.
	Visits int

	reserved reserved
}

// Give notes that a pod gets room besides the steps of the plan.
func (p *Plan) Give(to Pod, increase Amount) { p.reserved.add(to, increase) }

// ReservedFor returns the name of the pod whose reserved room an increase of another pod would take: the first of several, or "" if there is
// none. Of the other pod, only the priority and the urgency are read. An increase that does not fit into the free room takes none: the kubelet
// defers it.
func (p *Plan) ReservedFor(other *Pod, increase Amount) string {
	return p.reserved.from(other, increase).Name
}

// reserved is the room that the steps of a plan give to pods.
type reserved struct {
	free  Amount // the room that is free after the shrinks
	given []share
}

// A share is the room that one pod gets.
type share struct {
	to     Pod
	amount Amount // may exceed what is free, because pods that move give room later
}

// add notes the room that a pod gets. Without a reservation, it only gets room that is free now.
func (r *reserved) add(p Pod, increase Amount) {
	increase = increase.positive()
	if increase.isZero() || !p.Reserves && !r.free.Holds(increase) {
		return
	}
	r.given = append(r.given, share{p, increase})
}

// from returns the first of the pods from which an increase of another pod would take reserved room.
func (r *reserved) from(other *Pod, increase Amount) Pod {
	if !r.free.Holds(increase) {
		return Pod{}
	}
	left := r.free
	for _, s := range r.given {
		if s.isKeptFrom(other) || !s.to.Reserves {
			left = left.Sub(s.amount)
		}
	}
	lacks := left.Lacking(increase)
	for _, s := range r.given {
		if s.isKeptFrom(other) && (lacks.CPU > 0 && s.amount.CPU > 0 || lacks.Memory > 0 && s.amount.Memory > 0) {
			return s.to
		}
	}
	return Pod{}
}

// isKeptFrom reports whether the room is kept from another pod. Overdue pods take it, those with a higher priority, and urgent ones of the same
// priority.
func (s *share) isKeptFrom(other *Pod) bool {
	switch {
	case !s.to.Reserves || other.Overdue:
		return false
	case s.to.Overdue || s.to.Priority != other.Priority:
		return s.to.Overdue || s.to.Priority > other.Priority
	}
	return !other.Urgent
}

// Make returns the steps that give the pods of a node room. The pods are served by priority, then in the order in which they began
// to wait. For each pod, shrinks come first: they cost nothing. Then comes the cheapest set of moves, if moves are allowed. Pods that
// cannot get all of their increase grow by a part when all pods of the same priority are served: a part must not take the room with
// which another pod would be complete. Urgent pods come before others of the same priority, and overdue pods get free room before all others.
func Make(r Request) Plan {
	m := newMaker(r)
	for i := range m.pods {
		if p := &m.pods[i]; p.Planned && p.shrinks() {
			m.shrink(p, nil)
		}
	}
	m.serveOverdue()
	for _, level := range m.levels() {
		m.serveAll(level)
	}
	m.serveLeft()
	out := Plan{Node: r.Node, Free: r.Free, Steps: m.steps, Next: m.next(), Visits: m.visits, reserved: m.reserved}
	// Shrinks come before all other steps, because growth needs their room.
	slices.SortStableFunc(out.Steps, func(a, b Step) int { return integer.FalseFirst(a.Do != ShrinkPod, b.Do != ShrinkPod) })
	return out
}

// A maker is the state of one call of Make.
type maker struct {
	pods   []pod
	others []Spot
	free   Amount
	still  bool // no pod may move, because one is leaving already
	steps  []Step
	later  [][]Step // for each pod whose resize the kubelet has to defer first: the moves for it, and its growth
	visits int      // sets of moves that the search looked at

	reserved reserved
}

// A pod is a pod and what the plan does with it.
type pod struct {
	Pod
	used bool // it shrinks, moves or grows
}

// shrinks reports whether the pod may shrink in place, and takes no more of any resource then.
func (p *pod) shrinks() bool { return p.Shrinks && p.Holds.Holds(p.Target) }

func newMaker(r Request) *maker {
	m := &maker{free: r.Free, reserved: reserved{free: r.Free}, still: r.Leaving, others: slices.Clone(r.Others), pods: make([]pod, len(r.Pods))}
	for i := range r.Pods {
		m.pods[i].Pod = r.Pods[i]
	}
	for i := range r.Asked {
		p := r.Asked[i]
		m.reserved.free = m.reserved.free.Add(p.Target.Sub(p.Holds).positive())
	}
	for i := range r.Asked {
		m.reserved.add(r.Asked[i], r.Asked[i].Target.Sub(r.Asked[i].Holds))
	}
	slices.SortFunc(m.pods, func(a, b pod) int { return strings.Compare(a.ID, b.ID) })
	return m
}

// next returns the later steps, without those of pods that have another step.
func (m *maker) next() []Step {
	taken := map[string]bool{}
	for _, s := range m.steps {
		taken[s.ID] = taken[s.ID] || s.Do != Wait
	}
	var out []Step
	for _, steps := range m.later {
		if slices.ContainsFunc(steps, func(s Step) bool { return taken[s.ID] }) {
			continue
		}
		for _, s := range steps {
			taken[s.ID] = true
		}
		out = append(out, steps...)
	}
	return out
}

func (m *maker) needing() []*pod {
	out := cluster.Where(m.pods, func(p *pod) bool { return p.Needs })
	slices.SortStableFunc(out, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), integer.FalseFirst(b.Urgent, a.Urgent), cmp.Compare(a.Since, b.Since))
	})
	return out
}

// levels returns the pods with needs by priority, the highest first.
func (m *maker) levels() [][]*pod {
	var out [][]*pod
	for _, p := range m.needing() {
		if n := len(out); n == 0 || out[n-1][0].Priority != p.Priority {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// serveOverdue gives overdue pods their target where it fits into the free room.
func (m *maker) serveOverdue() {
	for _, p := range m.needing() {
		if p.Overdue && m.free.Holds(p.Target.Sub(p.Holds)) {
			m.grow(p, p.Target)
		}
	}
}

// serveAll decides how the pods of one priority get their room.
func (m *maker) serveAll(pods []*pod) {
	var rest []*pod
	for _, p := range pods {
		if !m.serve(p) {
			rest = append(rest, p)
		}
	}
	for _, p := range rest {
		m.servePart(p)
	}
}

// serveLeft gives pods that wait, and for which no room is kept, their target where it fits into what is free at last: pods that shrank for others
// may have made more room than those needed.
func (m *maker) serveLeft() {
	for _, p := range m.needing() {
		at := slices.IndexFunc(m.steps, func(s Step) bool { return s.Do == Wait && s.ID == p.ID })
		kept := slices.ContainsFunc(m.reserved.given, func(s share) bool { return s.to.ID == p.ID })
		if at >= 0 && !p.Asked && !p.used && !kept && m.free.Holds(p.Target.Sub(p.Holds)) {
			m.steps = slices.Delete(m.steps, at, at+1)
			m.grow(p, p.Target)
		}
	}
}

// serve decides how one pod gets all of its increase now or by moves. It returns false if the pod gets at most a part.
func (m *maker) serve(p *pod) bool {
	if p.used {
		return true // it moves, or was overdue
	}
	increase := p.Target.Sub(p.Holds)
	if m.free.Holds(increase) {
		m.grow(p, p.Target)
		return true
	}
	shrinks := m.shrinksFor(p, increase)
	room := m.free.Add(surplusOf(shrinks))
	if room.Holds(increase) {
		m.shrinkAll(shrinks, p)
		m.serveLeft() // pods that waited before come first
		if m.free.Holds(increase) {
			m.grow(p, p.Target)
			return true
		}
		return false
	}
	switch {
	case p.Allowed < Move:
		return false
	case m.still, p.Visits <= 0:
		m.wait(p, increase) // the room of the pod that leaves may be enough, or it is its turn in another pass
		m.keep(p, increase)
		return true
	}
	return m.moveFor(p, room.Lacking(increase), shrinks)
}

// servePart makes a pod grow by a part, or leaves it waiting. It grows by all of its increase if pods have made more room than the pod
// needed for which they shrank or moved.
func (m *maker) servePart(p *pod) {
	if p.used {
		return // it moves for another pod
	}
	increase := p.Target.Sub(p.Holds)
	if m.free.Holds(increase) {
		m.grow(p, p.Target)
		return
	}
	shrinks := m.shrinksFor(p, increase)
	part := partial(p, m.free.Add(surplusOf(shrinks)))
	if p.Allowed >= Split && p.Divisible && isWorth(p, part) {
		m.shrinkAll(shrinks, p)
		m.serveLeft() // pods that waited before come first
		if part = partial(p, m.free); isWorth(p, part) {
			m.grow(p, part)
			return
		}
	}
	m.wait(p, increase)
}

func (m *maker) wait(p *pod, increase Amount) {
	s := Step{Do: Wait, ID: p.ID, Name: p.Name, From: p.Holds, To: p.Target, Lacks: m.free.Lacking(increase)}
	if !p.Asked { // the kubelet resizes a pod that has asked whenever there is room
		first := m.reserved.from(&p.Pod, increase)
		s.For = first.Name
		s.ForID = first.ID
	}
	m.steps = append(m.steps, s)
}

// keep takes what is free now of the increase of a pod out of the free room, so that pods that are served later do not take it.
func (m *maker) keep(p *pod, increase Amount) {
	if !p.Reserves {
		return
	}
	part := func(free, increase int64) int64 { return max(0, min(free, increase)) }
	m.free = m.free.Sub(Amount{part(m.free.CPU, increase.CPU), part(m.free.Memory, increase.Memory)})
	m.reserved.add(p.Pod, increase)
}

// partial returns the size that a pod can have with the given room: between its present size and its target.
func partial(p *pod, room Amount) Amount {
	part := func(holds, target, room int64) int64 { return holds + max(0, min(target-holds, room)) }
	return Amount{part(p.Holds.CPU, p.Target.CPU, room.CPU), part(p.Holds.Memory, p.Target.Memory, room.Memory)}
}

// isWorth reports whether growth by a part changes the size of the pod enough to justify a resize.
func isWorth(p *pod, to Amount) bool {
	enough := func(from, to int64) bool { return to > from && float64(to-from) >= p.Least*float64(from) }
	return enough(p.Holds.CPU, to.CPU) || enough(p.Holds.Memory, to.Memory)
}

// shrinksFor returns the pods to shrink so that the increase of a pod fits: for each resource that is short those with the largest
// surplus of it, only as many as needed. If all of them are not enough, it returns all that help. There are none if that is not allowed.
func (m *maker) shrinksFor(p *pod, increase Amount) []*pod {
	if p.Allowed < Shrink {
		return nil
	}
	var chosen []*pod
	taken := map[*pod]bool{}
	room := m.free
	for _, of := range []func(Amount) int64{cpuOf, memoryOf} {
		candidates := m.shrinkable(p, of)
		for _, c := range candidates {
			if of(room.Lacking(increase)) == 0 {
				break
			}
			if !taken[c] {
				taken[c] = true
				chosen = append(chosen, c)
				room = room.Add(c.Holds.Sub(c.Target))
			}
		}
	}
	// A pod that was chosen for CPU may have become unnecessary with the pods that were chosen for memory.
	for i := len(chosen) - 1; i >= 0; i-- {
		without := room.Sub(chosen[i].Holds.Sub(chosen[i].Target))
		if room.Lacking(increase) == without.Lacking(increase) {
			room = without
			chosen = slices.Delete(chosen, i, i+1)
		}
	}
	return chosen
}

func cpuOf(a Amount) int64    { return a.CPU }
func memoryOf(a Amount) int64 { return a.Memory }

// shrinkable returns the pods that may shrink and give back some of a resource, the largest surplus first.
func (m *maker) shrinkable(but *pod, of func(Amount) int64) []*pod {
	out := cluster.Where(m.pods, func(c *pod) bool { return c != but && c.shrinks() && !c.Needs && !c.used && of(c.Holds) > of(c.Target) })
	slices.SortStableFunc(out, func(a, b *pod) int {
		return cmp.Compare(of(b.Holds)-of(b.Target), of(a.Holds)-of(a.Target))
	})
	return out
}

func surplusOf(pods []*pod) Amount {
	var sum Amount
	for _, p := range pods {
		sum = sum.Add(p.Holds.Sub(p.Target))
	}
	return sum
}

func (m *maker) shrinkAll(pods []*pod, to *pod) {
	for _, p := range pods {
		m.shrink(p, to)
	}
}

func (m *maker) shrink(p, to *pod) {
	s := Step{Do: ShrinkPod, ID: p.ID, Name: p.Name, From: p.Holds, To: p.Target}
	if to != nil {
		s.For = to.Name
		s.ForID = to.ID
	}
	m.steps = append(m.steps, s)
	m.free = m.free.Add(p.Holds.Sub(p.Target))
	m.reserved.free = m.reserved.free.Add(p.Holds.Sub(p.Target))
	p.used = true
}

func (m *maker) grow(p *pod, to Amount) {
	s := Step{Do: GrowPod, ID: p.ID, Name: p.Name, From: p.Holds, To: to}
	if to != p.Target {
		s.Do, s.Lacks = GrowPart, p.Target.Sub(to).positive()
	}
	m.steps = append(m.steps, s)
	m.free = m.free.Sub(to.Sub(p.Holds))
	m.reserved.add(p.Pod, to.Sub(p.Holds))
	p.used = true
}
