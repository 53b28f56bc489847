// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// panickingUsage panics.
type panickingUsage struct{}

func (panickingUsage) Samples(context.Context) ([]usage.Sample, error) { panic("a defect") }

func TestTerm_passPanics_nextPassStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.autoscale("web", b.deployment("web", 1, "app"))
		r := newRecommender(b.config, b.dependencies())
		p := process.New(r.log, prometheus.NewRegistry())
		r.usage = panickingUsage{}
		passes := 0.0
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			r.term(ctx, p)
			cancel()
			passes += 2
			if n := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("recommender")); n != passes {
				t.Errorf("%v failed passes are counted, want %v", n, passes)
			}
		}
	})
}

func TestBackfillPlan_metricsAPIFailsAllTerm_nextTermReadsThatTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 1, "app")
		b.autoscale("web", web)
		a := &archive{pods: []cluster.Key{{Namespace: "shop", Name: "web-0"}}}
		r := b.from(a)
		none := func(time.Duration) {}
		b.term(r, 10*time.Minute, none)
		b.usageErr = errors.New("no connection")
		b.term(r, 5*time.Hour, none)
		had := r.usageStore.Series(web, "app").Seen(cluster.CPU).Count
		b.usageErr = nil
		b.term(r, 2*time.Minute, none)
		if got := r.usageStore.Series(web, "app").Seen(cluster.CPU).Count - had; a.queries != 2 || got < 5 {
			t.Errorf("%d more samples with %d queries, want at least 5 with 2: 5 hours were missing", got, a.queries)
		}
	})
}

// panicsOnce is a cluster whose first snapshots panic.
type panicsOnce struct {
	*bench
	left int // number of snapshots that panic
}

func (p *panicsOnce) Snapshot() *cluster.Snapshot {
	if p.left--; p.left >= 0 {
		panic("a defect")
	}
	return p.bench.Snapshot()
}

func TestTerm_backfillPanicsAtStart_passesContinueAndNothingDecreases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 2)
		r := b.from(&archive{})
		r.world = &panicsOnce{b, 1}
		b.autoscale("late", b.deployment("late", 1, "app")) // in another namespace
		late := b.autoscalers[len(b.autoscalers)-1]
		b.autoscalers = b.autoscalers[:len(b.autoscalers)-1]
		b.term(r, 10*time.Minute, func(after time.Duration) {
			if after < time.Minute {
				b.autoscalers = append(b.autoscalers, late)
			}
		})
		if b.advice("late", "app") == nil {
			t.Error("no recommendation in a namespace whose first VPA was created after the start")
		}
		if got := b.autoscalers[0].AdviceFor("app"); got == nil || got.Target != cluster.Amounts(900, 800<<20) {
			t.Errorf("the recommendation is %+v, want the old one", got)
		}
		failure := watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillFailed}
		if c := b.written[b.autoscalers[1].Key]; !says(c, failure, "internal error, which is a defect of podfit") {
			t.Errorf("conditions %+v", c)
		} else if says(c, failure, "since 0001") {
			t.Errorf("the condition names no real time: %+v", c)
		}
		b.term(r, 10*time.Minute, func(time.Duration) {})
		if n := b.backfilled("done"); n != 3 {
			t.Errorf("in the next term %d namespaces are done, want 3", n)
		}
	})
}
