// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A SnapshotGauge is a gauge vector whose values are replaced all at once. A scrape sees all values of one pass, and never
// a part of them.
type SnapshotGauge struct {
	options prometheus.GaugeOpts
	labels  []string
	current atomic.Pointer[prometheus.GaugeVec]
}

// NewSnapshotGauge returns a gauge vector without values.
func NewSnapshotGauge(options prometheus.GaugeOpts, labels ...string) *SnapshotGauge {
	g := &SnapshotGauge{options: options, labels: labels}
	g.Publish(g.Next())
	return g
}

// Next returns an empty set of values. Scrapes do not see it before it is passed to Publish.
func (g *SnapshotGauge) Next() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(g.options, g.labels)
}

// Publish replaces all values by those of next, which must come from Next.
func (g *SnapshotGauge) Publish(next *prometheus.GaugeVec) { g.current.Store(next) }

// WithLabelValues returns the published gauge with the given label values.
func (g *SnapshotGauge) WithLabelValues(values ...string) prometheus.Gauge {
	return g.current.Load().WithLabelValues(values...)
}

// Describe implements prometheus.Collector.
func (g *SnapshotGauge) Describe(ch chan<- *prometheus.Desc) { g.current.Load().Describe(ch) }

// Collect implements prometheus.Collector.
func (g *SnapshotGauge) Collect(ch chan<- prometheus.Metric) { g.current.Load().Collect(ch) }

// A Tally counts the values of a gauge in one pass, by size class and update mode.
type Tally struct {
	gauge *SnapshotGauge
	count map[[2]string]int
}

// NewTally starts to count. Values that are not counted again in this pass are removed by Publish.
func NewTally(g *SnapshotGauge) *Tally { return &Tally{gauge: g, count: map[[2]string]int{}} }

// Add adds n to the count of a size class and an update mode.
func (t *Tally) Add(size, mode string, n int) { t.count[[2]string{size, mode}] += n }

// Publish replaces the values of the gauge by the counts. If withMode is false, the gauge has no label for the update mode and
// gets a value for each size class, as in upstream.
func (t *Tally) Publish(withMode bool) {
	next := t.gauge.Next()
	if !withMode {
		for class := range maxSizeLog2 {
			next.WithLabelValues(strconv.Itoa(class)).Set(0)
		}
	}
	for k, n := range t.count {
		if withMode {
			next.WithLabelValues(k[0], k[1]).Set(float64(n))
		} else {
			next.WithLabelValues(k[0]).Set(float64(n))
		}
	}
	t.gauge.Publish(next)
}
