// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// An announcement records that the updater before this one acted on pods of a workload, and that the outcomes are not stored.
type announcement struct {
	since  time.Time
	newest time.Time // see State.ActingNewest
}

// announcementTTL is how long an announcement is kept whose outcomes are not known.
const announcementTTL = time.Hour

// NewestToAnnounce returns the creation time after which a pod of a workload may be the replacement of an eviction with an unknown effect: of
// one that follows, or of an earlier one. newest is when the newest pod of the workload was created; zero if it is not known.
func (l *evictionRecords) NewestToAnnounce(now time.Time, w cluster.Workload, newest time.Time) time.Time {
	if newest.IsZero() {
		newest = now.Truncate(time.Second).Add(-time.Second)
	}
	e, open := l.evictions[w]
	if open && !e.Judged && !e.Newest.IsZero() && e.Newest.Before(newest) {
		return e.Newest
	}
	return newest
}

// Interrupted returns until when no pod of a workload is changed, because the updater before this one ended while it changed some.
// Its actions are not recorded, and the watch may not show them yet.
func (l *Ledger) Interrupted(now time.Time, w cluster.Workload) (time.Time, bool) {
	last, ok := l.interrupted[w]
	until := last.since.Add(attempt.WatchDelay)
	return until, ok && now.Before(until)
}

// Unannounced has the reasons why actions cannot be announced now, by scope (AnnouncementScopes): earlier announcements could not be stored. All
// reasons have the code NotAnnounced.
type Unannounced map[cluster.Workload]decision.Reason

// AnnouncementScopes returns the keys under which a workload is in Unannounced: its own one if its object cannot be stored, one with nothing
// but the namespace if many writes in it failed, and the zero value if writes in many namespaces had no answer.
func AnnouncementScopes(w cluster.Workload) [3]cluster.Workload {
	return [...]cluster.Workload{w, {Namespace: w.Namespace}, {}}
}

// Of returns why an action on a workload cannot be announced now, and false if it may be.
func (u Unannounced) Of(w cluster.Workload) (decision.Reason, bool) {
	for _, scope := range AnnouncementScopes(w) {
		if r, ok := u[scope]; ok {
			return r, true
		}
	}
	return decision.Reason{}, false
}

// assume records an eviction for each announcement of the updater before this one whose outcome is not stored. That updater was killed, and
// may have evicted a pod of the workload. A pod that was created after the announcement shows that, and whether it had an effect. If there is
// no such pod when the watch must show it (WatchDelay), no pod was evicted, or it has no replacement yet, and the assumption blocks nothing.
func (l *Ledger) assume(now time.Time) {
	for w, a := range l.interrupted {
		stored, known := l.evictions[w]
		if a.newest.IsZero() || now.Sub(a.since) > announcementTTL || known && (stored.assumed || !stored.At.Before(a.since)) {
			continue
		}
		next := eviction{EvictionState: EvictionState{At: a.since, Newest: a.newest}, assumed: true}
		if known {
			next.before = stored.certain()
		}
		if next.before != nil {
			next.Ineffective = next.before.Ineffective
		}
		l.evictions[w] = next
	}
}

// certain returns the eviction if it was carried out, and otherwise the one before it; nil if there is none.
func (e eviction) certain() *eviction {
	if e.Uncertain != "" || e.assumed {
		return e.before
	}
	return &e
}

// isAssumed reports whether nothing is known of the last eviction of a workload but its announcement.
func (l *evictionRecords) isAssumed(w cluster.Workload) bool { return l.evictions[w].assumed }

// specify records which requests the replacement of an assumed eviction should get: those that it should get now, because the earlier ones
// are not stored.
func (l *evictionRecords) specify(ds []decision.Decision) {
	open := map[cluster.Workload]bool{}
	for w, e := range l.evictions {
		if e.assumed && e.With == nil {
			open[w] = true
		}
	}
	if len(open) == 0 {
		return
	}
	for i := range ds {
		d := &ds[i]
		w := d.Pod.Workload()
		if !open[w] || d.With == nil || !d.Pod.Created.After(l.evictions[w].Newest) {
			continue
		}
		e := l.evictions[w]
		e.With = d.With
		l.evictions[w] = e
	}
}

// forgetAssumptions forgets assumed evictions that no pod has confirmed. The eviction before is the last one again.
func (l *evictionRecords) forgetAssumptions(now time.Time) {
	for w, e := range l.evictions {
		switch {
		case !e.assumed || now.Sub(e.At) <= announcementTTL:
		case e.before != nil:
			l.evictions[w] = *e.before
		default:
			delete(l.evictions, w)
		}
	}
	maps.DeleteFunc(l.evictions, func(_ cluster.Workload, e eviction) bool { return now.Sub(e.At) > attempt.HistoryTTL })
}
