// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package headroom

import (
	"iter"
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// shownWithin is how long after its creation a request may not be shown yet.
const shownWithin = 2 * time.Minute

// requestLost is the cause of a failed request for capacity that is gone, as Reason.Text.
const requestLost = "the placeholder pod or ProvisioningRequest was deleted, preempted or never created"

// A State is the last request for capacity of a workload.
type State struct {
	UID       string    `stored:"uid"`         // of the pod that is going to be evicted; "" if there is no request now
	Pod       string    `stored:"pod"`         // its name
	Requested time.Time `stored:"requestTime"` // zero if there is no request now
	Failures  int       `stored:"failures"`    // consecutive failed requests
	Failed    time.Time `stored:"failureTime"` // when the last one failed
	Text      string    `stored:"message"`     // why
}

// fail returns the state after the request has failed, and why.
func (s State) fail(now time.Time, why string) State {
	return State{Failures: s.Failures + 1, Failed: now, Text: why}
}

// isLost reports whether the request must be shown by now and is not: others have deleted it, or the scheduler has preempted the
// placeholder pod.
func (s State) isLost(now time.Time, w cluster.Workload, held map[cluster.Key]*cluster.CapacityRequest) bool {
	return !s.Requested.IsZero() && held[cluster.PlaceholderFor(w.Namespace, s.UID)] == nil && !now.Before(s.Requested.Add(shownWithin))
}

// A keptRequest is a request for capacity that the API server refused to delete.
type keptRequest struct {
	at time.Time // of the last attempt
	n  int       // attempts
}

// A Record is what is remembered of requests for capacity from one pass to the next. It is not safe for concurrent use.
type Record struct {
	last    map[cluster.Workload]State
	kept    map[string]keptRequest // by UID
	Turns   attempt.Turns          // when capacity was last asked for, of workloads
	ignored time.Time              // when a ProvisioningRequest expired that no autoscaler had accepted; zero if none did
}

// NewRecord returns an empty record.
func NewRecord() *Record {
	return &Record{last: map[cluster.Workload]State{}, kept: map[string]keptRequest{}, Turns: attempt.Turns{}}
}

// Of returns the last request for capacity of a workload; the zero value if there is none.
func (r *Record) Of(w cluster.Workload) State { return r.last[w] }

// All returns the last requests of all workloads, in no order.
func (r *Record) All() iter.Seq2[cluster.Workload, State] { return maps.All(r.last) }

// Asked records that a request was created for a pod, or may have been.
func (r *Record) Asked(now time.Time, p *cluster.Pod) {
	s := r.last[p.Workload()]
	s.UID = p.UID
	s.Pod = p.Name
	s.Requested = now
	r.last[p.Workload()] = s
	r.Turns.Took(now, p.Namespace, p.Workload().String())
}

// Failed records that the request for a pod failed, or was refused, and why.
func (r *Record) Failed(now time.Time, p *cluster.Pod, why string) {
	r.last[p.Workload()] = r.last[p.Workload()].fail(now, why)
	r.Turns.Took(now, p.Namespace, p.Workload().String())
}

// Released ends a request that neither failed nor led to an eviction. Earlier failures are kept.
func (r *Record) Released(w cluster.Workload) {
	s := r.last[w]
	if s.Failures == 0 {
		delete(r.last, w)
		return
	}
	r.last[w] = State{Failures: s.Failures, Failed: s.Failed, Text: s.Text}
}

// Evicted forgets the request of a workload: it has led to an eviction.
func (r *Record) Evicted(w cluster.Workload) { delete(r.last, w) }

// open returns how many requests were created, or may have been, and have not ended, by namespace.
func (r *Record) open() map[string]int {
	out := map[string]int{}
	for w, s := range r.last {
		if !s.Requested.IsZero() {
			out[w.Namespace]++
		}
	}
	return out
}

// isKept reports whether the deletion of a request was refused, and the next attempt is not due yet.
func (r *Record) isKept(now time.Time, b *attempt.Delays, request *cluster.CapacityRequest) bool {
	kept, refused := r.kept[request.UID]
	return refused && now.Before(kept.at.Add(attempt.Doubled(b.RefusalBase, b.RefusalMax, kept.n)))
}

// Learn records requests that are gone, and forgets old ones. held are the requests in the cluster, ds all decisions of the pass.
func (r *Record) Learn(now time.Time, held map[cluster.Key]*cluster.CapacityRequest, ds []decision.Decision) {
	r.Turns.Forget(now)
	if len(r.last)+len(r.kept) == 0 {
		return
	}
	exists := make(map[string]bool, len(held))
	for _, request := range held {
		exists[request.UID] = true
	}
	maps.DeleteFunc(r.kept, func(uid string, _ keptRequest) bool { return !exists[uid] })
	live := map[string]bool{}
	for i := range ds {
		if p := ds[i].Pod; r.last[p.Workload()].UID == p.UID {
			live[p.UID] = true
		}
	}
	for w, s := range r.last {
		switch {
		case s.Requested.IsZero():
		case !live[s.UID]: // deleted or evicted
			r.Released(w)
		case s.isLost(now, w, held):
			r.last[w] = s.fail(now, requestLost)
		}
	}
	maps.DeleteFunc(r.last, func(_ cluster.Workload, s State) bool {
		return now.Sub(s.Requested) > attempt.HistoryTTL && now.Sub(s.Failed) > attempt.HistoryTTL
	})
}

// Restore adds a stored state. A state that the record already has is kept, because it is newer. What is wrong in a stored state is bounded.
func (r *Record) Restore(now time.Time, w cluster.Workload, stored State) {
	s := State{Failures: attempt.Count(stored.Failures), Failed: attempt.Past(now, stored.Failed), Text: attempt.Shortened(stored.Text)}
	if stored.UID != "" && !stored.Requested.IsZero() {
		s.UID, s.Pod, s.Requested = stored.UID, stored.Pod, attempt.Past(now, stored.Requested)
	}
	if _, known := r.last[w]; !known {
		r.last[w] = s
	}
	for _, at := range [...]time.Time{s.Requested, s.Failed} {
		r.Turns.Took(at, w.Namespace, w.String())
	}
}
