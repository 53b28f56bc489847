// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// roomRecords are the pods whose nodes are too full for them.
type roomRecords struct {
	lacking  map[string]ShortageState // pods whose node was too full for their resize, by UID, without UID and name
	yielding map[string]time.Time     // since when pods have left free room to other pods, by UID; not stored
	Searches attempt.Turns            // of pods, by UID: searches for moves that make room for them
}

// LackOfRoom returns what is recorded about a pod whose node was too full for its resize; the zero value if nothing is.
func (l *roomRecords) LackOfRoom(p *cluster.Pod) ShortageState { return l.lacking[p.UID] }

// IsAskedInFull reports whether a pod that was resized by a part was asked for all of its increase since.
func (l *Ledger) IsAskedInFull(p *cluster.Pod) bool {
	part := l.lacking[p.UID].With
	last := l.resizes[p.UID].with
	return part != nil && change.AsksLessThan(part, last, 0)
}

// notePart records a resize by a part. A later resize in full does not end the shortage: it may be deferred again.
func (l *roomRecords) notePart(now time.Time, d Attempt) {
	if !d.Part {
		return
	}
	short := l.lacking[d.Pod.UID]
	if short.Since.IsZero() {
		short.Since = now
		if d.Pod.IsDeferred() {
			short.Since = d.Pod.Resize.Since
		}
	}
	short.Parts++
	short.With = d.With
	l.lacking[d.Pod.UID] = short
}

// noteMove records that a pod was evicted to make room for another one.
func (l *Ledger) noteMove(now time.Time, d Attempt) {
	if d.RoomFor == nil {
		return
	}
	l.note(d.RoomFor)
	short := l.lacking[d.RoomFor.UID]
	short.Since = cmp.Or(short.Since, now)
	short.Moves++
	l.lacking[d.RoomFor.UID] = short
}

// forgetShortages forgets pods that are gone or have all of their increase.
func (l *roomRecords) forgetShortages(ds []decision.Decision) {
	if len(l.lacking) == 0 {
		return
	}
	waiting := make(map[string]bool, len(l.lacking))
	for i := range ds {
		d := &ds[i]
		if _, short := l.lacking[d.Pod.UID]; short {
			waiting[d.Pod.UID] = d.Pod.IsDeferred() || d.Reason.Part || change.Grows(d.Pod, d.With)
		}
	}
	maps.DeleteFunc(l.lacking, func(uid string, _ ShortageState) bool { return !waiting[uid] })
}

// YieldsSince returns since when a pod has left the free room on its node to other pods; zero if it has not.
func (l *roomRecords) YieldsSince(p *cluster.Pod) time.Time { return l.yielding[p.UID] }

// noteYielding records which pods leave the free room on their node to other pods. A pod is forgotten when it is gone or has its increase. It
// is not stored: after a restart, a pod may wait once more.
func (l *roomRecords) noteYielding(now time.Time, ds []decision.Decision) {
	next := map[string]time.Time{}
	for i := range ds {
		d := &ds[i]
		since, known := l.yielding[d.Pod.UID]
		switch {
		case d.Reason.Code == decision.RoomReserved && (!known || now.Before(since)):
			next[d.Pod.UID] = now
		case known && (d.Reason.Code == decision.RoomReserved || change.Grows(d.Pod, d.With)):
			next[d.Pod.UID] = since
		}
	}
	l.yielding = next
}

// Searched records that moves were searched that make room for pods.
func (l *roomRecords) Searched(now time.Time, pods []*cluster.Pod) {
	for _, p := range pods {
		l.Searches.Took(now, p.Namespace, p.UID)
	}
}
