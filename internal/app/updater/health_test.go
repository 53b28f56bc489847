// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// slowYard takes its time for each eviction.
type slowYard struct {
	*yard
	each time.Duration
}

func (y slowYard) Evict(ctx context.Context, p *cluster.Pod) error {
	time.Sleep(y.each)
	return y.yard.Evict(ctx, p)
}

func TestHealth_updaterPass_deadWhenAnEvictionHangs(t *testing.T) {
	for name, tt := range map[string]struct {
		each time.Duration
		dead bool
	}{
		"an answer in time": {50 * time.Second, false},
		"no answer":         {24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(cluster.Recreate)
				p := quietProcess()
				h := p.HealthFor("updater", y.config.Interval)
				u := newUpdater(y.config, y, slowYard{y, tt.each}, y, y, NewMetrics(prometheus.NewRegistry()), h, y.log)
				began := time.Now()
				var dead atomic.Bool
				time.AfterFunc(6*time.Minute, func() { dead.Store(h.Problem(time.Now()) != nil) })
				process.Every(contextFor(t, 5*time.Minute+30*time.Second), y.config.Interval, u.pass)
				time.Sleep(max(0, 10*time.Minute-time.Since(began)))
				if dead.Load() != tt.dead {
					t.Errorf("not alive: %t, want %t", dead.Load(), tt.dead)
				}
			})
		})
	}
}

func TestUpdater_staleWatches_changesNoPodsAndSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		y := newYard(cluster.Recreate)
		y.log = slog.New(slog.NewTextHandler(&out, nil))
		p := quietProcess()
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), p.HealthFor("updater", y.config.Interval), y.log)
		began := time.Now()
		u.stale = func(now time.Time) []string {
			if now.Sub(began) < 10*time.Minute {
				return []string{"pods", "nodes"}
			}
			return nil
		}
		process.Every(contextFor(t, 9*time.Minute+30*time.Second), y.config.Interval, u.pass)
		if len(y.did) != 0 || testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)) != 10 {
			t.Errorf("it did %v in %v skipped passes", y.did, testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)))
		}
		if n := strings.Count(out.String(), "Not updating pods"); n != 1 || !strings.Contains(out.String(), "resources=pods,nodes") {
			t.Errorf("said %d times: %s", n, out.String())
		}
		if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("updater")); at != 0 {
			t.Errorf("a pass was complete at %v", at)
		}
		process.Every(contextFor(t, 10*time.Minute), y.config.Interval, u.pass)
		if y.count("evict") == 0 || !strings.Contains(out.String(), "up to date again") {
			t.Errorf("it did %v and said %s", y.did, out.String())
		}
		if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("updater")); at == 0 {
			t.Error("no pass was complete")
		}
	})
}

// defectiveYard panics when it is to evict one of the pods.
type defectiveYard struct{ *yard }

func (y defectiveYard) Evict(ctx context.Context, p *cluster.Pod) error {
	if strings.HasSuffix(p.Name, "0") {
		panic("while it is evicted")
	}
	return y.yard.Evict(ctx, p)
}

func TestUpdater_panicForOnePod_thePassEndsAndTheLoopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		p := quietProcess()
		u := newUpdater(y.config, y, defectiveYard{y}, y, y, NewMetrics(prometheus.NewRegistry()), p.HealthFor("updater", y.config.Interval), p.Log)
		passes := 0
		process.Every(contextFor(t, 10*time.Minute), y.config.Interval, func(ctx context.Context, now time.Time) {
			u.pass(ctx, now)
			passes++
		})
		if failed := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("updater")); passes < 10 || failed == 0 {
			t.Errorf("%d passes, %v failures", passes, failed)
		}
	})
}

// quietProcess returns a process that logs nothing.
func quietProcess() *process.Process {
	return process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
