// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

// fakeCluster implements the interfaces of an updater. An evicted pod is replaced by one with the recommended requests if the
// webhook works.
type fakeCluster struct {
	config      Config
	pods        []*cluster.Pod
	autoscalers []*cluster.Autoscaler
	stale       bool
	resizeErr   error
	evictErr    error
	nodes       []cluster.Node // instead of one large node
	budgets     []cluster.DisruptionBudget
	admits      bool // the webhook sizes replacements
	log         *slog.Logger
	registry    *prometheus.Registry // of the updater of the last term

	mu       sync.Mutex
	done     []string
	recorded []string
	serial   int
}

func (y *fakeCluster) Snapshot() *cluster.Snapshot {
	return cluster.NewSnapshot(slices.Clone(y.pods), slices.Clone(y.autoscalers))
}
func (y *fakeCluster) Scale(w cluster.Workload) cluster.Scale {
	n := int32(0)
	for _, p := range y.pods {
		if p.Controller == w {
			n++
		}
	}
	return cluster.Scale{Known: true, Replicas: n}
}
func (y *fakeCluster) Limits(string) cluster.LimitRange { return cluster.LimitRange{} }
func (y *fakeCluster) Quotas(string) *cluster.Quotas    { return nil }
func (y *fakeCluster) KnowsQuotas() bool                { return true }
func (y *fakeCluster) DisruptionBudgets(string) ([]cluster.DisruptionBudget, bool) {
	return y.budgets, true
}
func (y *fakeCluster) Selectors() []cluster.NodeSelector         { return nil }
func (y *fakeCluster) Tolerations() []cluster.Tolerations        { return nil }
func (y *fakeCluster) Rules(a *cluster.Autoscaler) rollout.Rules { return rollout.Rules{Autoscaler: a} }
func (y *fakeCluster) NewNodes() ([]cluster.NewNode, bool)       { return nil, true }
func (y *fakeCluster) Daemons() []cluster.Daemon                 { return nil }
func (y *fakeCluster) Nodes() []cluster.Node {
	if y.nodes != nil {
		return y.nodes
	}
	return []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(64000, 256<<30), Ready: true}}
}
func (y *fakeCluster) IsFresh(context.Context, time.Duration, time.Time) (bool, error) {
	return !y.stale, nil
}

func (y *fakeCluster) Resize(_ context.Context, p *cluster.Pod, with []policy.Fitted) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.resizeErr != nil {
		return y.resizeErr
	}
	y.done = append(y.done, "resize "+p.Name)
	y.replace(p, func(q *cluster.Pod) {
		q.Containers[0].Requests = with[0].Requests.Or(q.Containers[0].Requests)
		q.Containers[0].Limits = with[0].Limits.Or(q.Containers[0].Limits)
	})
	return nil
}

func (y *fakeCluster) Evict(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.evictErr != nil {
		return y.evictErr
	}
	y.done = append(y.done, "evict "+p.Name)
	y.replace(p, func(q *cluster.Pod) {
		y.serial++
		q.UID, q.Started, q.Created = fmt.Sprint("replacement-", y.serial), time.Now(), time.Now()
		if y.admits {
			q.Containers[0].Requests = y.autoscalers[0].Advice[0].Target
		}
	})
	return nil
}

func (y *fakeCluster) Delete(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.done = append(y.done, "delete "+p.Name)
	return nil
}

func (y *fakeCluster) replace(p *cluster.Pod, change func(*cluster.Pod)) {
	for i, old := range y.pods {
		if old.UID == p.UID {
			q := *old
			q.Containers = slices.Clone(old.Containers)
			change(&q)
			y.pods[i] = &q
		}
	}
}

func (y *fakeCluster) Annotate(_ context.Context, _ *cluster.Pod, set map[string]string, _ ...string) error {
	for k, v := range set {
		y.mu.Lock()
		y.done = append(y.done, "annotate "+k+"="+v)
		y.mu.Unlock()
	}
	return nil
}

func (y *fakeCluster) record(s string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.recorded = append(y.recorded, s)
}
func (y *fakeCluster) ResizeSkipped(p *cluster.Pod)         { y.record("skipped " + p.Name) }
func (y *fakeCluster) Pod(p *cluster.Pod, reason, _ string) { y.record(reason + " " + p.Name) }
func (y *fakeCluster) Changed(d *decision.Decision) {
	y.record(map[decision.Act]string{decision.Evict: "evicted", decision.Resize: "resized", decision.Delete: "OOMRescue", decision.Surge: "Surge"}[d.Do] + " " + d.Pod.Name)
}

func (y *fakeCluster) Autoscaler(a *cluster.Autoscaler, reason, message string) {
	y.record(reason + " " + a.Name + ": " + message)
}

// newFakeCluster returns a Deployment of three pods with requests below their bounds and an autoscaler with the given mode.
func newFakeCluster(mode cluster.Mode) *fakeCluster {
	y := &fakeCluster{config: Defaults(), admits: true, log: slog.New(slog.DiscardHandler)}
	rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	for i := range 3 {
		y.pods = append(y.pods, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}, UID: fmt.Sprint(i), Controller: rs, Top: top,
			Node: "n", Phase: cluster.Running, QoS: cluster.Burstable, Ready: true,
			Created: time.Now(), Started: time.Now(), ReadySince: time.Now(),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 50<<20)}},
		})
	}
	y.autoscalers = []*cluster.Autoscaler{{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: top, Mode: mode,
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(300, 200<<20), Target: cluster.Amounts(350, 250<<20), Upper: cluster.Amounts(9000, 9<<30),
		}}},
	}}
	return y
}

// run runs an updater for a duration and returns it.
func (y *fakeCluster) run(t *testing.T, d time.Duration) *updater {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d-time.Second)
	defer cancel()
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
	process.Every(ctx, y.config.Interval, u.pass)
	return u
}

func (y *fakeCluster) count(prefix string) int {
	n := 0
	for _, d := range y.done {
		if strings.HasPrefix(d, prefix) {
			n++
		}
	}
	return n
}

func TestUpdater_podsBelowBounds_eachIsUpdatedOnce(t *testing.T) {
	for mode, want := range map[cluster.Mode]string{cluster.Recreate: "evict", cluster.Auto: "evict", cluster.InPlaceOrRecreate: "resize"} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(mode)
				u := fake.run(t, time.Hour)
				if n := fake.count(want + " "); n != 3 {
					t.Errorf("%d × %s, want 3: %v", n, want, fake.done)
				}
				other := map[string]string{"evict": "resize", "resize": "evict"}[want]
				if n := fake.count(other + " "); n != 0 {
					t.Errorf("%d × %s, want none", n, other)
				}
				if want == "resize" && fake.count("annotate vpaInPlaceUpdated=true") != 3 {
					t.Errorf("resized pods are not annotated: %v", fake.done)
				}
				if want == "evict" {
					if n := testutil.ToFloat64(u.metrics.evicted.WithLabelValues("1", mode.String(), "web", "shop")); n != 3 {
						t.Errorf("the metric counts %v evictions, want 3", n)
					}
				}
			})
		})
	}
}

func TestUpdater_modeChangesNoPods_doesNothing(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Off, cluster.Initial, cluster.InPlace} { // InPlace: its gate is off
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(mode)
				fake.run(t, time.Hour)
				if len(fake.done) > 0 {
					t.Errorf("actions %v, want none", fake.done)
				}
			})
		})
	}
}

// The updater and the admission controller use the same autoscaler for a pod.
func TestUpdater_olderAutoscalerIsOff_youngerOneUpdates(t *testing.T) {
	for name, x := range map[string]struct {
		gate, boost bool
		evictions   int
	}{
		"off":                     {gate: true, evictions: 3},
		"off, boost, gate closed": {boost: true, evictions: 3},
		"off, boost, gate open":   {gate: true, boost: true, evictions: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(cluster.Recreate)
				fake.config.Gates = process.Gates{process.CPUStartupBoost: x.gate}
				old := *fake.autoscalers[0]
				old.Name, old.Mode, old.Created = "old", cluster.Off, fake.autoscalers[0].Created.Add(-time.Hour)
				if x.boost {
					old.Boost = &cluster.Boost{Factor: 2}
				}
				fake.autoscalers = append(fake.autoscalers, &old)
				fake.run(t, time.Hour)
				if got := fake.count("evict"); got != x.evictions {
					t.Errorf("%d evictions, want %d: %v", got, x.evictions, fake.done)
				}
			})
		})
	}
}

func TestUpdater_statusLeaseIsStale_changesNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.stale = true
		u := fake.run(t, 10*time.Minute)
		if len(fake.done) > 0 {
			t.Errorf("actions %v, want none", fake.done)
		}
		if n := testutil.ToFloat64(u.metrics.statusInvalid.WithLabelValues("invalid")); n != 10 {
			t.Errorf("the metric counts %v skipped passes, want 10", n)
		}
	})
}

func TestUpdater_dryRun_changesNothing(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate, cluster.InPlace} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(mode)
			fake.config.DryRun = true
			fake.config.Gates = process.Gates{process.InPlaceGate: true}
			orphan := *fake.pods[0]
			orphan.Name, orphan.UID, orphan.Controller, orphan.Top = "orphan", "orphan", cluster.Workload{}, cluster.Workload{}
			fake.pods = append(fake.pods, &orphan)
			fake.run(t, 10*time.Minute)
			if len(fake.done)+len(fake.recorded) > 0 {
				t.Errorf("%v: actions %v, events %v, want none", mode, fake.done, fake.recorded)
			}
		})
	}
}

func TestUpdater_dryRun_logsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.config.DryRun = true
		fake.log = slog.New(slog.NewTextHandler(&text, nil))
		fake.run(t, 10*time.Minute)
		if n := strings.Count(text.String(), "Would change a pod"); n != 1 { // the budget allows one eviction at a time
			t.Errorf("logged %d times, want once:\n%s", n, text.String())
		}
		text.Reset()
		for _, a := range fake.autoscalers {
			a.Mode = cluster.InPlaceOrRecreate
		}
		fake.run(t, 10*time.Minute)
		if n := strings.Count(text.String(), "action=resize"); n < 1 || n > len(fake.pods) {
			t.Errorf("resizes are logged %d times, want once for each pod at most:\n%s", n, text.String())
		}
	})
}

func TestUpdater_evictionsHaveNoEffect_backsOff(t *testing.T) { // W-13, kubernetes/autoscaler#9362, #2633
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.admits = false // new pods keep the requests of the template
		fake.run(t, 24*time.Hour)
		if n := fake.count("evict "); n < 1 || n > 24 {
			t.Errorf("%d evictions without effect in a day, want 1 to 24", n)
		}
		if !slices.ContainsFunc(fake.recorded, func(s string) bool { return strings.HasPrefix(s, "UpdateHeld web") }) {
			t.Errorf("no event was written: %q", fake.recorded)
		}
	})
}

func TestUpdater_resizeFails_fallsBackToEviction(t *testing.T) {
	tests := map[string]struct {
		mode   cluster.Mode
		err    error
		evicts bool
	}{
		"node is too small":         {cluster.InPlaceOrRecreate, kube.ErrNodeCapacity, true},
		"forbidden":                 {cluster.InPlaceOrRecreate, kube.ErrForbidden, true},
		"not supported before 1.33": {cluster.InPlaceOrRecreate, kube.ErrUnsupported, true},
		"server is busy":            {cluster.InPlaceOrRecreate, kube.ErrBusy, false},
		"connection lost":           {cluster.InPlaceOrRecreate, errors.New("connection refused"), false},
		"pod is gone":               {cluster.InPlaceOrRecreate, kube.ErrNotFound, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(tt.mode)
				fake.resizeErr = fmt.Errorf("resize: %w", tt.err)
				fake.run(t, 10*time.Minute)
				if got := fake.count("evict ") > 0; got != tt.evicts {
					t.Errorf("evicted: %t, actions %v", got, fake.done)
				}
			})
		})
	}
}

func TestUpdater_rateLimit_spreadsEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config.RateLimit, fake.config.RateBurst = 1.0/600, 1
		fake.run(t, 10*time.Minute)
		if n := fake.count("evict "); n != 1 {
			t.Errorf("%d evictions in ten minutes, want 1", n)
		}
		fake.run(t, time.Hour)
		if n := fake.count("evict "); n != 3 {
			t.Errorf("%d evictions in all, want 3", n)
		}
	})
}

func TestUpdater_budgetRefusesEvictions_retriesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.evictErr = kube.ErrBudget
		u := fake.run(t, 5*time.Minute)
		if n := testutil.ToFloat64(u.metrics.evictFailed.WithLabelValues("1", "Recreate", "EvictionError", "web", "shop")); n == 0 {
			t.Error("refused evictions are not counted")
		}
		fake.evictErr = nil
		fake.run(t, time.Hour)
		if n := fake.count("evict "); n != 3 {
			t.Errorf("%d evictions, want 3", n)
		}
	})
}

func TestUpdater_podWithoutController_writesOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.pods = append(fake.pods,
			&cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "bare"}, UID: "bare", Phase: cluster.Running,
				Containers: []cluster.Container{{Name: "app"}}},
			&cluster.Pod{Key: cluster.Key{Namespace: "elsewhere", Name: "bare"}, UID: "other", Phase: cluster.Running})
		fake.run(t, time.Hour)
		events := 0
		for _, s := range fake.recorded {
			if s == "NotAutoscaled bare" {
				events++
			}
		}
		if events != 1 {
			t.Errorf("%d events, want 1: %q", events, fake.recorded)
		}
		if n := fake.count("evict "); n != 3 {
			t.Errorf("%d evictions, want 3", n)
		}
	})
}
