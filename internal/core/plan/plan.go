// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/room"
)

// Plan returns a decision for every live governed pod in the order of execution: first the actions, by priority, with the
// namespaces alternating, then the pods that are left, by name. Plan assumes that every action is carried out. Begin is for callers
// that report outcomes.
func Plan(now time.Time, w World, b Budget) []decision.Decision { return Begin(now, w, b).Decisions() }

// decide determines which pods should change (judge), and decides on these candidates by priority until the budget of their group
// is spent.
func (s *pass) decide() []entry {
	n := 0
	for _, g := range s.w.Governed {
		n += len(g.Pods)
	}
	s.made = make([]decision.Decision, 0, n) // entries have pointers to its elements, so it must not grow
	ds := make([]entry, 0, n)
	for _, g := range s.inTurn() {
		ds = s.decideOn(g, ds)
	}
	s.makeRoom(ds)
	s.checkCapacity(ds)
	s.share(ds)
	slices.SortFunc(ds, byExecution)
	return ds
}

// decideOn appends the decisions on the pods of one autoscaler. If it panics, it records a Failure and appends none, so that the
// other autoscalers are not affected.
func (s *pass) decideOn(g cluster.Governed, before []entry) (ds []entry) {
	defer func() {
		if cause := recover(); cause != nil {
			s.failures = append(s.failures, Failure{Autoscaler: g.Autoscaler, Cause: cause, Stack: string(debug.Stack())})
			ds = before
		}
	}()
	ds = before
	from := len(s.made)
	for _, p := range g.Pods {
		if p.Live() {
			ds = append(ds, s.judge(g.Autoscaler, p))
		}
	}
	mine := ds[len(before):]
	slices.SortFunc(mine, byPriority)
	s.decideCandidates(g, mine, s.made[from:])
	return ds
}

// decideCandidates decides on the pods of one autoscaler that should change, by priority. judged are the decisions of the entries, in any
// order.
func (s *pass) decideCandidates(g cluster.Governed, ds []entry, judged []decision.Decision) {
	if !slices.ContainsFunc(ds, func(d entry) bool { return d.Wanted.Code != decision.Fits }) {
		return
	}
	sc := &scope{pods: g.Pods, judged: judged, groups: s.groupsOf(g.Autoscaler, g.Pods), effective: s.w.Ledger.Effective(judged), newest: newestOf(g.Pods)}
	s.scopes[g.Autoscaler] = sc
	for i := range ds {
		if d := &ds[i]; d.Wanted.Code != decision.Fits {
			d.scope = sc
			sc.noteShrinking(d)
		}
	}
	s.order(ds)
	for i := range ds {
		if d := &ds[i]; d.Wanted.Code != decision.Fits {
			s.candidate(d).take()
		}
	}
}

func (s *pass) candidate(d *entry) *candidate {
	return &candidate{pass: s, scope: d.scope, d: d, g: d.scope.groups[d.Pod.Controller]}
}

// A pass is the state of one call of Plan or Begin.
type pass struct {
	now       time.Time
	w         World
	b         Budget
	nodeSizes nodeSizes
	short     map[cluster.Workload]ledger.Shortage

	canaries map[cluster.Workload]rollout.State // of workloads with canaries
	radius   *radius                            // nil if the amount of changes is not limited
	closed   map[cluster.Key]windowState        // of autoscalers with candidates
	reserved map[string][]cluster.PodResources  // amounts of the namespace's quotas that the decisions use

	crashing map[string][]*cluster.Pod           // pods that are down because of OOM kills, by namespace
	lacking  map[*cluster.DisruptionBudget]int32 // the number of these that a disruption budget counts
	scopes   map[*cluster.Autoscaler]*scope
	rooms    *rooms      // nil until it is needed
	plans    []room.Plan // of nodes that are too full for the resizes of their pods

	withdrawn map[cluster.Workload]bool // direct controllers that have got back the budget of resizes; nil if there are none

	revived map[cluster.Workload]int // stuck pods that earlier passes have changed within Budget.Window, by controller; nil until it is needed

	capacity capacity // the placeholder pods, and what is done about them

	complete map[cluster.Workload]bool // controllers that have replaced all evicted pods since the last pass

	made []decision.Decision // of the entries, in the order in which they were judged

	failures []Failure
}

// A scope is the state that the candidates of one autoscaler share.
type scope struct {
	pods      []*cluster.Pod
	judged    []decision.Decision // about those of the pods that live
	groups    map[cluster.Workload]*group
	effective map[cluster.Workload]bool
	newest    time.Time          // when the newest of the pods was created
	queues    map[queueKey][]int // decisions that wait for budget or for a probe, by rank

	firsts map[cluster.Workload]*cluster.Pod // the pod that this pass changes as a canary

	probes map[cluster.Workload]*cluster.Pod // the pod that this pass evicts as a probe

	deleted map[cluster.Workload]*cluster.Pod // the pod that this pass deletes as a rescue

	replacements map[rescueKey]rescueState // see stateOf

	overQuota   map[cluster.Workload][]quotaRefusal // see quotaRefusals
	quotasAsked bool
	shrinking   map[cluster.Workload]bool // controllers with pods that should only shrink

	surged        map[cluster.Workload]*cluster.Pod // the pod for which this pass begins a surge
	surgeFailures *failedSurges                     // nil until it is needed
}

// newestOf returns when the newest of the pods was created.
func newestOf(pods []*cluster.Pod) time.Time {
	var newest time.Time
	for _, p := range pods {
		if p.Created.After(newest) {
			newest = p.Created
		}
	}
	return newest
}

// byPriority orders decisions by priority. Pods with a refused action come last, the least recently refused first.
func byPriority(a, b entry) int {
	switch {
	case !a.refused.Equal(b.refused):
		return a.refused.Compare(b.refused)
	case a.Priority.Before(b.Priority):
		return -1
	case b.Priority.Before(a.Priority):
		return 1
	}
	return byName(a, b)
}

// byExecution orders actions before pods that are left.
func byExecution(a, b entry) int {
	switch {
	case a.Do != decision.Leave && b.Do != decision.Leave:
		if c := a.slot.compare(b.slot); c != 0 {
			return c
		}
		return byPriority(a, b)
	case a.Do != decision.Leave:
		return -1
	case b.Do != decision.Leave:
		return 1
	}
	return byName(a, b)
}

func byName(a, b entry) int {
	return cmp.Or(a.Pod.Key.Compare(b.Pod.Key), strings.Compare(a.Pod.UID, b.Pod.UID))
}

// judge makes the decision to leave a pod, with its recommended requests and the reason why it should change, if there is one.
func (s *pass) judge(a *cluster.Autoscaler, p *cluster.Pod) entry {
	s.made = append(s.made, decision.Decision{Pod: p, Autoscaler: a})
	d := entry{Decision: &s.made[len(s.made)-1], refused: s.w.Ledger.LastFailureAt(p)}
	boosted := s.b.StartupBoost && isBoosted(p) && !(a.Mode.Updates() && s.isFailedCanary(a, p)) // which is never ready, so its boost would not end
	switch {
	case !a.Mode.Updates() && !boosted:
		d.Reason = decision.Reason{Code: decision.ModeOff, Text: a.Mode.String()}
		return d
	case a.Mode == cluster.InPlace && !s.b.InPlace && !boosted:
		d.Reason = decision.Reason{Code: decision.GateOff, Text: a.Mode.String()}
		return d
	}
	a = s.held(a, p)
	d.With = policy.Fit(a, s.w.LimitsOf(p), p)
	switch {
	case boosted:
		s.judgeBoosted(&d)
	case len(d.With) == 0:
		d.Reason = s.leftToHPA(a, p, decision.Reason{Code: decision.NoAdvice})
	case p.Controller.IsZero():
		d.Reason = decision.Reason{Code: decision.NoController}
	case s.w.Ledger.IsEvicted(s.now, p):
		d.Reason = decision.Reason{Code: decision.AlreadyEvicted}
	case p.Node == "":
		s.judgeUnscheduled(&d)
	default:
		v := judge(s.now, s.b, a, p, d.With)
		d.Wanted, d.Reason, d.Priority = v.wanted, v.instead, v.priority
		s.judgeIncomplete(&d)
		s.judgeLargerNode(&d, &v)
		s.judgeRescue(&d)
		if d.Wanted.Code == decision.Fits {
			d.Reason = s.leftToHPA(a, p, d.Reason)
		}
	}
	return d
}

// judgeUnscheduled judges a pod without a node. Such a pod cannot be resized. A pod that fits on no node because of an earlier
// recommendation is replaced if its recommendation is smaller now (W-15 in docs/migrate.md). A pod that fits on a node is replaced only if
// the difference justifies the loss of its position in the scheduler's queue.
func (s *pass) judgeUnscheduled(d *entry) {
	p := d.Pod
	t := compareRequests(p, d.With)
	d.Priority = t.priority()
	placeable := s.nodeSizes.fit(p, change.Total(p, nil))
	smaller := change.Shrinks(p, d.With)
	switch {
	case s.now.Before(p.Created.Add(s.b.PendingFor)):
		d.Reason = decision.Reason{Code: decision.Unscheduled, Until: p.Created.Add(s.b.PendingFor)}
	case smaller && s.nodeSizes.fit(p, change.Total(p, d.With)) && (!placeable || d.Priority.Diff >= s.b.Threshold):
		d.Wanted = t.largest
		d.Wanted.Code, d.Wanted.Container = decision.TooBigToPlace, nameUnlessSole(p)(t.largest.Container)
	case !placeable:
		d.Reason = decision.Reason{Code: decision.NoNodeFits, Text: change.Total(p, nil).String()}
	default:
		d.Reason = decision.Reason{Code: decision.Unscheduled}
	}
}

func isBoosted(p *cluster.Pod) bool {
	for i := range p.Containers {
		if p.Containers[i].Boosted != nil {
			return true
		}
	}
	return false
}

// rescueBoosted makes a pod whose boost is active change if a container was OOM-killed before the pod was ready, and gets more memory. The
// pod keeps the CPU of its boost.
func (s *pass) rescueBoosted(d *entry, fits []policy.Fitted) bool {
	p, mode := d.Pod, d.Autoscaler.Mode
	if !mode.Updates() || mode == cluster.InPlace && !s.b.InPlace || !healthOf(s.now, s.b, p).isDown() ||
		p.Node == "" || p.Controller.IsZero() || s.w.Ledger.IsEvicted(s.now, p) {
		return false
	}
	d.With = slices.Clone(fits)
	for i := range d.With {
		f := &d.With[i]
		if c := p.Container(f.Container); c.Boosted != nil {
			requests, limits := c.Running()
			f.Requests = f.Requests.Unset(cluster.CPU).Or(requests.Only(cluster.Set(0).With(cluster.CPU)))
			f.Limits = f.Limits.Unset(cluster.CPU).Or(limits.Only(cluster.Set(0).With(cluster.CPU)))
		}
	}
	policy.Admissible(s.w.LimitsOf(p), p, d.With)
	s.judgeRescue(d)
	if !d.Rescue {
		d.With = nil
		return false
	}
	d.Priority = compareRequests(p, d.With).priority()
	return true
}

// judgeBoosted judges a pod with a CPU startup boost. While the boost is active, nothing else is changed, except that a pod that is not ready
// because of an OOM kill gets more memory: it would never be ready, so its boost would never end.
func (s *pass) judgeBoosted(d *entry) {
	fits := d.With
	if d.Autoscaler.Mode == cluster.Off {
		fits = nil
	}
	over, until := policy.Unboost(d.Autoscaler, d.Pod, fits, s.now)
	policy.Admissible(s.w.Limits[d.Pod.Namespace], d.Pod, over)
	d.With = over
	if len(over) == 0 {
		if !s.rescueBoosted(d, fits) {
			d.Reason = decision.Reason{Code: decision.Boosted, Until: until}
		}
		return
	}
	d.Priority = compareRequests(d.Pod, over).priority()
	for i := range over {
		d.Unboost = append(d.Unboost, over[i].Container)
	}
	had, _ := d.Pod.Container(over[0].Container).Running()
	d.Wanted = decision.Reason{
		Code: decision.BoostOver, Container: nameUnlessSole(d.Pod)(over[0].Container),
		Resource: cluster.CPU, From: had.CPU, To: over[0].Requests.CPU,
	}
}
