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
	// announceTimeout is the maximum time for which the first action on a workload waits until its UpdateState is written.
	announceTimeout = 5 * time.Second
	// storeTimeout limits the writes after a pass. The next pass continues.
	storeTimeout = 10 * time.Second
	// stateBackoff is the pause after a failed write of an object. Each further one doubles it. Announcements do not pause.
	stateBackoff     = 10 * time.Second
	stateBackoffMost = 10 * time.Minute
	// loadTimeout limits one attempt to load all states.
	loadTimeout = 5 * time.Minute
	// loadAgainAfter is how often the updater checks whether states can be stored, if the CRD or a right is missing.
	loadAgainAfter = 10 * time.Minute
)

// states keeps the ledger in the cluster, so that a restart or a new leader repeats nothing. The zero value keeps nothing.
//
// Before the first action of a pass on a workload, announce stores that the updater acts. After the pass, save stores the outcomes.
// If the updater is killed in between, the next one waits until the watch must show the actions (plan.Interrupted).
type states struct {
	store   stateStore // nil: nothing is stored
	metrics *Metrics
	log     *slog.Logger

	exported map[cluster.Workload]plan.State // before the actions of this pass

	mu          sync.Mutex                      // guards the following while pods are changed
	unavailable bool                            // the CRD or a right is missing
	loadAgainAt time.Time                       // if unavailable
	failing     bool                            // the last writes failed, which was logged
	acting      map[cluster.Workload]*sync.Once // workloads that this pass acts on
	written     map[cluster.Workload]stateWrite // the last write of each object in this term
	failures    map[cluster.Workload]stateFailure
}

// A stateFailure describes the failed writes of an object since the last successful one.
type stateFailure struct {
	count      int
	retryAfter time.Time
}

// A stateWrite describes the last write of an object, or the last time when it had not changed.
type stateWrite struct {
	at     time.Time
	action time.Time // State.LastAction of what was written
	acting bool      // announce wrote it
}

func newStates(store stateStore, m *Metrics, log *slog.Logger) *states {
	return &states{store: store, metrics: m, log: log, written: map[cluster.Workload]stateWrite{}, failures: map[cluster.Workload]stateFailure{}}
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
		s.write(ctx, now, &state, true)
	})
}

// save stores the states that have changed and are due, and deletes the objects of workloads without state. It also runs when ctx has
// ended, as long as this updater leads. If all is true, every change is due.
func (s *states) save(ctx context.Context, now time.Time, ledger *plan.Ledger, b plan.Budget, all bool) {
	if !s.isActive() {
		return
	}
	ctx, cancel := process.WindUp(ctx, storeTimeout)
	defer cancel()
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
	var workers errgroup.Group
	workers.SetLimit(maxWorkers)
	for i := range due {
		workers.Go(func() error {
			if ctx.Err() == nil { // otherwise a later pass writes it
				s.write(ctx, now, &due[i], false)
			}
			return nil
		})
	}
	stored := s.store.Stored()
	for _, w := range stored {
		if current[w] || !all && !s.isUnused(now, w) {
			continue
		}
		workers.Go(func() error {
			if ctx.Err() == nil {
				s.remove(ctx, now, w)
			}
			return nil
		})
	}
	_ = workers.Wait() // errors are counted and logged where they occur
	for _, w := range stored {
		current[w] = true
	}
	maps.DeleteFunc(s.failures, func(w cluster.Workload, _ stateFailure) bool { return !current[w] })
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

func (s *states) write(ctx context.Context, now time.Time, state *plan.State, acting bool) {
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

func (s *states) remove(ctx context.Context, now time.Time, w cluster.Workload) {
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
