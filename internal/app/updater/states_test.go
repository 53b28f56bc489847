// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/event"
)

// memoryStates is an updatestate.Store in memory.
type memoryStates struct {
	mu       sync.Mutex
	objects  map[cluster.Workload]ledger.State
	writes   int
	deletes  int
	loads    int
	loadErr  error
	writeErr error
}

func newMemoryStates() *memoryStates {
	return &memoryStates{objects: map[cluster.Workload]ledger.State{}}
}

func (m *memoryStates) Load(context.Context) ([]ledger.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	if m.loadErr != nil {
		return nil, m.loadErr
	}
	return slices.Collect(maps.Values(m.objects)), nil
}

func (m *memoryStates) Write(ctx context.Context, _ time.Time, s *ledger.State) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.writeErr); err != nil {
		return false, err
	}
	if fmt.Sprintf("%+v", printable(m.objects[s.Workload])) == fmt.Sprintf("%+v", printable(*s)) {
		return false, nil
	}
	m.writes++
	m.objects[s.Workload] = *s
	return true, nil
}

// printable returns a state whose text has all values.
func printable(s ledger.State) []any {
	out := []any{s.Workload, s.ActingSince.UnixNano(), s.LastEviction.UnixNano(), s.Replacements}
	if s.Eviction != nil {
		out = append(out, *s.Eviction)
	}
	if s.Rounds != nil {
		out = append(out, *s.Rounds)
	}
	if s.Deletion != nil {
		out = append(out, *s.Deletion)
	}
	if s.Canary != nil {
		out = append(out, *s.Canary)
	}
	out = append(out, s.Shortages)
	for _, p := range s.Pods {
		f := p.Failed
		p.Failed = nil
		out = append(out, p)
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}

func (m *memoryStates) Delete(_ context.Context, w cluster.Workload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writeErr != nil {
		return m.writeErr
	}
	m.deletes++
	delete(m.objects, w)
	return nil
}

func (m *memoryStates) Stored() []cluster.Workload {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.objects), cluster.Workload.Compare)
}

func (m *memoryStates) Name(w cluster.Workload) string { return strings.ToLower(w.Kind) + "-" + w.Name }

// storeIn makes an updater keep its states in a store.
func (u *updater) storeIn(store updatestate.Store) {
	u.states = updatestate.New(store, false, u.metrics.states, u.log)
}

// term runs an updater for a duration, as one term of leadership. If it is killed, it does not store anything at the end.
func (y *fakeCluster) term(t *testing.T, store updatestate.Store, d time.Duration, killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d-time.Second)
	defer cancel()
	y.registry = prometheus.NewRegistry()
	u := newUpdater(y.config, y, y, y, y, NewMetrics(y.registry), process.NewHealth(time.Hour), y.log)
	u.storeIn(store)
	if err := u.loadStates(ctx); err != nil {
		return
	}
	process.Every(ctx, y.config.Interval, u.pass)
	if !killed {
		u.states.Save(ctx, time.Now(), u.ledger, u.budget.Delays, true)
	}
}

// metric returns the sum of the series of a metric of the updater of the last term.
func (y *fakeCluster) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := y.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestUpdater_hourlyRestarts_ineffectiveEvictionsStayRare(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.admits = false // new pods keep the requests of the template
			without := newFakeCluster(cluster.Recreate)
			without.admits = false
			store := newMemoryStates()
			for range 24 {
				fake.term(t, store, time.Hour, killed)
				time.Sleep(time.Second)
			}
			without.run(t, 24*time.Hour)
			if n, most := fake.count("evict "), without.count("evict ")+3; n < 1 || n > most {
				t.Errorf("killed %v: %d evictions without effect in a day with hourly restarts, want 1 to %d", killed, n, most)
			}
		})
	}
}

func TestUpdater_hourlyRestarts_refusedActionsStayRare(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, x := range map[string]struct {
		mode cluster.Mode
		fail func(*fakeCluster)
	}{
		"evictions refused": {cluster.Recreate, func(y *fakeCluster) { y.evictErr = kube.ErrForbidden }},
		"disruption budget": {cluster.Recreate, func(y *fakeCluster) { y.evictErr = kube.ErrBudget }},
		"resizes refused":   {cluster.InPlace, func(y *fakeCluster) { y.resizeErr = kube.ErrQuota }},
		"no answers":        {cluster.InPlaceOrRecreate, func(y *fakeCluster) { y.resizeErr = errors.New("connection reset") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := func(restarts bool) int {
					fake := newFakeCluster(x.mode)
					fake.config.Gates = process.Gates{process.InPlaceGate: true}
					x.fail(fake)
					tries := &counting{fakeCluster: fake}
					store := newMemoryStates()
					for range 24 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour-time.Second)
						u := newUpdater(fake.config, fake, tries, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
						u.storeIn(store)
						if !restarts {
							cancel()
							ctx, cancel = context.WithTimeout(t.Context(), 24*time.Hour-time.Second)
						}
						if err := u.loadStates(ctx); err != nil {
							t.Fatal(err)
						}
						process.Every(ctx, fake.config.Interval, u.pass) // then it is killed
						cancel()
						time.Sleep(time.Second)
						if !restarts {
							break
						}
					}
					return tries.n
				}
				with, without := attempts(true), attempts(false)
				if with == 0 || with > without+24 { // a kill may lose attempts of the last five minutes
					t.Errorf("%d attempts in a day with hourly restarts, %d without", with, without)
				}
			})
		})
	}
}

// counting counts attempts.
type counting struct {
	*fakeCluster
	n int
}

func (c *counting) Evict(ctx context.Context, p *cluster.Pod) error {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.fakeCluster.Evict(ctx, p)
}

func (c *counting) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.fakeCluster.Resize(ctx, p, with)
}

// lagging shows the pods of an earlier time, as the watch of a new leader may.
type lagging struct {
	*fakeCluster
	shown []*cluster.Pod
	acted map[string]int // by pod UID
}

func (g *lagging) Snapshot() *cluster.Snapshot {
	return cluster.NewSnapshot(slices.Clone(g.shown), slices.Clone(g.autoscalers))
}

func (g *lagging) Evict(_ context.Context, p *cluster.Pod) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[p.UID]++
	return nil
}

func (g *lagging) Resize(_ context.Context, p *cluster.Pod, _ []policy.Fitted) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acted[p.UID]++
	return nil
}

func TestUpdater_newLeaderWithLateWatch_repeatsNothing(t *testing.T) {
	for name, x := range map[string]struct {
		mode    cluster.Mode
		killed  bool // between an action and the write of its outcome
		minutes int
	}{
		"resized, recorded":   {cluster.InPlaceOrRecreate, false, 4},
		"evicted, recorded":   {cluster.Recreate, false, 4},
		"resized, unrecorded": {cluster.InPlaceOrRecreate, true, 4},
		"evicted, unrecorded": {cluster.Recreate, true, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(x.mode)
				late := &lagging{fakeCluster: fake, shown: fake.pods, acted: map[string]int{}}
				store := newMemoryStates()
				first := newUpdater(fake.config, late, late, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
				first.storeIn(&killedAfterAnnouncing{memoryStates: store, killed: x.killed})
				first.pass(t.Context(), time.Now())
				before := maps.Clone(late.acted)
				if len(before) == 0 {
					t.Fatal("nothing was done")
				}
				for i := range x.minutes {
					time.Sleep(2 * time.Second)
					next := newUpdater(fake.config, late, late, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
					next.storeIn(store)
					if err := next.loadStates(t.Context()); err != nil {
						t.Fatal(err)
					}
					next.pass(t.Context(), time.Now())
					for uid, n := range late.acted {
						if before[uid] > 0 && n > before[uid] {
							t.Errorf("pod %s is changed again after %d minutes", uid, i)
						}
						if x.mode == cluster.Recreate && before[uid] == 0 {
							t.Errorf("pod %s is evicted while the watch still shows the evicted pod as ready", uid)
						}
					}
					time.Sleep(time.Minute - 2*time.Second)
				}
			})
		})
	}
}

// The updater is killed before the first action that it announced: the next one acts when the watch would show it.
func TestUpdater_killedBeforeTheFirstAction_nextOneActsAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		store := newMemoryStates()
		web := fake.pods[0].Top
		store.objects[web] = ledger.State{Workload: web, ActingSince: time.Now()}
		fake.term(t, store, 5*time.Minute, true)
		if n := len(fake.done); n != 0 {
			t.Errorf("%d actions within five minutes, want none: %v", n, fake.done)
		}
		fake.term(t, store, time.Hour, true)
		if n := fake.count("evict "); n != 3 {
			t.Errorf("%d evictions afterwards, want 3", n)
		}
		if len(store.objects) != 0 {
			t.Errorf("objects %+v, want none", store.objects)
		}
	})
}

// A clean end in the middle of a pass records the outcomes, so the next updater need not wait.
func TestUpdater_endsDuringAPass_recordsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		ctx, cancel := context.WithCancel(t.Context())
		ending := &endsAfterFirst{fakeCluster: fake, end: cancel}
		store := newMemoryStates()
		u := newUpdater(fake.config, fake, ending, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
		u.storeIn(store)
		u.pass(ctx, time.Now())
		state := store.objects[fake.pods[0].Top]
		if !state.ActingSince.IsZero() || len(state.Pods) == 0 || len(state.Pods) != fake.count("resize ") {
			t.Errorf("%d resizes, stored is %+v", fake.count("resize "), state)
		}
	})
}

// endsAfterFirst ends the process after the first resize.
type endsAfterFirst struct {
	*fakeCluster
	end context.CancelFunc
}

func (e *endsAfterFirst) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	defer e.end()
	return e.fakeCluster.Resize(ctx, p, with)
}

// killedAfterAnnouncing stores only what is written before the actions.
type killedAfterAnnouncing struct {
	*memoryStates
	killed bool
}

func (k *killedAfterAnnouncing) Write(ctx context.Context, now time.Time, s *ledger.State) (bool, error) {
	if k.killed && s.ActingSince.IsZero() {
		return false, errors.New("killed")
	}
	return k.memoryStates.Write(ctx, now, s)
}

func TestUpdater_restartAfterEvictionWithoutReplacement_shortageIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		rs := fake.pods[0].Controller
		vanish := &vanishing{fakeCluster: fake}
		store := newMemoryStates()
		for range 6 { // restarts before the time in which the replacement must exist
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute-time.Second)
			u := newUpdater(fake.config, vanish, vanish, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
			u.storeIn(store)
			if err := u.loadStates(ctx); err != nil {
				t.Fatal(err)
			}
			process.Every(ctx, fake.config.Interval, u.pass)
			cancel()
			time.Sleep(time.Second)
		}
		if vanish.evicted != 1 {
			t.Errorf("%d pods of %s are evicted, want 1: none has a replacement", vanish.evicted, rs)
		}
		reported := slices.ContainsFunc(fake.recorded, func(s string) bool { return strings.HasPrefix(s, event.ReplacementMissing) })
		if !reported {
			t.Errorf("no event %s: %q", event.ReplacementMissing, fake.recorded)
		}
	})
}

// vanishing is a cluster whose evicted pods are not replaced.
type vanishing struct {
	*fakeCluster
	evicted int
}

func (v *vanishing) Scale(cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: 3}
}

func (v *vanishing) Evict(_ context.Context, p *cluster.Pod) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.evicted++
	v.pods = slices.DeleteFunc(v.pods, func(q *cluster.Pod) bool { return q.UID == p.UID })
	return nil
}

func TestUpdater_effectiveUpdates_leaveNoUpdateState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		store := newMemoryStates()
		fake.term(t, store, time.Hour, true)
		if n := fake.count("evict "); n != 3 {
			t.Errorf("%d evictions, want 3", n)
		}
		if len(store.objects) > 0 {
			t.Errorf("objects %+v, want none", store.objects)
		}
		if store.writes > 3*3+3 {
			t.Errorf("%d writes for 3 evictions", store.writes)
		}
	})
}

// While nothing is done, nothing is written. Refused attempts are written only from time to time.
func TestUpdater_nothingChanges_writesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		store := newMemoryStates()
		fake.term(t, store, 10*time.Minute, true)
		before := store.writes + store.deletes
		if before == 0 {
			t.Fatal("resizes are not stored")
		}
		fake.term(t, store, 20*time.Hour, true)
		if n := store.writes + store.deletes; n != before {
			t.Errorf("%d writes while nothing changes", n-before)
		}
		fake.term(t, store, 10*time.Hour, true) // then the records of the resizes are too old to matter
		if len(store.objects) != 0 {
			t.Errorf("objects %+v after a day, want none", store.objects)
		}
	})
}

func TestUpdater_refusedEachMinute_writesFewTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		for i := range 200 { // in each pass another pod is refused
			p := *fake.pods[0]
			p.Name, p.UID = fmt.Sprint("more-", i), fmt.Sprint("more-", i)
			fake.pods = append(fake.pods, &p)
		}
		fake.evictErr = kube.ErrBudget
		fake.config.RateLimit, fake.config.RateBurst = 1.0/60, 1
		store := newMemoryStates()
		fake.term(t, store, time.Hour, true)
		if n := store.writes; n == 0 || n > 2*60 { // one before the attempt and one with its outcome
			t.Errorf("%d writes in an hour, want 1 to 120", n)
		}
	})
}

func TestUpdater_statesCannotBeLoaded_changesNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.log = slog.New(slog.NewTextHandler(&text, nil))
		store := newMemoryStates()
		store.loadErr = errors.New("timeout")
		fake.term(t, store, 10*time.Minute, false)
		if len(fake.done) > 0 {
			t.Errorf("actions %v, want none", fake.done)
		}
		if n := strings.Count(text.String(), "no pods are changed until they are loaded"); n < 2 || n > 30 {
			t.Errorf("logged %d times, want 2 to 30:\n%s", n, text.String())
		}
		store.loadErr = nil
		fake.term(t, store, 10*time.Minute, false)
		if len(fake.done) == 0 {
			t.Error("no actions after the states are loaded")
		}
	})
}

func TestUpdater_crdOrRightMissing_actsAndLogsOnce(t *testing.T) {
	for name, err := range map[string]error{"podfit crds": kube.ErrUnsupported, "deploy/10-rbac.yaml": kube.ErrForbidden} {
		synctest.Test(t, func(t *testing.T) {
			var text bytes.Buffer
			fake := newFakeCluster(cluster.Recreate)
			fake.log = slog.New(slog.NewTextHandler(&text, nil))
			store := newMemoryStates()
			store.loadErr = fmt.Errorf("list: %w", err)
			fake.term(t, store, time.Hour, false)
			if n := fake.count("evict "); n != 3 {
				t.Errorf("%d evictions, want 3", n)
			}
			if n := strings.Count(text.String(), "UpdateStates cannot be stored"); n != 1 || !strings.Contains(text.String(), name) {
				t.Errorf("logged %d times, want once with the remedy %s:\n%s", n, name, text.String())
			}
			if v := fake.metric(t, "podfit_updater_update_states_available"); v != 0 {
				t.Errorf("the metric is %v, want 0", v)
			}
			if store.loads > 8 || store.writes > 0 {
				t.Errorf("%d loads and %d writes in an hour", store.loads, store.writes)
			}
		})
	}
}

func TestUpdater_crdInstalledLater_storesFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		store := newMemoryStates()
		store.loadErr = kube.ErrUnsupported
		go func() {
			time.Sleep(30*time.Minute + time.Second)
			store.mu.Lock()
			defer store.mu.Unlock()
			store.loadErr = nil
		}()
		fake.term(t, store, time.Hour, true)
		if len(store.objects) != 1 {
			t.Errorf("%d objects, want 1", len(store.objects))
		}
		if v := fake.metric(t, "podfit_updater_update_states_available"); v != 1 {
			t.Errorf("the metric is %v, want 1", v)
		}
	})
}

func TestUpdater_writesFail_actsAndLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		fake.log = slog.New(slog.NewTextHandler(&text, nil))
		store := newMemoryStates()
		store.writeErr = errors.New("etcd is full")
		fake.term(t, store, 10*time.Minute, false)
		if n := fake.count("resize "); n != 3 {
			t.Errorf("%d resizes, want 3", n)
		}
		if n := strings.Count(text.String(), "Cannot store an UpdateState"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, text.String())
		}
		if v := fake.metric(t, "podfit_updater_update_state_writes_total"); v == 0 {
			t.Error("failed writes are not counted")
		}
	})
}

// The states of workloads without an autoscaler are not kept in memory, and their objects are deleted.
func TestUpdater_objectOfUnknownWorkload_isDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config.Budget.MinReplicas = 10 // nothing is done
		store := newMemoryStates()
		for i := range 20 {
			w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprint("gone-", i)}
			store.objects[w] = ledger.State{Workload: w, ActingSince: time.Now(), Pods: []ledger.PodState{{UID: "x", Do: decision.Evict, At: time.Now()}}}
		}
		fake.term(t, store, time.Minute, true)
		for w, s := range store.objects {
			if w.Name != "web" || len(s.Waiting) != 1 || s.Waiting[0].Reason != "TooFewReplicas" || s.Waiting[0].Pods != 3 {
				t.Errorf("object of %s: %+v, want only the waiting pods of web", w, s)
			}
		}
		if len(store.objects) != 1 {
			t.Errorf("%d objects, want one", len(store.objects))
		}
	})
}

// While the same pods wait for the same reason, the object is written once.
func TestUpdater_podsWaitForAnHour_objectIsWrittenOnceAndDeletedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config.Budget.MinReplicas = 10
		store := newMemoryStates()
		fake.term(t, store, time.Hour, false)
		if len(store.objects) != 1 || store.writes != 1 {
			t.Errorf("%d objects and %d writes, want one", len(store.objects), store.writes)
		}
		fake.autoscalers[0].Mode = cluster.Initial
		fake.term(t, store, time.Hour, false)
		if len(store.objects) != 0 {
			t.Errorf("%d objects although no pod waits", len(store.objects))
		}
	})
}

// A hangingStates is an updatestate.Store that does not answer writes of a namespace in time, for example because of a webhook of a tenant.
type hangingStates struct {
	*memoryStates
	namespace string
	tried     int
}

func (h *hangingStates) Write(ctx context.Context, now time.Time, s *ledger.State) (bool, error) {
	if s.Workload.Namespace != h.namespace {
		return h.memoryStates.Write(ctx, now, s)
	}
	h.mu.Lock()
	h.tried++
	h.mu.Unlock()
	<-ctx.Done()
	return false, ctx.Err()
}

// Each pass waits for the writes of the pass before, so they must not hang again and again.
func TestUpdater_stateOfOneTenantCannotBeStored_passesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.evictErr = kube.ErrForbidden
		u := newTestUpdater(fake)
		store := &hangingStates{memoryStates: newMemoryStates(), namespace: "shop"}
		u.storeIn(store)
		passes := 0
		for began := time.Now(); time.Since(began) < 10*time.Minute; passes++ {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		if passes < 400 || store.tried > 30 {
			t.Errorf("%d passes and %d attempts to write in 10m, want about one pass in a second and few attempts", passes, store.tried)
		}
	})
}
