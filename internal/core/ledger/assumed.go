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
