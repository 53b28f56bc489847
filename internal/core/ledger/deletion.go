// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// LastDeletion returns the last deletion of a pod of a workload, and whether there is one.
func (l *Ledger) LastDeletion(w cluster.Workload) (DeletionState, bool) {
	d, ok := l.rescues[w]
	return d, ok
}

// recordRescue records that a pod was deleted, or may have been.
func (l *Ledger) recordRescue(now time.Time, d Attempt) {
	next := DeletionState{At: now, Newest: d.Newest, UID: d.Pod.UID, Memory: d.Memory}
	if next.Newest.IsZero() {
		next.Newest = d.Pod.Created
	}
	if d.Repeated {
		next.Again = l.rescues[WorkloadOf(d.Pod)].Again + 1
	}
	l.rescues[WorkloadOf(d.Pod)] = next
}

// forgetRescues forgets deletions after HistoryTTL, but not while pods of the workload are not ready because of OOM kills.
func (l *Ledger) forgetRescues(now time.Time, ds []decision.Decision) {
	if len(l.rescues) == 0 {
		return
	}
	crashing := map[cluster.Workload]bool{}
	for i := range ds {
		if p := ds[i].Pod; p.Crash != nil {
			crashing[WorkloadOf(p)] = true
		}
	}
	maps.DeleteFunc(l.rescues, func(w cluster.Workload, r DeletionState) bool { return !crashing[w] && now.Sub(r.At) > HistoryTTL })
}
