// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// scrapingRecorder scrapes the metrics whenever an event is written, which includes the time in which a pass reports its
// decisions.
type scrapingRecorder struct {
	*fakeCluster
	scrape func()
}

func (r *scrapingRecorder) Autoscaler(a *cluster.Autoscaler, reason, message string) {
	r.scrape()
	r.fakeCluster.Autoscaler(a, reason, message)
}

// countedPods returns the number of pods in podfit_updater_decisions.
func countedPods(t *testing.T, reg *prometheus.Registry) (pods float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "podfit_updater_decisions" {
				pods += m.GetGauge().GetValue()
			}
		}
	}
	return pods
}

func TestMetrics_scrapeWhileAPassReports_decisionsAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		server.answer = func(string, *cluster.Pod) (int, string) { return guarded() }
		server.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(200, 100<<20), Ready: true}}
		reg := prometheus.NewRegistry()
		recorder := &scrapingRecorder{fakeCluster: server.fakeCluster}
		u := newUpdater(server.config, server, server, recorder, server, NewMetrics(reg), process.NewHealth(time.Hour), server.log)
		scrapes := 0
		recorder.scrape = func() {
			scrapes++
			if got := countedPods(t, reg); got != 3 {
				t.Errorf("a scrape during the pass counts %v pods, want 3", got)
			}
		}
		u.pass(t.Context(), time.Now())
		if scrapes == 0 {
			t.Error("the pass wrote no event, so nothing was scraped")
		}
		if got := countedPods(t, reg); got != 3 {
			t.Errorf("after the pass %v pods are counted, want 3", got)
		}
	})
}
