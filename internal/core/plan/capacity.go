// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/room"
)

// A pod is not evicted before there is room for its replacement. If no node has free room now, a placeholder pod with the size of the
// replacement asks for it: the scheduler places it, or a cluster autoscaler adds a node for it. The pod is evicted when the
// placeholder has a node. Then the placeholder is deleted, and the scheduler places the replacement there.
//
//	no free room ─▶ asked (AwaitingCapacity) ─▶ placeholder has a node ─▶ evicted, then released ─▶ done
//	                  │                            │
//	                  ▼                            ▼
//	             no node in time, refused,    not evicted in time, deleted by others
//	             deleted by others                 │
//	                  └──────────────┬─────────────┘
//	                                 ▼
//	                     CapacityNotFound, with a back-off
//
// The placeholders in the cluster are the state: their name follows from the UID of the pod, so a repeated request creates no second
// one, and an updater that starts finds those of the one before. The ledger has only the last request and its failures.

// A Provider is how capacity is asked for.
type Provider uint8

// The providers.
const (
	NoProvider      Provider = iota // no capacity is asked for; pods are evicted without
	PlaceholderPods                 // placeholder pods
)

const (
	maxPlaceholders = 10  // placeholder pods in the cluster at the same time
	growthOfRequest = 0.1 // a placeholder without a node is replaced if the size of the replacement exceeds it by this fraction
)

// The causes of a failed request for capacity, as Reason.Text.
const (
	noNodeInTime     = "no node had room for the placeholder pod in time"
	notEvictedInTime = "the pod was not evicted in time, so the placeholder pod was deleted"
	roomWasNeeded    = "a pod on the node of the placeholder pod needed the room"
)

// A Release is why a placeholder pod is deleted. Its text is a stable name for logs.
type Release string

// The reasons to delete a placeholder pod.
const (
	ReleaseGone     Release = "PodGone"     // the pod that it is for does not exist any more, or was evicted
	ReleaseUnwanted Release = "NotNeeded"   // the pod is not going to be evicted for a larger size
	ReleaseOutgrown Release = "SizeChanged" // the replacement needs more than the placeholder holds
	ReleaseExpired  Release = "Expired"     // it found no node in time, or the pod was not evicted in time
	ReleaseNeeded   Release = "RoomNeeded"  // a resize of another pod on its node needs the room
	ReleaseOff      Release = "SwitchedOff" // no capacity is asked for any more
)

// A CapacityStep creates or deletes one placeholder pod.
type CapacityStep struct {
	Pod         *cluster.Pod        // the pod that is going to be evicted; nil if a placeholder of an unknown pod is deleted
	Autoscaler  *cluster.Autoscaler // nil if Pod is nil
	Size        cluster.Resources   // what the replacement requests
	Placeholder *cluster.Pod        // the one to delete; nil if one is created
	Release     Release             // why it is deleted

	failure string // why the request for capacity has failed; "" if it has not
}

// capacity is the state of the requests for capacity in a pass.
type capacity struct {
	placeholders []*cluster.Pod               // sorted by name
	held         map[cluster.Key]*cluster.Pod // by name
	given        map[string]bool              // placeholders that are given up for a resize, by UID
	asked        map[cluster.Workload]bool    // workloads with a placeholder, or for which one is created
	usable       map[nodeKey][]*nodeRoom      // nodes that accept new pods, by name
	steps        []CapacityStep
}

func capacityOf(w World) capacity {
	c := capacity{held: map[cluster.Key]*cluster.Pod{}, given: map[string]bool{}, asked: map[cluster.Workload]bool{}, usable: map[nodeKey][]*nodeRoom{}}
	for _, p := range w.Pods {
		if p.Placeholder && p.Live() {
			c.placeholders = append(c.placeholders, p)
		}
	}
	slices.SortFunc(c.placeholders, func(a, b *cluster.Pod) int { return cmp.Or(a.Compare(b.Key), strings.Compare(a.UID, b.UID)) })
	for _, p := range c.placeholders {
		c.held[p.Key] = p
	}
	return c
}

// of returns the placeholder of a pod, or nil.
func (c *capacity) of(p *cluster.Pod) *cluster.Pod {
	if len(c.held) == 0 {
		return nil
	}
	return c.held[cluster.PlaceholderOf(p)]
}

// CapacitySteps returns the placeholder pods to create and to delete, in this order of execution: deletions first.
func (p *Pass) CapacitySteps() []CapacityStep { return p.capacity.steps }

// checkCapacity leaves pods whose replacement has no room on any node now, and decides which placeholder pods are created and deleted.
func (s *pass) checkCapacity(ds []entry) {
	decisions := make(map[cluster.Key]*entry, len(s.capacity.placeholders)) // by placeholder
	for i := range ds {
		if d := &ds[i]; s.capacity.of(d.Pod) != nil {
			decisions[cluster.PlaceholderOf(d.Pod)] = d
			s.capacity.asked[ledger.WorkloadOf(d.Pod)] = true
		}
	}
	if s.asksForCapacity() {
		var evictions []*entry
		for i := range ds {
			if ds[i].Do == decision.Evict {
				evictions = append(evictions, &ds[i])
			}
		}
		slices.SortFunc(evictions, func(a, b *entry) int { return byPriority(*a, *b) })
		for _, d := range evictions {
			if r, lacks := s.lacksCapacity(d); lacks {
				s.withdraw(d, r)
				s.ask(d, &r)
			}
		}
	}
	s.releasePlaceholders(decisions)
}

func (s *pass) asksForCapacity() bool { return s.w.Provider != NoProvider && s.nodeRooms().known }

// withdraw leaves a pod instead of evicting it, and returns its budget.
func (s *pass) withdraw(d *entry, r decision.Reason) {
	s.endProbe(d)
	g := d.scope.groups[d.Pod.Controller]
	if d.Reason.Fallback == decision.ResizeRefused && g != nil {
		g.trial = false
	}
	if d.taken {
		d.taken = false
		g.giveBack(d.health)
	}
	if d.canary {
		d.canary = false
		delete(d.scope.firsts, ledger.WorkloadOf(d.Pod))
	}
	d.Do, d.Reason, d.Placeholder = decision.Leave, r, nil
}

// holdBack leaves a pod that a running pass decided to evict, if its replacement has no room. The next pass asks for capacity.
func (s *pass) holdBack(d *entry) {
	if d.Do != decision.Evict || !s.asksForCapacity() {
		return
	}
	if r, lacks := s.lacksCapacity(d); lacks {
		s.withdraw(d, r)
	}
}

// lacksCapacity reports whether an eviction must wait because no node has room for the replacement, and why. Otherwise it reserves the
// room. A pod that is down serves nothing, so it does not wait.
func (s *pass) lacksCapacity(d *entry) (decision.Reason, bool) {
	p := d.Pod
	if !s.asksForCapacity() || d.placed || !change.Grows(p, d.With) || p.Controller.Kind == "DaemonSet" || healthOf(s.now, s.b, p) == down {
		return decision.Reason{}, false
	}
	size := change.Total(p, d.With)
	own := s.capacity.of(p)
	if own != nil && own.Node != "" && !s.isExpired(own) && !s.capacity.given[own.UID] && s.holds(own, size) || s.takeRoom(p, room.Of(size)) {
		d.Placeholder, d.placed = own, true
		return decision.Reason{}, false
	}
	last := s.w.Ledger.Capacity(ledger.WorkloadOf(p))
	failed := decision.Reason{Code: decision.CapacityNotFound, Text: last.Text, Until: last.Failed.Add(s.b.Backoff(last.Failures))}
	waits := decision.Reason{Code: decision.AwaitingCapacity, Text: size.String()}
	switch {
	case own != nil && s.isExpired(own):
		failed.Text, failed.Until = noNodeInTime, s.now.Add(s.b.Backoff(last.Failures+1))
		return failed, true
	case own != nil:
		waits.Until = own.Created.Add(s.b.CapacityFor)
	case last.UID == p.UID && last.IsLost(s.now, ledger.WorkloadOf(p), s.capacity.held):
		failed.Text, failed.Until = ledger.PlaceholderLost, s.now.Add(s.b.Backoff(last.Failures+1))
		return failed, true
	case last.Failures > 0 && s.now.Before(failed.Until):
		return failed, true
	case !last.Requested.IsZero() && last.UID == p.UID:
		waits.Until = last.Requested.Add(s.b.CapacityFor)
	}
	return waits, true
}

// ask asks for capacity for a pod that waits for it, if that is allowed now.
func (s *pass) ask(d *entry, r *decision.Reason) {
	workload := ledger.WorkloadOf(d.Pod)
	creating := len(s.capacity.steps)
	if r.Code != decision.AwaitingCapacity || !r.Until.IsZero() || s.capacity.asked[workload] || len(s.capacity.placeholders)+creating >= maxPlaceholders {
		return
	}
	if last := s.w.Ledger.Capacity(workload); !last.Requested.IsZero() {
		return // the watch does not show the placeholder of another pod of the workload yet
	}
	s.capacity.asked[workload] = true
	s.capacity.steps = append(s.capacity.steps, CapacityStep{Pod: d.Pod, Autoscaler: d.Autoscaler, Size: change.Total(d.Pod, d.With)})
	d.Reason.Until = s.now.Add(s.b.CapacityFor)
}

// isExpired reports whether a placeholder has found no node in time, or has held its room for too long.
func (s *pass) isExpired(placeholder *cluster.Pod) bool {
	limit := s.b.CapacityFor
	if placeholder.Node != "" {
		limit *= 2
	}
	return !s.now.Before(placeholder.Created.Add(limit))
}

// holds reports whether the room of a placeholder, with what its node has free besides, is enough for a replacement.
func (s *pass) holds(placeholder *cluster.Pod, size cluster.Resources) bool {
	has := counted(placeholder)
	if n := s.nodeRooms().nodes[placeholder.Node]; n != nil {
		has = has.Add(room.Amount{CPU: max(0, n.open.CPU), Memory: max(0, n.open.Memory)})
	}
	return has.Holds(room.Of(size))
}

// takeRoom reserves room for the replacement of a pod on a node that has it. On the node of the pod, the room of the pod itself counts,
// because the eviction frees it. It returns false if no node has room.
func (s *pass) takeRoom(p *cluster.Pod, size room.Amount) bool {
	for _, n := range s.usableNodes(nodeKey{p.Place, p.Tolerance}) {
		open := n.open
		if n.node.Name == p.Node {
			open = open.Add(counted(p))
		}
		if open.Holds(size) {
			n.open = open.Sub(size)
			return true
		}
	}
	return false
}

// usableNodes returns the nodes that accept a pod by their labels and taints, by name.
func (s *pass) usableNodes(key nodeKey) []*nodeRoom {
	if known, ok := s.capacity.usable[key]; ok {
		return known
	}
	var out []*nodeRoom
	accepts := s.nodeSizes.accepting(key)
	for i := range s.w.Nodes {
		if n := &s.w.Nodes[i]; n.Ready && !n.Cordoned && accepts(n) {
			out = append(out, s.rooms.nodes[n.Name])
		}
	}
	slices.SortFunc(out, func(a, b *nodeRoom) int { return cmp.Compare(a.node.Name, b.node.Name) })
	s.capacity.usable[key] = out
	return out
}

// releasePlaceholders deletes the placeholders that are not needed any more, before others are created.
func (s *pass) releasePlaceholders(decisions map[cluster.Key]*entry) {
	var releases []CapacityStep
	for _, placeholder := range s.capacity.placeholders {
		d := decisions[placeholder.Key]
		why, failure := s.releaseOf(placeholder, d)
		if why == "" {
			continue
		}
		step := CapacityStep{Placeholder: placeholder, Release: why, failure: failure}
		if d != nil {
			step.Pod, step.Autoscaler = d.Pod, d.Autoscaler
		}
		releases = append(releases, step)
	}
	s.capacity.steps = append(releases, s.capacity.steps...)
}

// releaseOf returns why a placeholder is deleted, and whether its request has failed; "" if it is kept.
func (s *pass) releaseOf(placeholder *cluster.Pod, d *entry) (why Release, failure string) {
	switch {
	case s.w.Provider == NoProvider:
		return ReleaseOff, ""
	case d == nil || d.Reason.Code == decision.AlreadyEvicted:
		return ReleaseGone, ""
	case s.capacity.given[placeholder.UID]:
		return ReleaseNeeded, roomWasNeeded
	case d.Do == decision.Evict && d.Placeholder == placeholder:
		return "", "" // it is deleted after the eviction
	case s.isExpired(placeholder) && placeholder.Node == "":
		return ReleaseExpired, noNodeInTime
	case s.isExpired(placeholder):
		return ReleaseExpired, notEvictedInTime
	case d.Do == decision.Resize && !d.Fallback || d.Do == decision.Delete || d.Wanted.Code == decision.Fits || !d.Autoscaler.Mode.Evicts() || !change.Grows(d.Pod, d.With):
		return ReleaseUnwanted, ""
	case s.isOutgrown(placeholder, change.Total(d.Pod, d.With)):
		return ReleaseOutgrown, ""
	}
	return "", ""
}

// isOutgrown reports whether the replacement needs so much more than a placeholder that the placeholder does not help.
func (s *pass) isOutgrown(placeholder *cluster.Pod, size cluster.Resources) bool {
	if placeholder.Node != "" {
		return s.nodeRooms().known && !s.holds(placeholder, size)
	}
	had := change.Total(placeholder, nil)
	exceeds := func(now, before int64) bool { return float64(now) > float64(before)*(1+growthOfRequest) }
	return exceeds(size.CPU, had.CPU) || exceeds(size.Memory, had.Memory)
}

// giveUpPlaceholders gives up placeholders on a node that has too little room for the resizes of its pods.
func (s *pass) giveUpPlaceholders(n *nodeRoom, needed room.Amount) {
	for _, placeholder := range s.capacity.placeholders {
		if n.free.Holds(needed) {
			return
		}
		if placeholder.Node == n.node.Name {
			s.capacity.given[placeholder.UID] = true
			n.free, n.open = n.free.Add(held(placeholder)), n.open.Add(counted(placeholder))
		}
	}
}

// CapacityDone reports that a step was carried out.
func (p *Pass) CapacityDone(step *CapacityStep) {
	l := p.w.Ledger
	switch {
	case step.Pod == nil:
	case step.Placeholder == nil:
		l.CapacityAsked(p.now, step.Pod)
	case step.failure != "":
		l.CapacityFailed(p.now, step.Pod, step.failure)
	default:
		l.CapacityReleased(ledger.WorkloadOf(step.Pod))
	}
}

// CapacityRefused reports that the API server refused a step, or that its outcome is unknown. A placeholder that may have been created
// counts as created, and one that could not be deleted is deleted in the next pass.
func (p *Pass) CapacityRefused(step *CapacityStep, r decision.Refusal) {
	if step.Placeholder != nil {
		return
	}
	if r.Kind == decision.OutcomeIsUnknown {
		p.w.Ledger.CapacityAsked(p.now, step.Pod)
		return
	}
	p.w.Ledger.CapacityFailed(p.now, step.Pod, ledger.Shortened(r.Text))
	own := &p.entries[p.at(decision.Decision{Pod: step.Pod})]
	last := p.w.Ledger.Capacity(ledger.WorkloadOf(step.Pod))
	p.leave(own, decision.Reason{Code: decision.CapacityNotFound, Text: last.Text, Until: last.Failed.Add(p.b.Backoff(last.Failures))})
}
