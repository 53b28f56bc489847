// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// History is kept for 8 days after the last sample, and model state for one more day.
func TestRecommender_deletedVPAs_leaveNothing(t *testing.T) {
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
		start := time.Now()
		before := 0
		ctx, cancel := context.WithTimeout(t.Context(), 11*24*time.Hour)
		defer cancel()
		process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
			r.pass(ctx, now)
			if _, n := r.usageStore.Size(); now.Sub(start) < 4*time.Hour && n != workloads {
				t.Errorf("%d histories, want one for each of %d workloads", n, workloads)
			}
			if now.Sub(start) == 4*time.Hour {
				before = seriesOf(t, reg)
				b.autoscalers, b.pods = b.autoscalers[:1], b.pods[:1]
			}
		})
		if pods, n := r.usageStore.Size(); pods != 1 || n != 1 {
			t.Errorf("%d pods and %d histories remain, want 1 and 1", pods, n)
		}
		if after := seriesOf(t, reg); after > before {
			t.Errorf("%d metric series, before the deletion %d", after, before)
		}
		sizes := map[string]int{
			"model states": len(r.workloads), "recommended": len(r.advisedFor), "released": len(r.released), "tracked": len(r.tracked), "governed": len(r.governed),
			"checkpoints": len(b.stored), "histories": len(b.remembered.stored),
		}
		for field, value := range reflect.ValueOf(r.checkpointer).Elem().Fields() {
			if value.Kind() == reflect.Map {
				sizes["checkpointer."+field.Name] = value.Len()
			}
		}
		if len(sizes) < 10 {
			t.Errorf("sizes %v, want the sizes of the maps of the checkpointer too", sizes)
		}
		for what, n := range sizes {
			if n > 1 {
				t.Errorf("%s: %d remain, want at most 1", what, n)
			}
		}
	})
}

// seriesOf returns the number of series of a registry.
func seriesOf(t *testing.T, reg *prometheus.Registry) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}
