// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

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
		u := newUpdater(y.config, y, y, y, y, NewMetrics(reg), process.NewHealth(time.Hour), y.log)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		process.Every(ctx, y.config.Interval, func(ctx context.Context, now time.Time) {
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
