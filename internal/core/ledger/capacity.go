// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// placeholderDelay is how long after its creation a request may not be shown yet.
const placeholderDelay = 2 * time.Minute

// RequestLost is the cause of a failed request for capacity that is gone, as Reason.Text.
const RequestLost = "the placeholder pod or ProvisioningRequest was deleted, preempted or never created"

// A keptRequest is a request for capacity that the API server refused to delete.
type keptRequest struct {
	at time.Time // of the last attempt
	n  int       // attempts
}

// CapacityKept records that the API server refused to delete a request.
func (l *Ledger) CapacityKept(now time.Time, r *cluster.CapacityRequest) {
	l.keeps[r.UID] = keptRequest{at: now, n: l.keeps[r.UID].n + 1}
}

// CapacityDeleted records that a request was deleted.
func (l *Ledger) CapacityDeleted(r *cluster.CapacityRequest) { delete(l.keeps, r.UID) }

// CapacityIsKept reports whether the deletion of a request was refused, and the next attempt is not due yet.
func (l *Ledger) CapacityIsKept(now time.Time, b *Delays, r *cluster.CapacityRequest) bool {
	kept, refused := l.keeps[r.UID]
	return refused && now.Before(kept.at.Add(Doubled(b.RefusalBase, b.RefusalMax, kept.n)))
}

// ProvisioningIgnored records that no autoscaler has accepted a ProvisioningRequest until it expired.
func (l *Ledger) ProvisioningIgnored(now time.Time) { l.ignored = now }

// LastProvisioningIgnored returns the time of the last ProvisioningIgnored; zero if there was none.
func (l *Ledger) LastProvisioningIgnored() time.Time { return l.ignored }

// Capacity returns the last request for capacity of a workload; the zero value if there is none.
func (l *Ledger) Capacity(w cluster.Workload) CapacityState { return l.asks[w] }

// CapacityAsked records that a request was created for a pod, or may have been.
func (l *Ledger) CapacityAsked(now time.Time, p *cluster.Pod) {
	a := l.asks[WorkloadOf(p)]
	a.UID, a.Pod, a.Requested = p.UID, p.Name, now
	l.asks[WorkloadOf(p)] = a
}

// CapacityFailed records that the request for capacity for a pod failed, and why.
func (l *Ledger) CapacityFailed(now time.Time, p *cluster.Pod, why string) {
	l.asks[WorkloadOf(p)] = l.asks[WorkloadOf(p)].fail(now, why)
}

// CapacityReleased ends a request that neither failed nor led to an eviction. Earlier failures are kept.
func (l *Ledger) CapacityReleased(w cluster.Workload) {
	a := l.asks[w]
	a.UID, a.Pod, a.Requested = "", "", time.Time{}
	l.asks[w] = a
	if a.Failures == 0 {
		delete(l.asks, w)
	}
}

func (c CapacityState) fail(now time.Time, why string) CapacityState {
	return CapacityState{Failures: c.Failures + 1, Failed: now, Text: why}
}

// IsLost reports whether the request must be shown by now and is not: others have deleted it, or the scheduler has preempted the
// placeholder pod.
func (c CapacityState) IsLost(now time.Time, w cluster.Workload, held map[cluster.Key]*cluster.CapacityRequest) bool {
	return !c.Requested.IsZero() && held[cluster.PlaceholderFor(w.Namespace, c.UID)] == nil && !now.Before(c.Requested.Add(placeholderDelay))
}

// learnCapacity records requests that are gone, and forgets old ones.
func (l *Ledger) learnCapacity(now time.Time, held map[cluster.Key]*cluster.CapacityRequest, ds []decision.Decision) {
	if len(l.asks)+len(l.keeps) == 0 {
		return
	}
	exists := make(map[string]bool, len(held))
	for _, r := range held {
		exists[r.UID] = true
	}
	maps.DeleteFunc(l.keeps, func(uid string, _ keptRequest) bool { return !exists[uid] })
	live := map[string]*cluster.Pod{}
	for i := range ds {
		if p := ds[i].Pod; l.asks[WorkloadOf(p)].UID == p.UID {
			live[p.UID] = p
		}
	}
	for workload, a := range l.asks {
		switch {
		case a.Requested.IsZero():
		case live[a.UID] == nil: // deleted or evicted
			l.CapacityReleased(workload)
		case a.IsLost(now, workload, held):
			l.asks[workload] = a.fail(now, RequestLost)
		}
	}
	maps.DeleteFunc(l.asks, func(_ cluster.Workload, a CapacityState) bool {
		return now.Sub(a.Requested) > HistoryTTL && now.Sub(a.Failed) > HistoryTTL
	})
}

func (c CapacityState) restore(now time.Time) CapacityState {
	out := CapacityState{Failures: boundedCount(c.Failures), Failed: past(now, c.Failed), Text: Shortened(c.Text)}
	if c.UID != "" && !c.Requested.IsZero() {
		out.UID, out.Pod, out.Requested = c.UID, c.Pod, past(now, c.Requested)
	}
	return out
}
