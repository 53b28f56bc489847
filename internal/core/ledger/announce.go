// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
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
