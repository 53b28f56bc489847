// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A completeGauge is a gauge whose values are replaced together. A scrape gets all values of one replacement, never values of
// two. A GaugeVec whose values are set one by one, or reset first, does not have this property.
type completeGauge struct {
	desc   *prometheus.Desc
	values atomic.Pointer[[]prometheus.Metric]
}

func newCompleteGauge(opts prometheus.GaugeOpts, labels ...string) *completeGauge {
	name := prometheus.BuildFQName(opts.Namespace, opts.Subsystem, opts.Name)
	return &completeGauge{desc: prometheus.NewDesc(name, opts.Help, labels, opts.ConstLabels)}
}

// value returns one value of the gauge. The label values are in the order of the labels.
func (g *completeGauge) value(v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v, labels...)
}

// replace replaces all values of the gauge. The caller does not change values afterwards.
func (g *completeGauge) replace(values []prometheus.Metric) { g.values.Store(&values) }

// Describe implements prometheus.Collector.
func (g *completeGauge) Describe(descs chan<- *prometheus.Desc) { descs <- g.desc }

// Collect implements prometheus.Collector.
func (g *completeGauge) Collect(metrics chan<- prometheus.Metric) {
	values := g.values.Load()
	if values == nil {
		return // nothing is published yet
	}
	for _, v := range *values {
		metrics <- v
	}
}
