// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/room"
)

// A resize that does not fit on its node waits there, in the state Deferred. makeRoom decides what is done about that after all
// other decisions are made: other pods on the node shrink in place, the pod grows by a part, or pods move to other nodes. Package
// room decides which; this file translates pods and decisions, and checks that each step is allowed.
//
//	asked in full ─▶ Deferred ─▶ the kubelet completes it when there is room (after shrinks and moves)
//	     │              │
//	     ▼              ▼
//	asked in part ─▶ AwaitingRoom ─▶ asked in full when it fits ─▶ done
//
// A pod that waits longer than Budget.DeferredFor is evicted, if its mode allows that and its requests are outside their bounds.

// Limits of attempts for one pod until it has all of its increase.
const (
	maxParts = 3 // resizes by a part
	maxMoves = 3 // evictions of other pods
)

// allowedFor returns what may be done to make room for the pods of an autoscaler, and with them.
func (s *pass) allowedFor(a *cluster.Autoscaler) room.Allowed {
	allowed := s.b.MakeRoom
	if own, ok := room.ParseAllowed(a.MakeRoom); ok {
		allowed = own
	}
	if s.w.SchedulerPreempts {
		allowed = min(allowed, room.Split)
	}
	return allowed
}

// Rooms returns the plans for the nodes that are too full for the resizes of their pods, sorted by node.
func (p *Pass) Rooms() []room.Plan { return p.plans }

// makeRoom changes decisions on nodes that are too full for the resizes of their pods.
func (s *pass) makeRoom(ds []entry) {
	needs := map[string][]int{}
	for i := range ds {
		if s.needsRoom(&ds[i]) {
			needs[ds[i].Pod.Node] = append(needs[ds[i].Pod.Node], i)
		}
	}
	if len(needs) == 0 || !s.nodeRooms().known {
		return
	}
	byUID := map[string]*entry{}
	for i := range ds {
		d := &ds[i]
		if needs[d.Pod.Node] != nil {
			byUID[d.Pod.UID] = d
		}
		if n := s.rooms.nodes[d.Pod.Node]; n != nil && d.Do == decision.Resize {
			n.open = n.open.Sub(increaseOf(d))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(needs)) {
		var total room.Amount
		for _, i := range needs[node] {
			total = total.Add(increaseOf(&ds[i]))
		}
		n := s.rooms.nodes[node]
		if n != nil {
			s.giveUpPlaceholders(n, total)
		}
		switch {
		case n == nil || n.unknown:
		case n.free.Holds(total):
			n.plan = s.planAll(n, ds, needs[node])
		default:
			s.makeRoomOn(n, byUID, ds[needs[node][0]].Autoscaler)
		}
	}
	if len(s.withdrawn) > 0 {
		s.offerBudget(ds, s.withdrawn, func(d *entry) { s.holdForRoom(d) })
	}
}

// planAll returns the plan of a node that has room for all resizes of its pods.
func (s *pass) planAll(n *nodeRoom, ds []entry, needs []int) *room.Plan {
	var pods []room.Pod
	for _, i := range needs {
		d := &ds[i]
		p := room.Pod{ID: d.Pod.UID, Name: d.Pod.Key.String(), Priority: d.Pod.Priority, Holds: held(d.Pod)}
		s.describeNeed(&p, d)
		pods = append(pods, p)
	}
	plan := room.Make(room.Request{Node: n.node.Name, Free: n.free, Pods: pods, Asked: s.askedOn(n)})
	return &plan
}

// askedOn returns the pods of a node that were asked to grow, for which the kubelet has not reported whether it has room.
func (s *pass) askedOn(n *nodeRoom) []room.Pod {
	var out []room.Pod
	for _, p := range n.pods {
		has, most := sumOf(p, true), held(p)
		if p.IsResizing() || has == most {
			continue
		}
		asked := s.w.Ledger.LastResize(p)
		out = append(out, room.Pod{
			ID: p.UID, Name: p.Key.String(), Holds: has, Target: most, Priority: p.Priority, Reserves: s.now.Sub(asked) <= s.b.DeferredFor,
		})
	}
	slices.SortFunc(out, func(a, b room.Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.Name, b.Name))
	})
	return out
}

// needsRoom reports whether a pod grows, waits for room on its node, or waits with the rest of its increase.
func (s *pass) needsRoom(d *entry) bool {
	if d.Pod.Node == "" || !d.Autoscaler.Mode.Resizes() || d.Wanted.Code == decision.BoostOver || s.allowedFor(d.Autoscaler) == room.Off {
		return false
	}
	switch d.Do {
	case decision.Resize:
		return !(room.Amount{}).Holds(increaseOf(d))
	case decision.Leave:
		return d.Reason.Code == decision.AwaitingRoom || d.Reason.Code == decision.ResizeWaiting && d.Pod.IsDeferred()
	case decision.Evict, decision.Delete, decision.Surge:
	}
	return false
}

// targetOf returns the requests that a pod is going to have: those that its resize asks for, or those that the kubelet knows.
func targetOf(d *entry) room.Amount {
	if d.Do != decision.Resize && d.Pod.IsDeferred() {
		return room.Of(change.Total(d.Pod, nil))
	}
	return room.Of(change.Total(d.Pod, d.With))
}

func increaseOf(d *entry) room.Amount { return targetOf(d).Sub(held(d.Pod)) }

// makeRoomOn plans on one node and applies the steps. If it panics, it records a Failure, and the node is left as it is.
func (s *pass) makeRoomOn(n *nodeRoom, byUID map[string]*entry, blamed *cluster.Autoscaler) {
	defer func() {
		if cause := recover(); cause != nil {
			s.failures = append(s.failures, Failure{Autoscaler: blamed, Cause: cause, Stack: string(debug.Stack())})
		}
	}()
	r := room.Request{Node: n.node.Name, Free: n.free, Leaving: n.leaving, Asked: s.askedOn(n)}
	spots := newSpots(s.rooms, n)
	for _, p := range n.pods {
		d := byUID[p.UID]
		leaves := p.Deleting || s.w.Ledger.IsEvicted(s.now, p) || s.isSurging(p) || d != nil && (d.Do == decision.Evict || d.Do == decision.Surge)
		r.Leaving = r.Leaving || leaves
		if !leaves {
			r.Pods = append(r.Pods, s.roomPod(p, d, spots))
		}
	}
	r.Others = spots.others
	plan := room.Make(r)
	s.plans = append(s.plans, plan)
	n.plan = &plan
	s.apply(plan, byUID)
}

// roomPod describes a pod for the plan of its node. A pod without a decision takes no part in it.
func (s *pass) roomPod(p *cluster.Pod, d *entry, spots *spots) room.Pod {
	out := room.Pod{ID: p.UID, Name: p.Key.String(), Holds: held(p), Priority: p.Priority, Least: s.b.Threshold}
	spec := room.Of(change.Total(p, nil))
	switch {
	case !p.IsDeferred() && out.Holds != spec && out.Holds.Holds(spec):
		out.Target, out.Shrinks, out.Planned = spec, true, true // it was asked to shrink, and the kubelet has not done it yet
		return out
	case d == nil:
		return out
	case s.needsRoom(d):
		s.describeNeed(&out, d)
	case d.Do == decision.Resize:
		out.Target, out.Shrinks, out.Planned = targetOf(d), true, true
	case s.mayShrink(d):
		out.Target, out.Shrinks = targetOf(d), true
	}
	if !out.Planned && s.mayMove(d) {
		out.Move = s.candidateFor(d, spots)
	}
	return out
}

// standsForEviction reports whether a resize is tried once more before the pod is evicted, see triesAgain. It is tried in full: the refusal
// of a part would not lead to the eviction.
func (s *pass) standsForEviction(d *entry) bool {
	last, failed := s.lastResize(d)
	return d.Do == decision.Resize && d.Fallback && failed && last.IsLasting()
}

// isUrgent reports whether a pod gets free room before others: it gets more memory because a container was OOM-killed, or it has left the
// room to others for Budget.DeferredFor.
func (s *pass) isUrgent(d *entry) bool {
	since := s.w.Ledger.YieldsSince(d.Pod)
	return d.Rescue || d.Wanted.Code == decision.OutOfMemory || !since.IsZero() && !s.now.Before(since.Add(s.b.DeferredFor))
}

func (s *pass) describeNeed(out *room.Pod, d *entry) {
	short := s.w.Ledger.LackOfRoom(d.Pod)
	out.Needs, out.Target, out.Allowed = true, targetOf(d), s.allowedFor(d.Autoscaler)
	out.Asked, out.Since = d.Pod.IsDeferred(), s.now.Unix()
	if !short.Since.IsZero() {
		out.Since = short.Since.Unix()
	}
	if d.Pod.IsDeferred() {
		out.Since = min(out.Since, d.Pod.Resize.Since.Unix())
	}
	out.Reserves, out.Urgent = s.now.Unix()-out.Since <= int64(s.b.DeferredFor/time.Second), s.isUrgent(d) && d.Do == decision.Resize
	out.Divisible = short.Parts < maxParts && !s.standsForEviction(d) && (d.Do == decision.Resize || !s.isBlocked(d, resizeChecks)) && d.Pod.PodLevel == nil && !change.Restarts(d.Pod, d.With) && change.Grows(d.Pod, d.With) &&
		(short.With == nil || !d.Pod.IsDeferred() || !change.IsAsked(d.Pod, short.With)) // the kubelet has not seen the last part yet
	if short.Moves >= maxMoves {
		out.Allowed = min(out.Allowed, room.Split)
	}
}

// shrinkReasons are the reasons to leave a pod that do not prevent a resize that only lowers requests and makes room for another pod.
// A recommendation that is too young is not among them: such a target may be too low.
var shrinkReasons = map[decision.ReasonCode]bool{decision.Fits: true, decision.PodTooYoung: true, decision.SmallChange: true, decision.BudgetSpent: true, decision.NotReady: true}

// shrinkChecks are the checks for a resize that makes room for another pod.
var shrinkChecks = []check{
	{GateWindow, (*candidate).switchedOff},
	{GateInterruption, (*candidate).interrupted},
	{GateCanary, (*candidate).awaitsCanary},
	{GateResizeEffect, (*candidate).undone},
	{GateResizeRefusal, (*candidate).resizeRefused},
	{GateAdmission, (*candidate).replacementRefused},
	{GateReplicas, (*candidate).replicasUnknown},
	{GateMinReplicas, (*candidate).tooFewReplicasInPlace},
	notAnnounced(decision.Resize),
}

// mayShrink reports whether a pod that is left may be resized in place to its lower target: no container restarts, and the kubelet
// has no other resize of the pod to do.
func (s *pass) mayShrink(d *entry) bool {
	p, mode := d.Pod, d.Autoscaler.Mode
	if d.Do != decision.Leave || isKilled(d) || !shrinkReasons[d.Reason.Code] || s.allowedFor(d.Autoscaler) == room.Off || len(d.With) == 0 ||
		!mode.Resizes() || mode == cluster.InPlace && !s.b.InPlace || isBoosted(p) {
		return false
	}
	if p.Phase != cluster.Running || !isAnyRunning(p) || p.IsResizing() || change.IsAsked(p, d.With) ||
		!change.Shrinks(p, d.With) || change.Restarts(p, d.With) || change.ChangesQoS(s.w.Limits[p.Namespace], p, d.With) {
		return false
	}
	return !s.isBlocked(d, shrinkChecks)
}

// moveReasons are the reasons to leave a pod that do not prevent moving it.
var moveReasons = map[decision.ReasonCode]bool{decision.Fits: true, decision.PodTooYoung: true, decision.AutoscalerTooYoung: true, decision.SmallChange: true, decision.SameSize: true}

// moveChecks are the checks for the eviction of a pod to make room for another one: those for an eviction, but the size of the pod
// need not change.
var moveChecks = append([]check{{GateInterruption, (*candidate).interrupted}}, evictionChecks[1:]...)

// isKilled reports whether a pod has been OOM-killed and is not ready, or gets more memory because of an OOM kill. Such a pod makes no
// room for others.
func isKilled(d *entry) bool { return d.Rescue || d.Pod.Crash != nil }

// mayMove reports whether a pod may be evicted so that its replacement runs on another node: for another pod, or because its own
// resize waits for room.
func (s *pass) mayMove(d *entry) bool {
	p := d.Pod
	itself := s.needsRoom(d)
	if s.allowedFor(d.Autoscaler) < room.Move || !d.Autoscaler.Mode.Evicts() || len(d.With) == 0 || d.Do != decision.Leave || !itself && !moveReasons[d.Reason.Code] {
		return false
	}
	if p.LocalData || p.Tied || p.Overhead || p.Place == cluster.Somewhere || p.Tolerance >= cluster.Unlisted || p.Phase != cluster.Running || !p.Ready ||
		p.Controller.Kind == "DaemonSet" || p.Controller.Kind == "Job" || isBoosted(p) {
		return false
	}
	if itself {
		return p.IsDeferred() && s.roomCandidate(d).isMovable(surgeChecks, evictionChecks)
	}
	return !isKilled(d) && !p.IsResizing() && s.roomCandidate(d).isMovable(moveSurgeChecks, moveChecks)
}

func (s *pass) isBlocked(d *entry, against []check) bool {
	t := s.roomCandidate(d)
	return slices.ContainsFunc(against, func(c check) bool {
		_, blocked := c.blocks(t)
		return blocked
	})
}

// roomCandidate returns the candidate of a decision. A pod that should not change has no scope yet.
func (s *pass) roomCandidate(d *entry) *candidate {
	if d.scope == nil {
		d.scope = s.scopeOf(d.Autoscaler)
	}
	return s.candidate(d)
}

func (s *pass) scopeOf(a *cluster.Autoscaler) *scope {
	if sc := s.scopes[a]; sc != nil {
		return sc
	}
	sc := &scope{effective: map[cluster.Workload]bool{}}
	for _, g := range s.w.Governed {
		if g.Autoscaler != a {
			continue
		}
		sc.pods, sc.groups, sc.newest = g.Pods, s.groupsOf(a, g.Pods), newestOf(g.Pods)
	}
	s.scopes[a] = sc
	return sc
}

// givesBack reports whether a resize only lowers requests, so that it takes nothing out of service if it restarts no container.
func (t *candidate) givesBack() bool {
	return t.allowedFor(t.d.Autoscaler) != room.Off && t.d.Wanted.Code != decision.BoostOver && change.Shrinks(t.d.Pod, t.d.With)
}

// judgeIncomplete makes a pod that has a part of an increase want the rest of it, whatever its age.
func (s *pass) judgeIncomplete(d *entry) {
	if d.Wanted.Code != decision.Fits || s.w.Ledger.LackOfRoom(d.Pod).Parts == 0 || s.allowedFor(d.Autoscaler) < room.Split {
		return
	}
	for x := range change.Pairs(d.Pod, d.With, false) {
		if !x.Limit && change.Compare(x.Resource, x.To, x.From) > 0 && d.Wanted.Code == decision.Fits {
			d.Wanted = decision.Reason{Code: decision.Incomplete, Container: nameUnlessSole(d.Pod)(x.Container.Name), Resource: x.Resource, From: x.From, To: x.To}
		}
	}
}

// isShortOfRoom reports whether the pod has a part of its increase and its node has no room for the rest.
func (t *candidate) isShortOfRoom() bool {
	p := t.d.Pod
	if t.w.Ledger.LackOfRoom(p).Parts == 0 || t.allowedFor(t.d.Autoscaler) < room.Split || !t.nodeRooms().known {
		return false
	}
	n := t.rooms.nodes[p.Node]
	return n != nil && !n.unknown && !n.free.Holds(t.rest())
}

// rest returns what the pod needs besides what it holds.
func (t *candidate) rest() room.Amount {
	return room.Of(change.Total(t.d.Pod, t.d.With)).Sub(held(t.d.Pod))
}

// whileShortOfRoom decides on a pod that has a part of its increase. As with a resize that the kubelet defers, the pod is evicted
// after Budget.DeferredFor, but only if its requests are outside their bounds, and if no quota refused the rest of the increase: it
// would refuse the replacement, too. If the quotas are not known, the pod is first asked for the rest, so that a quota can refuse it. After
// such a refusal, it is asked again when the back-off ends.
func (t *candidate) whileShortOfRoom() {
	r := decision.Reason{Code: decision.AwaitingRoom, Text: t.rooms.nodes[t.d.Pod.Node].free.Lacking(t.rest()).Shortage()}
	since := t.w.Ledger.LackOfRoom(t.d.Pod).Since
	_, known := t.quotaView() // the checks for an eviction read known quotas
	last, failed := t.lastResize(t.d)
	switch {
	case failed && !known && last.IsOverQuota(t.now, t.d.With) && t.now.Before(last.Until(t.b.Delays)):
		t.leave(last.Reason(t.b.Delays, decision.Resize)) // room on the node would not help
	case t.d.Wanted.Code == decision.Incomplete, t.now.Sub(since) <= t.b.DeferredFor:
		t.leave(r)
	case !known && t.d.Autoscaler.Mode.Evicts() && (!t.w.Ledger.IsAskedInFull(t.d.Pod) || failed && last.IsOverQuota(t.now, t.d.With)):
		t.try(decision.Resize, t.resizeChecks(), decision.Fits)
	default:
		t.evictOr(decision.ResizeWaiting, r)
	}
}

// shrinkFirst puts the resizes on a node that only lower requests in front of those that need room there. A resize that was refused
// gives no room, so it keeps its place: otherwise, with a rate limit, it would be tried in each pass instead of the others.
func (s *pass) shrinkFirst(acts []*entry) {
	first := map[string]slot{} // of the resizes that need room, by node
	for _, d := range acts {
		if d.Do != decision.Resize || !s.needsRoom(d) {
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
		case s.needsRoom(d):
			d.slot.late = true
		case d.refused.IsZero() && at.compare(d.slot) < 0:
			d.slot = at
		}
	}
}
