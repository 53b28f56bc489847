// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
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

// A shortOfRoom records that the node of a pod was too full for its resize.
type shortOfRoom struct {
	since time.Time
	with  []policy.Fitted // what the last resize by a part asked for
	parts int             // resizes by a part
	moves int             // pods that were evicted to make room
}

// allowedFor returns what may be done to make room for the pods of an autoscaler, and with them.
func (s *pass) allowedFor(a *cluster.Autoscaler) room.Allowed {
	if own, ok := room.ParseAllowed(a.MakeRoom); ok {
		return own
	}
	return s.b.MakeRoom
}

// Rooms returns the plans for the nodes that are too full for the resizes of their pods, sorted by node.
func (p *Pass) Rooms() []room.Plan { return p.plans }

// makeRoom changes decisions on nodes that are too full for the resizes of their pods.
func (s *pass) makeRoom(ds []Decision) {
	needs := map[string][]int{}
	for i := range ds {
		if s.needsRoom(&ds[i]) {
			needs[ds[i].Pod.Node] = append(needs[ds[i].Pod.Node], i)
		}
	}
	if len(needs) == 0 || !s.nodeRooms().known {
		return
	}
	byUID := map[string]*Decision{}
	for i := range ds {
		d := &ds[i]
		if needs[d.Pod.Node] != nil {
			byUID[d.Pod.UID] = d
		}
		if n := s.rooms.nodes[d.Pod.Node]; n != nil && d.Do == Resize {
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
		if n != nil && !n.unknown && !n.free.Holds(total) {
			s.makeRoomOn(n, byUID, ds[needs[node][0]].Autoscaler)
		}
	}
}

// needsRoom reports whether a pod grows, waits for room on its node, or waits with the rest of its increase.
func (s *pass) needsRoom(d *Decision) bool {
	if d.Pod.Node == "" || !d.Autoscaler.Mode.Resizes() || d.Wanted.Code == BoostOver || s.allowedFor(d.Autoscaler) == room.Off {
		return false
	}
	switch d.Do {
	case Resize:
		return !(room.Amount{}).Holds(increaseOf(d))
	case Leave:
		return d.Reason.Code == AwaitingRoom || d.Reason.Code == ResizeWaiting && isDeferred(d.Pod)
	case Evict, Delete, Surge:
	}
	return false
}

func isDeferred(p *cluster.Pod) bool {
	return p.Resize != nil && p.Resize.State == cluster.ResizeDeferred
}

// targetOf returns the requests that a pod is going to have: those that its resize asks for, or those that the kubelet knows.
func targetOf(d *Decision) room.Amount {
	if d.Do != Resize && isDeferred(d.Pod) {
		return room.Of(total(d.Pod, nil))
	}
	return room.Of(total(d.Pod, d.With))
}

func increaseOf(d *Decision) room.Amount { return targetOf(d).Sub(held(d.Pod)) }

// makeRoomOn plans on one node and applies the steps. If it panics, it records a Failure, and the node is left as it is.
func (s *pass) makeRoomOn(n *nodeRoom, byUID map[string]*Decision, blamed *cluster.Autoscaler) {
	defer func() {
		if cause := recover(); cause != nil {
			s.failures = append(s.failures, Failure{Autoscaler: blamed, Cause: cause, Stack: string(debug.Stack())})
		}
	}()
	r := room.Request{Node: n.node.Name, Free: n.free, Leaving: n.leaving}
	spots := newSpots(s.rooms, n)
	for _, p := range n.pods {
		d := byUID[p.UID]
		leaves := p.Deleting || s.w.Ledger.isEvicted(s.now, p) || s.isSurging(p) || d != nil && (d.Do == Evict || d.Do == Surge)
		r.Leaving = r.Leaving || leaves
		if !leaves {
			r.Pods = append(r.Pods, s.roomPod(p, d, spots))
		}
	}
	r.Others = spots.others
	plan := room.Make(r)
	s.plans = append(s.plans, plan)
	s.apply(plan, byUID)
}

// roomPod describes a pod for the plan of its node. A pod without a decision takes no part in it.
func (s *pass) roomPod(p *cluster.Pod, d *Decision, spots *spots) room.Pod {
	out := room.Pod{ID: p.UID, Name: p.Key.String(), Holds: held(p), Priority: p.Priority, Least: s.b.Threshold}
	spec := room.Of(total(p, nil))
	switch {
	case !isDeferred(p) && out.Holds != spec && out.Holds.Holds(spec):
		out.Target, out.Shrinks, out.Planned = spec, true, true // it was asked to shrink, and the kubelet has not done it yet
		return out
	case d == nil:
		return out
	case s.needsRoom(d):
		s.describeNeed(&out, d)
	case d.Do == Resize:
		out.Target, out.Shrinks, out.Planned = targetOf(d), true, true
	case s.mayShrink(d):
		out.Target, out.Shrinks = targetOf(d), true
	}
	if !out.Planned && s.mayMove(d) {
		out.Move = s.candidateFor(d, spots)
	}
	return out
}

func (s *pass) describeNeed(out *room.Pod, d *Decision) {
	short := s.w.Ledger.lacking[d.Pod.UID]
	out.Needs, out.Target, out.Allowed = true, targetOf(d), s.allowedFor(d.Autoscaler)
	out.Asked, out.Since = isDeferred(d.Pod), s.now.Unix()
	if !short.since.IsZero() {
		out.Since = short.since.Unix()
	}
	if isDeferred(d.Pod) {
		out.Since = min(out.Since, d.Pod.Resize.Since.Unix())
	}
	out.Divisible = short.parts < maxParts && (d.Do == Resize || !s.isBlocked(d, resizeChecks)) && d.Pod.PodLevel == nil && !restarts(d.Pod, d.With) && grows(d.Pod, d.With) &&
		(short.with == nil || !isDeferred(d.Pod) || !alreadyAsked(d.Pod, short.with)) // the kubelet has not seen the last part yet
	if short.moves >= maxMoves {
		out.Allowed = min(out.Allowed, room.Split)
	}
}

// shrinkReasons are the reasons to leave a pod that do not prevent a resize that only lowers requests and makes room for another pod.
// A recommendation that is too young is not among them: such a target may be too low.
var shrinkReasons = map[ReasonCode]bool{Fits: true, PodTooYoung: true, SmallChange: true, BudgetSpent: true, NotReady: true}

// shrinkChecks are the checks for a resize that makes room for another pod.
var shrinkChecks = []check{
	(*candidate).switchedOff,
	(*candidate).interrupted,
	(*candidate).awaitsCanary,
	(*candidate).undone,
	(*candidate).resizeRefused,
	(*candidate).replacementRefused,
	(*candidate).replicasUnknown,
	(*candidate).tooFewReplicasInPlace,
}

// mayShrink reports whether a pod that is left may be resized in place to its lower target: no container restarts, and the kubelet
// has no other resize of the pod to do.
func (s *pass) mayShrink(d *Decision) bool {
	p, mode := d.Pod, d.Autoscaler.Mode
	if d.Do != Leave || isKilled(d) || !shrinkReasons[d.Reason.Code] || s.allowedFor(d.Autoscaler) == room.Off || len(d.With) == 0 ||
		!mode.Resizes() || mode == cluster.InPlace && !s.b.InPlace || isBoosted(p) {
		return false
	}
	if p.Phase != cluster.Running || !isAnyRunning(p) || isResizing(p) || alreadyAsked(p, d.With) ||
		!shrinks(p, d.With) || restarts(p, d.With) || changesQoS(s.w.Limits[p.Namespace], p, d.With) {
		return false
	}
	return !s.isBlocked(d, shrinkChecks)
}

// moveReasons are the reasons to leave a pod that do not prevent moving it.
var moveReasons = map[ReasonCode]bool{Fits: true, PodTooYoung: true, AutoscalerTooYoung: true, SmallChange: true, SameSize: true}

// moveChecks are the checks for the eviction of a pod to make room for another one: those for an eviction, but the size of the pod
// need not change.
var moveChecks = append([]check{(*candidate).interrupted}, evictionChecks[1:]...)

// isKilled reports whether a pod has been OOM-killed and is not ready, or gets more memory because of an OOM kill. Such a pod makes no
// room for others.
func isKilled(d *Decision) bool { return d.Rescue || d.Pod.Crash != nil }

// mayMove reports whether a pod may be evicted so that its replacement runs on another node: for another pod, or because its own
// resize waits for room.
func (s *pass) mayMove(d *Decision) bool {
	p := d.Pod
	itself := s.needsRoom(d)
	if s.allowedFor(d.Autoscaler) < room.Move || !d.Autoscaler.Mode.Evicts() || len(d.With) == 0 || d.Do != Leave || !itself && !moveReasons[d.Reason.Code] {
		return false
	}
	if p.LocalData || p.Tied || p.Overhead || p.Place == cluster.Somewhere || p.Tolerance >= cluster.Unlisted || p.Phase != cluster.Running || !p.Ready ||
		p.Controller.Kind == "DaemonSet" || p.Controller.Kind == "Job" || isBoosted(p) {
		return false
	}
	if itself {
		return isDeferred(p) && s.roomCandidate(d).isMovable(surgeChecks, evictionChecks)
	}
	return !isKilled(d) && !isResizing(p) && s.roomCandidate(d).isMovable(moveSurgeChecks, moveChecks)
}

func (s *pass) isBlocked(d *Decision, against []check) bool {
	t := s.roomCandidate(d)
	return slices.ContainsFunc(against, func(c check) bool {
		_, blocked := c(t)
		return blocked
	})
}

// roomCandidate returns the candidate of a decision. A pod that should not change has no scope yet.
func (s *pass) roomCandidate(d *Decision) *candidate {
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
		sc.pods, sc.groups = g.Pods, s.groupsOf(a, g.Pods)
		for _, p := range g.Pods {
			if p.Created.After(sc.newest) {
				sc.newest = p.Created
			}
		}
	}
	s.scopes[a] = sc
	return sc
}

// givesBack reports whether a resize only lowers requests, so that it takes nothing out of service if it restarts no container.
func (t *candidate) givesBack() bool {
	return t.allowedFor(t.d.Autoscaler) != room.Off && t.d.Wanted.Code != BoostOver && shrinks(t.d.Pod, t.d.With)
}

// judgeIncomplete makes a pod that has a part of an increase want the rest of it, whatever its age.
func (s *pass) judgeIncomplete(d *Decision) {
	if d.Wanted.Code != Fits || s.w.Ledger.lacking[d.Pod.UID].parts == 0 || s.allowedFor(d.Autoscaler) < room.Split {
		return
	}
	pairs(d.Pod, d.With, false, func(x pair) {
		if !x.limit && compare(x.resource, x.to, x.from) > 0 && d.Wanted.Code == Fits {
			d.Wanted = Reason{Code: Incomplete, Container: nameUnlessSole(d.Pod)(x.container.Name), Resource: x.resource, From: x.from, To: x.to}
		}
	})
}

// isShortOfRoom reports whether the pod has a part of its increase and its node has no room for the rest.
func (t *candidate) isShortOfRoom() bool {
	p := t.d.Pod
	if t.w.Ledger.lacking[p.UID].parts == 0 || t.allowedFor(t.d.Autoscaler) < room.Split || !t.nodeRooms().known {
		return false
	}
	n := t.rooms.nodes[p.Node]
	return n != nil && !n.unknown && !n.free.Holds(t.rest())
}

// rest returns what the pod needs besides what it holds.
func (t *candidate) rest() room.Amount {
	return room.Of(total(t.d.Pod, t.d.With)).Sub(held(t.d.Pod))
}

// whileShortOfRoom decides on a pod that has a part of its increase. As with a resize that the kubelet defers, the pod is evicted
// after Budget.DeferredFor, but only if its requests are outside their bounds, and if no quota refused the rest of the increase: it
// would refuse the replacement, too.
func (t *candidate) whileShortOfRoom() {
	r := Reason{Code: AwaitingRoom, Text: t.rooms.nodes[t.d.Pod.Node].free.Lacking(t.rest()).Shortage()}
	since := t.w.Ledger.lacking[t.d.Pod.UID].since
	_, known := t.quotaView() // the checks for an eviction read known quotas
	if last, ok := t.w.Ledger.refusal(t.d.Pod, Resize); ok && !known && last.isOverQuota(t.now, t.d.With) {
		t.leave(r)
		return
	}
	if t.d.Wanted.Code != Incomplete && t.now.Sub(since) > t.b.DeferredFor {
		t.evictOr(ResizeWaiting, r)
		return
	}
	t.leave(r)
}

// shrinkFirst puts the resizes on a node that only lower requests in front of those that need room there. A resize that was refused
// gives no room, so it keeps its place: otherwise, with a rate limit, it would be tried in each pass instead of the others.
func (s *pass) shrinkFirst(acts []*Decision) {
	first := map[string]slot{} // of the resizes that need room, by node
	for _, d := range acts {
		if d.Do != Resize || !s.needsRoom(d) {
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
		case !ok || d.Do != Resize:
		case s.needsRoom(d):
			d.slot.late = true
		case d.refused.IsZero() && at.compare(d.slot) < 0:
			d.slot = at
		}
	}
}

// notePart records a resize by a part. A later resize in full does not end the shortage: it may be deferred again.
func (l *Ledger) notePart(now time.Time, d Decision) {
	if !d.part {
		return
	}
	short := l.lacking[d.Pod.UID]
	if short.since.IsZero() {
		short.since = now
		if isDeferred(d.Pod) {
			short.since = d.Pod.Resize.Since
		}
	}
	short.parts++
	short.with = d.With
	l.lacking[d.Pod.UID] = short
}

// noteMove records that a pod was evicted to make room for another one.
func (l *Ledger) noteMove(now time.Time, d Decision) {
	if d.roomFor == nil {
		return
	}
	l.note(d.roomFor)
	short := l.lacking[d.roomFor.UID]
	if short.since.IsZero() {
		short.since = now
	}
	short.moves++
	l.lacking[d.roomFor.UID] = short
}

// forgetShortages forgets pods that are gone or have all of their increase.
func (l *Ledger) forgetShortages(ds []Decision) {
	if len(l.lacking) == 0 {
		return
	}
	waiting := make(map[string]bool, len(l.lacking))
	for i := range ds {
		d := &ds[i]
		if _, short := l.lacking[d.Pod.UID]; short {
			waiting[d.Pod.UID] = isDeferred(d.Pod) || d.part || grows(d.Pod, d.With)
		}
	}
	maps.DeleteFunc(l.lacking, func(uid string, _ shortOfRoom) bool { return !waiting[uid] })
}
