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

// seriesOf returns the number of series that have the name of an autoscaler.
func seriesOf(t *testing.T, reg *prometheus.Registry) (named int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "vpa_name" {
					named++
				}
			}
		}
	}
	return named
}

func TestUpdater_autoscalersAreDeleted_theirSeriesAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.autoscalers[0].Advice[0].Lower = cluster.Resources{}
		a, p := fake.autoscalers[0], fake.pods[0]
		fake.autoscalers, fake.pods = nil, nil
		for i := range 500 {
			b, q := *a, *p
			b.Name, b.UID = fmt.Sprint("web-", i), fmt.Sprint("vpa-", i)
			b.Target.Name = b.Name
			q.Name, q.UID, q.Top.Name, q.Controller.Name = b.Name+"-0", b.Name+"-0", b.Name, b.Name+"-1"
			fake.autoscalers, fake.pods = append(fake.autoscalers, &b), append(fake.pods, &q)
		}
		reg := prometheus.NewRegistry()
		u := newUpdater(fake.config, fake, fake, fake, fake, NewMetrics(reg), process.NewHealth(time.Hour), fake.log)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		process.Every(ctx, fake.config.Interval, func(ctx context.Context, now time.Time) {
			u.pass(ctx, now)
			if len(fake.autoscalers) > 1 {
				if named := seriesOf(t, reg); named < 1000 {
					t.Errorf("%d series of 500 autoscalers, want at least 1000", named)
				}
				fake.autoscalers, fake.pods = fake.autoscalers[:1], fake.pods[:1]
			}
		})
		if named := seriesOf(t, reg); named != 2 {
			t.Errorf("%d series remain, want the 2 of the remaining autoscaler", named)
		}
		if n := len(u.metrics.byAutoscaler.seen); n != 1 {
			t.Errorf("state is kept for %d autoscalers, want 1", n)
		}
	})
}
