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
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// signals is a watch: it signals an early pass when a pod of a controller that pods wait for has been replaced.
type signals struct {
	*fakeCluster
	early chan struct{}
	waits watcher.Waits
	timer bool // it signals at Waits.At
}

func (s *signals) AwaitChanges(w watcher.Waits) {
	s.waits = w
	if s.timer && !w.At.IsZero() {
		time.AfterFunc(time.Until(w.At), func() {
			select {
			case s.early <- struct{}{}:
			default:
			}
		})
	}
}
func (s *signals) Urgent() <-chan struct{} { return s.early }

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

// At its start, the updater does not wait a whole interval for watches that are complete some seconds later. Afterwards, passes that are
// skipped for old watches follow the interval.
func TestUpdater_watchesAreIncompleteAtStart_firstPassFollowsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		s := &signals{fakeCluster: fake, early: make(chan struct{}, 1)}
		u := newUpdater(fake.config, fake, s, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
		began, asked := time.Now(), 0
		u.stale = func(now time.Time) []string {
			asked++
			if at := now.Sub(began); at < 3*time.Second || at > time.Minute-time.Second {
				return []string{"sizingprofiles"}
			}
			return nil
		}
		s.timer = true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		u.loop(ctx, s, u.pass)
		if fake.count("evict ") == 0 {
			t.Errorf("no pod was evicted within 5 s, with %d passes", asked)
		}
		asked = 0
		time.Sleep(time.Until(began.Add(time.Minute)))
		ctx, cancel = context.WithTimeout(t.Context(), 9*time.Minute+30*time.Second)
		defer cancel()
		u.loop(ctx, s, u.pass)
		if asked > 11 {
			t.Errorf("%d passes in 9 minutes with an old watch, want one per interval", asked)
		}
	})
}

func TestWaitsOf_reasons_nameNodesAndControllers(t *testing.T) {
	pod := &cluster.Pod{Node: "n1", Controller: cluster.Workload{Kind: "ReplicaSet", Name: "web-1"}}
	for name, c := range map[string]struct {
		do          decision.Act
		code        decision.ReasonCode
		node, owner bool
	}{
		"deferred":        {code: decision.ResizeWaiting, node: true},
		"part of it":      {code: decision.AwaitingRoom, node: true},
		"room of others":  {code: decision.RoomReserved, node: true},
		"budget is spent": {code: decision.BudgetSpent, owner: true},
		"pods not ready":  {code: decision.NotReady, owner: true},
		"fits":            {code: decision.Fits},
		"is evicted":      {do: decision.Evict, code: decision.BelowRange},
	} {
		got := waitsOf([]decision.Decision{{Pod: pod, Do: c.do, Reason: decision.Reason{Code: c.code}}}, nil)
		if got.Nodes["n1"] != c.node || got.Controllers[pod.Controller] != c.owner {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestWaitsOf_podsThatNodesAreTooSmallFor_waitForALargerNode(t *testing.T) {
	held := []policy.Fitted{{Container: "app", Notes: []admissible.Note{{Kind: admissible.HeldToNode}}}}
	for name, c := range map[string]struct {
		d    decision.Decision
		want bool
	}{
		"fits no node":                   {decision.Decision{Reason: decision.Reason{Code: decision.NoNodeFits}}, true},
		"has the size of its node":       {decision.Decision{With: held}, true},
		"gets the size of its node":      {decision.Decision{Do: decision.Evict, With: held}, false},
		"has its size":                   {decision.Decision{With: []policy.Fitted{{Container: "app"}}}, false},
		"is held by a quota, not a node": {decision.Decision{With: []policy.Fitted{{Notes: []admissible.Note{{Kind: admissible.HeldToQuota}}}}}, false},
	} {
		c.d.Pod = &cluster.Pod{}
		if got := waitsOf([]decision.Decision{c.d}, nil); got.LargerNode != c.want {
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
