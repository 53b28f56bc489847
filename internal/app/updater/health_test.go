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

// slowEvictions is a fakeCluster in which an eviction takes a given time.
type slowEvictions struct {
	*fakeCluster
	each time.Duration
}

func (y slowEvictions) Evict(ctx context.Context, p *cluster.Pod) error {
	time.Sleep(y.each)
	return y.fakeCluster.Evict(ctx, p)
}

func TestHealth_evictionHangs_reportsProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		each time.Duration
		dead bool
	}{
		"answer after 50 seconds": {50 * time.Second, false},
		"no answer":               {24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(cluster.Recreate)
				p := quietProcess()
				h := p.HealthFor("updater", fake.config.Interval)
				u := newUpdater(fake.config, fake, slowEvictions{fake, tt.each}, fake, fake, NewMetrics(prometheus.NewRegistry()), h, fake.log)
				began := time.Now()
				var dead atomic.Bool
				time.AfterFunc(6*time.Minute, func() { dead.Store(h.Problem(time.Now()) != nil) })
				process.Every(contextFor(t, 5*time.Minute+30*time.Second), fake.config.Interval, u.pass)
				time.Sleep(max(0, 10*time.Minute-time.Since(began)))
				if dead.Load() != tt.dead {
					t.Errorf("unhealthy: %t, want %t", dead.Load(), tt.dead)
				}
			})
		})
	}
}

func TestUpdater_watchesAreStale_changesNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.log = slog.New(slog.NewTextHandler(&out, nil))
		p := quietProcess()
		u := newUpdater(fake.config, fake, fake, fake, fake, NewMetrics(prometheus.NewRegistry()), p.HealthFor("updater", fake.config.Interval), fake.log)
		began := time.Now()
		u.stale = func(now time.Time) []string {
			if now.Sub(began) < 10*time.Minute {
				return []string{"pods", "nodes"}
			}
			return nil
		}
		process.Every(contextFor(t, 9*time.Minute+30*time.Second), fake.config.Interval, u.pass)
		if len(fake.done) != 0 || testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)) != 10 {
			t.Errorf("actions %v, %v skipped passes, want none and 10", fake.done, testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)))
		}
		if n := strings.Count(out.String(), "Not updating pods"); n != 1 || !strings.Contains(out.String(), "resource=pods,nodes") {
			t.Errorf("logged %d times, want once with the resources: %s", n, out.String())
		}
		if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("updater")); at != 0 {
			t.Errorf("a skipped pass counts as complete at %v", at)
		}
		process.Every(contextFor(t, 10*time.Minute), fake.config.Interval, u.pass)
		if fake.count("evict") == 0 || !strings.Contains(out.String(), "up to date again") {
			t.Errorf("after the watches are current: actions %v, log %s", fake.done, out.String())
		}
		if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("updater")); at == 0 {
			t.Error("no pass counts as complete")
		}
		if warnings, recoveries := strings.Count(out.String(), "Not updating pods"), strings.Count(out.String(), "up to date again"); warnings != 1 || recoveries != 1 {
			t.Errorf("%d warnings and %d recoveries are logged, want one of each:\n%s", warnings, recoveries, out.String())
		}
		if n := testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)); n != 11 { // 10 before, and one at the beginning
			t.Errorf("%v skipped passes, want 11", n)
		}
	})
}

// panickingEvictions is a fakeCluster in which the eviction of one pod panics.
type panickingEvictions struct{ *fakeCluster }

func (y panickingEvictions) Evict(ctx context.Context, p *cluster.Pod) error {
	if strings.HasSuffix(p.Name, "0") {
		panic("during an eviction")
	}
	return y.fakeCluster.Evict(ctx, p)
}

func TestUpdater_onePodPanics_loopContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		p := quietProcess()
		u := newUpdater(fake.config, fake, panickingEvictions{fake}, fake, fake, NewMetrics(prometheus.NewRegistry()), p.HealthFor("updater", fake.config.Interval), p.Log)
		passes := 0
		process.Every(contextFor(t, 10*time.Minute), fake.config.Interval, func(ctx context.Context, now time.Time) {
			u.pass(ctx, now)
			passes++
		})
		if failed := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("updater")); passes < 10 || failed == 0 {
			t.Errorf("%d passes and %v failures, want at least 10 and 1", passes, failed)
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
