// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// replacementRecords are the evicted pods that have no replacement yet.
type replacementRecords struct {
	pending map[cluster.Workload]pendingReplacements // by direct controller
}

// pendingReplacements are the evictions of a controller's pods whose replacements have not been observed yet.
type pendingReplacements struct {
	PendingState
	workload cluster.Workload // of the pods, see cluster.Pod.Workload
}

// maxPendingEvictions is the maximum number of pending evictions that are kept for one controller.
const maxPendingEvictions = 1000

// addPending records that a pod was evicted, or may have been, and needs a replacement.
func (l *replacementRecords) addPending(now time.Time, d Attempt) {
	if d.Pod.Controller.IsZero() {
		return
	}
	o, ok := l.pending[d.Pod.Controller]
	if !ok {
		o = pendingReplacements{PendingState{Controller: d.Pod.Controller, Autoscaler: d.Autoscaler}, d.Pod.Workload()}
	}
	o.Evicted = append(slices.Clone(last(o.Evicted, maxPendingEvictions-1)), EvictedPod{UID: d.Pod.UID, At: now, Newest: d.newest(now)})
	l.pending[d.Pod.Controller] = o
}

// MissingReplacements returns the controllers whose evicted pods have no replacement yet, sorted. The next View must have their
// scales, even if they have no pods.
func (l *replacementRecords) MissingReplacements() []cluster.Workload {
	return slices.SortedFunc(maps.Keys(l.pending), cluster.Workload.Compare)
}

// IsEvicted reports whether a pod that the watch still shows was evicted within WatchDelay.
func (l *Ledger) IsEvicted(now time.Time, p *cluster.Pod) bool {
	at, ok := l.evicted[p.UID]
	return ok && now.Before(at.Add(attempt.WatchDelay))
}

// MayBeEvicted reports whether an eviction or deletion of the pod within WatchDelay has an unknown outcome.
func (l *refusalRecords) MayBeEvicted(now time.Time, p *cluster.Pod) bool {
	evicted, _ := l.LastFailure(p, decision.Evict)
	deleted, _ := l.LastFailure(p, decision.Delete)
	return now.Before(evicted.Lost.Add(attempt.WatchDelay)) || now.Before(deleted.Lost.Add(attempt.WatchDelay))
}

// A Shortage is a controller that did not replace evicted pods in time.
type Shortage struct {
	Controller      cluster.Workload
	Autoscaler      *cluster.Autoscaler
	Present, Wanted int // existing pods, with unscheduled ones and evicted ones that terminate; pods that should exist
	Since           time.Time
}

// A replacementState compares the pending evictions of a controller with its pods.
type replacementState struct {
	pendingReplacements
	governor       *cluster.Autoscaler // nil if the autoscaler governs no pods any more
	there, leaving int
	leavingEvicted int         // leaving pods that were evicted, or may have been
	created        []time.Time // creation of the pods that were created after the first pending eviction
	wanted         int
	known          bool // wanted is known
	none           bool // the controller does not exist, or is known to want none
}

// replacementStates returns the state of each controller with pending evictions, sorted by controller.
func (l *Ledger) replacementStates(now time.Time, v View) []replacementState {
	if len(l.pending) == 0 {
		return nil
	}
	counts := map[cluster.Workload]replacementState{}
	as := map[cluster.Key]*cluster.Autoscaler{}
	live := map[string]bool{}
	for _, g := range v.Governed {
		as[g.Autoscaler.Key] = g.Autoscaler
		for _, p := range g.Pods {
			owed := l.pending[p.Controller].Evicted
			if len(owed) == 0 || p.HasFinished() {
				continue
			}
			c := counts[p.Controller]
			if p.Deleting || l.IsEvicted(now, p) || l.MayBeEvicted(now, p) {
				c.leaving++
				if slices.ContainsFunc(owed, func(e EvictedPod) bool { return e.UID == p.UID }) {
					c.leavingEvicted++
				}
			} else {
				c.there++
				live[p.UID] = true
			}
			if p.Created.After(owed[0].Newest) {
				c.created = append(c.created, p.Created)
			}
			counts[p.Controller] = c
		}
	}
	out := make([]replacementState, 0, len(l.pending))
	for _, controller := range l.MissingReplacements() {
		c := counts[controller]
		c.pendingReplacements = l.pending[controller]
		// The outcome of an eviction without an answer is known by now: a pod that lives was not evicted.
		c.Evicted = slices.DeleteFunc(slices.Clone(c.Evicted), func(e EvictedPod) bool { return live[e.UID] })
		c.governor = as[c.Autoscaler]
		c.wanted, c.known = v.Scales[controller].Wanted(controller, c.there)
		c.none = v.Scales[controller].Gone || !c.known && v.Scales[controller].Known && c.wanted <= 0
		out = append(out, c)
	}
	return out
}

// isComplete reports whether the controller has all its pods again, or has no pods to evict any more.
func (c *replacementState) isComplete(now time.Time) bool {
	if len(c.Evicted) == 0 {
		return true
	}
	gone := c.there+c.leaving == 0 && now.Sub(last(c.Evicted, 1)[0].At) > attempt.HistoryTTL
	return c.governor == nil || gone || c.none || c.known && c.there >= c.wanted && c.isSettled(now)
}

// isSettled reports whether the watch shows the replacements of the evicted pods. After a scale-down, there may be enough pods
// although there are no replacements: the watch still shows the pods that the scale-down has removed. Pods that replaced others of the
// evicted pods before do not count again.
func (c *replacementState) isSettled(now time.Time) bool {
	return len(c.created)-int(c.Replaced) >= len(c.Evicted) || !c.Complete.IsZero() && !now.Before(c.Complete.Add(attempt.WatchDelay))
}

// remaining returns the pending evictions without those that must have been replaced according to the number of pods.
func (c *replacementState) remaining(now time.Time) pendingReplacements {
	out := c.pendingReplacements
	if c.known {
		out.Most = max(out.Most, int32(c.wanted))
	}
	switch {
	case !c.known || c.there < c.wanted:
		out.Complete = time.Time{}
	case out.Complete.IsZero():
		out.Complete = now
	}
	if c.known && c.there < c.wanted {
		missing := c.wanted - c.there
		if c.wanted < int(out.Most) { // the watch may still show pods that the scale-down removes, so only new pods show what was replaced
			missing = max(missing, len(c.Evicted)-max(0, len(c.created)-int(c.Replaced)))
		}
		out.Evicted = last(c.Evicted, missing)
		if first := out.Evicted[0].Newest; len(out.Evicted) < len(c.Evicted) {
			after := slices.DeleteFunc(slices.Clone(c.created), func(t time.Time) bool { return !t.After(first) })
			out.Replaced = int32(len(after))
		}
	}
	return out
}

// missingSince returns the time since which the current number of pods or more has been missing. It assumes that the last evictions
// are the ones without a replacement. It returns false if no pod is missing. An evicted pod is not missing while it terminates, but any
// other pod that terminates needs a replacement of its own.
func (c *replacementState) missingSince() (time.Time, bool) {
	missing := c.wanted - c.there - c.leavingEvicted
	if !c.known || missing <= 0 {
		return time.Time{}, false
	}
	return last(c.Evicted, missing)[0].At, true
}

// last returns the last n evictions, or all when there are fewer.
func last(evictions []EvictedPod, n int) []EvictedPod { return evictions[max(0, len(evictions)-n):] }

// Shortages returns the controllers whose evicted pods were not replaced within a time. It also returns the
// controllers with all pods.
func (l *Ledger) Shortages(now time.Time, v View, within time.Duration) (short map[cluster.Workload]Shortage, complete map[cluster.Workload]bool) {
	short, complete = map[cluster.Workload]Shortage{}, map[cluster.Workload]bool{}
	for _, c := range l.replacementStates(now, v) {
		if c.isComplete(now) {
			complete[c.Controller] = true
			continue
		}
		if since, missing := c.missingSince(); missing && !now.Before(since.Add(within)) {
			short[c.Controller] = Shortage{
				Controller: c.Controller, Autoscaler: c.governor,
				Present: c.there + c.leavingEvicted, Wanted: c.wanted, Since: since,
			}
		}
	}
	return short, complete
}

// IsMissing reports whether the replacement of an evicted or deleted pod of a controller has not been observed yet. It assumes that
// pods are replaced in the order in which they were evicted.
func (l *replacementRecords) IsMissing(c cluster.Workload, uid string) bool {
	return slices.ContainsFunc(l.pending[c].Evicted, func(e EvictedPod) bool { return e.UID == uid })
}

// IsScaledDown reports whether a controller wants fewer pods than when pods were evicted whose replacements have not been observed yet.
func (l *replacementRecords) IsScaledDown(controller cluster.Workload, wanted int) bool {
	return wanted < int(l.pending[controller].Most)
}

// Missing returns the number of evicted pods of a controller that have no replacement yet.
func (l *replacementRecords) Missing(c cluster.Workload) int { return len(l.pending[c].Evicted) }
