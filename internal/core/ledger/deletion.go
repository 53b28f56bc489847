// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// deletionRecords are the deletions of pods to rescue them.
type deletionRecords struct {
	rescues map[cluster.Workload]DeletionState // the last deletion of a pod of the workload
}

// LastDeletion returns the last deletion of a pod of a workload, and whether there is one.
func (l *deletionRecords) LastDeletion(w cluster.Workload) (DeletionState, bool) {
	d, ok := l.rescues[w]
	return d, ok
}

// recordRescue records that a pod was deleted, or may have been.
func (l *deletionRecords) recordRescue(now time.Time, d Attempt) {
	next := DeletionState{At: now, Newest: cmp.Or(d.Newest, d.Pod.Created), UID: d.Pod.UID, Memory: d.Memory}
	if d.Repeated {
		next.Again = l.rescues[d.Pod.Workload()].Again + 1
	}
	l.rescues[d.Pod.Workload()] = next
}

// forgetRescues forgets deletions after HistoryTTL, but not while pods of the workload are not ready because of OOM kills.
func (l *deletionRecords) forgetRescues(now time.Time, ds []decision.Decision) {
	if len(l.rescues) == 0 {
		return
	}
	crashing := map[cluster.Workload]bool{}
	for i := range ds {
		if p := ds[i].Pod; p.Crash != nil {
			crashing[p.Workload()] = true
		}
	}
	maps.DeleteFunc(l.rescues, func(w cluster.Workload, r DeletionState) bool {
		return !crashing[w] && now.Sub(r.At) > attempt.HistoryTTL
	})
}
