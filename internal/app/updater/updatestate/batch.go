// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
)

const (
	// minBatch is the number of workloads of a namespace from which a pass announces its actions on them in one object. Fewer are announced
	// in the objects of the workloads, which show more.
	minBatch = 5
	// namespacePause is the minimum time between two writes of the state of a namespace that only remove announcements.
	namespacePause = 30 * time.Second
	// endTimeout limits the writes of the states of namespaces at the end of a term.
	endTimeout = 2 * time.Second
)

// beginBatches prepares the announcements of actions on many workloads, in the state of their namespace.
//
// The first action on one of the workloads writes it, and the others wait for that. If the write fails, each workload is announced in its own
// object. The outcomes of evictions are stored in the objects of the workloads after ledger.SettleTime. Most workloads have no records by
// then, so that a burst of evictions costs a few writes, not two for each workload.
func (r *Recorder) beginBatches(now time.Time, record *ledger.Ledger, workloads []ledger.ActingWorkload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.batched, func(_ cluster.Workload, at time.Time) bool {
		return now.Before(at) || now.Sub(at) >= attempt.WatchDelay
	})
	if r.ungrouped {
		return
	}
	earlier := &announcement{started: true, stored: true} // that of a pass a short time ago
	groups := map[string][]ledger.ActingWorkload{}
	seen := map[cluster.Workload]bool{}
	for _, a := range workloads {
		w := a.Workload
		state := r.exported[w]
		if seen[w] || w.IsZero() || !mayWait(&state) {
			continue
		}
		seen[w] = true
		if at, announced := r.batched[w]; announced && now.Sub(at) < announcedFor {
			r.batches[w] = earlier
			continue
		}
		groups[w.Namespace] = append(groups[w.Namespace], a)
	}
	maps.DeleteFunc(groups, func(_ string, group []ledger.ActingWorkload) bool { return len(group) < minBatch })
	states := record.Announce(now, slices.Concat(slices.Collect(maps.Values(groups))...))
	for namespace, group := range groups {
		b := &announcement{state: states[namespace]}
		for _, a := range group {
			if !record.Announced(a.Workload).IsZero() {
				r.batches[a.Workload] = b
				b.together = append(b.together, a.Workload)
			}
		}
	}
}

// heldUntil returns until when the announcement of a workload is enough, because the evictions in its state have no outcome yet; zero if it
// is not. The mutex is held.
func (r *Recorder) heldUntil(now time.Time, state *ledger.State) time.Time {
	_, announced := r.batched[state.Workload]
	until := state.LastAction().Add(ledger.SettleTime)
	if !announced || !state.IsSettling() || !now.Before(until) || until.Sub(now) > ledger.SettleTime {
		return time.Time{}
	}
	return until
}

// isShort reports whether the state of a namespace was written a short time ago, so that announcements that do not count any more may stay.
// The mutex is held.
func (r *Recorder) isShort(now time.Time, state *ledger.State) bool {
	last, ok := r.written[state.Workload]
	return ok && !now.Before(last.at) && now.Sub(last.at) < namespacePause
}

// endAnnouncements ends the announcements of workloads whose outcomes are stored, or which have none.
func (r *Recorder) endAnnouncements(now time.Time, record *ledger.Ledger, delays attempt.Delays) {
	announced := record.Announcements(now)
	if len(announced) == 0 {
		return
	}
	exported := record.Export(delays)
	current := make(map[cluster.Workload]time.Time, len(exported))
	for i := range exported {
		current[exported[i].Workload] = exported[i].LastAction()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range announced {
		action, open := current[w]
		last, ok := r.written[w]
		if open && (!ok || last.acting || action.After(last.action)) {
			continue
		}
		record.EndAnnouncement(now, w)
		delete(r.batched, w) // the next write of the namespace leaves it out
	}
}

// endNamespaces stores the states of namespaces at the end of a term, without the announcements of workloads whose outcomes are stored now.
func (r *Recorder) endNamespaces(ctx context.Context, now time.Time, record *ledger.Ledger, delays attempt.Delays) {
	r.endAnnouncements(now, record, delays)
	r.mu.Lock()
	grouped := !r.ungrouped
	r.mu.Unlock()
	current := map[cluster.Workload]bool{}
	var writes []stateUpdate
	for _, state := range record.Export(delays) {
		if grouped && state.IsOfNamespace() {
			current[state.Workload] = true
			writes = append(writes, stateUpdate{turn: r.turns.decide(state.Workload), do: func(ctx context.Context, t turn) { _ = r.write(ctx, now, &state, false, t) }})
		}
	}
	for _, w := range r.store.Stored() {
		if w == ledger.NamespaceState(w.Namespace) && !current[w] {
			writes = append(writes, stateUpdate{turn: r.turns.decide(w), do: func(ctx context.Context, t turn) { r.remove(ctx, now, t) }})
		}
	}
	r.writeAll(ctx, writes, endTimeout)
}

// ungroup makes the recorder announce each workload in its own object from now on. The caller holds the mutex.
func (r *Recorder) ungroup(err error) {
	if !r.ungrouped {
		r.log.Warn("Announcements of a namespace cannot be stored; each workload is announced in its own object, which needs more writes", slog.Any("error", err),
			slog.String("remedy", "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -"))
	}
	r.ungrouped = true
	clear(r.batched)
}
