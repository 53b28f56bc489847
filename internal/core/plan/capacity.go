// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/room"
)

// A pod is not evicted before there is room for its replacement. If no node has free room now, a request for capacity asks for it: a
// ProvisioningRequest, for which a cluster autoscaler adds a node, or a placeholder pod with the size of the replacement, which the
// scheduler places. The pod is evicted when the capacity is provided: the ProvisioningRequest is provisioned, or the placeholder pod has
// a node. Then the request is deleted, and the scheduler places the replacement.
//
//	no free room ─▶ asked (AwaitingCapacity) ─▶ provided ─▶ evicted, then released ─▶ done
//	                  │                            │
//	                  ▼                            ▼
//	             not provided in time,        not evicted in time, deleted by others
//	             refused, deleted by others        │
//	                  └──────────────┬─────────────┘
//	                                 ▼
//	                     CapacityNotFound, with a back-off
//
// The requests in the cluster are the state: their name follows from the UID of the pod, so a repeated request creates no second
// one, and an updater that starts finds those of the one before. The ledger has only the last request and its failures.

// A Provider is a set of the ways to ask for capacity.
type Provider uint8

// The ways to ask for capacity.
const (
	NoProvider           Provider = 1 << iota // capacity must be asked for, but the cluster has no way to do it: pods are left
	PlaceholderPods                           // placeholder pods
	ProvisioningRequests                      // ProvisioningRequest objects, which are preferred

	NotAsked Provider = 0 // no capacity is asked for; pods are evicted without
)

const (
	maxRequests     = 10            // requests for capacity in the cluster at the same time, for pods of the pass
	maxUnknown      = 50            // requests for unknown pods that a pass deletes; a tenant can create any number
	maxOffers       = 100           // pods in a pass that get the budget of others
	growthOfRequest = 0.1           // a request that is not provided is replaced if the size of the replacement exceeds it by this fraction
	unansweredFor   = 6 * time.Hour // how long placeholder pods are used after no autoscaler has accepted a ProvisioningRequest
)

// The causes of a failed request for capacity, as Reason.Text.
const (
	noNodeInTime         = "no node had room for the placeholder pod in time"
	notProvisionedInTime = "the ProvisioningRequest was not provisioned in time"
	notAccepted          = "no autoscaler accepted the ProvisioningRequest"
	notEvictedInTime     = "the pod was not evicted in time, so the request for capacity was deleted"
	roomWasNeeded        = "a pod on the node of the placeholder pod needed the room"
)

// A Release is the reason for which a request for capacity is deleted. Its text is a stable name for logs.
type Release string

// The reasons to delete a request for capacity.
const (
	ReleaseGone     Release = "PodGone"     // the pod that it is for does not exist any more, or was evicted
	ReleaseUnwanted Release = "NotNeeded"   // the pod is not going to be evicted for a larger size
	ReleaseOutgrown Release = "SizeChanged" // the replacement needs more than what was asked for
	ReleaseExpired  Release = "Expired"     // it was not provided in time, or the pod was not evicted in time
	ReleaseFailed   Release = "Failed"      // the autoscaler reports that it cannot provide it
	ReleaseNeeded   Release = "RoomNeeded"  // a resize of another pod on its node needs the room
	ReleaseOff      Release = "SwitchedOff" // no capacity is asked for any more
)

// A CapacityStep creates or deletes one request for capacity.
type CapacityStep struct {
	Pod        *cluster.Pod             // the pod that is going to be evicted; nil if a request for an unknown pod is deleted
	Autoscaler *cluster.Autoscaler      // nil if Pod is nil
	Size       cluster.Resources        // what the replacement requests
	Kind       cluster.RequestKind      // of the request
	Request    *cluster.CapacityRequest // the one to delete; nil if one is created
	Release    Release                  // why it is deleted

	failure    string // why the request for capacity has failed; "" if it has not
	unanswered bool   // no autoscaler has accepted the ProvisioningRequest
}

// capacity is the state of the requests for capacity in a pass.
type capacity struct {
	requests []*cluster.CapacityRequest               // sorted by name
	held     map[cluster.Key]*cluster.CapacityRequest // by name
	active   int                                      // requests for pods of the pass; a tenant can create others
	given    map[string]bool                          // placeholder pods that are given up for a resize, by UID
	asked    map[cluster.Workload]bool                // workloads with a request, or for which one is created
	usable   map[nodeKey][]*nodeRoom                  // nodes that accept new pods, by name
	steps    []CapacityStep
}

func capacityOf(w World) capacity {
	c := capacity{held: map[cluster.Key]*cluster.CapacityRequest{}, given: map[string]bool{}, asked: map[cluster.Workload]bool{}, usable: map[nodeKey][]*nodeRoom{}}
	for i := range w.Requests {
		c.requests = append(c.requests, &w.Requests[i])
	}
	for _, p := range w.Pods {
		if p.Placeholder && p.Live() {
			c.requests = append(c.requests, requestOf(p))
		}
	}
	slices.SortFunc(c.requests, func(a, b *cluster.CapacityRequest) int {
		return cmp.Or(a.Compare(b.Key), strings.Compare(a.UID, b.UID))
	})
	for _, r := range c.requests {
		if has := c.held[r.Key]; has == nil || has.State != cluster.RequestProvided {
			c.held[r.Key] = r
		}
	}
	return c
}

func requestOf(placeholder *cluster.Pod) *cluster.CapacityRequest {
	r := cluster.CapacityRequest{
		Key: placeholder.Key, UID: placeholder.UID, Kind: cluster.PlaceholderPod, Created: placeholder.Created, Node: placeholder.Node, Size: change.Total(placeholder, nil),
	}
	if r.Node != "" {
		r.State = cluster.RequestProvided
	}
	return &r
}

// of returns the request for the replacement of a pod, or nil.
func (c *capacity) of(p *cluster.Pod) *cluster.CapacityRequest {
	if len(c.held) == 0 {
		return nil
	}
	return c.held[cluster.PlaceholderOf(p)]
}

// CapacitySteps returns the requests for capacity to create and to delete, in this order of execution: deletions first.
func (p *Pass) CapacitySteps() []CapacityStep { return p.capacity.steps }

// checkCapacity leaves pods whose replacement has no room on any node now, and decides which requests for capacity are created and deleted.
func (s *pass) checkCapacity(ds []entry) {
	decisions := make(map[cluster.Key]*entry, len(s.capacity.requests)) // by request
	for i := range ds {
		if d := &ds[i]; s.capacity.of(d.Pod) != nil {
			decisions[cluster.PlaceholderOf(d.Pod)] = d
			s.capacity.asked[ledger.WorkloadOf(d.Pod)] = true
		}
	}
	for _, r := range s.capacity.requests {
		if decisions[r.Key] != nil {
			s.capacity.active++
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
		withdrawn := map[cluster.Workload]bool{} // direct controllers that have got back budget
		for _, d := range evictions {
			if r, lacks := s.lacksCapacity(d); lacks {
				s.withdraw(d, r)
				s.ask(d, &r)
				withdrawn[d.Pod.Controller] = true
			}
		}
		s.offerBudget(ds, withdrawn, s.holdBack)
	}
	s.releaseRequests(decisions)
}

// offerBudget gives the budget of pods that wait for capacity, or for the room of other pods, to other pods of their controllers. They may
// be on a node with room, and the eviction of a pod frees room on its own node. If the pod that waits was to be the canary, another one is. hold
// leaves those that lack room, too.
func (s *pass) offerBudget(ds []entry, withdrawn map[cluster.Workload]bool, hold func(*entry)) {
	offers := 0
	for i := range ds {
		d := &ds[i]
		waits := d.Do == decision.Leave && (d.Reason.Code == decision.BudgetSpent || d.Reason.Code == decision.AwaitingCanary)
		if !waits || !withdrawn[d.Pod.Controller] || offers >= maxOffers {
			continue
		}
		offers++
		s.candidate(d).take()
		hold(d)
	}
}

func (s *pass) asksForCapacity() bool { return s.w.Provider != NotAsked && s.nodeRooms().known }

// kindOfRequest returns how capacity is asked for now. A ProvisioningRequest is preferred: it needs no pod. If no autoscaler accepts it, as
// where only the CustomResourceDefinition is installed, placeholder pods are used for some hours.
func (s *pass) kindOfRequest() cluster.RequestKind {
	last := s.w.Ledger.LastProvisioningIgnored()
	unanswered := !last.IsZero() && s.now.Sub(last) < unansweredFor
	if s.w.Provider&ProvisioningRequests != 0 && !(unanswered && s.w.Provider&PlaceholderPods != 0) {
		return cluster.ProvisioningRequest
	}
	return cluster.PlaceholderPod
}

// serves reports whether requests of a kind are used.
func (p Provider) serves(k cluster.RequestKind) bool {
	if k == cluster.ProvisioningRequest {
		return p&ProvisioningRequests != 0
	}
	return p&PlaceholderPods != 0
}

// withdraw leaves a pod instead of changing it, and returns its budget.
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
	s.radius.withdraw(d.Pod)
	d.Do, d.Reason, d.Fallback, d.Request = decision.Leave, r, false, nil
}

// holdBack leaves a pod for which budget became free, if its resize would take the room of another pod, or its replacement has no room. The
// next pass asks for capacity.
func (s *pass) holdBack(d *entry) {
	if s.holdForRoom(d) || d.Do != decision.Evict || !s.asksForCapacity() {
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
	if !s.asksForCapacity() || d.placed || !change.Grows(p, d.With) || p.Controller.Kind == "DaemonSet" || healthOf(s.now, s.b, p).isDown() {
		return decision.Reason{}, false
	}
	size := change.Total(p, d.With)
	own := s.capacity.of(p)
	if own != nil && own.State == cluster.RequestProvided && !s.isExpired(own) && !s.capacity.given[own.UID] && s.holds(own, size) || s.takeRoom(p, room.Of(size)) {
		d.Request, d.placed = own, true
		return decision.Reason{}, false
	}
	if s.w.Provider&(PlaceholderPods|ProvisioningRequests) == 0 {
		return decision.Reason{Code: decision.NoCapacityProvider, Text: size.String()}, true
	}
	last := s.w.Ledger.Capacity(ledger.WorkloadOf(p))
	failed := decision.Reason{Code: decision.CapacityNotFound, Text: last.Text, Until: last.Failed.Add(s.b.Backoff(last.Failures))}
	waits := decision.Reason{Code: decision.AwaitingCapacity, Text: size.String()}
	switch {
	case own != nil && (own.State == cluster.RequestFailed || s.isExpired(own)):
		failed.Text, failed.Until = ledger.Shortened(failureOf(own)), s.now.Add(s.b.Backoff(last.Failures+1))
		return failed, true
	case own != nil:
		waits.Until = own.Created.Add(s.b.CapacityFor)
	case last.UID == p.UID && last.IsLost(s.now, ledger.WorkloadOf(p), s.capacity.held):
		failed.Text, failed.Until = ledger.RequestLost, s.now.Add(s.b.Backoff(last.Failures+1))
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
	if r.Code != decision.AwaitingCapacity || !r.Until.IsZero() || s.capacity.asked[workload] || s.capacity.active+creating >= maxRequests {
		return
	}
	if last := s.w.Ledger.Capacity(workload); !last.Requested.IsZero() {
		return // the request for another pod of the workload is not shown yet
	}
	s.capacity.asked[workload] = true
	s.capacity.steps = append(s.capacity.steps, CapacityStep{Pod: d.Pod, Autoscaler: d.Autoscaler, Size: change.Total(d.Pod, d.With), Kind: s.kindOfRequest()})
	d.Reason.Until = s.now.Add(s.b.CapacityFor)
}

// isExpired reports whether a request was not provided in time, or its pod was not evicted in time.
func (s *pass) isExpired(r *cluster.CapacityRequest) bool {
	limit := s.b.CapacityFor
	if r.State == cluster.RequestProvided {
		limit *= 2
	}
	return !s.now.Before(r.Created.Add(limit))
}

// failureOf returns why a request has failed or was not provided in time.
func failureOf(r *cluster.CapacityRequest) string {
	switch {
	case r.State == cluster.RequestFailed:
		return r.Text
	case r.State == cluster.RequestProvided:
		return notEvictedInTime
	case r.Kind == cluster.PlaceholderPod:
		return noNodeInTime
	case r.State == cluster.RequestAccepted:
		return notProvisionedInTime
	}
	return notAccepted
}

// holds reports whether the room of a request, with what the node of a placeholder pod has free besides, is enough for a replacement.
func (s *pass) holds(r *cluster.CapacityRequest, size cluster.Resources) bool {
	has := room.Of(r.Size)
	if n := s.nodeRooms().nodes[r.Node]; n != nil {
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

// releaseRequests deletes the requests that are not needed any more, before others are created.
func (s *pass) releaseRequests(decisions map[cluster.Key]*entry) {
	var releases []CapacityStep
	unknown := 0
	for _, r := range s.capacity.requests {
		d := decisions[r.Key]
		why, failure := s.releaseOf(r, d)
		if why == "" || s.w.Ledger.CapacityIsKept(s.now, &s.b.Delays, r) {
			continue
		}
		step := CapacityStep{Request: r, Kind: r.Kind, Release: why, failure: failure}
		step.unanswered = why == ReleaseExpired && r.Kind == cluster.ProvisioningRequest && r.State == cluster.RequestWaiting
		switch {
		case d != nil:
			step.Pod, step.Autoscaler = d.Pod, d.Autoscaler
		case unknown == maxUnknown:
			continue // the next passes delete it
		default:
			unknown++
		}
		releases = append(releases, step)
	}
	s.capacity.steps = append(releases, s.capacity.steps...)
}

// releaseOf returns why a request is deleted, and why it has failed; "" if it is kept or has not failed.
func (s *pass) releaseOf(r *cluster.CapacityRequest, d *entry) (why Release, failure string) {
	switch {
	case !s.w.Provider.serves(r.Kind):
		return ReleaseOff, ""
	case d == nil || d.Reason.Code == decision.AlreadyEvicted:
		return ReleaseGone, ""
	case s.capacity.given[r.UID]:
		return ReleaseNeeded, roomWasNeeded
	case d.Do == decision.Evict && d.Request == r:
		return "", "" // it is deleted after the eviction
	case r.State == cluster.RequestFailed:
		return ReleaseFailed, failureOf(r)
	case s.isExpired(r):
		return ReleaseExpired, failureOf(r)
	case d.Do == decision.Resize && !d.Fallback || d.Do == decision.Delete || d.Wanted.Code == decision.Fits || !d.Autoscaler.Mode.Evicts() || !change.Grows(d.Pod, d.With):
		return ReleaseUnwanted, ""
	case s.isOutgrown(r, change.Total(d.Pod, d.With)):
		return ReleaseOutgrown, ""
	}
	return "", ""
}

// isOutgrown reports whether the replacement needs so much more than a request asked for that the request does not help.
func (s *pass) isOutgrown(r *cluster.CapacityRequest, size cluster.Resources) bool {
	if r.State == cluster.RequestProvided {
		return s.nodeRooms().known && !s.holds(r, size)
	}
	had := r.Size
	exceeds := func(now, before int64) bool { return float64(now) > float64(before)*(1+growthOfRequest) }
	return exceeds(size.CPU, had.CPU) || exceeds(size.Memory, had.Memory)
}

// giveUpPlaceholders gives up placeholders on a node that has too little room for the resizes of its pods.
func (s *pass) giveUpPlaceholders(n *nodeRoom, needed room.Amount) {
	for _, r := range s.capacity.requests {
		if n.free.Holds(needed) {
			return
		}
		if r.Node == n.node.Name {
			s.capacity.given[r.UID] = true
			n.free, n.open = n.free.Add(room.Of(r.Size)), n.open.Add(room.Of(r.Size))
		}
	}
}

// CapacityDone reports that a step was carried out.
func (p *Pass) CapacityDone(step *CapacityStep) {
	l := p.w.Ledger
	if step.unanswered {
		l.ProvisioningIgnored(p.now)
	}
	if step.Request != nil {
		l.CapacityDeleted(step.Request)
	}
	switch {
	case step.Pod == nil:
	case step.Request == nil:
		l.CapacityAsked(p.now, step.Pod)
	case step.failure != "":
		l.CapacityFailed(p.now, step.Pod, step.failure)
	default:
		l.CapacityReleased(ledger.WorkloadOf(step.Pod))
	}
}

// CapacityRefused reports that the API server refused a step, or that its outcome is unknown. A request that may have been created
// counts as created, and one that could not be deleted is deleted after a back-off.
func (p *Pass) CapacityRefused(step *CapacityStep, r decision.Refusal) {
	if step.Request != nil {
		p.w.Ledger.CapacityKept(p.now, step.Request)
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
