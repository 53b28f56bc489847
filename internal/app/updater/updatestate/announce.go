// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"context"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// An announcement is the write before the first action of a pass on a workload.
type announcement struct {
	write  sync.Once
	stored bool            // also if states cannot be stored in this cluster; set by write
	reason decision.Reason // why it is not stored; set by write
}

// Announce stores that the updater acts on pods of a workload, before the first such action of a pass. Other actions on the workload wait for
// it. If it cannot be stored, Announce returns why, and false. It returns true if states cannot be stored in this cluster.
func (r *Recorder) Announce(ctx context.Context, now time.Time, w cluster.Workload) (why decision.Reason, announced bool) {
	if !r.IsActive() || w.IsZero() {
		return decision.Reason{}, true
	}
	r.mu.Lock()
	a := r.acting[w]
	if a == nil {
		a = &announcement{}
		r.acting[w] = a
	}
	r.mu.Unlock()
	a.write.Do(func() { r.storeAnnouncement(ctx, now, w, a) }) // others wait at most for announceTimeout
	return a.reason, a.stored
}

func (r *Recorder) storeAnnouncement(ctx context.Context, now time.Time, w cluster.Workload, a *announcement) {
	a.reason = decision.Reason{Code: decision.OutOfTime} // also if the pass ends, the write is not sent, or it panics
	state := r.exported[w]
	state.Workload, state.ActingSince, state.ActingNewest = w, now, r.newest[w]
	err := r.writeAnnouncement(ctx, now, &state)
	r.mu.Lock()
	defer r.mu.Unlock()
	a.stored = err == nil || !r.isActive()
	if why, held := r.held.of(now, w); held && !a.stored {
		a.reason = why
	}
}

// Held reports whether an action on a workload cannot be announced now, and why. It writes nothing.
func (r *Recorder) Held(now time.Time, w cluster.Workload) (decision.Reason, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isActive() || w.IsZero() {
		return decision.Reason{}, false
	}
	return r.held.of(now, w)
}

// Unannounced returns the workloads on which actions cannot be announced now.
func (r *Recorder) Unannounced(now time.Time) ledger.Unannounced {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isActive() {
		return nil
	}
	return r.held.export(now)
}
