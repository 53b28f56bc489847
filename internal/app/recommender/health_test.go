// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// slowWorld is a cluster with slow writes of statuses.
type slowWorld struct {
	*bench
	each time.Duration // of each write
}

func (w slowWorld) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...watcher.Condition) (bool, error) {
	time.Sleep(w.each)
	return w.bench.WriteStatus(ctx, a, adv, now, cs...)
}

func TestHealth_longPass_isHealthyWhileItProgresses(t *testing.T) {
	for name, tt := range map[string]struct {
		each      time.Duration
		unhealthy bool
	}{
		"long but progressing": {20 * time.Second, false},
		"stuck":                {24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				w := b.deployment("web", 1, "app")
				for i := range 1000 {
					b.autoscale(fmt.Sprint("web-", i), w)
				}
				p := quietProcess()
				h := p.HealthFor("recommender", b.config.Interval)
				d := b.dependencies()
				d.world = slowWorld{b, tt.each}
				d.health = h
				r := newRecommender(b.config, d)
				done := make(chan struct{})
				start := time.Now()
				go func() { r.pass(t.Context(), start); close(done) }()
				unhealthy := false
				for watching := true; watching && !unhealthy; {
					select {
					case <-done:
						watching = false
					case <-time.After(10 * time.Second):
						unhealthy = h.Problem(time.Now()) != nil
					}
				}
				if unhealthy != tt.unhealthy {
					t.Errorf("unhealthy: %t after %s, want %t", unhealthy, time.Since(start), tt.unhealthy)
				}
				if <-done; !tt.unhealthy && time.Since(start) < 10*time.Minute {
					t.Errorf("the pass took only %s", time.Since(start))
				}
				if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("recommender")); at != float64(time.Now().Unix()) {
					t.Errorf("the last complete pass was at %v, want now", at)
				}
			})
		})
	}
}

// defectiveWorld panics when one VPA is read and when another is written.
type defectiveWorld struct{ *bench }

func (w defectiveWorld) TargetProblem(a *cluster.Autoscaler) (string, bool) {
	if a.Name == "read-1" {
		panic("read")
	}
	return w.bench.TargetProblem(a)
}

func (w defectiveWorld) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...watcher.Condition) (bool, error) {
	if a.Name == "write-1" {
		panic("write")
	}
	return w.bench.WriteStatus(ctx, a, adv, now, cs...)
}

func TestRecommender_panicForOneVPA_othersGetRecommendations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		for _, name := range []string{"read-0", "read-1", "read-2", "write-0", "write-1", "write-2"} {
			b.autoscale(name, b.deployment(name, 1, "app"))
		}
		p := quietProcess()
		d := b.dependencies()
		d.world = defectiveWorld{b}
		d.health = p.HealthFor("recommender", b.config.Interval)
		r := newRecommender(b.config, d)
		process.Every(contextFor(t, 10*time.Minute), b.config.Interval, r.pass)
		for _, a := range b.autoscalers {
			if bad := strings.HasSuffix(a.Name, "-1"); bad == (len(a.Advice) > 0) {
				t.Errorf("%s: %d recommendations", a.Name, len(a.Advice))
			}
		}
		if failed := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("recommender")); failed < 20 {
			t.Errorf("%v failures in 10 passes, want at least 20", failed)
		}
	})
}

// hangingUsage is a source of usage that does not answer before a time.
type hangingUsage struct {
	*bench
	until time.Time
}

func (u hangingUsage) Samples(ctx context.Context) ([]usage.Sample, error) {
	if time.Now().Before(u.until) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return u.bench.Samples(ctx)
}

func TestRecommender_usageHangs_passesEndAndUsageIsReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		p := quietProcess()
		h := p.HealthFor("recommender", b.config.Interval)
		d := b.dependencies()
		d.source = always(hangingUsage{b, time.Now().Add(time.Hour)})
		d.health = h
		r := newRecommender(b.config, d)
		go func() {
			for range 120 {
				time.Sleep(time.Minute)
				if err := h.Problem(time.Now()); err != nil {
					t.Error(err)
				}
			}
		}()
		process.Every(contextFor(t, 30*time.Minute), b.config.Interval, r.pass)
		if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("recommender")); at != 0 {
			t.Errorf("a pass without usage counts as complete at %v", at)
		}
		process.Every(contextFor(t, 90*time.Minute), b.config.Interval, r.pass)
		if b.advice("web", "app").Target.CPU == 0 || testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("recommender")) == 0 {
			t.Error("no recommendation or no complete pass after the outage")
		}
		time.Sleep(time.Minute)
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
