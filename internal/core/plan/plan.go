// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/room"
)

// Plan returns a decision for every live governed pod in the order of execution: first the actions, by priority, with the
// namespaces alternating, then the pods that are left, by name. Plan assumes that every action is carried out. Begin is for callers
// that report outcomes.
func Plan(now time.Time, w World, b Budget) []Decision { return Begin(now, w, b).Decisions() }

// decide determines which pods should change (judge), and decides on these candidates by priority until the budget of their group
// is spent.
func (s *pass) decide() []Decision {
	n := 0
	for _, g := range s.w.Governed {
		n += len(g.Pods)
	}
	ds := make([]Decision, 0, n)
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
func (s *pass) decideOn(g Governed, before []Decision) (ds []Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			s.failures = append(s.failures, Failure{Autoscaler: g.Autoscaler, Cause: cause, Stack: string(debug.Stack())})
			ds = before
		}
	}()
	ds = before
	for _, p := range g.Pods {
		if p.Live() {
			ds = append(ds, s.judge(g.Autoscaler, p))
		}
	}
	mine := ds[len(before):]
	slices.SortFunc(mine, byPriority)
	s.decideCandidates(g, mine)
	return ds
}

// decideCandidates decides on the pods of one autoscaler that should change, by priority.
func (s *pass) decideCandidates(g Governed, ds []Decision) {
	if !slices.ContainsFunc(ds, func(d Decision) bool { return d.Wanted.Code != Fits }) {
		return
	}
	sc := &scope{pods: g.Pods, groups: s.groupsOf(g.Autoscaler, g.Pods), effective: s.w.Ledger.effective(ds)}
	for _, p := range g.Pods {
		if p.Created.After(sc.newest) {
			sc.newest = p.Created
		}
	}
	s.scopes[g.Autoscaler] = sc
	for i := range ds {
		if d := &ds[i]; d.Wanted.Code != Fits {
			d.scope = sc
		}
	}
	s.order(ds)
	for i := range ds {
		if d := &ds[i]; d.Wanted.Code != Fits {
			s.candidate(d).take()
		}
	}
}

func (s *pass) candidate(d *Decision) *candidate {
	return &candidate{pass: s, scope: d.scope, d: d, g: d.scope.groups[d.Pod.Controller]}
}

// A pass is the state of one call of Plan or Begin.
type pass struct {
	now       time.Time
	w         World
	b         Budget
	nodeSizes nodeSizes
	short     map[cluster.Workload]Shortage

	canaries map[cluster.Workload]rollout.State // of workloads with canaries
	radius   *radius                            // nil if the amount of changes is not limited
	closed   map[cluster.Key]windowState        // of autoscalers with candidates
	reserved map[string][]cluster.PodResources  // amounts of the namespace's quotas that the decisions use

	crashing map[string][]*cluster.Pod // pods that are down because of OOM kills, by namespace
	scopes   map[*cluster.Autoscaler]*scope
	rooms    *rooms      // nil until it is needed
	plans    []room.Plan // of nodes that are too full for the resizes of their pods

	revivals map[cluster.Workload]int // see revived

	capacity capacity // the placeholder pods, and what is done about them

	complete map[cluster.Workload]bool // controllers that have replaced all evicted pods since the last pass

	failures []Failure
}

// A scope is the state that the candidates of one autoscaler share.
type scope struct {
	pods      []*cluster.Pod
	groups    map[cluster.Workload]*group
	effective map[cluster.Workload]bool
	newest    time.Time          // when the newest of the pods was created
	queues    map[queueKey][]int // decisions that wait for budget or for a probe, by rank

	firsts map[cluster.Workload]*cluster.Pod // the pod that this pass changes as a canary

	probes map[cluster.Workload]*cluster.Pod // the pod that this pass evicts as a probe

	deleted map[cluster.Workload]*cluster.Pod // the pod that this pass deletes as a rescue

	surged        map[cluster.Workload]*cluster.Pod // the pod for which this pass begins a surge
	surgeFailures *failedSurges                     // nil until it is needed
}

// byPriority orders decisions by priority. Pods with a refused action come last, the least recently refused first.
func byPriority(a, b Decision) int {
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
func byExecution(a, b Decision) int {
	switch {
	case a.Do != Leave && b.Do != Leave:
		if c := a.slot.compare(b.slot); c != 0 {
			return c
		}
		return byPriority(a, b)
	case a.Do != Leave:
		return -1
	case b.Do != Leave:
		return 1
	}
	return byName(a, b)
}

func byName(a, b Decision) int {
	return cmp.Or(a.Pod.Key.Compare(b.Pod.Key), strings.Compare(a.Pod.UID, b.Pod.UID))
}

// judge returns the decision to leave a pod, with its recommended requests and the reason why it should change, if there is one.
func (s *pass) judge(a *cluster.Autoscaler, p *cluster.Pod) Decision {
	d := Decision{Pod: p, Autoscaler: a, refused: s.w.Ledger.lastRefused(p)}
	boosted := s.b.StartupBoost && isBoosted(p)
	switch {
	case !a.Mode.Updates() && !boosted:
		d.Reason = Reason{Code: ModeOff, Text: a.Mode.String()}
		return d
	case a.Mode == cluster.InPlace && !s.b.InPlace && !boosted:
		d.Reason = Reason{Code: GateOff, Text: a.Mode.String()}
		return d
	}
	a = s.held(a, p)
	d.With = policy.Fit(a, s.w.limitsOf(p), p)
	switch {
	case boosted:
		s.judgeBoosted(&d)
	case len(d.With) == 0:
		d.Reason = s.leftToHPA(a, p, Reason{Code: NoAdvice})
	case p.Controller.IsZero():
		d.Reason = Reason{Code: NoController}
	case s.w.Ledger.isEvicted(s.now, p):
		d.Reason = Reason{Code: AlreadyEvicted}
	case p.Node == "":
		s.judgeUnscheduled(&d)
	default:
		v := judge(s.now, s.b, a, p, d.With)
		d.Wanted, d.Reason, d.Priority = v.wanted, v.instead, v.priority
		s.judgeIncomplete(&d)
		s.judgeRescue(&d)
		if d.Wanted.Code == Fits {
			d.Reason = s.leftToHPA(a, p, d.Reason)
		}
	}
	return d
}

// judgeUnscheduled judges a pod without a node. Such a pod cannot be resized. A pod that fits on no node because of an earlier
// recommendation is replaced if its recommendation is smaller now (W-15). A pod that fits on a node is replaced only if the
// difference justifies the loss of its position in the scheduler's queue.
func (s *pass) judgeUnscheduled(d *Decision) {
	p := d.Pod
	t := compareRequests(p, d.With)
	d.Priority = t.priority()
	placeable := s.nodeSizes.fit(p, total(p, nil))
	smaller := shrinks(p, d.With)
	switch {
	case s.now.Before(p.Created.Add(s.b.PendingFor)):
		d.Reason = Reason{Code: Unscheduled, Until: p.Created.Add(s.b.PendingFor)}
	case smaller && s.nodeSizes.fit(p, total(p, d.With)) && (!placeable || d.Priority.Diff >= s.b.Threshold):
		d.Wanted = t.largest
		d.Wanted.Code, d.Wanted.Container = TooBigToPlace, nameUnlessSole(p)(t.largest.Container)
	case !placeable:
		d.Reason = Reason{Code: NoNodeFits, Text: total(p, nil).String()}
	default:
		d.Reason = Reason{Code: Unscheduled}
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

// judgeBoosted judges a pod with a CPU startup boost. While the boost is active, nothing else is changed.
func (s *pass) judgeBoosted(d *Decision) {
	fits := d.With
	if d.Autoscaler.Mode == cluster.Off {
		fits = nil
	}
	over, until := policy.Unboost(d.Autoscaler, d.Pod, fits, s.now)
	policy.Admissible(s.w.Limits[d.Pod.Namespace], d.Pod, over)
	d.With = over
	if len(over) == 0 {
		d.Reason = Reason{Code: Boosted, Until: until}
		return
	}
	d.Priority = compareRequests(d.Pod, over).priority()
	for i := range over {
		d.Unboost = append(d.Unboost, over[i].Container)
	}
	had, _ := d.Pod.Container(over[0].Container).Running()
	d.Wanted = Reason{
		Code: BoostOver, Container: nameUnlessSole(d.Pod)(over[0].Container),
		Resource: cluster.CPU, From: had.CPU, To: over[0].Requests.CPU,
	}
}
