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
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/placement"
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

// Limits of the search for moves. A few nodes have their search in each pass, in turn by the namespaces and pods that need room there. Others
// have it while the pass is not too long.
const (
	nodesByTurn = 5
	passVisits  = 500_000 // sets of moves that the searches of the other nodes look at
	nodeVisits  = 100_000 // sets for one node; its namespaces share them, and in each the pods
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

// A roomMaker changes the decisions of a pass on nodes that are too full for the resizes of their pods.
type roomMaker struct {
	*pass
	byUID  map[string]*entry // decisions on the pods of these nodes
	visits int               // of the searches for moves, without those of nodes whose turn it is
}

func (s *roomMaker) make(ds []entry) {
	needs := map[string][]int{}
	for i := range ds {
		if s.needsRoom(&ds[i]) {
			needs[ds[i].Pod.Node] = append(needs[ds[i].Pod.Node], i)
		}
	}
	if len(needs) == 0 && s.w.Provider == headroom.NotAsked || !s.nodeRooms().Known {
		return
	}
	s.byUID = map[string]*entry{}
	for i := range ds {
		d := &ds[i]
		if needs[d.Pod.Node] != nil {
			s.byUID[d.Pod.UID] = d
		}
		if d.Do == decision.Resize {
			s.occupy(d)
		}
	}
	byTurn := s.nodesInTurn(ds, needs)
	s.plannedOn = map[string]*room.Plan{}
	for _, node := range slices.Sorted(maps.Keys(needs)) {
		var total room.Amount
		for _, i := range needs[node] {
			total = total.Add(increaseOf(&ds[i]))
		}
		n := s.rooms.Nodes[node]
		if n != nil {
			s.headroom.GiveUp(n, total)
		}
		switch {
		case n == nil || n.Unknown:
		case n.Free.Holds(total):
			s.plannedOn[node] = s.planAll(n, ds, needs[node])
		default:
			before := s.visits
			s.makeRoomOn(n, byTurn[node] || s.visits+nodeVisits <= passVisits, ds[needs[node][0]].Autoscaler)
			if byTurn[node] {
				s.visits = before
			}
		}
	}
	if len(s.withdrawn) > 0 {
		s.offerBudget(ds, s.withdrawn, func(d *entry) { s.holdForRoom(d) })
	}
}

// nodesInTurn returns the nodes whose turn it is to have their search for moves.
func (s *roomMaker) nodesInTurn(ds []entry, needs map[string][]int) map[string]bool {
	var moving []*entry
	for _, of := range needs {
		for _, i := range of {
			if s.allowedFor(ds[i].Autoscaler) == room.Move {
				moving = append(moving, &ds[i])
			}
		}
	}
	turns := s.w.Ledger.SearchTurns()
	lastOf := func(d entry) time.Time { return turns.LastOf(d.Pod.Namespace, d.Pod.UID) }
	out := map[string]bool{}
	for _, d := range inTurn(moving, turns.Last, func(a, b entry) int { return cmp.Or(lastOf(a).Compare(lastOf(b)), byPriority(a, b)) }) {
		if len(out) < nodesByTurn {
			out[d.Pod.Node] = true
		}
	}
	return out
}

// occupy takes the increase of a pod that is resized in this pass from the room for new pods on its node.
func (s *pass) occupy(d *entry) {
	if n := s.nodeRooms().Nodes[d.Pod.Node]; n != nil {
		d.occupies = increaseOf(d)
		n.Open = n.Open.Sub(d.occupies)
	}
}

// vacate returns what occupy has taken, because the pod is not resized.
func (s *pass) vacate(d *entry) {
	if d.occupies != (room.Amount{}) {
		n := s.rooms.Nodes[d.Pod.Node]
		n.Open, d.occupies = n.Open.Add(d.occupies), room.Amount{}
	}
}

// planAll returns the plan of a node that has room for all resizes of its pods.
func (s *roomMaker) planAll(n *placement.Room, ds []entry, needs []int) *room.Plan {
	var pods []room.Pod
	for _, i := range needs {
		d := &ds[i]
		p := room.Pod{ID: d.Pod.UID, Name: d.Pod.Key.String(), Priority: d.Pod.Priority, Holds: placement.Held(d.Pod)}
		s.describeNeed(&p, d)
		pods = append(pods, p)
	}
	plan := room.Make(room.Request{Node: n.Node.Name, Free: n.Free, Pods: pods, Asked: s.askedOn(n)})
	return &plan
}

// askedOn returns the pods of a node that were asked to grow, for which the kubelet has not reported whether it has room.
func (s *roomMaker) askedOn(n *placement.Room) []room.Pod {
	var out []room.Pod
	for _, p := range n.Pods {
		has, most := placement.Sum(p, true), placement.Held(p)
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

func increaseOf(d *entry) room.Amount { return targetOf(d).Sub(placement.Held(d.Pod)) }

// makeRoomOn plans on one node and applies the steps. searches is whether it searches for moves. If it panics, it records a Failure, and the node is left as it is.
func (s *roomMaker) makeRoomOn(n *placement.Room, searches bool, blamed *cluster.Autoscaler) {
	defer func() {
		if cause := recover(); cause != nil {
			s.failures = append(s.failures, Failure{Autoscaler: blamed, Cause: cause, Stack: string(debug.Stack())})
		}
	}()
	r := room.Request{Node: n.Node.Name, Free: n.Free, Leaving: n.Leaving, Asked: s.askedOn(n)}
	var spots *spots
	if searches {
		spots = newSpots(s.rooms, n)
	}
	moving := map[string][]int{} // pods for which others may move, by namespace
	for _, p := range n.Pods {
		d := s.byUID[p.UID]
		leaves := p.Deleting || s.w.Ledger.IsEvicted(s.now, p) || s.w.Surges.Removes(p) || d != nil && (d.Do == decision.Evict || d.Do == decision.Surge)
		r.Leaving = r.Leaving || leaves
		if leaves {
			continue
		}
		r.Pods = append(r.Pods, s.roomPod(p, d, spots))
		if last := &r.Pods[len(r.Pods)-1]; spots != nil && last.Needs && last.Allowed == room.Move {
			moving[p.Namespace] = append(moving[p.Namespace], len(r.Pods)-1)
			s.searched = append(s.searched, p)
		}
	}
	for _, of := range moving {
		for _, i := range of {
			r.Pods[i].Visits = nodeVisits / len(moving) / len(of)
		}
	}
	if spots != nil {
		r.Others = spots.others
		s.visits += len(spots.byKey) * len(s.w.Nodes)
	}
	plan := room.Make(r)
	s.visits += plan.Visits
	s.plans = append(s.plans, plan)
	s.plannedOn[n.Node.Name] = &plan
	s.apply(plan)
}

// roomPod describes a pod for the plan of its node. A pod without a decision takes no part in it. Without spots, it does not move.
func (s *roomMaker) roomPod(p *cluster.Pod, d *entry, spots *spots) room.Pod {
	out := room.Pod{ID: p.UID, Name: p.Key.String(), Holds: placement.Held(p), Priority: p.Priority, Least: s.b.Threshold}
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
	if spots != nil && !out.Planned && s.mayMove(d) {
		out.Move = s.candidateFor(d, spots)
	}
	return out
}

// standsForEviction reports whether a resize is tried once more before the pod is evicted, see triesAgain. It is tried in full: the refusal
// of a part would not lead to the eviction.
func (s *roomMaker) standsForEviction(d *entry) bool {
	last, failed := s.lastResize(d)
	return d.Do == decision.Resize && d.Fallback && failed && last.IsLasting()
}

// isUrgent reports whether a pod gets room before others of the same or a lower priority: it gets more memory because a container was
// OOM-killed.
func isUrgent(d *entry) bool { return d.Rescue || d.Wanted.Code == decision.OutOfMemory }

// isOverdue reports whether a pod gets free room before all others: it has left the room to others for Budget.DeferredFor.
func (s *pass) isOverdue(d *entry) bool {
	since := s.w.Ledger.YieldsSince(d.Pod)
	return !since.IsZero() && !s.now.Before(since.Add(s.b.DeferredFor))
}

func (s *roomMaker) describeNeed(out *room.Pod, d *entry) {
	short := s.w.Ledger.LackOfRoom(d.Pod)
	out.Needs, out.Target, out.Allowed = true, targetOf(d), s.allowedFor(d.Autoscaler)
	out.Asked, out.Since = d.Pod.IsDeferred(), s.now.Unix()
	if !short.Since.IsZero() {
		out.Since = short.Since.Unix()
	}
	if d.Pod.IsDeferred() {
		out.Since = min(out.Since, d.Pod.Resize.Since.Unix())
	}
	out.Reserves = s.now.Unix()-out.Since <= int64(s.b.DeferredFor/time.Second)
	out.Urgent, out.Overdue = isUrgent(d) && d.Do == decision.Resize, s.isOverdue(d) && d.Do == decision.Resize
	out.Divisible = short.Parts < maxParts && !s.standsForEviction(d) && (d.Do == decision.Resize || !s.isBlocked(d, resize)) && d.Pod.PodLevel == nil && !change.Restarts(d.Pod, d.With) && change.Grows(d.Pod, d.With) &&
		(short.With == nil || !d.Pod.IsDeferred() || !change.IsAsked(d.Pod, short.With)) // the kubelet has not seen the last part yet
	if short.Moves >= maxMoves {
		out.Allowed = min(out.Allowed, room.Split)
	}
}

// shrinkReasons are the reasons to leave a pod that do not prevent a resize that only lowers requests and makes room for another pod.
// A recommendation that is too young is not among them: such a target may be too low.
var shrinkReasons = map[decision.ReasonCode]bool{decision.Fits: true, decision.PodTooYoung: true, decision.SmallChange: true, decision.BudgetSpent: true, decision.NotReady: true}

// mayShrink reports whether a pod that is left may be resized in place to its lower target: no container restarts, and the kubelet
// has no other resize of the pod to do.
func (s *roomMaker) mayShrink(d *entry) bool {
	p, mode := d.Pod, d.Autoscaler.Mode
	if d.Do != decision.Leave || isKilled(d) || !shrinkReasons[d.Reason.Code] || s.allowedFor(d.Autoscaler) == room.Off || len(d.With) == 0 ||
		!mode.Resizes() || mode == cluster.InPlace && !s.b.InPlace || p.IsBoosted() {
		return false
	}
	if p.Phase != cluster.Running || !isAnyRunning(p) || p.IsResizing() || change.IsAsked(p, d.With) ||
		!change.Shrinks(p, d.With) || change.Restarts(p, d.With) || change.ChangesQoS(s.w.Limits[p.Namespace], p, d.With) {
		return false
	}
	return !s.isBlocked(d, shrink)
}

// moveReasons are the reasons to leave a pod that do not prevent moving it.
var moveReasons = map[decision.ReasonCode]bool{decision.Fits: true, decision.PodTooYoung: true, decision.AutoscalerTooYoung: true, decision.SmallChange: true, decision.SameSize: true}

// isKilled reports whether a pod has been OOM-killed and is not ready, or gets more memory because of an OOM kill. Such a pod makes no
// room for others.
func isKilled(d *entry) bool { return d.Rescue || d.Pod.Crash != nil }

// mayMove reports whether a pod may be evicted so that its replacement runs on another node: for another pod, or because its own
// resize waits for room.
func (s *roomMaker) mayMove(d *entry) bool {
	p := d.Pod
	itself := s.needsRoom(d)
	if s.allowedFor(d.Autoscaler) < room.Move || !d.Autoscaler.Mode.Evicts() || len(d.With) == 0 || d.Do != decision.Leave || !itself && !moveReasons[d.Reason.Code] {
		return false
	}
	if p.LocalData || p.Tied || p.Overhead || p.Place == cluster.Somewhere || p.Tolerance >= cluster.Unlisted || p.Phase != cluster.Running || !p.Ready ||
		p.Controller.Kind == "DaemonSet" || p.Controller.Kind == "Job" || p.IsBoosted() {
		return false
	}
	if itself {
		return p.IsDeferred() && s.roomDecider(d).isMovable(surgePod, evict)
	}
	return !isKilled(d) && !p.IsResizing() && s.roomDecider(d).isMovable(moveBySurge, move)
}

func (s *pass) isBlocked(d *entry, against kind) bool {
	t := s.roomDecider(d)
	for c := range checksOf(against) {
		if _, blocked := c.blocks(&t.candidate); blocked {
			return true
		}
	}
	return false
}

// roomDecider returns the decider on a decision. A pod that should not change has no scope yet.
func (s *pass) roomDecider(d *entry) *decider {
	if d.scope == nil {
		d.scope = s.scopeOf(d.Autoscaler)
	}
	return s.decider(d)
}

func (s *pass) scopeOf(a *cluster.Autoscaler) *scope {
	if sc := s.scopes[a]; sc != nil {
		return sc
	}
	i := slices.IndexFunc(s.w.Governed, func(g cluster.Governed) bool { return g.Autoscaler == a })
	return s.newScope(s.w.Governed[i], nil)
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
			d.Wanted = decision.Reason{Code: decision.Incomplete, Container: need.NameUnlessSole(d.Pod)(x.Container.Name), Resource: x.Resource, From: x.From, To: x.To}
		}
	}
}

// isShortOfRoom reports whether the pod has a part of its increase and its node has no room for the rest.
func (t *decider) isShortOfRoom() bool {
	p := t.d.Pod
	if t.w.Ledger.LackOfRoom(p).Parts == 0 || t.allowedFor(t.d.Autoscaler) < room.Split || !t.nodeRooms().Known {
		return false
	}
	n := t.rooms.Nodes[p.Node]
	return n != nil && !n.Unknown && !n.Free.Holds(t.rest())
}

// rest returns what the pod needs besides what it holds.
func (t *decider) rest() room.Amount {
	return room.Of(change.Total(t.d.Pod, t.d.With)).Sub(placement.Held(t.d.Pod))
}

// whileShortOfRoom decides on a pod that has a part of its increase. As with a resize that the kubelet defers, the pod is evicted
// after Budget.DeferredFor, but only if its requests are outside their bounds, and if no quota refused the rest of the increase: it
// would refuse the replacement, too. If the quotas are not known, the pod is first asked for the rest, so that a quota can refuse it. After
// such a refusal, it is asked again when the back-off ends.
func (t *decider) whileShortOfRoom() {
	r := decision.Reason{Code: decision.AwaitingRoom, Text: t.rooms.Nodes[t.d.Pod.Node].Free.Lacking(t.rest()).Shortage()}
	since := t.w.Ledger.LackOfRoom(t.d.Pod).Since
	known := t.knowsQuotas() // the checks for an eviction read known quotas
	last, failed := t.lastResize(t.d)
	switch {
	case failed && !known && last.IsOverQuota(t.now, t.d.With) && t.now.Before(last.Until(t.b.Delays)):
		t.leave(last.Reason(t.b.Delays, decision.Resize)) // room on the node would not help
	case t.d.Wanted.Code == decision.Incomplete, t.now.Sub(since) <= t.b.DeferredFor:
		t.leave(r)
	case !known && t.d.Autoscaler.Mode.Evicts() && (!t.w.Ledger.IsAskedInFull(t.d.Pod) || failed && last.IsOverQuota(t.now, t.d.With)):
		t.try(decision.Resize, t.resizeKind(), decision.Fits)
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

// maxSpots bounds the nodes that are considered for the replacement of a pod: those with the most free memory and those with the
// most free CPU.
const maxSpots = 32

// spots are the nodes that may take the pods of one node.
type spots struct {
	rooms  *placement.Rooms
	from   *placement.Room
	others []room.Spot
	index  map[string]int // of others, by node
	byKey  map[placement.Key][]int
}

func newSpots(all *placement.Rooms, from *placement.Room) *spots {
	return &spots{rooms: all, from: from, index: map[string]int{}, byKey: map[placement.Key][]int{}}
}

// nodeRooms returns the room on all nodes, from one look at all pods.
func (s *pass) nodeRooms() *placement.Rooms {
	if s.rooms == nil {
		s.rooms = placement.RoomsOf(s.w.Nodes, s.w.Pods, s.sizes)
	}
	return s.rooms
}

// candidateFor returns what moving a pod means.
func (s *roomMaker) candidateFor(d *entry, at *spots) *room.Candidate {
	p, t := d.Pod, s.roomDecider(d)
	c := &room.Candidate{Size: room.Of(change.Total(p, d.With)), DeletionCost: p.DeletionCost, Spots: s.spotsFor(p, at)}
	if t.g != nil {
		c.Ready, c.Wanted = t.g.Ready-t.g.Spent, t.g.Wanted
	}
	if !p.Started.IsZero() && p.ReadySince.After(p.Started) {
		c.StartSeconds = int64(p.ReadySince.Sub(p.Started).Seconds())
	}
	return c
}

// spotsFor returns the indices of the nodes that accept a pod by their labels and taints.
func (s *roomMaker) spotsFor(p *cluster.Pod, at *spots) []int {
	key := placement.KeyOf(p)
	if known, ok := at.byKey[key]; ok {
		return known
	}
	var usable []*placement.Room
	accepts, _ := s.sizes.Accepting(key)
	for i := range s.w.Nodes {
		n := &s.w.Nodes[i]
		if r := at.rooms.Nodes[n.Name]; r != at.from && r.TakesPods() && !r.Unknown && accepts(n) {
			usable = append(usable, r)
		}
	}
	byName := func(a, b *placement.Room) int { return cmp.Compare(a.Node.Name, b.Node.Name) }
	slices.SortFunc(usable, func(a, b *placement.Room) int { return cmp.Or(cmp.Compare(b.Open.Memory, a.Open.Memory), byName(a, b)) })
	most := slices.Clone(usable[:min(len(usable), maxSpots/2)])
	rest := usable[len(most):]
	slices.SortFunc(rest, func(a, b *placement.Room) int { return cmp.Or(cmp.Compare(b.Open.CPU, a.Open.CPU), byName(a, b)) })
	most = append(most, rest[:min(len(rest), maxSpots/2)]...)
	slices.SortFunc(most, byName)
	out := make([]int, 0, len(most))
	for _, r := range most {
		i, known := at.index[r.Node.Name]
		if !known {
			i = len(at.others)
			at.index[r.Node.Name] = i
			at.others = append(at.others, room.Spot{Node: r.Node.Name, Free: r.Open})
		}
		out = append(out, i)
	}
	at.byKey[key] = out
	return out
}
