// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

func TestEvery_longRound_nextHasThePresentTimeAndMissedTicksAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute+30*time.Second)
		defer cancel()
		began := time.Now()
		var starts []time.Duration
		every(ctx, time.Minute, func(_ context.Context, now time.Time) {
			if late := time.Since(now); late != 0 {
				t.Errorf("round %d was told a time of %s ago", len(starts), late)
			}
			starts = append(starts, now.Sub(began))
			if len(starts) == 2 {
				time.Sleep(170 * time.Second) // two ticks go by
			}
		})
		want := "[0s 1m0s 4m0s 5m0s 6m0s 7m0s 8m0s 9m0s]"
		if got := fmt.Sprint(starts); got != want {
			t.Errorf("rounds began at %s, want %s", got, want)
		}
	})
}

// slowWorld takes its time for each write of a status.
type slowWorld struct {
	*bench
	each time.Duration
}

func (w slowWorld) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...kube.Condition) (bool, error) {
	time.Sleep(w.each)
	return w.bench.WriteStatus(ctx, a, adv, now, cs...)
}

func TestHealth_recommenderPass_aliveWhileItProgressesAndNotWhenItHangs(t *testing.T) {
	for name, tt := range map[string]struct {
		each time.Duration
		dead bool
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
				h := p.healthFor("recommender", b.config.Interval)
				r := newRecommender(b.config, slowWorld{b, tt.each}, b, b.storage(), newRecommenderMetrics(prometheus.NewRegistry()), h, p.log)
				done := make(chan struct{})
				began := time.Now()
				go func() { r.pass(t.Context(), began); close(done) }()
				dead := false
				for watching := true; watching && !dead; {
					select {
					case <-done:
						watching = false
					case <-time.After(10 * time.Second):
						dead = h.Problem(time.Now()) != nil
					}
				}
				if dead != tt.dead {
					t.Errorf("not alive: %t after %s, want %t", dead, time.Since(began), tt.dead)
				}
				if <-done; !tt.dead && time.Since(began) < 10*time.Minute {
					t.Errorf("the pass took only %s", time.Since(began))
				}
				if at := testutil.ToFloat64(p.metrics.lastSuccess.WithLabelValues("recommender")); at != float64(time.Now().Unix()) {
					t.Errorf("the pass was last complete at %v", at)
				}
			})
		})
	}
}

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
				h := p.healthFor("updater", y.config.Interval)
				u := newUpdater(y.config, y, slowYard{y, tt.each}, y, y, newUpdaterMetrics(prometheus.NewRegistry()), h, y.log)
				began := time.Now()
				var dead atomic.Bool
				time.AfterFunc(6*time.Minute, func() { dead.Store(h.Problem(time.Now()) != nil) })
				every(contextFor(t, 5*time.Minute+30*time.Second), y.config.Interval, u.pass)
				time.Sleep(max(0, 10*time.Minute-time.Since(began)))
				if dead.Load() != tt.dead {
					t.Errorf("not alive: %t, want %t", dead.Load(), tt.dead)
				}
			})
		})
	}
}

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestRecovering_panic_isCountedAndTheLoopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProcess(slog.New(slog.NewTextHandler(&out, nil)), prometheus.NewRegistry())
		passes := 0
		every(contextFor(t, 150*time.Second), time.Minute, p.recovering("updater", func(context.Context, time.Time) {
			if passes++; passes == 2 {
				panic("nobody expected this")
			}
		}))
		if failed := testutil.ToFloat64(p.metrics.failures.WithLabelValues("updater")); passes != 3 || failed != 1 {
			t.Errorf("%d passes, %v failures", passes, failed)
		}
		if !strings.Contains(out.String(), "nobody expected this") || !strings.Contains(out.String(), "component_test.go") {
			t.Errorf("the log does not say where: %s", out.String())
		}
	})
}

func TestUpdater_staleWatches_changesNoPodsAndSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		y := newYard(cluster.Recreate)
		y.log = slog.New(slog.NewTextHandler(&out, nil))
		p := quietProcess()
		u := newUpdater(y.config, y, y, y, y, newUpdaterMetrics(prometheus.NewRegistry()), p.healthFor("updater", y.config.Interval), y.log)
		began := time.Now()
		u.stale = func(now time.Time) []string {
			if now.Sub(began) < 10*time.Minute {
				return []string{"pods", "nodes"}
			}
			return nil
		}
		every(contextFor(t, 9*time.Minute+30*time.Second), y.config.Interval, u.pass)
		if len(y.did) != 0 || testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)) != 10 {
			t.Errorf("it did %v in %v skipped passes", y.did, testutil.ToFloat64(u.metrics.skipped.WithLabelValues(staleWatch)))
		}
		if n := strings.Count(out.String(), "Not updating pods"); n != 1 || !strings.Contains(out.String(), "resources=pods,nodes") {
			t.Errorf("said %d times: %s", n, out.String())
		}
		if at := testutil.ToFloat64(p.metrics.lastSuccess.WithLabelValues("updater")); at != 0 {
			t.Errorf("a pass was complete at %v", at)
		}
		every(contextFor(t, 10*time.Minute), y.config.Interval, u.pass)
		if y.count("evict") == 0 || !strings.Contains(out.String(), "up to date again") {
			t.Errorf("it did %v and said %s", y.did, out.String())
		}
		if at := testutil.ToFloat64(p.metrics.lastSuccess.WithLabelValues("updater")); at == 0 {
			t.Error("no pass was complete")
		}
	})
}

type fixedHealth []kube.FeedState

func (h fixedHealth) Health() []kube.FeedState { return h }

func TestWatchMetrics_tellWhenTheServerAnsweredAndWhatIsStale(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	m := newWatchMetrics(fixedHealth{{Resource: "pods", Heard: at}, {Resource: "nodes", Without: true}})
	want := `
# HELP podfit_watch_last_response_timestamp_seconds Unix time of the last response or watch event of the API server for a watched resource. A watch without changes receives a bookmark about once per minute.
# TYPE podfit_watch_last_response_timestamp_seconds gauge
podfit_watch_last_response_timestamp_seconds{resource="pods"} 1.7e+09
# HELP podfit_watch_stale 1 while a watched resource may be out of date, else 0. While a resource other than events is stale, the updater changes no pods.
# TYPE podfit_watch_stale gauge
podfit_watch_stale{resource="nodes"} 0
podfit_watch_stale{resource="pods"} 1
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// defectiveWorld panics for one autoscaler.
type defectiveWorld struct{ *bench }

func (w defectiveWorld) TargetProblem(a *cluster.Autoscaler) (string, bool) {
	if a.Name == "read-1" {
		panic("while it is looked at")
	}
	return w.bench.TargetProblem(a)
}

func (w defectiveWorld) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...kube.Condition) (bool, error) {
	if a.Name == "write-1" {
		panic("while it is written")
	}
	return w.bench.WriteStatus(ctx, a, adv, now, cs...)
}

func TestRecommender_panicForOneAutoscaler_othersAreAdvised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		for _, name := range []string{"read-0", "read-1", "read-2", "write-0", "write-1", "write-2"} {
			b.autoscale(name, b.deployment(name, 1, "app"))
		}
		p := quietProcess()
		r := newRecommender(b.config, defectiveWorld{b}, b, b.storage(), newRecommenderMetrics(prometheus.NewRegistry()),
			p.healthFor("recommender", b.config.Interval), p.log)
		every(contextFor(t, 10*time.Minute), b.config.Interval, r.pass)
		for _, a := range b.autoscalers {
			if bad := strings.HasSuffix(a.Name, "-1"); bad == (len(a.Advice) > 0) {
				t.Errorf("%s: %d recommendations", a.Name, len(a.Advice))
			}
		}
		if failed := testutil.ToFloat64(p.metrics.failures.WithLabelValues("recommender")); failed < 20 {
			t.Errorf("%v failures in 10 passes", failed)
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
		u := newUpdater(y.config, y, defectiveYard{y}, y, y, newUpdaterMetrics(prometheus.NewRegistry()), p.healthFor("updater", y.config.Interval), p.log)
		passes := 0
		every(contextFor(t, 10*time.Minute), y.config.Interval, func(ctx context.Context, now time.Time) {
			u.pass(ctx, now)
			passes++
		})
		if failed := testutil.ToFloat64(p.metrics.failures.WithLabelValues("updater")); passes < 10 || failed == 0 {
			t.Errorf("%d passes, %v failures", passes, failed)
		}
	})
}

// hangingUsage does not answer for a while.
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

func TestRecommender_metricsHang_passesEndAndGoOnWhenTheyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		p := quietProcess()
		h := p.healthFor("recommender", b.config.Interval)
		r := newRecommender(b.config, b, hangingUsage{b, time.Now().Add(time.Hour)}, b.storage(), newRecommenderMetrics(prometheus.NewRegistry()), h, p.log)
		go func() {
			for range 120 {
				time.Sleep(time.Minute)
				if err := h.Problem(time.Now()); err != nil {
					t.Error(err)
				}
			}
		}()
		every(contextFor(t, 30*time.Minute), b.config.Interval, r.pass)
		if at := testutil.ToFloat64(p.metrics.lastSuccess.WithLabelValues("recommender")); at != 0 {
			t.Errorf("a pass without usage was complete at %v", at)
		}
		every(contextFor(t, 90*time.Minute), b.config.Interval, r.pass)
		if b.advice("web", "app").Target.CPU == 0 || testutil.ToFloat64(p.metrics.lastSuccess.WithLabelValues("recommender")) == 0 {
			t.Error("nothing was learnt after the outage")
		}
		time.Sleep(time.Minute)
	})
}
