// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which running pods are left alone, resized or evicted, and why. The decisions are a function of the state
// of the cluster, the ledger and the time.
//
// Plan never writes, and the same world at the same time gives the same decisions in the same order, whatever the order
// of its input. Package ledger records earlier attempts and their effects. Plan only reads it.
//
// Plan assumes that every decision is carried out. The caller of a Pass reports the outcome of each decision: done, refused,
// unknown, or not tried. A decision that was not carried out returns its budget, and the pass returns the decisions that take its
// place. The ledger keeps the outcomes, so that a refused change is tried again later, after all others.
//
// Plan applies no rate limits: decisions are sorted by importance, and the caller stops when its rate limiter is exhausted. The
// next pass decides again on the remaining pods.
package plan

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/backoff"
	"podfit.dev/podfit/internal/core/canary"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/occupancy"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/quota"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/selection"
	"podfit.dev/podfit/internal/core/surge"
)

// Plan returns a decision for every live governed pod in the order of execution: first the actions, by priority, with the
// namespaces alternating, then the pods that are left, by name. Plan assumes that every action is carried out. Begin is for callers
// that report outcomes.
func Plan(now time.Time, w World, b Budget) []decision.Decision { return Begin(now, w, b).Decisions() }

// decide determines which pods should change (package selection), and decides on these candidates by priority until the budget of their group
// is spent.
func (s *pass) decide() []entry {
	n := 0
	for _, g := range s.w.Governed {
		n += len(g.Pods)
	}
	s.made = make([]decision.Decision, 0, n) // entries have pointers to its elements, so it must not grow
	ds := make([]entry, 0, n)
	for _, g := range s.governedInOrder() {
		s.decideOn(g, &ds)
	}
	(&roomMaker{pass: s}).make(ds)
	s.checkHeadroom(ds)
	s.guardNodes(ds)
	s.share(ds)
	slices.SortFunc(ds, byExecution)
	return ds
}

// decideOn appends the decisions on the pods of one autoscaler. If it panics, it records a Failure and appends none, so that the
// other autoscalers are not affected.
func (s *pass) decideOn(g cluster.Governed, ds *[]entry) {
	defer s.noteFailure(g.Autoscaler)
	all := *ds
	from := len(s.made)
	for _, p := range g.Pods {
		if p.Live() {
			s.made = append(s.made, decision.Decision{Pod: p, Autoscaler: g.Autoscaler})
			d := &s.made[len(s.made)-1]
			s.selector.Judge(d)
			all = append(all, entry{Decision: d, refused: s.w.Ledger.LastFailureAt(p)})
		}
	}
	mine := all[len(*ds):]
	slices.SortFunc(mine, byPriority)
	s.decideCandidates(g, mine, s.made[from:])
	*ds = all
}

// noteFailure records a Failure if the function that defers it panics.
func (s *pass) noteFailure(a *cluster.Autoscaler) {
	if cause := recover(); cause != nil {
		s.Failures = append(s.Failures, Failure{Autoscaler: a, Cause: cause, Stack: string(debug.Stack())})
	}
}

// decideCandidates decides on the pods of one autoscaler that should change, by priority. judged are the decisions of the entries, in any
// order.
func (s *pass) decideCandidates(g cluster.Governed, ds []entry, judged []decision.Decision) {
	if !slices.ContainsFunc(ds, func(d entry) bool { return d.Wanted.Code != decision.Fits }) {
		return
	}
	sc := s.newScope(g, judged)
	for i := range ds {
		if d := &ds[i]; d.Wanted.Code != decision.Fits {
			d.scope = sc
			if change.Shrinks(d.Pod, d.With) && !change.Grows(d.Pod, d.With) {
				sc.siblings.NoteShrinking(d.Pod)
			}
		}
	}
	s.order(ds)
	for i := range ds {
		if d := &ds[i]; d.Wanted.Code != decision.Fits {
			s.decider(d).take()
		}
	}
}

// newScope returns the scope of an autoscaler. judged are the decisions on its pods, if they are made.
func (s *pass) newScope(g cluster.Governed, judged []decision.Decision) *scope {
	sc := &scope{
		first:    map[cluster.Workload]*cluster.Pod{},
		groups:   s.counter.Groups(g.Autoscaler, g.Pods),
		siblings: &quota.Siblings{Now: s.now, Pods: g.Pods, Judged: judged, Scales: s.w.Scales, Ledger: s.w.Ledger, Delays: &s.b.Delays, Book: s.quotas},
		backoff:  &backoff.Gate{Book: s.backoffs, Effective: s.w.Ledger.Effective(judged)},
		canary:   &canary.Gate{Book: s.canaries},
		surge:    &surge.Gate{Now: s.now, State: s.w.Surges, Mover: s.b.Mover, Pods: g.Pods, Ledger: s.w.Ledger, Delays: &s.b.Delays},
		rescue:   &rescue.Gate{Book: s.rescues, Pods: g.Pods},
	}
	for controller := range sc.groups {
		if _, short := s.short[controller]; short {
			sc.first[controller] = s.counter.First(controller, g.Pods)
		}
	}
	sc.backoff.Open = s.counter.Open(sc.groups, g.Pods, judged)
	for _, p := range g.Pods {
		sc.newest = cluster.Latest(sc.newest, p.Created)
	}
	s.scopes[g.Autoscaler] = sc
	return sc
}

// decider returns the decider on a decision. A pod that should not change gets a scope only if it may make room for others.
func (s *pass) decider(d *entry) *decider {
	if d.scope == nil {
		d.scope = s.scopeOf(d.Autoscaler)
	}
	return &decider{candidate{pass: s, scope: d.scope, d: d, g: d.group()}}
}

func (s *pass) scopeOf(a *cluster.Autoscaler) *scope {
	if sc := s.scopes[a]; sc != nil {
		return sc
	}
	i := slices.IndexFunc(s.w.Governed, func(g cluster.Governed) bool { return g.Autoscaler == a })
	return s.newScope(s.w.Governed[i], nil)
}

// A pass is the state of one call of Plan or Begin.
type pass struct {
	now      time.Time
	w        World
	b        Budget
	made     []decision.Decision // of the entries, in the order in which they were judged
	scopes   map[*cluster.Autoscaler]*scope
	Failures []Failure // in the order of World.Governed

	sizes    *placement.Sizes
	selector selection.Selector
	counter  *disruption.Counter
	short    map[cluster.Workload]ledger.Shortage
	backoffs *backoff.Book
	canaries *canary.Book
	windows  rollout.Windows
	radius   *radius.Book // nil if the amount of changes is not limited
	quotas   *quota.Book
	rescues  *rescue.Book
	headroom *headroom.Search

	occupancy *occupancy.Book
	Rooms     []room.Plan    // the plans for the nodes that are too full for the resizes of their pods, sorted by node
	searched  []*cluster.Pod // for which moves were searched
}

// A scope is the state that the candidates of one autoscaler share.
type scope struct {
	groups map[cluster.Workload]*disruption.Group
	first  map[cluster.Workload]*cluster.Pod // that do not wait for missing replacements, see disruption.Counter.First
	newest time.Time                         // when the newest of the pods was created

	siblings *quota.Siblings
	backoff  *backoff.Gate
	canary   *canary.Gate
	surge    *surge.Gate
	rescue   *rescue.Gate
}

// byPriority orders decisions by need, and equal ones by name.
func byPriority(a, b entry) int { return cmp.Or(byNeed(a, b), byName(a, b)) }

// byNeed orders decisions by priority. Pods with a refused action come last, the least recently refused first.
func byNeed(a, b entry) int {
	return cmp.Or(a.refused.Compare(b.refused), a.Priority.Compare(b.Priority))
}

// byExecution orders actions before pods that are left.
func byExecution(a, b entry) int {
	if a.Do != decision.Leave && b.Do != decision.Leave {
		return cmp.Or(a.slot.compare(b.slot), byPriority(a, b))
	}
	return cmp.Or(integer.FalseFirst(a.Do == decision.Leave, b.Do == decision.Leave), byName(a, b))
}

func byName(a, b entry) int {
	return cmp.Or(a.Pod.Key.Compare(b.Pod.Key), strings.Compare(a.Pod.UID, b.Pod.UID))
}

// An entry is a decision with what only the pass needs to know about it.
type entry struct {
	*decision.Decision

	placed  bool         // the room for the replacement is known; only set on Evict
	roomFor *cluster.Pod // the pod that gets the room of this one; only set on Evict and Surge
	guardTo string       // the node where the replacement fits, if the pod moves because its node is nearly out of memory

	canary     bool      // the pod is the canary of its workload
	rank       int       // position in the order in which the pods of the autoscaler are decided on
	slot       slot      // position in the order of execution
	refused    time.Time // when an action on the pod was last refused; zero if none was
	scope      *scope
	taken      bool // the decision is counted in the budget of its group
	unanswered bool // a resize of the pod had no answer in this pass, so that its budget stays spent
	health     disruption.Health
	again      bool        // Delete: the replacement of an earlier deletion was OOM-killed, too
	gates      []gate.Gate // of World.Explained: the results of the checks
}

func (d *entry) attempt(now time.Time, tried decision.Decision) ledger.Attempt {
	a := ledger.Attempt{
		Pod: tried.Pod, Autoscaler: tried.Autoscaler.Key, Do: tried.Do, With: tried.With, Rescue: tried.Rescue,
		Part: tried.Reason.Part, RoomFor: d.roomFor, Guard: tried.Reason.Code == decision.NodeNearlyFull, Repeated: d.again, Newest: d.scope.newest,
	}
	if a.Do == decision.Delete {
		kill, _ := rescue.KillOf(now, attempt.HistoryTTL, tried.Autoscaler, a.Pod, a.With)
		a.Memory = kill.To
	}
	return a
}

func (d *entry) leave(r decision.Reason) {
	d.Do = decision.Leave
	d.Reason = r
	d.Fallback = false
	d.roomFor = nil
	d.Request = nil
}

// group returns the pods with which the pod shares a budget, or nil if it was never a candidate.
func (d *entry) group() *disruption.Group {
	if d.scope == nil {
		return nil
	}
	return d.scope.groups[d.Pod.Controller]
}
