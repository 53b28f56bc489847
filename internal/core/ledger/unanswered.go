// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// expectUncertain is expect for an eviction without an answer.
func (l *evictionRecords) expectUncertain(now time.Time, d Attempt) {
	workload := d.Pod.Workload()
	before, known := l.evictions[workload]
	l.expect(now, d)
	next := l.evictions[workload]
	next.Uncertain = d.Pod.UID
	if known {
		next.before = before.certain()
	}
	l.evictions[workload] = next
}

// refute removes evictions without an answer that were not carried out: the pod still runs when the watch must have shown the
// outcome. The eviction before it is the last one again.
func (l *evictionRecords) refute(now time.Time, ds []decision.Decision) {
	for i := range ds {
		workload := ds[i].Pod.Workload()
		e, ok := l.evictions[workload]
		switch {
		case !ok || e.Uncertain != ds[i].Pod.UID || now.Before(e.At.Add(attempt.WatchDelay)):
		case e.before != nil:
			l.evictions[workload] = *e.before
		default:
			delete(l.evictions, workload)
		}
	}
}

// confirm records resizes without an answer as carried out if their pods ask for the requests now. Otherwise the time without an answer, and
// the back-off, would grow with each resize that another program undoes later. The end of a startup boost is not complete until its
// annotation is removed, too.
func (l *Ledger) confirm(ds []decision.Decision) {
	if len(l.refusals) == 0 {
		return
	}
	for i := range ds {
		p := ds[i].Pod
		if ds[i].Wanted.Code == decision.BoostOver {
			continue
		}
		key := refusedKey{p.UID, decision.Resize}
		if !l.isUnconfirmed(p) {
			continue
		}
		r := l.refusals[key]
		last := l.resizes[p.UID]
		next := resize{at: r.At, with: r.With, ineffective: last.ineffective}
		if sameRequests(last.with, r.With) {
			next.ineffective++ // it was undone in between
		}
		l.resizes[p.UID] = next
		delete(l.refusals, key)
	}
}

// isUnconfirmed reports whether a resize of the pod had no answer, and the pod asks for its requests now.
func (l *refusalRecords) isUnconfirmed(p *cluster.Pod) bool {
	r, failed := l.refusals[refusedKey{p.UID, decision.Resize}]
	return failed && r.Kind == decision.OutcomeIsUnknown && len(r.With) > 0 && change.IsAsked(p, r.With)
}
