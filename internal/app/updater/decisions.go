// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/plan"
)

// decisionGauge serves the number of pods in the last pass, by action and reason. A pass replaces all values at once, so that a
// scrape always gets the values of one whole pass.
type decisionGauge struct {
	desc   *prometheus.Desc
	counts atomic.Pointer[map[intent]int]
}

func newDecisionGauge() *decisionGauge {
	return &decisionGauge{desc: prometheus.NewDesc("podfit_updater_decisions", "Number of pods in the last pass, by decision and reason.",
		[]string{"act", "reason"}, nil)}
}

// publish replaces the values by those of a pass.
func (g *decisionGauge) publish(decisions []plan.Decision) {
	counts := map[intent]int{}
	for i := range decisions {
		counts[intent{decisions[i].Do, decisions[i].Reason.Code}]++
	}
	g.counts.Store(&counts)
}

// Describe implements prometheus.Collector.
func (g *decisionGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g *decisionGauge) Collect(out chan<- prometheus.Metric) {
	counts := g.counts.Load()
	if counts == nil {
		return
	}
	for key, n := range *counts {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n), key.do.String(), key.code.String())
	}
}
