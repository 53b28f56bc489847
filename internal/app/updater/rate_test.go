// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// reasonsOf runs one pass and returns the number of decisions with each reason.
func reasonsOf(ctx context.Context, u *updater) map[decision.ReasonCode]int {
	reasons := map[decision.ReasonCode]int{}
	for _, d := range u.update(ctx, time.Now()) {
		reasons[d.Reason.Code]++
	}
	return reasons
}

// addInPlace adds three pods of another workload, whose VPA resizes in place.
func (y *fakeCluster) addInPlace() {
	other := newFakeCluster(cluster.InPlaceOrRecreate)
	for _, p := range other.pods {
		p.Name, p.UID, p.Top.Name, p.Controller.Name = "api-"+p.UID, "api"+p.UID, "api", "api-1"
	}
	other.autoscalers[0].Name, other.autoscalers[0].Target.Name = "api", "api"
	y.pods = append(y.pods, other.pods...)
	y.autoscalers = append(y.autoscalers, other.autoscalers...)
}

func TestUpdater_rateLimitOfEvictionsIsReached_resizesHaveTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.addInPlace()
		fake.config.RateLimit, fake.config.RateBurst, fake.config.Budget.Tolerance = 1.0/3600, 2, 1
		u := updaterOf(fake, fake)
		reasons := reasonsOf(t.Context(), u)
		if evictions, resizes := fake.count("evict "), fake.count("resize "); evictions != 2 || resizes != 2 {
			t.Errorf("%d evictions and %d resizes, want a burst of 2 of each: %v", evictions, resizes, fake.done)
		}
		if reasons[decision.RateLimited] != 1 {
			t.Errorf("decisions by reason: %v, want 1 resize that is rate limited", reasons)
		}
	})
}

// The metric counts that a pass has reached the limit, and not each pod that has to wait.
func TestUpdater_rateLimitIsReached_isCountedOncePerPass(t *testing.T) {
	for mode, failures := range map[cluster.Mode]func(*Metrics) float64{
		cluster.Recreate: func(m *Metrics) float64 {
			return testutil.ToFloat64(m.evictFailed.WithLabelValues("1", "Recreate", "EvictionRateLimiterWaitFailed", "web", "shop"))
		},
		cluster.InPlaceOrRecreate: func(m *Metrics) float64 {
			return testutil.ToFloat64(m.resizeFailed.WithLabelValues("1", "InPlaceUpdateRateLimiterWaitFailed", "web", "shop"))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(mode)
			fake.config.RateLimit, fake.config.RateBurst, fake.config.Budget.Tolerance = 1.0/3600, 1, 1
			u := updaterOf(fake, fake)
			u.pass(t.Context(), time.Now())
			if got := failures(u.metrics); got != 1 || len(fake.done) == 0 {
				t.Errorf("%v: counted %v times, want once; actions %v", mode, got, fake.done)
			}
		})
	}
}

// An action that the limit allows shortly before the pass ends would be interrupted.
func TestUpdater_rateLimitAllowsNextActionTooLate_leavesItToTheNextPass(t *testing.T) {
	for seconds, want := range map[float64]int{45: 2, 55: 1} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config.RateLimit, fake.config.RateBurst, fake.config.Budget.Tolerance = 1/seconds, 1, 1
			updaterOf(fake, fake).pass(t.Context(), time.Now())
			if got := fake.count("evict "); got != want {
				t.Errorf("one eviction per %v s: %d evictions in a pass of one minute, want %d", seconds, got, want)
			}
		})
	}
}

func TestUpdater_rateLimitIsZeroOrNegative_isNoLimit(t *testing.T) {
	for _, limit := range []float64{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config.RateLimit, fake.config.RateBurst, fake.config.Budget.Tolerance = limit, 0, 1
			updaterOf(fake, fake).pass(t.Context(), time.Now())
			if got := fake.count("evict "); got != 2 {
				t.Errorf("limit %v: %d evictions, want 2", limit, got)
			}
		})
	}
}

func TestUpdater_processStops_changesNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config.Budget.Tolerance = 1
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		p := quietProcess()
		u := updaterOf(fake, fake)
		u.health = p.HealthFor("updater", time.Minute)
		reasons := reasonsOf(ended, u)
		if at := testutil.ToFloat64(p.Metrics.LastSuccess.WithLabelValues("updater")); at != 0 {
			t.Errorf("an interrupted pass counts as complete at %v", at)
		}
		if len(fake.done) > 0 || reasons[decision.OutOfTime] != 3 {
			t.Errorf("actions %v, decisions by reason: %v; want no action, and 3 decisions that are out of time", fake.done, reasons)
		}
	})
}

// A refused eviction has no other action in its place.
func TestUpdater_evictionIsRefused_isNoInternalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		server.answer = func(string, *cluster.Pod) (int, string) { return guarded() }
		u := server.work(t, time.Minute)
		p := quietProcess()
		u.health = p.HealthFor("updater", time.Minute)
		u.ledger = ledger.New()
		u.pass(t.Context(), time.Now())
		if n := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("updater")); n != 0 {
			t.Errorf("%v pods were skipped because of an internal error, want 0", n)
		}
		if server.attempts["evict web-0"] == 0 {
			t.Errorf("attempts %v, want an eviction of web-0", server.attempts)
		}
	})
}

// countingScales is a fakeCluster that counts the reads of scales.
type countingScales struct {
	*fakeCluster
	reads map[cluster.Workload]int
}

func (c countingScales) Scale(w cluster.Workload) cluster.Scale {
	c.reads[w]++
	return c.fakeCluster.Scale(w)
}

func TestUpdater_severalPodsOfOneController_scaleIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := countingScales{newFakeCluster(cluster.Recreate), map[cluster.Workload]int{}}
		controller := fake.pods[0].Controller
		u := newUpdater(fake.config, fake, fake, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
		u.pass(t.Context(), time.Now())
		if len(fake.reads) != 1 || fake.reads[controller] != 1 {
			t.Errorf("reads of scales: %v, want one of %v", fake.reads, controller)
		}
	})
}
