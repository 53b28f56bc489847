// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package occupancy keeps account of the room on the nodes in a pass: which pods need more of it, what the decisions of the pass take, and what is
// reserved for pods that wait. It describes the pods of a node for package room, which decides how they get their room. Whether a pod may change
// now is decided elsewhere.
package occupancy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// Limits of attempts for one pod until it has all of its increase.
const (
	maxParts = 3 // resizes by a part
	maxMoves = 3 // evictions of other pods
)

// A Book is the room on the nodes in a pass. It is not safe for concurrent use.
type Book struct {
	Now               time.Time
	MakeRoom          room.Allowed  // of the flag
	SchedulerPreempts bool          // the scheduler preempts pods for deferred resizes, so that no pod is moved for them
	DeferredFor       time.Duration // how long a pod waits for room before its resize has failed
	Threshold         float64       // the smallest part by which a pod grows, as a fraction of its requests
	InPlace           bool          // update mode InPlace is enabled

	Limits map[string]policy.Limits
	Nodes  []cluster.Node
	Pods   []*cluster.Pod
	Sizes  *placement.Sizes
	Ledger *ledger.Ledger

	rooms *placement.Rooms       // nil until it is needed
	plans map[string]*room.Plan  // by node
	taken map[string]room.Amount // what the resizes of pods take of the room for new pods, by UID
}

// Allowed returns what may be done to make room for the pods of an autoscaler, and with them.
func (b *Book) Allowed(a *cluster.Autoscaler) room.Allowed {
	allowed := b.MakeRoom
	if own, ok := room.ParseAllowed(a.MakeRoom); ok {
		allowed = own
	}
	if b.SchedulerPreempts {
		allowed = min(allowed, room.Split)
	}
	return allowed
}

// Rooms returns the room on all nodes, from one look at all pods. Without that which new pods are about to take: these may be the replacements of pods
// that an earlier pass evicted for the same room.
func (b *Book) Rooms() *placement.Rooms {
	if b.rooms == nil {
		b.rooms = placement.RoomsOf(b.Nodes, b.Pods, b.Sizes)
		b.rooms.TakeForNew(b.Now, b.Pods)
	}
	return b.rooms
}

// Needs reports whether a pod grows, waits for room on its node, or waits with the rest of its increase.
func (b *Book) Needs(d *decision.Decision) bool {
	if d.Pod.Node == "" || !d.Autoscaler.Mode.Resizes() || d.Wanted.Code == decision.BoostOver || b.Allowed(d.Autoscaler) == room.Off {
		return false
	}
	switch d.Do {
	case decision.Resize:
		return !(room.Amount{}).Holds(IncreaseOf(d))
	case decision.Leave:
		return d.Reason.Code == decision.AwaitingRoom || d.Reason.Code == decision.ResizeWaiting && d.Pod.IsDeferred()
	case decision.Evict, decision.Delete, decision.Surge:
	}
	return false
}

// TargetOf returns the requests that a pod is going to have: those that its resize asks for, or those that the kubelet knows.
func TargetOf(d *decision.Decision) room.Amount {
	if d.Do != decision.Resize && d.Pod.IsDeferred() {
		return room.Of(change.Total(d.Pod, nil))
	}
	return room.Of(change.Total(d.Pod, d.With))
}

// IncreaseOf returns what a pod needs besides what it holds.
func IncreaseOf(d *decision.Decision) room.Amount { return TargetOf(d).Sub(placement.Held(d.Pod)) }

// Occupy takes the increase of a pod that is resized in this pass from the room for new pods on its node.
func (b *Book) Occupy(d *decision.Decision) {
	if n := b.Rooms().Nodes[d.Pod.Node]; n != nil {
		cluster.Put(&b.taken, d.Pod.UID, IncreaseOf(d))
		n.Open = n.Open.Sub(b.taken[d.Pod.UID])
	}
}

// Vacate returns what Occupy has taken, because the pod is not resized.
func (b *Book) Vacate(p *cluster.Pod) {
	if amount, ok := b.taken[p.UID]; ok {
		n := b.rooms.Nodes[p.Node]
		n.Open = n.Open.Add(amount)
		delete(b.taken, p.UID)
	}
}

// RequestFor returns the request for the plan of a node, without the pods that take part in it.
func (b *Book) RequestFor(n *placement.Room) room.Request {
	r := room.Request{Node: n.Node.Name, Free: n.Free, Leaving: n.Leaving}
	for _, p := range n.Pods { // those that were asked to grow, for which the kubelet has not reported whether it has room
		has := placement.Sum(p, true)
		most := placement.Held(p)
		if p.IsResizing() || has == most {
			continue
		}
		asked := b.Ledger.LastResize(p)
		r.Asked = append(r.Asked, room.Pod{
			ID: p.UID, Name: p.Key.String(), Holds: has, Target: most, Priority: p.Priority, Reserves: b.Now.Sub(asked) <= b.DeferredFor,
		})
	}
	slices.SortFunc(r.Asked, func(x, y room.Pod) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), strings.Compare(x.Name, y.Name))
	})
	return r
}

// Planned keeps the plan of a node, which reserves room for pods.
func (b *Book) Planned(p *room.Plan) { cluster.Put(&b.plans, p.Node, p) }

// PodOf describes a pod for the plan of its node. Its Target is set if it was asked to shrink, and the kubelet has not done it yet.
func (b *Book) PodOf(p *cluster.Pod) room.Pod {
	out := room.Pod{ID: p.UID, Name: p.Key.String(), Holds: placement.Held(p), Priority: p.Priority, Least: b.Threshold}
	spec := room.Of(change.Total(p, nil))
	if !p.IsDeferred() && out.Holds != spec && out.Holds.Holds(spec) {
		out.Target = spec
		out.Shrinks = true
		out.Planned = true
	}
	return out
}

// NeedOf describes a pod that needs room for the plan of its node.
func (b *Book) NeedOf(d *decision.Decision) room.Pod {
	out := room.Pod{
		ID: d.Pod.UID, Name: d.Pod.Key.String(), Holds: placement.Held(d.Pod), Priority: d.Pod.Priority, Least: b.Threshold,
		Needs: true, Target: TargetOf(d), Allowed: b.Allowed(d.Autoscaler), Asked: d.Pod.IsDeferred(), Since: b.Now.Unix(),
		Urgent: isUrgent(d) && d.Do == decision.Resize, Overdue: b.isOverdue(d.Pod) && d.Do == decision.Resize,
	}
	short := b.Ledger.LackOfRoom(d.Pod)
	if !short.Since.IsZero() {
		out.Since = short.Since.Unix()
	}
	if out.Asked {
		out.Since = min(out.Since, d.Pod.Resize.Since.Unix())
	}
	out.Reserves = b.Now.Unix()-out.Since <= int64(b.DeferredFor/time.Second)
	out.Divisible = short.Parts < maxParts && d.Pod.PodLevel == nil && !change.Restarts(d.Pod, d.With) && change.Grows(d.Pod, d.With) &&
		(short.With == nil || !out.Asked || !change.IsAsked(d.Pod, short.With)) // the kubelet has not seen the last part yet
	if short.Moves >= maxMoves {
		out.Allowed = min(out.Allowed, room.Split)
	}
	return out
}

// isUrgent reports whether a pod gets room before others of the same or a lower priority: it gets more memory because a container was
// OOM-killed.
func isUrgent(d *decision.Decision) bool { return d.Rescue || d.Wanted.Code == decision.OutOfMemory }

// isOverdue reports whether a pod gets free room before all others: it has left the room to others for DeferredFor.
func (b *Book) isOverdue(p *cluster.Pod) bool {
	since := b.Ledger.YieldsSince(p)
	return !since.IsZero() && !b.Now.Before(since.Add(b.DeferredFor))
}

// Reserved returns why a pod is left if its resize would take room that the plan of its node reserves for another pod.
func (b *Book) Reserved(d *decision.Decision) (decision.Reason, bool) {
	plan := b.plans[d.Pod.Node]
	if plan == nil || d.Do != decision.Resize || !b.Needs(d) {
		return decision.Reason{}, false
	}
	other := plan.ReservedFor(&room.Pod{Priority: d.Pod.Priority, Urgent: isUrgent(d), Overdue: b.isOverdue(d.Pod)}, IncreaseOf(d))
	return b.Yields(d.Pod, other), other != ""
}

// Yields returns the reason to leave a pod because another one gets the room first.
func (b *Book) Yields(p *cluster.Pod, other string) decision.Reason {
	since := b.Ledger.YieldsSince(p)
	if since.IsZero() || since.After(b.Now) {
		since = b.Now
	}
	r := About(decision.RoomReserved, p, other)
	r.Until = since.Add(b.DeferredFor)
	return r
}

// TakeFree takes the increase of a pod, which was decided on after all others, from the free room of its node.
func (b *Book) TakeFree(d *decision.Decision) {
	if b.rooms == nil || b.rooms.Nodes[d.Pod.Node] == nil {
		return
	}
	b.Occupy(d)
	if plan := b.plans[d.Pod.Node]; plan != nil {
		plan.Give(room.Pod{ID: d.Pod.UID, Name: d.Pod.Key.String()}, IncreaseOf(d))
	}
}

// About returns a reason about another pod, which it names openly only within one namespace.
func About(code decision.ReasonCode, p *cluster.Pod, other string) decision.Reason {
	if strings.HasPrefix(other, p.Namespace+"/") {
		return decision.Reason{Code: code, Text: other}
	}
	return decision.Reason{Code: code, Elsewhere: other}
}

// ShortOf returns what a pod waits for that has a part of its increase, and false if its node has room for the rest.
func (b *Book) ShortOf(d *decision.Decision) (decision.Reason, bool) {
	if b.Ledger.LackOfRoom(d.Pod).Parts == 0 || b.Allowed(d.Autoscaler) < room.Split || !b.Rooms().Known {
		return decision.Reason{}, false
	}
	rest := room.Of(change.Total(d.Pod, d.With)).Sub(placement.Held(d.Pod))
	n := b.rooms.Nodes[d.Pod.Node]
	if n == nil || n.Unknown || n.Free.Holds(rest) {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.AwaitingRoom, Text: n.Free.Lacking(rest).Shortage()}, true
}

// Incomplete returns the rest of the increase that a pod wants, whatever its age, if it has a part of it.
func (b *Book) Incomplete(d *decision.Decision) (decision.Reason, bool) {
	if b.Ledger.LackOfRoom(d.Pod).Parts == 0 || b.Allowed(d.Autoscaler) < room.Split {
		return decision.Reason{}, false
	}
	for x := range change.Pairs(d.Pod, d.With, false) {
		if !x.Limit && change.Compare(x.Resource, x.To, x.From) > 0 {
			return decision.Reason{Code: decision.Incomplete, Container: need.NameUnlessSole(d.Pod)(x.Container.Name), Resource: x.Resource, From: x.From, To: x.To}, true
		}
	}
	return decision.Reason{}, false
}
