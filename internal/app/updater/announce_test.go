// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// announcementFault is what happens to the writes of announcements.
type announcementFault string

const (
	announced          announcementFault = ""
	announcedRefused   announcementFault = "announcement is refused"
	announcedNotInTime announcementFault = "announcement has no answer"
	announcedLate      announcementFault = "announcement is stored without an answer"
	announcedLost      announcementFault = "reply to the announcement is lost"
)

var announcementFaults = []announcementFault{announcedRefused, announcedNotInTime, announcedLate, announcedLost}

// errDeniedState is the answer of a webhook to the write of an UpdateState.
var errDeniedState = errors.New(`admission webhook "states.tenant.example" denied the request: no objects of others`)

// A faultyStates is an updatestate.Store in which the announcements of some workloads cannot be written until a time.
type faultyStates struct {
	*memoryStates
	k       *killer
	fault   announcementFault
	until   time.Time
	of      func(cluster.Workload) bool // nil: of all
	refused int                         // attempts
}

func (s *faultyStates) Write(ctx context.Context, now time.Time, state *ledger.State) (wrote bool, err error) {
	isAnnouncement := !state.ActingSince.IsZero()
	store := func() error {
		wrote, err = s.memoryStates.Write(context.WithoutCancel(ctx), now, state)
		return err
	}
	if !isAnnouncement || s.fault == announced || !time.Now().Before(s.until) || s.of != nil && !s.of(state.Workload) {
		err = s.k.write(store)
		return wrote, err
	}
	s.mu.Lock()
	s.refused++
	s.mu.Unlock()
	err = s.k.write(func() error {
		if s.fault == announcedLate || s.fault == announcedLost {
			_ = store()
		}
		return nil
	})
	switch {
	case err != nil:
		return false, err
	case s.fault == announcedRefused:
		return false, errDeniedState
	case s.fault == announcedLost:
		return false, errors.New("connection reset by peer")
	}
	<-ctx.Done()
	return false, ctx.Err()
}

func (s *faultyStates) Delete(ctx context.Context, w cluster.Workload) error {
	return s.k.write(func() error { return s.memoryStates.Delete(ctx, w) })
}

func (s *faultyStates) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

func newFaultyStates(fault announcementFault, d time.Duration) *faultyStates {
	return &faultyStates{memoryStates: newMemoryStates(), k: new(killer), fault: fault, until: time.Now().Add(d)}
}

// passes runs passes of an updater each minute, and returns the decisions of the last one.
func passes(t *testing.T, u *updater, d time.Duration) (last []decision.Decision) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		last = u.update(t.Context(), began)
		time.Sleep(time.Until(began.Add(time.Minute)))
	}
	return last
}

func heldFor(ds []decision.Decision) string {
	for i := range ds {
		if ds[i].Reason.Code == decision.NotAnnounced {
			return ds[i].Reason.String()
		}
	}
	return ""
}

// An eviction whose announcement cannot be written is left, with the object and the error, and is tried again after a pause.
func TestAnnounce_writeFails_evictionIsHeldAndTriedAgain(t *testing.T) {
	for _, fault := range announcementFaults {
		for _, workloads := range []int{1, 6} {
			t.Run(fmt.Sprintf("%s, %d workloads", fault, workloads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, store := newBurst(workloads), newFaultyStates(fault, 20*time.Minute)
					u := g.fakeCluster.leader(t, store)
					last := passes(t, u, 20*time.Minute)
					if n := g.count("evict"); n > 0 {
						t.Fatalf("%d evictions without an announcement", n)
					}
					text := heldFor(last)
					for _, want := range []string{": UpdateState shop/", "The next attempt is possible after "} {
						if !strings.Contains(text, want) {
							t.Errorf("the reason is %q, want it to contain %q", text, want)
						}
					}
					if fault == announcedRefused && !strings.Contains(text, "states.tenant.example") {
						t.Errorf("the reason is %q, want the error", text)
					}
					if n, most := store.attempts(), 8*(workloads+1); n > most || n < 2 {
						t.Errorf("%d attempts in 20m, want 2 to %d", n, most)
					}
					passes(t, u, 12*time.Minute)
					if n := g.count("evict"); n != 2*workloads {
						t.Errorf("%d evictions after the writes succeed, want %d", n, 2*workloads)
					}
				})
			})
		}
	}
}

// leader returns an updater of a cluster whose watch is up to date.
func (y *fakeCluster) leader(t *testing.T, store updatestate.Store) *updater {
	t.Helper()
	y.registry = prometheus.NewRegistry()
	u := newUpdater(y.config, y, y, y, y, NewMetrics(y.registry), process.NewHealth(time.Hour), y.log)
	u.states = updatestate.New(store, true, u.metrics.states, u.log)
	if err := u.loadStates(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// Writes fail for hours: pods are still resized in place, and none is evicted.
func TestAnnounce_writesFailForHours_resizesContinue(t *testing.T) {
	for _, fault := range announcementFaults {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake, store := newFakeCluster(cluster.InPlaceOrRecreate), newFaultyStates(fault, 5*time.Hour)
				u := fake.leader(t, store)
				passes(t, u, 10*time.Minute)
				if n := fake.count("resize "); n != 3 {
					t.Errorf("%d resizes, want 3: %v", n, fake.done)
				}
				fake.autoscalers[0].Advice[0].Target = cluster.Amounts(700, 500<<20)
				fake.autoscalers[0].Advice[0].Lower = cluster.Amounts(600, 400<<20)
				fake.resizeErr = kube.ErrDenied // from now on, the pods would be evicted
				last := passes(t, u, 3*time.Hour)
				if n := fake.count("evict"); n > 0 || heldFor(last) == "" {
					t.Errorf("%d evictions, last decisions %v; want none, and the reason", n, last)
				}
				if n := fake.metric(t, "podfit_updater_decisions"); n != 3 {
					t.Errorf("the metric counts %v pods, want 3", n)
				}
				fake.resizeErr = nil
				passes(t, u, time.Hour)
				if n := fake.count("resize "); n != 6 {
					t.Errorf("%d resizes, want 6: %v", n, fake.done)
				}
			})
		})
	}
}

// A canary is not changed without an announcement, not even in place: the next updater would choose another one.
func TestAnnounce_writeFails_canaryIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, store := newFakeCluster(cluster.InPlaceOrRecreate), newFaultyStates(announcedRefused, 20*time.Minute)
		fake.autoscalers[0].Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
		u := fake.leader(t, store)
		last := passes(t, u, 20*time.Minute)
		if len(fake.done) > 0 || heldFor(last) == "" {
			t.Fatalf("done %v, want nothing, and the reason; decisions: %v", fake.done, last)
		}
		passes(t, u, 12*time.Minute)
		if n := fake.count("resize "); n != 1 {
			t.Errorf("%d resizes after the writes succeed, want that of the canary: %v", n, fake.done)
		}
		passes(t, u, time.Hour)
		if n := fake.count("resize "); n != 3 {
			t.Errorf("%d resizes in the end, want 3: %v", n, fake.done)
		}
	})
}

// A surge does not begin without an announcement.
func TestAnnounce_writeFails_surgeIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newSurgeCluster(t, 2)
		y.states = newMemoryStates()
		y.states.writeErr = errDeniedState
		y.run(30)
		if y.deployment.Replicas != 2 || y.created != 0 || y.deployment.Recorded {
			t.Errorf("%d replicas, %d created pods, record %+v; want 2, 0, none", y.deployment.Replicas, y.created, y.deployment.Surge)
		}
		y.states.writeErr = nil
		y.run(90)
		y.checkEnd(2, 2)
	})
}

// No placeholder pod is created for an eviction that cannot be announced.
func TestAnnounce_writeFails_noPlaceholderIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, store := newFullCluster(), newFaultyStates(announcedRefused, 20*time.Minute)
		u := y.start()
		u.states = updatestate.New(store, true, u.metrics.states, u.log)
		var last []decision.Decision
		run := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				last = u.update(t.Context(), time.Now())
				time.Sleep(10 * time.Second)
				y.settle()
				time.Sleep(50 * time.Second)
			}
		}
		run(20 * time.Minute)
		if y.writes > 0 || heldFor(last) == "" {
			t.Fatalf("%d writes, %d placeholder pods; want none, and the reason", y.writes, y.placeholders())
		}
		run(2 * time.Hour)
		if len(y.evicted) != 3 || y.placeholders() != 0 {
			t.Errorf("evicted %v, %d placeholder pods after the writes succeed; want 3 pods, none", y.evicted, y.placeholders())
		}
	})
}

// An OOM-killed pod that is not ready is evicted without an announcement, but not deleted in spite of its disruption budget.
func TestAnnounce_writeFails_rescueEvictsButDoesNotDelete(t *testing.T) {
	for desired, want := range map[int32]string{0: "evict", 2: "delete"} { // healthy pods that the disruption budget requires
		synctest.Test(t, func(t *testing.T) {
			y, store := newCrashCluster(t, cluster.Recreate, 2), newFaultyStates(announcedRefused, 2*time.Hour)
			y.desired = desired
			u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
			u.states = updatestate.New(store, true, u.metrics.states, u.log)
			run := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Minute) {
					y.step(time.Now())
					u.pass(t.Context(), time.Now())
				}
			}
			run(2 * time.Hour)
			if y.removed["delete"] > 0 || (y.removed["evict"] == 2) != (want == "evict") {
				t.Errorf("removed %v while the writes fail, want %s", y.removed, want)
			}
			run(time.Hour)
			if y.removed[want] != 2 || len(y.removed) != 1 {
				t.Errorf("removed %v in the end, want 2 × %s", y.removed, want)
			}
		})
	}
}

// The states of one tenant cannot be written. Its workloads wait, and those of others are changed as if it were not there.
func TestAnnounce_oneNamespaceFails_othersAreNotDelayed(t *testing.T) {
	for _, fault := range announcementFaults {
		for _, rate := range []float64{-1, 1} {
			t.Run(fmt.Sprintf("%s, rate %v", fault, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newBurst(60)
					for _, p := range g.pods[:100] { // 50 workloads
						p.Namespace, p.Top.Namespace, p.Controller.Namespace = "tenant", "tenant", "tenant"
					}
					for _, a := range g.autoscalers[:50] {
						a.Namespace, a.Target.Namespace = "tenant", "tenant"
					}
					g.config.RateLimit, g.config.RateBurst = rate, 1
					store := newFaultyStates(fault, time.Hour)
					store.of = func(w cluster.Workload) bool { return w.Namespace == "tenant" }
					u := g.fakeCluster.leader(t, store)
					passes(t, u, 5*time.Minute)
					evicted := map[string]int{}
					for _, p := range g.pods {
						if strings.HasPrefix(p.UID, "replacement-") {
							evicted[p.Namespace]++
						}
					}
					if evicted["tenant"] > 0 || evicted["shop"] != 20 {
						t.Errorf("evictions %v, want none of tenant and 20 of shop", evicted)
					}
					if n := store.attempts(); n > 100 {
						t.Errorf("%d failed attempts in 5m for 50 workloads, want few", n)
					}
				})
			})
		}
	}
}

// Writes without an answer in all namespaces do not delay resizes for long.
func TestAnnounce_noWriteIsAnswered_passesAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBurst(200)
		for i, p := range g.pods {
			ns := fmt.Sprint("ns-", i/2)
			p.Namespace, p.Top.Namespace, p.Controller.Namespace = ns, ns, ns
		}
		for i, a := range g.autoscalers {
			a.Namespace, a.Target.Namespace = fmt.Sprint("ns-", i), fmt.Sprint("ns-", i)
			if i%2 == 0 {
				a.Mode = cluster.InPlaceOrRecreate
			}
		}
		store := newFaultyStates(announcedNotInTime, time.Hour)
		u := g.fakeCluster.leader(t, store)
		began := time.Now()
		u.pass(t.Context(), time.Now())
		if took := time.Since(began); took > 15*time.Second || g.count("resize ") != 100 || g.count("evict") > 0 {
			t.Errorf("%d resizes and %d evictions in %v, want 100, none, 15s", g.count("resize "), g.count("evict"), took)
		}
	})
}

// If the CRD is deleted, the updater goes on without stored records.
func TestAnnounce_crdIsDeleted_actionsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, store := newFakeCluster(cluster.Recreate), newMemoryStates()
		store.writeErr = fmt.Errorf("write: %w", kube.ErrUnsupported)
		u := fake.leader(t, store)
		passes(t, u, 10*time.Minute)
		if n := fake.count("evict"); n != 3 {
			t.Errorf("%d evictions, want 3", n)
		}
	})
}

// A dry run refuses replacements. Nothing is done, so nothing is announced, and a kill costs the next updater no wait.
func TestAnnounce_dryRunRefuses_nothingIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, store := newFakeCluster(cluster.Recreate), newMemoryStates()
		fake.admits = false
		for _, p := range fake.pods {
			p.Created = p.Created.Add(-time.Hour)
		}
		u := fake.leader(t, store)
		u.actuators.replacements = dryRuns{fake}
		passes(t, u, 3*time.Minute)
		if n := fake.count("evict"); n != 1 {
			t.Fatalf("%d evictions, want one", n)
		}
		var since []time.Time
		for range 90 {
			u.pass(t.Context(), time.Now())
			store.mu.Lock()
			for _, s := range store.objects {
				if !s.ActingSince.IsZero() && !slices.Contains(since, s.ActingSince) {
					since = append(since, s.ActingSince)
				}
			}
			store.mu.Unlock()
			time.Sleep(time.Minute)
		}
		if len(since) > 0 || fake.count("evict") != 1 {
			t.Errorf("announced at %v, %d evictions; want no announcement after the first eviction", since, fake.count("evict"))
		}
	})
}

// The creation of pods hangs in the namespace of one tenant, and evictions are in doubt. Those of others are not delayed.
func TestUpdater_dryRunsOfOneNamespaceHang_othersAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBurst(120)
		for _, p := range g.pods[:200] { // 100 workloads
			p.Namespace, p.Top.Namespace, p.Controller.Namespace = "tenant", "tenant", "tenant"
		}
		for _, a := range g.autoscalers[:100] {
			a.Namespace, a.Target.Namespace = "tenant", "tenant"
		}
		for _, p := range g.pods {
			p.Created = p.Created.Add(-time.Hour)
		}
		u := g.fakeCluster.leader(t, newMemoryStates())
		u.actuators.replacements = hangingDryRuns{g.fakeCluster, "tenant"}
		all := g.autoscalers
		g.autoscalers, g.admits = all[len(all)-1:], false
		passes(t, u, 2*time.Minute) // the eviction of one workload has no effect
		g.autoscalers, g.admits = all, true
		began := time.Now()
		last := u.update(t.Context(), began)
		took := time.Since(began)
		evicted := map[string]int{}
		for _, p := range g.pods {
			if strings.HasPrefix(p.UID, "replacement-") {
				evicted[p.Namespace]++
			}
		}
		if took > 25*time.Second || evicted["shop"] < 20 || evicted["tenant"] == 0 {
			t.Errorf("evictions %v in %v, want 20 of shop, and some of tenant, in 25s", evicted, took)
		}
		waiting := 0
		for i := range last {
			if last[i].Reason.Code == decision.DryRunUnanswered {
				waiting++
			}
		}
		if waiting == 0 {
			t.Error("no pod has the reason DryRunUnanswered")
		}
	})
}

// hangingDryRuns is a replacementDryRunner that has no answer in one namespace.
type hangingDryRuns struct {
	*fakeCluster
	namespace string
}

func (d hangingDryRuns) DryRun(ctx context.Context, p *cluster.Pod) (*cluster.Pod, error) {
	if p.Namespace == d.namespace {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	q := *p
	q.Containers = slices.Clone(p.Containers)
	q.Containers[0].Requests = d.autoscalers[0].Advice[0].Target
	return &q, nil
}

// dryRuns is a replacementDryRunner of a cluster whose webhook is down.
type dryRuns struct{ *fakeCluster }

func (d dryRuns) DryRun(_ context.Context, p *cluster.Pod) (*cluster.Pod, error) {
	q := *p
	q.Containers = slices.Clone(p.Containers)
	q.Containers[0].Requests = cluster.Amounts(100, 50<<20)
	return &q, nil
}

// The updater is killed at each write, and some announcements fail. No eviction is repeated, and none is lost.
func TestRepeat_announcementsFail_noEvictionIsRepeatedOrLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, fault := range announcementFaults {
		for _, name := range slices.Sorted(maps.Keys(evictionCases)) {
			c := evictionCases[name]
			for _, workloads := range []int{1, 6} {
				if workloads == 1 && fault != announcedRefused && fault != announcedLate {
					continue // as with a refused one, or one that is stored
				}
				t.Run(fmt.Sprintf("%s, %s, %d workloads", fault, name, workloads), func(t *testing.T) {
					everyKill(t, 3, func(t *testing.T, k *killer) {
						b := newReplacedBurst(workloads, c.change)
						b.fault, b.faultFor = fault, 150*time.Second
						b.leaders(t, k, withinBackoff, withinBackoff, withinBackoff)
						b.check(t, c.want)
					})
				})
			}
		}
	}
}
