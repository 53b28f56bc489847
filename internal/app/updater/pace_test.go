// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// signals is a watch: it signals an early pass when a pod of a controller that pods wait for has been replaced.
type signals struct {
	*fakeCluster
	early chan struct{}
	waits watcher.Waits
}

func (s *signals) AwaitChanges(w watcher.Waits) { s.waits = w }
func (s *signals) Urgent() <-chan struct{}      { return s.early }

func (s *signals) Evict(ctx context.Context, p *cluster.Pod) error {
	err := s.fakeCluster.Evict(ctx, p)
	time.AfterFunc(3*time.Second, func() {
		if s.waits.Controllers[p.Controller] {
			s.early <- struct{}{}
		}
	})
	return err
}

// Without --early-passes, the next pass is at the next interval.
func TestUpdater_replacementsAreReady_nextPodIsEvictedWithoutWaitingForTheInterval(t *testing.T) {
	for flag, want := range map[string]int{"--early-passes": 3, "--early-passes=false": 1} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config = given(t, flag)
			s := &signals{fakeCluster: fake, early: make(chan struct{}, 1)}
			u := newUpdater(fake.config, fake, s, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			u.loop(ctx, s, u.pass)
			if n := fake.count("evict "); n != want {
				t.Errorf("%s: %d pods were evicted in 20s, want %d: %v", flag, n, want, fake.done)
			}
			if len(s.waits.Controllers) != 0 {
				t.Errorf("%s: waits for %v at the end, want none", flag, s.waits.Controllers)
			}
		})
	}
}

func TestWaitsOf_reasons_nameNodesAndControllers(t *testing.T) {
	pod := &cluster.Pod{Node: "n1", Controller: cluster.Workload{Kind: "ReplicaSet", Name: "web-1"}}
	for name, c := range map[string]struct {
		do          plan.Act
		code        plan.ReasonCode
		node, owner bool
	}{
		"deferred":        {code: plan.ResizeWaiting, node: true},
		"part of it":      {code: plan.AwaitingRoom, node: true},
		"budget is spent": {code: plan.BudgetSpent, owner: true},
		"pods not ready":  {code: plan.NotReady, owner: true},
		"fits":            {code: plan.Fits},
		"is evicted":      {do: plan.Evict, code: plan.BelowRange},
	} {
		got := waitsOf([]plan.Decision{{Pod: pod, Do: c.do, Reason: plan.Reason{Code: c.code}}}, nil)
		if got.Nodes["n1"] != c.node || got.Controllers[pod.Controller] != c.owner {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// A pass that waits for the API server costs no processor time, so it does not delay early passes.
func TestUpdater_passThatWaits_hasNoCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		u := newUpdater(fake.config, fake, slowPods{fake}, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
		began := time.Now()
		u.pass(t.Context(), began)
		if took := time.Since(began); took < 5*time.Second || u.cost != 0 {
			t.Errorf("the pass took %v and cost %v, want at least 5s and 0", took, u.cost)
		}
	})
}

type slowPods struct{ *fakeCluster }

func (s slowPods) Evict(ctx context.Context, p *cluster.Pod) error {
	time.Sleep(5 * time.Second)
	return s.fakeCluster.Evict(ctx, p)
}

func newTestUpdater(fake *fakeCluster) *updater {
	return newUpdater(fake.config, fake, fake, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
}
