// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package headroom sees to it that a pod is not evicted before there is room for its replacement. If no node has free room now, a request for
// capacity asks for it: a ProvisioningRequest, for which a cluster autoscaler adds a node, or a placeholder pod with the size of the
// replacement, which the scheduler places. The pod is evicted when the capacity is provided: the ProvisioningRequest is provisioned, or the
// placeholder pod has a node. Then the request is deleted, and the scheduler places the replacement.
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
// one, and an updater that starts finds those of the one before. The Record has only the last request and its failures.
//
// A Search decides on the requests of one pass, in this order: Lacks for each eviction, Ask for the pods that wait, Release, Steps. Done and Refused
// report the outcome of each step. It does not decide which pods are evicted, and sends nothing.
package headroom

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

const (
	maxRequests     = 10               // requests for capacity in the cluster at the same time
	maxOfNamespace  = 5                // of them in a namespace
	maxUnknown      = 50               // requests for unknown pods that a pass deletes; a tenant can create any number
	growthOfRequest = 0.1              // a request that is not provided is replaced if the size of the replacement exceeds it by this fraction
	capacityFor     = 10 * time.Minute // how long podfit waits until capacity is provided
	unansweredFor   = 6 * time.Hour    // how long placeholder pods are used after no autoscaler has accepted a ProvisioningRequest
)

// Rules are what users set.
type Rules struct {
	Provider Provider
	attempt.Delays
}

// A Search finds room for the replacements of one pass. It is not safe for concurrent use.
type Search struct {
	now    time.Time
	rules  Rules
	record *Record
	rooms  *placement.Rooms // nil until Begin

	Held  map[cluster.Key]*cluster.CapacityRequest // the requests in the cluster by name
	Steps []Step                                   // the requests to create and to delete, in this order of execution: deletions first

	requests []*cluster.CapacityRequest // sorted by name
	given    map[string]bool            // placeholder pods that are given up for a resize, by UID
	asked    map[cluster.Workload]bool  // workloads with a request, or for which one is created
}

// New returns the search of a pass. requests are the ProvisioningRequest objects of podfit; placeholder pods are among the pods.
func New(now time.Time, rules Rules, record *Record, requests []cluster.CapacityRequest, pods []*cluster.Pod) *Search {
	s := &Search{
		now: now, rules: rules, record: record,
		Held: map[cluster.Key]*cluster.CapacityRequest{}, given: map[string]bool{}, asked: map[cluster.Workload]bool{},
	}
	s.requests = cluster.Each(requests, func(r *cluster.CapacityRequest) *cluster.CapacityRequest { return r })
	for _, p := range pods {
		if p.Placeholder && p.Live() {
			s.requests = append(s.requests, requestOf(p))
		}
	}
	slices.SortFunc(s.requests, func(a, b *cluster.CapacityRequest) int {
		return cmp.Or(a.Compare(b.Key), strings.Compare(a.UID, b.UID))
	})
	for _, r := range s.requests {
		if has := s.Held[r.Key]; has == nil || has.State != cluster.RequestProvided {
			s.Held[r.Key] = r
		}
	}
	return s
}

// Of returns the request for the replacement of a pod, or nil.
func (s *Search) Of(p *cluster.Pod) *cluster.CapacityRequest {
	if len(s.Held) == 0 {
		return nil
	}
	return s.Held[cluster.PlaceholderOf(p)]
}

// GiveUp gives up placeholders on a node that has too little room for the resizes of its pods.
func (s *Search) GiveUp(n *placement.Room, needed room.Amount) {
	for _, r := range s.requests {
		if n.Free.Holds(needed) {
			return
		}
		if r.Node == n.Node.Name {
			s.given[r.UID] = true
			n.Free = n.Free.Add(room.Of(r.Size))
			n.Open = n.Open.Add(room.Of(r.Size))
		}
	}
}

// Begin takes the room on the nodes after the resizes of the pass, and the decisions by the request for their pod.
func (s *Search) Begin(rooms *placement.Rooms, decisions map[cluster.Key]*decision.Decision) {
	s.rooms = rooms
	for _, d := range decisions {
		s.asked[d.Pod.Workload()] = true
	}
}

// IsOn reports whether evictions wait until there is room.
func (s *Search) IsOn() bool { return s.rules.Provider != NotAsked && s.rooms != nil && s.rooms.Known }

// Lacks reports whether an eviction must wait because no node has room for the replacement, and why. Otherwise it reserves the room, and sets
// the request that has provided it. For a pod that shrinks no capacity is asked for: it waits until there is room.
func (s *Search) Lacks(d *decision.Decision) (decision.Reason, bool) {
	p := d.Pod
	size := change.Total(d.Pod, d.Replacement())
	own := s.Of(p)
	if s.take(p, own, size) {
		d.Request = own
		return decision.Reason{}, false
	}
	switch {
	case !change.Grows(p, d.Replacement()):
		return decision.Reason{Code: decision.NoFreeRoom, Text: size.String()}, true
	case s.rules.Provider&(PlaceholderPods|ProvisioningRequests) == 0:
		return decision.Reason{Code: decision.NoCapacityProvider, Text: size.String()}, true
	}
	last := s.record.Of(p.Workload())
	failed := decision.Reason{Code: decision.CapacityNotFound, Text: last.Text, Until: last.Failed.Add(s.rules.Backoff(last.Failures))}
	waits := decision.Reason{Code: decision.AwaitingCapacity, Text: size.String()}
	failsNow := func(why string) (decision.Reason, bool) {
		return decision.Reason{Code: decision.CapacityNotFound, Text: why, Until: s.now.Add(s.rules.Backoff(last.Failures + 1))}, true
	}
	switch {
	case own != nil && (own.State == cluster.RequestFailed || s.isExpired(own)):
		return failsNow(attempt.Shortened(failureOf(own)))
	case own != nil:
		waits.Until = own.Created.Add(capacityFor)
	case last.UID == p.UID && last.isLost(s.now, p.Workload(), s.Held):
		return failsNow(requestLost)
	case last.Failures > 0 && s.now.Before(failed.Until):
		return failed, true
	case !last.Requested.IsZero() && last.UID == p.UID:
		waits.Until = last.Requested.Add(capacityFor)
	}
	return waits, true
}

// take reserves the room for the replacement of a pod: what its request provides, with what the node of a placeholder pod has free
// besides, or room that a node has anyway. Where the room of a ProvisioningRequest is, is not known, so room that is seen is reserved first. It
// returns false if there is none.
func (s *Search) take(p *cluster.Pod, r *cluster.CapacityRequest, size cluster.Resources) bool {
	var n *placement.Room
	provided := r != nil && r.State == cluster.RequestProvided && !s.isExpired(r) && !s.given[r.UID] && s.holds(r, size)
	if provided {
		n = s.rooms.Nodes[r.Node]
	}
	switch {
	case n != nil && n.Node.TakesPods():
		n.Open = n.Open.Sub(room.Of(r.Size).Lacking(room.Of(size)))
		return true
	case s.rooms.Take(p, room.Of(size)):
		return true
	}
	return provided && n == nil
}

// holds reports whether the room of a request, with what the node of a placeholder pod has free besides, is enough for a replacement.
func (s *Search) holds(r *cluster.CapacityRequest, size cluster.Resources) bool {
	has := room.Of(r.Size)
	if n := s.rooms.Nodes[r.Node]; n != nil {
		has = has.Add(room.Amount{CPU: max(0, n.Open.CPU), Memory: max(0, n.Open.Memory)})
	}
	return has.Holds(room.Of(size))
}

// isExpired reports whether a request was not provided in time, or its pod was not evicted in time.
func (s *Search) isExpired(r *cluster.CapacityRequest) bool {
	limit := capacityFor
	if r.State == cluster.RequestProvided {
		limit *= 2
	}
	return !s.now.Before(r.Created.Add(limit))
}

// Ask asks for capacity for pods that wait for it, in their order. Only requests that podfit has made count, because a tenant can create objects
// that look like them.
func (s *Search) Ask(waiting []*decision.Decision) {
	requests := s.record.open()
	total := 0
	for _, n := range requests {
		total += min(n, maxOfNamespace) // a stored state that a tenant has changed may have more
	}
	for _, d := range waiting {
		workload := d.Pod.Workload()
		if d.Reason.Code != decision.AwaitingCapacity || !d.Reason.Until.IsZero() || s.asked[workload] || total >= maxRequests || requests[d.Pod.Namespace] >= maxOfNamespace {
			continue
		}
		if !s.record.Of(workload).Requested.IsZero() {
			continue // the request for another pod of the workload is not shown yet
		}
		total++
		requests[d.Pod.Namespace]++
		s.asked[workload] = true
		s.Steps = append(s.Steps, Step{Pod: d.Pod, Autoscaler: d.Autoscaler, Size: change.Total(d.Pod, d.Replacement()), Kind: s.kind()})
		d.Reason.Until = s.now.Add(capacityFor)
	}
}

// kind returns how capacity is asked for now. A ProvisioningRequest is preferred: it needs no pod. If no autoscaler accepts it, as where only
// the CustomResourceDefinition is installed, placeholder pods are used for some hours.
func (s *Search) kind() cluster.RequestKind {
	last := s.record.ignored
	unanswered := !last.IsZero() && s.now.Sub(last) < unansweredFor
	if s.rules.Provider&ProvisioningRequests != 0 && !(unanswered && s.rules.Provider&PlaceholderPods != 0) {
		return cluster.ProvisioningRequest
	}
	return cluster.PlaceholderPod
}

// Release deletes the requests that are not needed any more, before others are created.
func (s *Search) Release(decisions map[cluster.Key]*decision.Decision) {
	var releases []Step
	unknown := 0
	for _, r := range s.requests {
		d := decisions[r.Key]
		why, failure := s.releaseOf(r, d)
		if why == "" || s.record.isKept(s.now, &s.rules.Delays, r) {
			continue
		}
		step := Step{Request: r, Kind: r.Kind, Release: why, failure: failure}
		step.unanswered = why == ReleaseExpired && r.Kind == cluster.ProvisioningRequest && r.State == cluster.RequestWaiting
		switch {
		case d != nil:
			step.Pod = d.Pod
			step.Autoscaler = d.Autoscaler
		case unknown == maxUnknown:
			continue // the next passes delete it
		default:
			unknown++
		}
		releases = append(releases, step)
	}
	s.Steps = append(releases, s.Steps...)
}

// releaseOf returns why a request is deleted, and why it has failed; "" if it is kept or has not failed.
func (s *Search) releaseOf(r *cluster.CapacityRequest, d *decision.Decision) (why Release, failure string) {
	switch {
	case !s.rules.Provider.serves(r.Kind):
		return ReleaseOff, ""
	case d == nil || d.Reason.Code == decision.AlreadyEvicted:
		return ReleaseGone, ""
	case s.given[r.UID]:
		return ReleaseNeeded, roomWasNeeded
	case d.Do == decision.Evict && d.Request == r:
		return "", "" // it is deleted after the eviction
	case r.State == cluster.RequestFailed:
		return ReleaseFailed, failureOf(r)
	case s.isExpired(r):
		return ReleaseExpired, failureOf(r)
	case d.Do == decision.Resize && !d.Fallback || d.Do == decision.Delete || d.Wanted.Code == decision.Fits || d.Reason.Code == decision.Protected || !d.Autoscaler.Mode.Evicts() || !change.Grows(d.Pod, d.Replacement()):
		return ReleaseUnwanted, ""
	case s.isOutgrown(r, change.Total(d.Pod, d.Replacement())):
		return ReleaseOutgrown, ""
	}
	return "", ""
}

// isOutgrown reports whether the replacement needs so much more than a request asked for that the request does not help.
func (s *Search) isOutgrown(r *cluster.CapacityRequest, size cluster.Resources) bool {
	if r.State == cluster.RequestProvided {
		return s.rooms.Known && !s.holds(r, size)
	}
	exceeds := func(now, before int64) bool { return float64(now) > float64(before)*(1+growthOfRequest) }
	return exceeds(size.CPU, r.Size.CPU) || exceeds(size.Memory, r.Size.Memory)
}

// Done reports that a step was carried out.
func (s *Search) Done(step *Step) {
	if step.unanswered {
		s.record.ignored = s.now
	}
	if step.Request != nil {
		delete(s.record.kept, step.Request.UID)
	}
	switch {
	case step.Pod == nil:
	case step.Request == nil:
		s.record.Asked(s.now, step.Pod)
	case step.failure != "":
		s.record.Failed(s.now, step.Pod, step.failure)
	default:
		s.record.Released(step.Pod.Workload())
	}
}

// Refused reports that the API server refused a step, or that its outcome is unknown. A request that may have been created counts as created,
// and one that could not be deleted is deleted after a back-off. If a request was refused, it returns why its pod waits.
func (s *Search) Refused(step *Step, r decision.Refusal) (why decision.Reason, refused bool) {
	switch {
	case step.Request != nil:
		uid := step.Request.UID
		s.record.kept[uid] = keptRequest{at: s.now, n: s.record.kept[uid].n + 1}
		return why, false
	case r.Kind == decision.OutcomeIsUnknown:
		s.record.Asked(s.now, step.Pod)
		return why, false
	}
	s.record.Failed(s.now, step.Pod, attempt.Shortened(r.Text))
	last := s.record.Of(step.Pod.Workload())
	return decision.Reason{Code: decision.CapacityNotFound, Text: last.Text, Until: last.Failed.Add(s.rules.Backoff(last.Failures))}, true
}
