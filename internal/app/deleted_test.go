// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
)

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

func TestUpdater_DeletedAutoscalers_LeaveNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.autoscalers[0].Advice[0].Lower = cluster.Resources{}
		a, p := y.autoscalers[0], y.pods[0]
		y.autoscalers, y.pods = nil, nil
		for i := range 500 {
			b, q := *a, *p
			b.Name, b.UID = fmt.Sprint("web-", i), fmt.Sprint("vpa-", i)
			b.Target.Name = b.Name
			q.Name, q.UID, q.Top.Name, q.Controller.Name = b.Name+"-0", b.Name+"-0", b.Name, b.Name+"-1"
			y.autoscalers, y.pods = append(y.autoscalers, &b), append(y.pods, &q)
		}
		reg := prometheus.NewRegistry()
		u := newUpdater(y.config, y, y, y, y, newUpdaterMetrics(reg), NewHealth(time.Hour), y.log)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		every(ctx, y.config.Interval, func(ctx context.Context, now time.Time) {
			u.pass(ctx, now)
			if len(y.autoscalers) > 1 {
				if named, _ := seriesOf(t, reg); named < 1000 {
					t.Errorf("%d series of 500 autoscalers", named)
				}
				y.autoscalers, y.pods = y.autoscalers[:1], y.pods[:1]
			}
		})
		if named, _ := seriesOf(t, reg); named != 2 {
			t.Errorf("%d series are left, want the 2 of the one that is left", named)
		}
		if n := len(u.metrics.byAutoscaler.seen); n != 1 {
			t.Errorf("%d autoscalers are remembered", n)
		}
	})
}

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
		r := newRecommender(b.config, b, b, b.storage(), newRecommenderMetrics(reg), NewHealth(time.Hour), slog.New(slog.DiscardHandler))
		r.profiles.source, r.profiles.nodes = b, b
		began, before := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 11*24*time.Hour)
		defer cancel()
		every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
			r.pass(ctx, now)
			if _, n := r.book.Size(); now.Sub(began) < 4*time.Hour && n != workloads {
				t.Errorf("%d histories of %d workloads", n, workloads)
			}
			if now.Sub(began) == 4*time.Hour {
				_, before = seriesOf(t, reg)
				b.autoscalers, b.pods = b.autoscalers[:1], b.pods[:1]
			}
		})
		if pods, n := r.book.Size(); pods != 1 || n != 1 {
			t.Errorf("%d pods and %d histories are left", pods, n)
		}
		if _, after := seriesOf(t, reg); after > before {
			t.Errorf("%d series, before the deletion %d", after, before)
		}
		k, p := r.keeper, r.profiles
		for what, n := range map[string]int{
			"stored times": len(k.saved), "checkpoints that wait": len(k.waiting), "histories that wait": len(k.remembered),
			"targets of checkpoints": len(k.storedOf), "forgotten": len(k.gone), "chosen profiles": len(p.chosen), "left": len(p.left), "held": len(p.held), "bounds": len(p.most),
			"recommended": len(r.advisedFor), "tracked": len(r.tracked), "governed": len(r.governed), "checkpoints": len(b.stored), "histories": len(b.remembered.stored),
		} {
			if n > 1 {
				t.Errorf("%s: %d are left", what, n)
			}
		}
	})
}
