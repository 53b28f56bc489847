// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package updatestate keeps the ledger of the updater in UpdateState objects: a Recorder loads them before the first pass, announces
// the actions of a pass, and stores their outcomes after it.
//
// It decides nothing about pods. Package ledger restores what it loads, and exports what it stores.
package updatestate

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// Store stores the state of each workload, in UpdateState objects.
type Store interface {
	// Load returns ErrUnsupported or ErrForbidden if states cannot be stored in this cluster.
	Load(ctx context.Context) ([]ledger.State, error)
	// Write reports whether it wrote. It does not write if the stored state is the same.
	Write(ctx context.Context, now time.Time, s *ledger.State) (bool, error)
	Delete(ctx context.Context, w cluster.Workload) error
	Stored() []cluster.Workload
	// Name returns the name of the object of a workload, whether it exists or not.
	Name(w cluster.Workload) string
}

const (
	// quietInterval is the minimum time between two writes of an object, unless the later one has an action that must not be
	// repeated after a restart. It is also how long the object of a workload without state is kept, because the next action
	// often follows.
	quietInterval = 5 * time.Minute
	// storeTimeout limits the writes after a pass. The next pass continues.
	storeTimeout = 10 * time.Second
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

// maxWrites is the number of writes at the same time after a pass.
const maxWrites = 10

// A Recorder keeps the ledger in the cluster, so that a restart or a new leader repeats nothing.
//
// Before the first action of a pass on a workload, Announce stores that the updater acts. After the pass, Save stores the outcomes.
// If the updater is killed in between, the next one waits until the watch must show the actions (plan.Interrupted). So Save may write
// later, in parallel to the next pass: if that acts on the workload again, one write is enough for both. Of two writes of one object, the
// one that was decided on later wins.
type Recorder struct {
	store    Store // nil: nothing is stored
	metrics  *Metrics
	log      *slog.Logger
	parallel bool           // Save does not wait for its writes, which begin after saveDelay
	saving   sync.WaitGroup // the writes of the last save
	drop     chan struct{}  // closed by the next save, to drop the writes of the last one that have not begun; nil if there are none
	unsaved  time.Time      // of the first save whose writes have not begun

	exported map[cluster.Workload]ledger.State // before the actions of this pass
	newest   map[cluster.Workload]time.Time    // what an announcement of this pass says of a workload
	turns    turns

	mu          sync.Mutex                         // guards the following while pods are changed
	loadAgainAt time.Time                          // if the CRD or a right is missing; zero if states can be stored
	failing     bool                               // the last writes failed, which was logged
	acting      map[cluster.Workload]*announcement // workloads that this pass acts on
	held        holds
	written     map[cluster.Workload]stateWrite       // the last write of each object in this term
	failures    map[cluster.Workload]attempt.Failures // of the writes of each object
}

// turns orders the writes of each object.
type turns struct {
	mu      sync.Mutex
	slots   map[cluster.Workload]*stateSlot // objects with writes that are not done
	decided uint64                          // number of writes that were decided on
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
func (o *turns) decide(w cluster.Workload) turn {
	o.mu.Lock()
	defer o.mu.Unlock()
	slot := o.slots[w]
	if slot == nil {
		slot = &stateSlot{free: make(chan struct{}, 1)}
		slot.free <- struct{}{}
		o.slots[w] = slot
	}
	o.decided++
	slot.latest = o.decided
	return turn{w, slot, o.decided}
}

// await waits until no other write of the object is in progress. It returns false if ctx ends first, or if the write is dropped. After
// true, the caller calls end.
func (o *turns) await(ctx context.Context, t turn) bool {
	select {
	case <-ctx.Done(): // a later pass writes it
		o.release(t)
		return false
	case <-t.slot.free:
	}
	o.mu.Lock()
	dropped := t.slot.latest > t.number
	o.mu.Unlock()
	if dropped {
		t.slot.free <- struct{}{}
	}
	return !dropped
}

// end lets the next write of the object begin.
func (o *turns) end(t turn) {
	o.release(t)
	t.slot.free <- struct{}{}
}

// release removes the slot of an object without a later write.
func (o *turns) release(t turn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.slot.latest == t.number && o.slots[t.workload] == t.slot {
		delete(o.slots, t.workload)
	}
}

// A stateWrite describes the last write of an object, or the last time when it had not changed.
type stateWrite struct {
	at     time.Time
	action time.Time // State.LastAction of what was written
	acting bool      // Announce wrote it
}

// New returns a Recorder, before Load. Without a store it keeps nothing. If parallel is true, Save does not wait for its writes.
func New(store Store, parallel bool, m *Metrics, log *slog.Logger) *Recorder {
	return &Recorder{
		held:  holds{},
		store: store, parallel: parallel, metrics: m, log: log, written: map[cluster.Workload]stateWrite{},
		failures: map[cluster.Workload]attempt.Failures{}, turns: turns{slots: map[cluster.Workload]*stateSlot{}},
	}
}

// Load returns the stored states. It retries until it succeeds or ctx ends, because the updater must not act
// without them. If states cannot be stored in this cluster, it returns at once: the updater acts as if there were none.
func (r *Recorder) Load(ctx context.Context) ([]ledger.State, error) {
	if r.store == nil {
		return nil, nil
	}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		loaded, err := r.loadOnce(ctx)
		if err == nil {
			return loaded, nil
		}
		if ctx.Err() == nil {
			r.log.Warn("Cannot load the stored update states; no pods are changed until they are loaded", slog.Any("error", err), slog.String("retryAfter", wait.String()))
		}
		if !kube.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// loadOnce lists the stored states. It returns none, and no error, if states cannot be stored.
func (r *Recorder) loadOnce(ctx context.Context) ([]ledger.State, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, err := r.store.Load(ctx)
	switch {
	case errors.Is(err, kube.ErrUnsupported), errors.Is(err, kube.ErrForbidden):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.disable(err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loadAgainAt.IsZero() {
		r.held = holds{}
		r.log.Info("UpdateStates can be stored again")
	}
	r.loadAgainAt = time.Time{}
	r.metrics.available.Set(1)
	return loaded, nil
}

// disable records that states cannot be stored, and logs it once with the remedy. The caller holds the mutex.
func (r *Recorder) disable(err error) {
	r.metrics.available.Set(0)
	isKnown := !r.loadAgainAt.IsZero()
	r.loadAgainAt = time.Now().Add(loadAgainAfter)
	if isKnown {
		return
	}
	remedy := "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -"
	if errors.Is(err, kube.ErrForbidden) {
		remedy = "grant the updater create, delete, get, list and patch on updatestates.podfit.dev, as deploy/10-rbac.yaml does"
	}
	r.log.Warn("UpdateStates cannot be stored; after a restart, the updater repeats refused and ineffective actions",
		slog.String("remedy", remedy), slog.Any("error", err))
}

// IsActive reports whether states are stored now.
func (r *Recorder) IsActive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isActive()
}

// isActive is IsActive for a caller that holds the mutex.
func (r *Recorder) isActive() bool { return r.store != nil && r.loadAgainAt.IsZero() }

// isDueToLoad reports whether it is time to check again whether states can be stored.
func (r *Recorder) isDueToLoad() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.loadAgainAt.IsZero() && !time.Now().Before(r.loadAgainAt)
}

// LoadAgain returns the stored states if they could not be stored until now. It tries that from time to time.
func (r *Recorder) LoadAgain(ctx context.Context) []ledger.State {
	if r.store == nil || !r.isDueToLoad() {
		return nil
	}
	loaded, _ := r.loadOnce(ctx) // none if they still cannot be read
	return loaded
}

// Begin prepares the actions of a pass. workloads are those on whose pods it acts, with the creation of their newest pod; zero if it is not known.
func (r *Recorder) Begin(now time.Time, record *ledger.Ledger, delays attempt.Delays, workloads map[cluster.Workload]time.Time) {
	r.exported = map[cluster.Workload]ledger.State{}
	r.newest = map[cluster.Workload]time.Time{}
	r.mu.Lock()
	r.acting = map[cluster.Workload]*announcement{}
	r.held.forget(now)
	r.mu.Unlock()
	if len(workloads) == 0 || !r.IsActive() {
		return
	}
	for _, state := range record.Export(delays) {
		r.exported[state.Workload] = state
	}
	for w, newest := range workloads {
		r.newest[w] = record.NewestToAnnounce(now, w, newest)
	}
}

// Save stores the states that have changed and are due, and deletes the objects of workloads without state. It also runs when ctx has
// ended, as long as this updater leads. If all is true, every change is due, and Save waits until all is written.
func (r *Recorder) Save(ctx context.Context, now time.Time, record *ledger.Ledger, delays attempt.Delays, all bool) {
	if !r.IsActive() {
		return
	}
	if r.drop != nil {
		close(r.drop)
		r.drop = nil
	}
	r.saving.Wait() // at most for storeTimeout
	var atOnce, later []stateUpdate
	for _, w := range r.dueWrites(now, record, delays, all) {
		if r.parallel && !all && w.mayWait {
			later = append(later, w)
			continue
		}
		atOnce = append(atOnce, w)
	}
	r.writeAll(ctx, atOnce)
	if len(later) == 0 {
		r.unsaved = time.Time{}
		return
	}
	r.writeLater(ctx, later)
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
func mayWait(state *ledger.State) bool {
	return state.Canary == nil && state.Deletion == nil && len(state.Changes) == 0
}

func (r *Recorder) dueWrites(now time.Time, record *ledger.Ledger, delays attempt.Delays, all bool) []stateUpdate {
	exported := record.Export(delays)
	stored := r.store.Stored()
	current := make(map[cluster.Workload]bool, len(exported))
	var due []ledger.State
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range exported {
		state := &exported[i]
		current[state.Workload] = true
		if all || r.isDue(now, state.Workload, state.LastAction()) {
			due = append(due, *state)
		}
	}
	slices.SortStableFunc(due, func(x, y ledger.State) int { return y.LastAction().Compare(x.LastAction()) })
	var writes []stateUpdate
	for i := range due {
		writes = append(writes, stateUpdate{turn: r.turns.decide(due[i].Workload), mayWait: mayWait(&due[i]), do: func(ctx context.Context, t turn) { _ = r.write(ctx, now, &due[i], false, t) }})
	}
	for _, w := range stored {
		if !current[w] && (all || r.isDue(now, w, time.Time{})) {
			writes = append(writes, stateUpdate{turn: r.turns.decide(w), mayWait: true, do: func(ctx context.Context, t turn) { r.remove(ctx, now, t) }})
		}
	}
	for _, w := range stored {
		current[w] = true
	}
	maps.DeleteFunc(r.failures, func(w cluster.Workload, _ attempt.Failures) bool { return !current[w] })
	return writes
}

// writeLater carries out writes in parallel to the next passes, saveDelay after the first save whose writes have not begun. It drops them if
// another save begins before, which writes what is still due then, or if ctx ends, because the last save of a term follows.
func (r *Recorder) writeLater(ctx context.Context, writes []stateUpdate) {
	drop := make(chan struct{})
	r.drop = drop
	if r.unsaved.IsZero() {
		r.unsaved = time.Now()
	}
	r.saving.Go(func() {
		timer := time.NewTimer(time.Until(r.unsaved.Add(saveDelay)))
		defer timer.Stop()
		select {
		case <-timer.C:
			r.unsaved = time.Time{}
			r.writeAll(ctx, writes)
			return
		case <-drop:
		case <-ctx.Done():
		}
		for _, w := range writes {
			r.turns.release(w.turn)
		}
	})
}

// writeAll carries out writes, a few at a time. Those that have not begun before storeTimeout are left to a later pass.
func (r *Recorder) writeAll(ctx context.Context, writes []stateUpdate) {
	ctx, cancel := process.WindUp(ctx, storeTimeout)
	defer cancel()
	process.Each(maxWrites, writes, func(w stateUpdate) {
		if ctx.Err() != nil { // a later pass writes it
			r.turns.release(w.turn)
			return
		}
		w.do(ctx, w.turn)
	})
	r.reportFailures()
}

// isDue reports whether a state with a last action is written now if it has changed, or the object of a workload without state is deleted: at once
// if the last write does not have the action, or announced actions, and otherwise after quietInterval. The mutex is held.
func (r *Recorder) isDue(now time.Time, w cluster.Workload, action time.Time) bool {
	if now.Before(r.failures[w].Retry) {
		return false
	}
	last, ok := r.written[w]
	isQuiet := now.Before(last.at) || now.Sub(last.at) >= quietInterval // before it, the clock was set back
	return !ok || last.acting || action.After(last.action) || isQuiet
}

// errWaits is the error of a write that did not begin, because the one of the same object before has no answer yet.
var errWaits = errors.New("an earlier write of the object has no answer yet")

// write stores a state. It returns nil if the state is stored.
func (r *Recorder) write(ctx context.Context, now time.Time, state *ledger.State, acting bool, t turn) error {
	if !r.turns.await(ctx, t) {
		return errors.Join(errWaits, ctx.Err())
	}
	defer r.turns.end(t)
	if acting && mayWait(state) && r.isAnnounced(now, state.Workload) {
		return nil
	}
	wrote, err := r.store.Write(ctx, now, state)
	if err != nil {
		r.fail(ctx, now, state.Workload, err)
		return err
	}
	if wrote {
		r.metrics.writes.WithLabelValues(resultOK).Inc()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, state.Workload)
	r.written[state.Workload] = stateWrite{at: now, action: state.LastAction(), acting: acting}
	if acting {
		r.held.stored(state.Workload)
	}
	return nil
}

// writeAnnouncement stores a state with an announcement, unless writes like it have failed a short time ago.
func (r *Recorder) writeAnnouncement(ctx context.Context, now time.Time, state *ledger.State) error {
	w := state.Workload
	r.mu.Lock()
	_, held := r.held.of(now, w)
	r.mu.Unlock()
	if held {
		return errHeld
	}
	limited, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	err := r.write(limited, now, state, true, r.turns.decide(w))
	if err == nil || ctx.Err() != nil || errors.Is(err, kube.ErrUnsupported) {
		return err
	}
	if errors.Is(err, kube.ErrNotSent) { // the API server is overloaded and has asked for a pause, perhaps because of another object
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held.failed(now, w, r.store.Name(w), err, limited.Err() != nil)
	return err
}

// isAnnounced reports whether the stored object shows that the updater acts on the workload since a short time.
func (r *Recorder) isAnnounced(now time.Time, w cluster.Workload) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.written[w]
	return last.acting && !now.Before(last.at) && now.Sub(last.at) < announcedFor
}

func (r *Recorder) remove(ctx context.Context, now time.Time, t turn) {
	if !r.turns.await(ctx, t) {
		return
	}
	defer r.turns.end(t)
	w := t.workload
	if err := r.store.Delete(ctx, w); err != nil {
		r.fail(ctx, now, w, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics.writes.WithLabelValues(resultOK).Inc()
	delete(r.written, w)
	delete(r.failures, w)
}

// fail counts a failed write. The first of several failures in a row is logged.
func (r *Recorder) fail(ctx context.Context, now time.Time, w cluster.Workload, err error) {
	r.metrics.writes.WithLabelValues(resultError).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	failure := r.failures[w]
	failure.Add(now, stateBackoff, stateBackoffMost)
	r.failures[w] = failure
	switch {
	case errors.Is(err, kube.ErrUnsupported):
		r.disable(err)
	case !r.failing && ctx.Err() == nil:
		r.failing = true
		r.log.Warn("Cannot store an UpdateState; the updater tries again after a pause", slog.String("workload", w.String()), slog.Any("error", err))
	}
}

// reportFailures logs when writes succeed again.
func (r *Recorder) reportFailures() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing && len(r.failures) == 0 {
		r.failing = false
		r.log.Info("UpdateStates are stored again")
	}
}

// Metrics are the metrics of storing UpdateState objects.
type Metrics struct {
	available prometheus.Gauge
	writes    *prometheus.CounterVec
}

// The values of the label result.
const (
	resultOK    = "ok"
	resultError = "error"
)

// NewMetrics registers the metrics of storing UpdateState objects.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		available: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Namespace: "podfit_updater", Name: "update_states_available",
			Help: "1 if UpdateState objects can be stored, 0 if the CRD or a permission is missing, or before they are loaded.",
		}),
		writes: process.NewCounter(reg, "podfit_updater", "update_state_writes_total",
			"Number of writes and deletions of UpdateState objects, by result: ok or error.", "result"),
	}
	for _, result := range []string{resultOK, resultError} {
		m.writes.WithLabelValues(result).Add(0)
	}
	return m
}
