// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// Restore adds stored states to the ledger. Records that the ledger already has are kept, because they are newer.
//
// A stored state may be wrong: the clock was ahead when it was written, or a user has changed it. Times after now count as now, and
// counts are bounded. So each record blocks an action at most for the longest back-off from now on. Incomplete records are ignored.
func (l *Ledger) Restore(now time.Time, states []State) {
	for i := range states {
		l.restore(now, &states[i])
	}
	l.assume(now)
}

func (l *Ledger) restore(now time.Time, s *State) {
	if s.Workload.IsZero() {
		return
	}
	if at := attempt.Past(now, s.ActingSince); !at.IsZero() {
		addNew(l.interrupted, s.Workload, announcement{at, s.ActingNewest})
	}
	if at := attempt.Past(now, s.LastEviction); !at.IsZero() {
		addNew(l.progress, s.Workload, at)
	}
	if s.Eviction != nil && !s.Eviction.At.IsZero() {
		addNew(l.evictions, s.Workload, s.Eviction.restore(now))
	}
	if d := s.Deletion; d != nil && !d.At.IsZero() {
		addNew(l.rescues, s.Workload, DeletionState{
			At: attempt.Past(now, d.At), Newest: d.Newest, UID: d.UID, Memory: max(0, d.Memory), Again: attempt.Count(d.Again),
		})
	}
	if r := s.Rounds; r != nil && !r.At.IsZero() && r.Count > 1 {
		stored := RoundsState{At: attempt.Past(now, r.At), Newest: r.Newest, Count: attempt.Count(r.Count)}
		addNew(l.rounds, s.Workload, stored)
		addNew(l.allRounds, s.Workload, stored)
	}
	for i := range s.Shortages {
		l.restoreShortage(now, s.Workload, &s.Shortages[i])
	}
	l.restoreChanges(now, s)
	l.restoreCanary(now, s)
	if s.Capacity != nil {
		l.Headroom.Restore(now, s.Workload, *s.Capacity)
	}
	for i := range s.Replacements {
		l.restorePending(now, s.Workload, &s.Replacements[i])
	}
	for i := range s.Pods {
		l.restorePod(now, s.Workload, &s.Pods[i])
	}
}

func (l *replacementRecords) restorePending(now time.Time, w cluster.Workload, p *PendingState) {
	if p.Controller.Namespace != w.Namespace || p.Autoscaler.Namespace != w.Namespace {
		return
	}
	o := pendingReplacements{PendingState{
		Controller: p.Controller, Autoscaler: p.Autoscaler, Complete: attempt.Past(now, p.Complete), Replaced: max(0, p.Replaced), Most: max(0, p.Most),
	}, w}
	for _, e := range last(p.Evicted, maxPendingEvictions) {
		if !e.At.IsZero() {
			e.At = attempt.Past(now, e.At)
			o.Evicted = append(o.Evicted, e)
		}
	}
	if len(o.Evicted) > 0 {
		addNew(l.pending, p.Controller, o)
	}
}

func (l *Ledger) restorePod(now time.Time, w cluster.Workload, p *PodState) {
	at := attempt.Past(now, p.At)
	if p.UID == "" || at.IsZero() || p.Do == decision.Leave || p.Do > decision.Surge || l.isOfOther(p.UID, w) {
		return
	}
	switch {
	case p.Failed != nil && p.Failed.Kind > decision.NotReadyInTime:
		return
	case p.Failed != nil:
		addNew(l.refusals, refusedKey{p.UID, p.Do}, FailedAttempt{
			FailedState: p.Failed.restore(now, at), At: at, Attempts: max(1, attempt.Count(p.Attempts)), With: p.With,
		})
	case p.Do == decision.Delete, p.Do == decision.Surge: // a deletion that was carried out is stored as an eviction, and in State.Deletion
		return
	case p.Do == decision.Resize:
		addNew(l.resizes, p.UID, resize{at: at, with: p.With, ineffective: attempt.Count(p.Attempts)})
		if until := at.Add(DefaultWindow); now.Before(until) { // whether it took from the budget is not stored
			addNew(l.spends, p.UID, spend{until: until})
		}
	default:
		addNew(l.evicted, p.UID, at)
	}
	l.pods[p.UID] = podRef{w, p.Name}
}

func (f *FailedState) restore(now, at time.Time) FailedState {
	return FailedState{
		Refusal: decision.Refusal{Kind: f.Kind, Text: attempt.Shortened(f.Text)}, Transient: attempt.Count(f.Transient), Ready: max(0, f.Ready),
		Failing: failingSince(f.Kind, at, attempt.Past(now, f.Failing)), Lost: attempt.Past(now, f.Lost), LostSince: attempt.Past(now, f.LostSince),
		OverQuota: f.OverQuota, OverQuotaAt: attempt.Past(now, f.OverQuotaAt), OverQuotaTotal: f.OverQuotaTotal,
	}
}

// isOfOther reports whether the ledger has records of a pod for another workload.
func (l *Ledger) isOfOther(uid string, w cluster.Workload) bool {
	ref, ok := l.pods[uid]
	return ok && ref.workload != w
}

func (l *Ledger) restoreShortage(now time.Time, w cluster.Workload, s *ShortageState) {
	since := attempt.Past(now, s.Since)
	if s.UID == "" || since.IsZero() || l.isOfOther(s.UID, w) {
		return
	}
	addNew(l.lacking, s.UID, ShortageState{Since: since, With: s.With, Parts: attempt.Count(s.Parts), Moves: attempt.Count(s.Moves)})
	l.pods[s.UID] = podRef{w, s.Name}
}

func (e *EvictionState) restore(now time.Time) eviction {
	out := eviction{EvictionState: *e}
	out.At = attempt.Past(now, e.At)
	out.Ineffective = attempt.Count(e.Ineffective)
	out.Before = nil
	if e.Before != nil && !e.Before.At.IsZero() {
		certain := e.Before.restore(now)
		certain.before = nil // an eviction before one whose outcome is unknown has a known outcome
		out.before = &certain
	}
	return out
}

// failingSince returns the time of the first of consecutive failures: the stored one, or the last attempt if none is stored. It is zero if
// the last attempt failed for a reason that is not temporary.
func failingSince(last decision.RefusalKind, at, stored time.Time) time.Time {
	switch {
	case !last.IsTransient():
		return time.Time{}
	case stored.IsZero() || stored.After(at):
		return at
	}
	return stored
}

// addNew adds a value unless the map has one for the key.
func addNew[K comparable, V any](m map[K]V, key K, value V) {
	if _, known := m[key]; !known {
		m[key] = value
	}
}
