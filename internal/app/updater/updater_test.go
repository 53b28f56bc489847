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
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// yard is a cluster of fakes around an updater. An evicted pod is replaced by one with the recommended size, if the
// webhook works.
type yard struct {
	config      Config
	pods        []*cluster.Pod
	autoscalers []*cluster.Autoscaler
	stale       bool
	resizeErr   error
	evictErr    error
	nodes       []cluster.Node // instead of one large node
	admits      bool           // the webhook sizes replacements
	log         *slog.Logger

	mu     sync.Mutex
	did    []string
	told   []string
	serial int
}

func (y *yard) Snapshot() *cluster.Snapshot {
	return cluster.NewSnapshot(slices.Clone(y.pods), slices.Clone(y.autoscalers))
}
func (y *yard) Scale(w cluster.Workload) cluster.Scale {
	n := int32(0)
	for _, p := range y.pods {
		if p.Controller == w {
			n++
		}
	}
	return cluster.Scale{Known: true, Replicas: n}
}
func (y *yard) Limits(string) cluster.LimitRange   { return cluster.LimitRange{} }
func (y *yard) Quotas(string) *cluster.Quotas      { return nil }
func (y *yard) Selectors() [][]string              { return nil }
func (y *yard) Tolerations() []cluster.Tolerations { return nil }
func (y *yard) Nodes() []cluster.Node {
	if y.nodes != nil {
		return y.nodes
	}
	return []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(64000, 256<<30), Ready: true}}
}
func (y *yard) IsFresh(context.Context, time.Duration, time.Time) (bool, error) { return !y.stale, nil }

func (y *yard) Resize(_ context.Context, p *cluster.Pod, with []policy.Fitted) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.resizeErr != nil {
		return y.resizeErr
	}
	y.did = append(y.did, "resize "+p.Name)
	y.replace(p, func(q *cluster.Pod) { q.Containers[0].Requests = with[0].Requests })
	return nil
}

func (y *yard) Evict(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.evictErr != nil {
		return y.evictErr
	}
	y.did = append(y.did, "evict "+p.Name)
	y.replace(p, func(q *cluster.Pod) {
		y.serial++
		q.UID, q.Started, q.Created = fmt.Sprint("again", y.serial), time.Now(), time.Now()
		if y.admits {
			q.Containers[0].Requests = y.autoscalers[0].Advice[0].Target
		}
	})
	return nil
}

func (y *yard) replace(p *cluster.Pod, change func(*cluster.Pod)) {
	for i, old := range y.pods {
		if old.UID == p.UID {
			q := *old
			q.Containers = slices.Clone(old.Containers)
			change(&q)
			y.pods[i] = &q
		}
	}
}

func (y *yard) Annotate(_ context.Context, _ *cluster.Pod, set map[string]string, _ ...string) error {
	for k, v := range set {
		y.mu.Lock()
		y.did = append(y.did, "annotate "+k+"="+v)
		y.mu.Unlock()
	}
	return nil
}

func (y *yard) tell(s string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.told = append(y.told, s)
}
func (y *yard) Evicted(p *cluster.Pod, _ *cluster.Autoscaler) { y.tell("evicted " + p.Name) }
func (y *yard) Resized(p *cluster.Pod)                        { y.tell("resized " + p.Name) }
func (y *yard) ResizeSkipped(p *cluster.Pod)                  { y.tell("skipped " + p.Name) }
func (y *yard) Pod(p *cluster.Pod, reason, _ string)          { y.tell(reason + " " + p.Name) }
func (y *yard) Autoscaler(a *cluster.Autoscaler, reason, message string) {
	y.tell(reason + " " + a.Name + ": " + message)
}

// newYard returns a Deployment of three pods that ask for too little, in a mode.
func newYard(mode cluster.Mode) *yard {
	y := &yard{config: Defaults(), admits: true, log: slog.New(slog.DiscardHandler)}
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

// run runs an updater for a time and returns it.
func (y *yard) run(t *testing.T, d time.Duration) *updater {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d-time.Second)
	defer cancel()
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
	process.Every(ctx, y.config.Interval, u.pass)
	return u
}

func (y *yard) count(prefix string) int {
	n := 0
	for _, d := range y.did {
		if strings.HasPrefix(d, prefix) {
			n++
		}
	}
	return n
}

func TestEveryPodGetsItsSizeOnce(t *testing.T) {
	for mode, want := range map[cluster.Mode]string{cluster.Recreate: "evict", cluster.Auto: "evict", cluster.InPlaceOrRecreate: "resize"} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(mode)
				u := y.run(t, time.Hour)
				if n := y.count(want + " "); n != 3 {
					t.Errorf("%d × %s, want 3: %v", n, want, y.did)
				}
				other := map[string]string{"evict": "resize", "resize": "evict"}[want]
				if n := y.count(other + " "); n != 0 {
					t.Errorf("%d × %s", n, other)
				}
				if want == "resize" && y.count("annotate vpaInPlaceUpdated=true") != 3 {
					t.Errorf("resized pods are not marked: %v", y.did)
				}
				if want == "evict" {
					if n := testutil.ToFloat64(u.metrics.evicted.WithLabelValues("1", mode.String(), "web", "shop")); n != 3 {
						t.Errorf("counted %v evictions", n)
					}
				}
			})
		})
	}
}

func TestModesThatLeaveRunningPodsAlone(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Off, cluster.Initial, cluster.InPlace} { // InPlace: its gate is off
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(mode)
				y.run(t, time.Hour)
				if len(y.did) > 0 {
					t.Errorf("did %v", y.did)
				}
			})
		})
	}
}

// The updater changes a pod only for the autoscaler that the admission controller sizes its replacement for.
func TestUpdater_olderAutoscalerIsOff_youngerUpdatesUnlessTheOlderBoosts(t *testing.T) {
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
				y := newYard(cluster.Recreate)
				y.config.Gates = process.Gates{process.CPUStartupBoost: x.gate}
				old := *y.autoscalers[0]
				old.Name, old.Mode, old.Created = "old", cluster.Off, y.autoscalers[0].Created.Add(-time.Hour)
				if x.boost {
					old.Boost = &cluster.Boost{Factor: 2}
				}
				y.autoscalers = append(y.autoscalers, &old)
				y.run(t, time.Hour)
				if got := y.count("evict"); got != x.evictions {
					t.Errorf("%d evictions, want %d: %v", got, x.evictions, y.did)
				}
			})
		})
	}
}

func TestNothingIsDoneWhileTheAdmissionControllerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.stale = true
		u := y.run(t, 10*time.Minute)
		if len(y.did) > 0 {
			t.Errorf("did %v", y.did)
		}
		if n := testutil.ToFloat64(u.metrics.statusInvalid.WithLabelValues("invalid")); n != 10 {
			t.Errorf("counted %v passes", n)
		}
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate, cluster.InPlace} {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(mode)
			y.config.DryRun = true
			y.config.Gates = process.Gates{process.InPlaceGate: true}
			orphan := *y.pods[0]
			orphan.Name, orphan.UID, orphan.Controller, orphan.Top = "orphan", "orphan", cluster.Workload{}, cluster.Workload{}
			y.pods = append(y.pods, &orphan)
			y.run(t, 10*time.Minute)
			if len(y.did)+len(y.told) > 0 {
				t.Errorf("%v: did %v, told %v", mode, y.did, y.told)
			}
		})
	}
}

func TestADryRunSaysOnceWhatItWouldDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		y := newYard(cluster.Recreate)
		y.config.DryRun = true
		y.log = slog.New(slog.NewTextHandler(&text, nil))
		y.run(t, 10*time.Minute)
		if n := strings.Count(text.String(), "Would change a pod"); n != 1 { // at a time one of three may be evicted
			t.Errorf("said %d times:\n%s", n, text.String())
		}
		text.Reset()
		for _, a := range y.autoscalers {
			a.Mode = cluster.InPlaceOrRecreate
		}
		y.run(t, 10*time.Minute)
		if n := strings.Count(text.String(), "do=resize"); n < 1 || n > len(y.pods) {
			t.Errorf("when it would resize them, that is said %d times:\n%s", n, text.String())
		}
	})
}

func TestEvictionsThatDoNotHelpBecomeRare(t *testing.T) { // W-13, kubernetes/autoscaler#9362, #2633
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.admits = false // something resets the requests of new pods
		y.run(t, 24*time.Hour)
		if n := y.count("evict "); n < 1 || n > 24 {
			t.Errorf("%d evictions in a day of replacements that stay as they were", n)
		}
		if !slices.ContainsFunc(y.told, func(s string) bool { return strings.HasPrefix(s, "UpdateHeld web") }) {
			t.Errorf("nobody was told: %q", y.told)
		}
	})
}

func TestAResizeThatCannotBeFallsBackToEviction(t *testing.T) {
	tests := map[string]struct {
		mode   cluster.Mode
		err    error
		evicts bool
	}{
		"the node is too small":    {cluster.InPlaceOrRecreate, kube.ErrNodeCapacity, true},
		"the API server forbids":   {cluster.InPlaceOrRecreate, kube.ErrForbidden, true},
		"no resize before 1.33":    {cluster.InPlaceOrRecreate, kube.ErrUnsupported, true},
		"the server is busy":       {cluster.InPlaceOrRecreate, kube.ErrBusy, false},
		"the connection was lost":  {cluster.InPlaceOrRecreate, errors.New("connection refused"), false},
		"the pod has gone already": {cluster.InPlaceOrRecreate, kube.ErrNotFound, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(tt.mode)
				y.resizeErr = fmt.Errorf("resize: %w", tt.err)
				y.run(t, 10*time.Minute)
				if got := y.count("evict ") > 0; got != tt.evicts {
					t.Errorf("evicted: %t, did %v", got, y.did)
				}
			})
		})
	}
}

func TestTheRateLimitSpreadsEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.config.RateLimit, y.config.RateBurst = 1.0/600, 1
		y.run(t, 10*time.Minute)
		if n := y.count("evict "); n != 1 {
			t.Errorf("%d evictions in ten minutes, want 1", n)
		}
		y.run(t, time.Hour)
		if n := y.count("evict "); n != 3 {
			t.Errorf("%d evictions in the end, want 3", n)
		}
	})
}

func TestADisruptionBudgetOnlyDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.evictErr = kube.ErrBudget
		u := y.run(t, 5*time.Minute)
		if n := testutil.ToFloat64(u.metrics.evictFailed.WithLabelValues("1", "Recreate", "EvictionError", "web", "shop")); n == 0 {
			t.Error("refused evictions are not counted")
		}
		y.evictErr = nil
		y.run(t, time.Hour)
		if n := y.count("evict "); n != 3 {
			t.Errorf("%d evictions", n)
		}
	})
}

func TestAPodWithoutAnOwnerIsToldOnceAndStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.pods = append(y.pods,
			&cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "bare"}, UID: "bare", Phase: cluster.Running,
				Containers: []cluster.Container{{Name: "app"}}},
			&cluster.Pod{Key: cluster.Key{Namespace: "elsewhere", Name: "bare"}, UID: "other", Phase: cluster.Running})
		y.run(t, time.Hour)
		told := 0
		for _, s := range y.told {
			if s == "NotAutoscaled bare" {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times: %q", told, y.told)
		}
		if n := y.count("evict "); n != 3 {
			t.Errorf("%d evictions", n)
		}
	})
}
