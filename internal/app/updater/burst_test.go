// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
)

// newBurst returns a cluster of workloads with two pods each that need an eviction. Its watch is late: it always shows the same pods.
func newBurst(workloads int) *lagging {
	fake := newFakeCluster(cluster.Recreate)
	pod, advice := *fake.pods[0], *fake.autoscalers[0]
	fake.pods, fake.autoscalers = nil, nil
	for i := range workloads {
		a := advice
		a.Name = fmt.Sprintf("web-%d", i)
		a.Target = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: a.Name}
		fake.autoscalers = append(fake.autoscalers, &a)
		for j := range 2 {
			p := pod
			p.Name = fmt.Sprintf("%s-%d", a.Name, j)
			p.UID, p.Top = p.Name, a.Target
			p.Controller = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: a.Name + "-1"}
			fake.pods = append(fake.pods, &p)
		}
	}
	return &lagging{fakeCluster: fake, shown: fake.pods, acted: map[string]int{}}
}

// leader returns an updater that stores its states in parallel to the passes, after it has loaded the stored ones.
func (g *lagging) leader(t *testing.T, pods podChanger, store updatestate.Store) *updater {
	t.Helper()
	u := newUpdater(g.config, g, pods, g, g, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), g.log)
	u.states = updatestate.New(store, true, u.metrics.states, u.log)
	if err := u.loadStates(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// check reports pods that were evicted twice, and workloads that lost both pods, which the budget does not allow.
func (g *lagging) check(t *testing.T) {
	t.Helper()
	gone := map[cluster.Workload]int{}
	for _, p := range g.shown {
		if n := g.acted[p.UID]; n > 1 {
			t.Errorf("pod %s was evicted %d times", p.UID, n)
		}
		gone[p.Top] += g.acted[p.UID]
	}
	for w, n := range gone {
		if n > 1 {
			t.Errorf("%d pods of %v were evicted before the watch showed a replacement", n, w)
		}
	}
}

// The updater is killed with kill -9 before, during and after each write of a burst of evictions. The watch of the next one is late.
func TestBurst_updaterIsKilledAtAnyWrite_nextOneRepeatsNothing(t *testing.T) {
	everyKill(t, 7, func(t *testing.T, k *killer) {
		g := newBurst(6)
		store := killedStates{newMemoryStates(), k}
		ctx, kill := context.WithCancel(t.Context())
		first := g.leader(t, killedPods{g, k}, store)
		first.pass(ctx, time.Now())
		time.Sleep(2 * time.Second)
		k.kill()
		kill()
		synctest.Wait()
		for range 4 {
			k.spare()
			next := g.leader(t, killedPods{g, k}, store)
			ctx, kill := context.WithCancel(t.Context())
			next.pass(ctx, time.Now())
			g.check(t)
			time.Sleep(time.Minute)
			kill()
			synctest.Wait()
		}
	})
}

// Each workload is announced once, and has its outcome after a clean end.
func TestBurst_announcement_isOneWriteForEachWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := newBurst(200), newMemoryStates()
		u := g.leader(t, g, store)
		ctx, end := context.WithCancel(t.Context())
		u.pass(ctx, time.Now())
		announced := 0
		for _, s := range store.objects {
			if !s.ActingSince.IsZero() {
				announced++
			}
		}
		if len(g.acted) != 200 || store.writes != 200 || announced != 200 {
			t.Errorf("%d pods were evicted, %d writes, %d announced; want 200 workloads in one write each", len(g.acted), store.writes, announced)
		}
		end()
		synctest.Wait()
		u.states.Save(ctx, time.Now(), u.ledger, u.budget.Delays, true)
		for w, s := range store.objects {
			if !s.ActingSince.IsZero() || len(s.Pods) != 1 {
				t.Errorf("after a clean end, stored of %s is %+v, want the outcome", w, s)
			}
		}
		next := g.leader(t, g, store)
		next.pass(t.Context(), time.Now())
		g.check(t)
	})
}

// An updater that has lost its lease sends nothing more, and the one that leads now has read its announcement. If the old one writes in spite
// of that, for example because a request was delayed on its way, the new one announces its own actions again.
func TestBurst_twoLeaders_nothingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := newBurst(6), newMemoryStates()
		lost, lose := context.WithCancel(t.Context())
		old := g.leader(t, g, store)
		old.pass(lost, time.Now())
		late := maps.Clone(store.objects)
		next := g.leader(t, g, store)
		lose()
		synctest.Wait()
		for range 4 {
			next.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
			store.mu.Lock()
			maps.Copy(store.objects, late) // the delayed writes
			store.mu.Unlock()
		}
		g.check(t)
		if n := len(slices.Collect(maps.Keys(g.acted))); n != 6 {
			t.Errorf("%d pods were evicted, want 6", n)
		}
	})
}
