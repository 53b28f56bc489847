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
	"podfit.dev/podfit/internal/core/plan"
)

// An announcement is the write before the first action of a pass on a workload, or on one of the workloads that are announced together.
type announcement struct {
	state    ledger.State       // that is written
	together []cluster.Workload // if it is the state of their namespace

	started bool // one action writes it; guarded by the mutex of the Recorder
	failed  bool // it was written and is not stored; guarded by the mutex of the Recorder
	writing sync.WaitGroup
	stored  bool            // also if states cannot be stored in this cluster; set while writing
	reason  decision.Reason // why it is not stored; set while writing
}

// Announce stores that the updater acts on pods of a workload, before the first such action of a pass. Other actions on the workload wait for
// it. If it cannot be stored, Announce returns why, and false. It returns true if states cannot be stored in this cluster.
func (r *Recorder) Announce(ctx context.Context, now time.Time, w cluster.Workload) (why decision.Reason, announced bool) {
	if !r.IsActive() || w.IsZero() {
		return decision.Reason{}, true
	}
	if b := r.batches[w]; b != nil && r.announce(ctx, now, b) {
		return decision.Reason{}, true
	}
	r.mu.Lock()
	a := r.acting[w]
	if a == nil {
		a = &announcement{state: r.exported[w]}
		a.state.Workload = w
		a.state.ActingSince = now
		a.state.ActingNewest = r.newest[w]
		r.acting[w] = a
	}
	r.mu.Unlock()
	announced = r.announce(ctx, now, a)
	return a.reason, announced
}

// announce stores an announcement once, and reports whether it is stored. Other callers wait for that.
func (r *Recorder) announce(ctx context.Context, now time.Time, a *announcement) bool {
	r.mu.Lock()
	first := !a.started
	if first {
		a.started = true
		a.writing.Add(1)
	}
	r.mu.Unlock()
	if first {
		r.storeAnnouncement(ctx, now, a)
	}
	a.writing.Wait() // at most for announceTimeout
	return a.stored
}

func (r *Recorder) storeAnnouncement(ctx context.Context, now time.Time, a *announcement) {
	defer a.writing.Done()
	a.reason = decision.Reason{Code: decision.OutOfTime} // also if the pass ends, the write is not sent, or it panics
	err := r.writeAnnouncement(ctx, now, &a.state)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.isActive() {
		a.failed = true
		if why, held := r.held.of(now, a.state.Workload); held {
			a.reason = why
		}
		return
	}
	a.stored = true
	for _, w := range a.together {
		r.batched[w] = now
	}
}

// Held reports whether an action on a workload cannot be announced now, and why. It writes nothing.
func (r *Recorder) Held(now time.Time, w cluster.Workload) (decision.Reason, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batches[w]
	if !r.isActive() || w.IsZero() || b != nil && !b.failed {
		return decision.Reason{}, false
	}
	return r.held.of(now, w)
}

// Unannounced returns the workloads on which actions cannot be announced now.
func (r *Recorder) Unannounced(now time.Time) plan.Unannounced {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isActive() {
		return nil
	}
	return r.held.export(now)
}
