// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

var errKilled = errors.New("the updater is dead")

// A killer kills the updater at one of its writes: no later request of it reaches the API server.
type killer struct {
	mu       sync.Mutex
	requests int  // writes so far
	killAt   int  // the write at which the updater is killed; 0: never
	applied  bool // that write takes effect
	dead     bool
}

// write passes a write to the cluster, unless the updater is killed at it.
func (k *killer) write(change func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	k.requests++
	if k.requests != k.killAt {
		return change()
	}
	k.dead = true
	if k.applied {
		_ = change()
	}
	return errKilled
}

func (k *killer) isDead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

// kill kills the updater now.
func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = true
}

// restart lets the next updater write.
func (k *killer) restart() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = false
}

// spare starts the next updater and does not kill it at a write.
func (k *killer) spare() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead, k.killAt = false, 0
}

// killedPods is a podChanger whose caller is killed.
type killedPods struct {
	podChanger
	*killer
}

func (p killedPods) Resize(ctx context.Context, pod *cluster.Pod, with []policy.Fitted) error {
	return p.write(func() error { return p.podChanger.Resize(ctx, pod, with) })
}

func (p killedPods) Evict(ctx context.Context, pod *cluster.Pod) error {
	return p.write(func() error { return p.podChanger.Evict(ctx, pod) })
}

func (p killedPods) Delete(ctx context.Context, pod *cluster.Pod) error {
	return p.write(func() error { return p.podChanger.Delete(ctx, pod) })
}

func (p killedPods) Annotate(ctx context.Context, pod *cluster.Pod, set map[string]string, remove ...string) error {
	return p.write(func() error { return p.podChanger.Annotate(ctx, pod, set, remove...) })
}

// killedStates is an updatestate.Store whose caller is killed.
type killedStates struct {
	*memoryStates
	*killer
}

func (s killedStates) Write(ctx context.Context, now time.Time, state *ledger.State) (wrote bool, err error) {
	err = s.write(func() error {
		wrote, err = s.memoryStates.Write(ctx, now, state)
		return err
	})
	return wrote, err
}

func (s killedStates) Delete(ctx context.Context, w cluster.Workload) error {
	return s.write(func() error { return s.memoryStates.Delete(ctx, w) })
}

// terms runs passes of an updater each minute for a time, in a bubble. A killed updater is started again before the next pass.
func terms(t *testing.T, y *fakeCluster, w world, pods podChanger, k *killer, step func(time.Time), d time.Duration) {
	t.Helper()
	store := killedStates{newMemoryStates(), k}
	start := func() *updater {
		k.restart()
		u := newUpdater(y.config, w, killedPods{pods, k}, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		u.storeIn(store)
		if err := u.loadStates(t.Context()); err != nil {
			t.Fatal(err)
		}
		return u
	}
	u := start()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Minute) {
		step(time.Now())
		u.pass(t.Context(), time.Now())
		if k.isDead() {
			u = start()
		}
	}
}

// everyKill runs a scenario without a kill, and then once for each of its writes, with and without effect of that write.
func everyKill(t *testing.T, least int, scenario func(t *testing.T, k *killer)) {
	t.Helper()
	clean := new(killer)
	synctest.Test(t, func(t *testing.T) { scenario(t, clean) })
	if clean.requests < least {
		t.Fatalf("the scenario has %d writes, want at least %d", clean.requests, least)
	}
	for at := 1; at <= clean.requests; at++ {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, applied %t", at, applied), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { scenario(t, &killer{killAt: at, applied: applied}) })
			})
		}
	}
}

// Two replicas are OOM-killed again and again, and a disruption budget requires both. Each is deleted once.
func TestRescue_updaterIsKilledAtAnyWrite_eachPodIsDeletedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	everyKill(t, 4, func(t *testing.T, k *killer) {
		y := newCrashCluster(t, cluster.Recreate, 2)
		terms(t, y.fakeCluster, y, y, k, y.step, 3*time.Hour)
		if n := y.removed["delete"] + y.removed["evict"]; n != 2 {
			t.Errorf("%d pods were removed, want 2: %v", n, y.removed)
		}
		for _, p := range y.pods {
			if !p.Ready {
				t.Errorf("pod %s is not ready", p.Name)
			}
		}
	})
}

// A roomCluster is a full node with a kubelet: a resize that does not fit is deferred until it does. A pod that is evicted runs on the
// other node afterwards.
type roomCluster struct {
	*fakeCluster
	capacity int64
	resizes  map[string]int
	evicts   map[string]int
}

func (y *roomCluster) Resize(_ context.Context, p *cluster.Pod, with []policy.Fitted) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.resizes[p.Name]++
	y.replace(p, func(q *cluster.Pod) {
		c := &q.Containers[0]
		had, limits := c.Running()
		c.Requests = with[0].Requests.Or(c.Requests)
		c.Applied = &cluster.Applied{Requests: had, Limits: limits}
		q.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: time.Now()}
	})
	return nil
}

func (y *roomCluster) Evict(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.evicts[p.Name]++
	y.replace(p, func(q *cluster.Pod) {
		q.UID, q.Name, q.Node = q.UID+"x", q.Name+"x", "large"
		q.Created, q.Started, q.ReadySince = time.Now(), time.Now(), time.Now()
	})
	return nil
}

// step is what the kubelet does: shrinks at once, growth if there is room.
func (y *roomCluster) step(time.Time) {
	used := int64(0)
	for _, p := range y.pods {
		if c := p.Containers[0]; p.Node == "n" {
			requests, _ := c.Running()
			if c.Applied != nil && c.Requests.CPU < requests.CPU {
				requests = c.Requests
			}
			used += requests.CPU
		}
	}
	for _, p := range y.pods {
		c := &p.Containers[0]
		if c.Applied == nil {
			continue
		}
		grows := c.Requests.CPU - c.Applied.Requests.CPU
		if grows > 0 && p.Node == "n" {
			if used+grows > y.capacity {
				continue
			}
			used += grows
		}
		y.replace(p, func(q *cluster.Pod) { q.Containers[0].Applied, q.Resize = nil, nil })
	}
}

// Pod web-0 needs more, on a full node with pod web-2, which shrinks, moves, or stays so that web-0 grows by a part.
func TestMakeRoom_updaterIsKilledAtAnyWrite_noPodIsChangedTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, c := range map[string]struct {
		change          func(*roomCluster)
		resizes, evicts map[string]int // the most per pod
		target          int64
	}{
		"shrink": {func(*roomCluster) {}, map[string]int{"web-0": 1, "web-1": 1, "web-2": 1, "batch-1": 1}, nil, 400},
		"split": {func(y *roomCluster) {
			y.capacity, y.nodes[0].Allocatable = 1100, cluster.Amounts(1100, 1<<30)
			y.autoscalers[1].MakeRoom = "off"
			y.autoscalers[1].Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(700, 1<<20), Target: cluster.Amounts(800, 100<<20), Upper: cluster.Amounts(900, 1<<30)}}}
			y.autoscalers[0].Mode = cluster.InPlace
			y.config.Gates = process.Gates{process.InPlaceGate: true}
		}, map[string]int{"web-0": 1, "web-1": 1}, nil, 300},
		"move": {func(y *roomCluster) {
			y.config.MakeRoom = "move"
			y.autoscalers[1].Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(700, 1<<20), Target: cluster.Amounts(800, 100<<20), Upper: cluster.Amounts(900, 1<<30)}}}
			y.autoscalers[0].Mode = cluster.InPlaceOrRecreate
		}, map[string]int{"web-0": 1, "web-1": 1}, map[string]int{"web-2": 1, "web-0": 1}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			everyKill(t, 3, func(t *testing.T, k *killer) {
				y := &roomCluster{fakeCluster: fullNode(), capacity: 1000, resizes: map[string]int{}, evicts: map[string]int{}}
				c.change(y)
				terms(t, y.fakeCluster, y, y, k, y.step, time.Hour)
				for pod, n := range y.resizes {
					if n > c.resizes[pod] {
						t.Errorf("%s was resized %d times, want at most %d", pod, n, c.resizes[pod])
					}
				}
				moves := 0
				for pod, n := range y.evicts {
					moves += n
					if n > c.evicts[pod] {
						t.Errorf("%s was evicted %d times, want at most %d", pod, n, c.evicts[pod])
					}
				}
				if len(c.evicts) > 0 && moves != 1 {
					t.Errorf("%d moves, want 1: %v", moves, y.evicts)
				}
				requests, _ := y.pods[0].Containers[0].Running()
				if requests.CPU != c.target {
					t.Errorf("web-0 has %d, want %d; resizes %v, evictions %v", requests.CPU, c.target, y.resizes, y.evicts)
				}
			})
		})
	}
}
