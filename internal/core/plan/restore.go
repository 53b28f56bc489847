// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// maxRestoredCount bounds the counts in a stored state. Every back-off reaches its maximum long before.
const maxRestoredCount = 1000

// Restore adds stored states to the ledger. Records that the ledger already has are kept, because they are newer.
//
// A stored state may be wrong: the clock was ahead when it was written, or a user has changed it. Times after now count as now, and
// counts are bounded. So each record blocks an action at most for the longest back-off from now on. Incomplete records are ignored.
func (l *Ledger) Restore(now time.Time, states []State) {
	for i := range states {
		l.restore(now, &states[i])
	}
}

func (l *Ledger) restore(now time.Time, s *State) {
	if s.Workload.IsZero() {
		return
	}
	if at := past(now, s.ActingSince); !at.IsZero() {
		addNew(l.interrupted, s.Workload, at)
	}
	if at := past(now, s.LastEviction); !at.IsZero() {
		addNew(l.progress, s.Workload, at)
	}
	if s.Eviction != nil && !s.Eviction.At.IsZero() {
		addNew(l.evictions, s.Workload, s.Eviction.restore(now))
	}
	if s.Capacity != nil {
		addNew(l.asks, s.Workload, s.Capacity.restore(now))
	}
	for i := range s.Replacements {
		l.restorePending(now, s.Workload, &s.Replacements[i])
	}
	for i := range s.Pods {
		l.restorePod(now, s.Workload, &s.Pods[i])
	}
}

func (l *Ledger) restorePending(now time.Time, w cluster.Workload, p *PendingState) {
	if p.Controller.Namespace != w.Namespace || p.Autoscaler.Namespace != w.Namespace {
		return
	}
	o := pendingReplacements{autoscaler: p.Autoscaler, workload: w}
	for _, e := range p.Evicted[max(0, len(p.Evicted)-maxPendingEvictions):] {
		if !e.At.IsZero() {
			o.evictions = append(o.evictions, pendingEviction{at: past(now, e.At), uid: e.UID})
		}
	}
	if len(o.evictions) > 0 {
		addNew(l.pending, p.Controller, o)
	}
}

func (l *Ledger) restorePod(now time.Time, w cluster.Workload, p *PodState) {
	at := past(now, p.At)
	if p.UID == "" || at.IsZero() || p.Do != Evict && p.Do != Resize {
		return
	}
	if ref, ok := l.pods[p.UID]; ok && ref.workload != w {
		return
	}
	switch {
	case p.Failed != nil && p.Failed.Kind > OutcomeIsUnknown:
		return
	case p.Failed != nil:
		f := p.Failed
		addNew(l.refusals, refusedKey{p.UID, p.Do}, refused{
			Refusal: Refusal{Kind: f.Kind, Text: shortened(f.Text)}, at: at, n: max(1, boundedCount(p.Attempts)), transient: boundedCount(f.Transient),
			lost: past(now, f.Lost), since: past(now, f.LostSince), ready: max(0, f.Ready), with: p.With,
			overQuota: f.OverQuota, overQuotaAt: past(now, f.OverQuotaAt),
		})
	case !p.Done:
		return
	case p.Do == Resize:
		addNew(l.resizes, p.UID, resize{at: at, with: p.With, ineffective: boundedCount(p.Attempts)})
	default:
		addNew(l.evicted, p.UID, at)
	}
	l.pods[p.UID] = podRef{w, p.Name}
}

func (e *EvictionState) restore(now time.Time) eviction {
	out := eviction{
		at: past(now, e.At), newest: e.Newest, with: e.With, ineffective: boundedCount(e.Ineffective), judged: e.Judged, uncertain: e.Uncertain,
	}
	if e.Before != nil && !e.Before.At.IsZero() {
		before := *e.Before
		before.Before = nil // an eviction before one whose outcome is unknown has a known outcome
		certain := before.restore(now)
		out.before = &certain
	}
	return out
}

// past returns a time, but at most now.
func past(now, at time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

func boundedCount(n int) int { return min(max(n, 0), maxRestoredCount) }

func addNew[K comparable, V any](m map[K]V, key K, value V) {
	if _, known := m[key]; !known {
		m[key] = value
	}
}

// isInterrupted returns until when no pod of a workload is changed, because the updater before this one ended while it changed some.
// Its actions are not recorded, and the watch may not show them yet.
func (l *Ledger) isInterrupted(now time.Time, w cluster.Workload) (time.Time, bool) {
	if l == nil || len(l.interrupted) == 0 {
		return time.Time{}, false
	}
	at, ok := l.interrupted[w]
	until := at.Add(watchDelay)
	return until, ok && now.Before(until)
}
