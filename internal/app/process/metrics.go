// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/edge/kube/feed"
)

// Metrics are the metrics that every long-running command has.
type Metrics struct {
	Leading     prometheus.Gauge
	Transitions prometheus.Counter
	LastSuccess *prometheus.GaugeVec
	Failures    *prometheus.CounterVec
}

// NewMetrics registers the metrics of a process.
func NewMetrics(reg prometheus.Registerer) Metrics {
	m := Metrics{
		Leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "leader", Help: "1 while this process is the leader, else 0. Always 1 without --leader-elect.",
		}),
		Transitions: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "podfit", Name: "leader_transitions_total", Help: "Number of times that this process started or stopped leading.",
		}),
		LastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "pass_last_success_timestamp_seconds",
			Help: "Unix time of the last complete pass of a loop. A recommender pass without usage data and an updater pass that was skipped or stopped early do not count.",
		}, []string{"loop"}),
		Failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podfit", Name: "pass_failures_total", Help: "Number of passes that ended with an internal error, plus number of objects that were skipped because of an internal error.",
		}, []string{"loop"}),
	}
	reg.MustRegister(m.Leading, m.Transitions, m.LastSuccess, m.Failures)
	return m
}

// WatchMetrics reads the state of each watch when it is asked for.
type WatchMetrics struct {
	world               interface{ Health() []feed.State }
	lastResponse, stale *prometheus.Desc
}

// NewWatchMetrics returns the metrics of the watches of a world.
func NewWatchMetrics(world interface{ Health() []feed.State }) *WatchMetrics {
	return &WatchMetrics{
		world: world,
		lastResponse: prometheus.NewDesc("podfit_watch_last_response_timestamp_seconds",
			"Unix time of the last response or watch event of the API server for a watched resource. A watch without changes receives a bookmark about once per minute.",
			[]string{"resource"}, nil),
		stale: prometheus.NewDesc("podfit_watch_stale",
			"1 while a watched resource may be out of date, else 0. While a resource other than events is stale, the updater changes no pods.", []string{"resource"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *WatchMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.lastResponse; ch <- m.stale }

// Collect implements prometheus.Collector.
func (m *WatchMetrics) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, s := range m.world.Health() {
		if !s.LastResponse.IsZero() {
			ch <- prometheus.MustNewConstMetric(m.lastResponse, prometheus.GaugeValue, float64(s.LastResponse.UnixMilli())/1000, s.Resource)
		}
		stale := 0.0
		if s.IsStale(now) {
			stale = 1
		}
		ch <- prometheus.MustNewConstMetric(m.stale, prometheus.GaugeValue, stale, s.Resource)
	}
}
