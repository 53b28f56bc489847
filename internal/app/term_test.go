// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

type panicking struct{}

func (panicking) Samples(context.Context) ([]usage.Sample, error) { panic("a defect") }

func TestTerm_passPanics_nextPassStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.autoscale("web", b.deployment("web", 1, "app"))
		r := newRecommender(b.config, b, b, b.storage(), newRecommenderMetrics(prometheus.NewRegistry()), NewHealth(time.Hour), slog.New(slog.DiscardHandler))
		r.profiles.source = b
		p := newProcess(r.log, prometheus.NewRegistry())
		r.usage = panicking{}
		passes := 0.0
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			r.term(ctx, p)
			passes += 2
			if n := testutil.ToFloat64(p.metrics.failures.WithLabelValues("recommender")); n != passes {
				t.Errorf("%v failed passes were counted, want %v", n, passes)
			}
		}
	})
}

func TestBackfillPlan_termsWithoutPass_asksForEachTimeOnce(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b := newBench(t)
	b.autoscale("web", b.deployment("web", 1, "app"))
	f := b.from(&archive{}).backfill
	f.plan(start, b.autoscalers)
	f.plan(start.Add(time.Hour), b.autoscalers)
	jobs := f.plan(start.Add(2*time.Hour), b.autoscalers)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	until := start.Add(-f.source.Length())
	for _, s := range jobs[0].missing {
		if s.from.Before(until) {
			t.Errorf("%v is asked for twice: %v", s, jobs[0].missing)
		}
		until = s.to
	}
	if want := start.Add(2 * time.Hour); !until.Equal(want) {
		t.Errorf("asked for until %v, want %v: %v", until, want, jobs[0].missing)
	}
}

func TestBackfillPlan_metricsAPIAwayAllTerm_nextTermReadsThatTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 1, "app")
		b.autoscale("web", web)
		a := &archive{pods: []cluster.Key{{Namespace: "shop", Name: "web-0"}}}
		r := b.from(a)
		none := func(time.Duration) {}
		b.term(r, 10*time.Minute, none)
		b.usageErr = errors.New("away")
		b.term(r, 5*time.Hour, none)
		had := r.book.Series(web, "app").Seen(cluster.CPU).Count
		b.usageErr = nil
		b.term(r, 2*time.Minute, none)
		if got := r.book.Series(web, "app").Seen(cluster.CPU).Count - had; a.queries != 2 || got < 5 {
			t.Errorf("%d samples more after %d queries; 5 hours are missing", got, a.queries)
		}
	})
}

// The monotonic clock stands still while a machine is suspended: it would hide the time without a leader.
func TestBackfill_learntTo_isWallClockTime(t *testing.T) {
	b := newBench(t)
	b.autoscale("web", b.deployment("web", 1, "app"))
	r := b.from(&archive{})
	now := time.Now()
	r.backfill.plan(now, b.autoscalers)
	if got := r.backfill.learntTo; got != now.Round(0) {
		t.Errorf("it is %v", got)
	}
	r.pass(t.Context(), now)
	if got := r.backfill.learntTo; got != now.Round(0) {
		t.Errorf("after a pass it is %v", got)
	}
}
