// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// History is kept for 8 days after the last sample, and what a profile remembers for one more.
func TestRecommender_DeletedAutoscalers_LeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config.Interval = 30 * time.Minute
		b.use["app"] = cluster.Amounts(100, 50<<20)
		const workloads = 500
		for i := range workloads {
			name := fmt.Sprint("web-", i)
			b.autoscale(name, b.deployment(name, 1, "app")).Recommender = []string{"", "balanced", "busy-hours"}[i%3]
		}
		reg := prometheus.NewRegistry()
		d := b.dependencies()
		d.metrics = NewMetrics(reg)
		r := newRecommender(b.config, d)
		began, before := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 11*24*time.Hour)
		defer cancel()
		process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
			r.pass(ctx, now)
			if _, n := r.usageStore.Size(); now.Sub(began) < 4*time.Hour && n != workloads {
				t.Errorf("%d histories of %d workloads", n, workloads)
			}
			if now.Sub(began) == 4*time.Hour {
				_, before = seriesOf(t, reg)
				b.autoscalers, b.pods = b.autoscalers[:1], b.pods[:1]
			}
		})
		if pods, n := r.usageStore.Size(); pods != 1 || n != 1 {
			t.Errorf("%d pods and %d histories are left", pods, n)
		}
		if _, after := seriesOf(t, reg); after > before {
			t.Errorf("%d series, before the deletion %d", after, before)
		}
		k := r.checkpointer
		for what, n := range map[string]int{
			"stored times": len(k.saved), "checkpoints that wait": len(k.waiting), "histories that wait": len(k.remembered),
			"targets of checkpoints": len(k.storedOf), "forgotten": len(k.gone), "model states": r.workloads.Len(),
			"recommended": len(r.advisedFor), "tracked": len(r.tracked), "governed": len(r.governed), "checkpoints": len(b.stored), "histories": len(b.remembered.stored),
		} {
			if n > 1 {
				t.Errorf("%s: %d are left", what, n)
			}
		}
	})
}

// seriesOf returns how many series of a registry have an autoscaler's name, and how many there are in all.
func seriesOf(t *testing.T, reg *prometheus.Registry) (named, all int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all++
			for _, l := range m.GetLabel() {
				if l.GetName() == "vpa_name" {
					named++
				}
			}
		}
	}
	return named, all
}
