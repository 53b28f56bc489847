// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
)

// A fleet is a cluster of many Deployments with two pods each that need an eviction, in the shape of the benchmark of upstream's
// updater. Its API server answers each request after apiLatency. It checks that each Deployment has a ready pod at all times.
type fleet struct {
	*fakeCluster
	t     *testing.T
	early chan struct{}

	mu      sync.Mutex
	byName  map[string]*cluster.Pod
	waits   watcher.Waits
	right   int       // pods with the recommended size
	done    time.Time // when all pods have it
	worst   int       // the lowest number of ready pods of a Deployment
	ready   map[cluster.Workload]int
	starts  time.Duration
	serials int
}

const apiLatency = 20 * time.Millisecond

func newFleet(t *testing.T, deployments int) *fleet {
	f := &fleet{fakeCluster: newFakeCluster(cluster.Recreate), t: t, early: make(chan struct{}, 1), byName: map[string]*cluster.Pod{}, ready: map[cluster.Workload]int{}, worst: 2, starts: 3 * time.Second}
	f.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(1<<30, 1<<50), Ready: true}}
	template, advice := *f.pods[0], *f.autoscalers[0]
	f.fakeCluster.pods, f.autoscalers = nil, nil
	for i := range deployments {
		a := advice
		a.Name = fmt.Sprintf("web-%d", i)
		a.Target = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: a.Name}
		f.autoscalers = append(f.autoscalers, &a)
		for range 2 {
			p := template
			p.Top = a.Target
			p.Controller = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: a.Name + "-1"}
			f.add(&p)
		}
	}
	return f
}

func (f *fleet) add(p *cluster.Pod) {
	f.serials++
	p.Name = fmt.Sprintf("%s-%d", p.Top.Name, f.serials)
	p.UID, p.Created, p.Started, p.ReadySince = p.Name, time.Now(), time.Now(), time.Now()
	f.byName[p.Name] = p
	if p.Ready {
		f.ready[p.Controller]++
	}
}

func (f *fleet) Snapshot() *cluster.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pods []*cluster.Pod
	for _, p := range f.byName {
		pods = append(pods, p)
	}
	return cluster.NewSnapshot(pods, append([]*cluster.Autoscaler(nil), f.autoscalers...))
}

func (f *fleet) Scale(cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: 2}
}

func (f *fleet) AwaitChanges(w watcher.Waits) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = w
}

// handle carries out evictions.
func (f *fleet) handle(w http.ResponseWriter, _ *http.Request, q kubetest.Request) bool {
	time.Sleep(apiLatency)
	f.mu.Lock()
	if old := f.byName[q.Name]; old != nil {
		delete(f.byName, q.Name)
		f.ready[old.Controller]--
		f.worst = min(f.worst, f.ready[old.Controller])
		time.AfterFunc(f.starts, func() { f.replace(old) })
	}
	f.mu.Unlock()
	kubetest.Respond(w, http.StatusCreated, kubetest.Success)
	return true
}

// replace adds the replacement of an evicted pod, which is ready.
func (f *fleet) replace(old *cluster.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := *old
	p.Containers = []cluster.Container{{Name: "app", Requests: f.autoscalers[0].Advice[0].Target}}
	f.add(&p)
	f.right++
	if f.right == 2*len(f.autoscalers) {
		f.done = time.Now()
	}
	if f.waits.Controllers[p.Controller] {
		select {
		case f.early <- struct{}{}:
		default:
		}
	}
}

// slowStates is a store of update states with the latency and the rate limit of the client.
type slowStates struct{ limit *rate.Limiter }

func (slowStates) Load(context.Context) ([]ledger.State, error) { return nil, nil }
func (s slowStates) Write(ctx context.Context, _ time.Time, _ *ledger.State) (bool, error) {
	return true, s.wait(ctx)
}
func (s slowStates) Delete(ctx context.Context, _ cluster.Workload) error { return s.wait(ctx) }
func (slowStates) Name(w cluster.Workload) string                         { return w.Name }
func (slowStates) Stored() []cluster.Workload                             { return nil }
func (s slowStates) wait(ctx context.Context) error {
	if err := s.limit.Wait(ctx); err != nil {
		return err
	}
	time.Sleep(apiLatency)
	return nil
}

// update runs the updater with the client limits until all pods have the recommended size, and returns how long that takes.
func (f *fleet) update(qps float64, burst int) time.Duration {
	api := kubetest.NewLocalAPI(f.t)
	api.Handle(f.handle)
	config := kubetest.LocalConfig(api)
	config.QPS, config.Burst = float32(qps), burst
	clients, err := kube.ClientsFor(config)
	if err != nil {
		f.t.Fatal(err)
	}
	began := time.Now()
	u := newUpdater(f.config, f, actorPods{actuation.NewPodWriter(clients), f.fakeCluster}, noEvents{}, f, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
	u.waits = f
	limit := rate.Limit(qps)
	if qps < 0 {
		limit = rate.Inf
	}
	u.states = updatestate.New(slowStates{rate.NewLimiter(limit, burst)}, true, u.metrics.states, u.log)
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Minute)
	defer cancel()
	process.EveryOr(ctx, time.Minute, f.early, earlyPeriod, func(ctx context.Context, now time.Time) time.Duration {
		u.pass(ctx, now)
		if !f.done.IsZero() {
			cancel()
		}
		return u.cost
	})
	u.states.Save(f.t.Context(), time.Now(), u.ledger, u.budget.Delays, true)
	return f.done.Sub(began)
}

type actorPods struct {
	*actuation.PodWriter
	*fakeCluster
}

func (a actorPods) Evict(ctx context.Context, p *cluster.Pod) error { return a.PodWriter.Evict(ctx, p) }
func (a actorPods) Delete(ctx context.Context, p *cluster.Pod) error {
	return a.PodWriter.Delete(ctx, p)
}
func (a actorPods) Resize(context.Context, *cluster.Pod, []policy.Fitted) error { return nil }
func (a actorPods) Annotate(context.Context, *cluster.Pod, map[string]string, ...string) error {
	return nil
}

// The shape of upstream's benchmark: 1,000 VPAs with 2 pods each. Upstream needs 302 s.
func TestUpdater_thousandVPAs_allPodsAreRightWithinThirtySeconds(t *testing.T) {
	for _, c := range []struct {
		qps   float64
		burst int
		most  time.Duration
	}{
		{50, 100, 90 * time.Second}, // the defaults of the flags, which are upstream's
		{200, 400, 30 * time.Second},
		{-1, 0, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1000)
			took := f.update(c.qps, c.burst)
			t.Logf("--kube-api-qps=%v --kube-api-burst=%d: %v", c.qps, c.burst, took)
			if took <= 0 || took > c.most {
				t.Errorf("--kube-api-qps=%v --kube-api-burst=%d: took %v, want at most %v", c.qps, c.burst, took, c.most)
			}
			if f.worst < 1 {
				t.Errorf("a Deployment had %d ready pods, want at least 1", f.worst)
			}
		})
	}
}
