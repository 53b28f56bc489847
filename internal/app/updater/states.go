// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// stateStore stores the state of each workload, in UpdateState objects.
type stateStore interface {
	// Load returns ErrUnsupported or ErrForbidden if states cannot be stored in this cluster.
	Load(ctx context.Context) ([]plan.State, error)
	// Write reports whether it wrote. It does not write if the stored state is the same.
	Write(ctx context.Context, now time.Time, s *plan.State) (bool, error)
	Delete(ctx context.Context, w cluster.Workload) error
	Stored() []cluster.Workload
}

const (
	// quietInterval is the minimum time between two writes of an object, unless the later one has an action that must not be
	// repeated after a restart. It is also how long the object of a workload without state is kept, because the next action
	// often follows.
	quietInterval = 5 * time.Minute
	// announceTimeout limits how long the first action on a workload waits for the write before it.
	announceTimeout = 5 * time.Second
	// storeTimeout limits the writes after a pass. The next pass continues.
	storeTimeout = 10 * time.Second
	// stateBackoff is the pause after a failed write of an object. Each further one doubles it. Announcements do not pause.
	stateBackoff     = 10 * time.Second
	stateBackoffMost = 10 * time.Minute
	// saveDelay is the time from a pass to the writes after it. In a rollout of sizes, the next action on a workload often follows.
	saveDelay = 10 * time.Second
	// announcedFor is how long an announcement counts for the next passes. It is short compared with the time for which an updater waits
	// after it (plan.Interrupted).
	announcedFor = 30 * time.Second
	// loadTimeout limits one attempt to load all states.
	loadTimeout = 5 * time.Minute
	// loadAgainAfter is how often the updater checks whether states can be stored, if the CRD or a right is missing.
	loadAgainAfter = 10 * time.Minute
)

// states keeps the ledger in the cluster, so that a restart or a new leader repeats nothing. The zero value keeps nothing.
//
// Before the first action of a pass on a workload, announce stores that the updater acts. After the pass, save stores the outcomes.
// If the updater is killed in between, the next one waits until the watch must show the actions (plan.Interrupted). So save may write
// later, in parallel to the next pass: if that acts on the workload again, one write is enough for both. Of two writes of one object, the
// one that was decided on later wins.
type states struct {
	store    stateStore // nil: nothing is stored
	metrics  *Metrics
	log      *slog.Logger
	parallel bool           // save does not wait for its writes, which begin after saveDelay
	saving   sync.WaitGroup // the writes of the last save
	drop     chan struct{}  // closed by the next save, to drop the writes of the last one that have not begun; nil if there are none
	unsaved  time.Time      // of the first save whose writes have not begun

	exported map[cluster.Workload]plan.State // before the actions of this pass

	mu          sync.Mutex                      // guards the following while pods are changed
	unavailable bool                            // the CRD or a right is missing
	loadAgainAt time.Time                       // if unavailable
	failing     bool                            // the last writes failed, which was logged
	acting      map[cluster.Workload]*sync.Once // workloads that this pass acts on
	written     map[cluster.Workload]stateWrite // the last write of each object in this term
	failures    map[cluster.Workload]stateFailure
	slots       map[cluster.Workload]*stateSlot // objects with writes that are not done
	decided     uint64                          // number of writes that were decided on
}

// A stateFailure describes the failed writes of an object since the last successful one.
type stateFailure struct {
	count      int
	retryAfter time.Time
}

// A stateSlot orders the writes of one object.
type stateSlot struct {
	free   chan struct{} // buffer of one: contains a value while no write is in progress
	latest uint64        // the latest write that was decided on
}

// A turn is the place of a write among the writes of one object.
type turn struct {
	workload cluster.Workload
	slot     *stateSlot
	number   uint64
}

// decide returns the turn of a new write. Earlier writes of the object that have not begun are dropped.
func (s *states) decide(w cluster.Workload) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[w]
	if slot == nil {
		slot = &stateSlot{free: make(chan struct{}, 1)}
		slot.free <- struct{}{}
		s.slots[w] = slot
	}
	s.decided++
	slot.latest = s.decided
	return turn{w, slot, s.decided}
}

// await waits until no other write of the object is in progress. It returns false if ctx ends first, or if the write is dropped. After
// true, the caller calls end.
func (s *states) await(ctx context.Context, t turn) bool {
	select {
	case <-ctx.Done(): // a later pass writes it
		s.release(t)
		return false
	case <-t.slot.free:
	}
	s.mu.Lock()
	dropped := t.slot.latest > t.number
	s.mu.Unlock()
	if dropped {
		t.slot.free <- struct{}{}
	}
	return !dropped
}

// end lets the next write of the object begin.
func (s *states) end(t turn) {
	s.release(t)
	t.slot.free <- struct{}{}
}

// release removes the slot of an object without a later write.
func (s *states) release(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.slot.latest == t.number && s.slots[t.workload] == t.slot {
		delete(s.slots, t.workload)
	}
}

// A stateWrite describes the last write of an object, or the last time when it had not changed.
type stateWrite struct {
	at     time.Time
	action time.Time // State.LastAction of what was written
	acting bool      // announce wrote it
}

func newStates(store stateStore, m *Metrics, log *slog.Logger) *states {
	return &states{store: store, metrics: m, log: log, written: map[cluster.Workload]stateWrite{}, failures: map[cluster.Workload]stateFailure{}, slots: map[cluster.Workload]*stateSlot{}}
}

// load restores the stored states into the ledger. It retries until it succeeds or ctx ends, because the updater must not act
// without them. If states cannot be stored in this cluster, it returns at once: the updater acts as if there were none.
func (s *states) load(ctx context.Context, restore func([]plan.State)) error {
	if s.store == nil {
		return nil
	}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		loaded, err := s.loadOnce(ctx)
		if err == nil {
			restore(loaded)
			return nil
		}
		if ctx.Err() == nil {
			s.log.Warn("Cannot load the stored update states; no pods are changed until they are loaded", slog.Any("error", err), slog.String("retryAfter", wait.String()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// loadOnce lists the stored states. It returns none, and no error, if states cannot be stored.
func (s *states) loadOnce(ctx context.Context) ([]plan.State, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, err := s.store.Load(ctx)
	switch {
	case errors.Is(err, kube.ErrUnsupported), errors.Is(err, kube.ErrForbidden):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.disable(err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unavailable {
		s.log.Info("UpdateStates can be stored again")
	}
	s.unavailable = false
	s.metrics.statesAvailable.Set(1)
	return loaded, nil
}

// disable records that states cannot be stored, and logs it once with the remedy. The caller holds the mutex.
func (s *states) disable(err error) {
	s.metrics.statesAvailable.Set(0)
	s.loadAgainAt = time.Now().Add(loadAgainAfter)
	if s.unavailable {
		return
	}
	s.unavailable = true
	remedy := "install the CRDs: podfit crds | kubectl apply -f -"
	if errors.Is(err, kube.ErrForbidden) {
		remedy = "grant the updater create, delete, get, list and patch on updatestates.podfit.dev, as deploy/10-rbac.yaml does"
	}
	s.log.Warn("UpdateStates cannot be stored; after a restart, the updater repeats refused and ineffective actions",
		slog.String("remedy", remedy), slog.Any("error", err))
}

// isActive reports whether states are stored now.
func (s *states) isActive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store != nil && !s.unavailable
}

// isDueToLoad reports whether it is time to check again whether states can be stored.
func (s *states) isDueToLoad() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unavailable && !time.Now().Before(s.loadAgainAt)
}

// begin prepares the actions of a pass. If states could not be stored until now, it tries again from time to time.
func (s *states) begin(ctx context.Context, pass *plan.Pass, ledger *plan.Ledger, b plan.Budget, restore func([]plan.State)) {
	if s.store == nil {
		return
	}
	if s.isDueToLoad() {
		loaded, err := s.loadOnce(ctx)
		if err == nil {
			restore(loaded)
		}
	}
	s.exported = map[cluster.Workload]plan.State{}
	s.mu.Lock()
	s.acting = map[cluster.Workload]*sync.Once{}
	s.mu.Unlock()
	acts := slices.ContainsFunc(pass.Decisions(), func(d plan.Decision) bool { return d.Do != plan.Leave })
	if !acts || !s.isActive() {
		return
	}
	for _, state := range ledger.Export(b) {
		s.exported[state.Workload] = state
	}
}

// announce stores that the updater acts on pods of a workload, before the first such action of a pass. Other actions on the workload
// wait for it. A failed write blocks no action.
func (s *states) announce(ctx context.Context, now time.Time, w cluster.Workload) {
	if !s.isActive() || w.IsZero() {
		return
	}
	s.mu.Lock()
	once := s.acting[w]
	if once == nil {
		once = new(sync.Once)
		s.acting[w] = once
	}
	s.mu.Unlock()
	once.Do(func() {
		state := s.exported[w]
		state.Workload, state.ActingSince = w, now
		ctx, cancel := context.WithTimeout(ctx, announceTimeout)
		defer cancel()
		s.write(ctx, now, &state, true, s.decide(w))
	})
}

// save stores the states that have changed and are due, and deletes the objects of workloads without state. It also runs when ctx has
// ended, as long as this updater leads. If all is true, every change is due, and save waits until all is written.
func (s *states) save(ctx context.Context, now time.Time, ledger *plan.Ledger, b plan.Budget, all bool) {
	if !s.isActive() {
		return
	}
	if s.drop != nil {
		close(s.drop)
		s.drop = nil
	}
	s.saving.Wait() // at most for storeTimeout
	var atOnce, later []stateUpdate
	for _, w := range s.dueWrites(now, ledger, b, all) {
		if s.parallel && !all && w.mayWait {
			later = append(later, w)
			continue
		}
		atOnce = append(atOnce, w)
	}
	s.writeAll(ctx, atOnce)
	if len(later) == 0 {
		s.unsaved = time.Time{}
		return
	}
	s.writeLater(ctx, later)
}

// A stateUpdate is a write or the deletion of an object after a pass.
type stateUpdate struct {
	turn
	mayWait bool
	do      func(ctx context.Context, t turn)
}

// mayWait reports whether a state may be stored later, if the stored one shows that the updater acts. After a kill, no pod of the workload
// is changed for some time then. That is not enough for a canary, whose state the admission controller reads, for deletions, and for
// changes that also limit those of other workloads.
func mayWait(state *plan.State) bool {
	return state.Canary == nil && state.Deletion == nil && len(state.Changes) == 0
}

// dueWrites returns the writes and deletions that are due.
func (s *states) dueWrites(now time.Time, ledger *plan.Ledger, b plan.Budget, all bool) []stateUpdate {
	exported := ledger.Export(b)
	current := make(map[cluster.Workload]bool, len(exported))
	var due []plan.State
	for i := range exported {
		state := &exported[i]
		current[state.Workload] = true
		if all || s.isDue(now, state) {
			due = append(due, *state)
		}
	}
	slices.SortStableFunc(due, func(x, y plan.State) int { return y.LastAction().Compare(x.LastAction()) })
	var writes []stateUpdate
	for i := range due {
		writes = append(writes, stateUpdate{s.decide(due[i].Workload), mayWait(&due[i]), func(ctx context.Context, t turn) { s.write(ctx, now, &due[i], false, t) }})
	}
	stored := s.store.Stored()
	for _, w := range stored {
		if !current[w] && (all || s.isUnused(now, w)) {
			writes = append(writes, stateUpdate{s.decide(w), true, func(ctx context.Context, t turn) { s.remove(ctx, now, t) }})
		}
	}
	for _, w := range stored {
		current[w] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.failures, func(w cluster.Workload, _ stateFailure) bool { return !current[w] })
	return writes
}

// writeLater carries out writes in parallel to the next passes, saveDelay after the first save whose writes have not begun. It drops them
// if another save begins before, which writes what is still due then, or if ctx ends, because the last save of a term follows.
func (s *states) writeLater(ctx context.Context, writes []stateUpdate) {
	drop := make(chan struct{})
	s.drop = drop
	if s.unsaved.IsZero() {
		s.unsaved = time.Now()
	}
	delay := time.Until(s.unsaved.Add(saveDelay))
	s.saving.Go(func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.unsaved = time.Time{}
			s.writeAll(ctx, writes)
			return
		case <-drop:
		case <-ctx.Done():
		}
		for _, w := range writes {
			s.release(w.turn)
		}
	})
}

// writeAll carries out writes, a few at a time.
func (s *states) writeAll(ctx context.Context, writes []stateUpdate) {
	ctx, cancel := process.WindUp(ctx, storeTimeout)
	defer cancel()
	var workers errgroup.Group
	workers.SetLimit(maxWorkers)
	for _, w := range writes {
		workers.Go(func() error {
			if ctx.Err() != nil { // a later pass writes it
				s.release(w.turn)
				return nil
			}
			w.do(ctx, w.turn)
			return nil
		})
	}
	_ = workers.Wait() // errors are counted and logged where they occur
	s.reportFailures()
}

// isDue reports whether a state is written now if it has changed: at once if it has an action that the last write does not have, or if
// that write announced actions, and otherwise after quietInterval.
func (s *states) isDue(now time.Time, state *plan.State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.failures[state.Workload].retryAfter) {
		return false
	}
	last, ok := s.written[state.Workload]
	return !ok || last.acting || state.LastAction().After(last.action) || isQuiet(now, last.at)
}

// isUnused reports whether the object of a workload without state is deleted now.
func (s *states) isUnused(now time.Time, w cluster.Workload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.failures[w].retryAfter) {
		return false
	}
	last, ok := s.written[w]
	return !ok || last.acting || isQuiet(now, last.at)
}

// isQuiet reports whether the last write was long ago, or after now because the clock was set back.
func isQuiet(now, last time.Time) bool { return now.Before(last) || now.Sub(last) >= quietInterval }

func (s *states) write(ctx context.Context, now time.Time, state *plan.State, acting bool, t turn) {
	if !s.await(ctx, t) {
		return
	}
	defer s.end(t)
	if acting && mayWait(state) && s.isAnnounced(now, state.Workload) {
		return
	}
	wrote, err := s.store.Write(ctx, now, state)
	if err != nil {
		s.fail(ctx, now, state.Workload, err)
		return
	}
	if wrote {
		s.metrics.stateWrites.WithLabelValues(resultOK).Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, state.Workload)
	s.written[state.Workload] = stateWrite{at: now, action: state.LastAction(), acting: acting}
}

// isAnnounced reports whether the stored object shows that the updater acts on the workload since a short time.
func (s *states) isAnnounced(now time.Time, w cluster.Workload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.written[w]
	return last.acting && !now.Before(last.at) && now.Sub(last.at) < announcedFor
}

func (s *states) remove(ctx context.Context, now time.Time, t turn) {
	if !s.await(ctx, t) {
		return
	}
	defer s.end(t)
	w := t.workload
	if err := s.store.Delete(ctx, w); err != nil {
		s.fail(ctx, now, w, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics.stateWrites.WithLabelValues(resultOK).Inc()
	delete(s.written, w)
	delete(s.failures, w)
}

// The values of the label result.
const (
	resultOK    = "ok"
	resultError = "error"
)

// fail counts a failed write. The first of several failures in a row is logged.
func (s *states) fail(ctx context.Context, now time.Time, w cluster.Workload, err error) {
	s.metrics.stateWrites.WithLabelValues(resultError).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	failure := s.failures[w]
	failure.retryAfter = now.Add(min(stateBackoff<<min(failure.count, 10), stateBackoffMost))
	failure.count++
	s.failures[w] = failure
	switch {
	case errors.Is(err, kube.ErrUnsupported):
		s.disable(err)
	case !s.failing && ctx.Err() == nil:
		s.failing = true
		s.log.Warn("Cannot store an UpdateState; the updater tries again after a pause", slog.String("workload", w.String()), slog.Any("error", err))
	}
}

// reportFailures logs when writes succeed again.
func (s *states) reportFailures() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing && len(s.failures) == 0 {
		s.failing = false
		s.log.Info("UpdateStates are stored again")
	}
}
