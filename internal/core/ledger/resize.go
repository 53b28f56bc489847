// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// A resize is the last resize of a pod.
type resize struct {
	at          time.Time
	with        []policy.Fitted
	ineffective int  // consecutive resizes that were undone before this one
	shown       bool // the watch has shown the requests of the resize
	part        bool // the rest of the increase follows
}

type resizeRecords struct {
	resizes map[string]resize // by pod UID
}

// Undone returns the number of consecutive resizes of a pod that were undone: its spec has other requests again.
func (l *resizeRecords) Undone(p *cluster.Pod) int {
	r, ok := l.resizes[p.UID]
	if !ok || change.IsAsked(p, r.with) {
		return 0
	}
	return r.ineffective + 1
}

// undoneBefore returns the number of consecutive resizes of a pod that were undone before a new one. A resize by a part, or one that the
// kubelet has not completed, is followed by others for the same increase, and all of them are undone together, so it does not end the row.
func (l *resizeRecords) undoneBefore(p *cluster.Pod) int {
	n := l.Undone(p)
	if last := l.resizes[p.UID]; n == 0 && (last.part || !change.SameSize(p, last.with)) {
		return last.ineffective
	}
	return n
}

// Awaited returns what a resize of the pod has set that the watch may not show yet: it has not shown the requests of the resize, and WatchDelay has
// not passed. It returns nil if there is no such resize.
func (l *resizeRecords) Awaited(now time.Time, p *cluster.Pod) []policy.Fitted {
	r, ok := l.resizes[p.UID]
	if !ok || r.shown || !now.Before(r.at.Add(attempt.WatchDelay)) || change.IsAsked(p, r.with) {
		return nil
	}
	return r.with
}

func (l *resizeRecords) noteShown(ds []decision.Decision) {
	if len(l.resizes) == 0 {
		return
	}
	for i := range ds {
		r, ok := l.resizes[ds[i].Pod.UID]
		if ok && !r.shown && change.IsAsked(ds[i].Pod, r.with) {
			r.shown = true
			l.resizes[ds[i].Pod.UID] = r
		}
	}
}

// LastResize returns when a pod was last resized; zero if it was not.
func (l *resizeRecords) LastResize(p *cluster.Pod) time.Time { return l.resizes[p.UID].at }
