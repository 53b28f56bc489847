// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/edge/kube"
)

// processMetrics are the metrics that every long-running command has.
type processMetrics struct {
	leading     prometheus.Gauge
	transitions prometheus.Counter
	lastSuccess *prometheus.GaugeVec
	failures    *prometheus.CounterVec
}

func newProcessMetrics(reg prometheus.Registerer) processMetrics {
	m := processMetrics{
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "leader", Help: "1 while this process is the leader, else 0. Always 1 without --leader-elect.",
		}),
		transitions: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "podfit", Name: "leader_transitions_total", Help: "Number of times that this process started or stopped leading.",
		}),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "pass_last_success_timestamp_seconds",
			Help: "Unix time of the last complete pass of a loop. A recommender pass without usage data and an updater pass that was skipped or stopped early do not count.",
		}, []string{"loop"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podfit", Name: "pass_failures_total", Help: "Number of passes that ended with an internal error, plus number of objects that were skipped because of an internal error.",
		}, []string{"loop"}),
	}
	reg.MustRegister(m.leading, m.transitions, m.lastSuccess, m.failures)
	return m
}

// watchMetrics reads the state of each watch when it is asked for.
type watchMetrics struct {
	world               interface{ Health() []kube.FeedState }
	lastResponse, stale *prometheus.Desc
}

// newWatchMetrics returns the metrics of the watches of a world.
func newWatchMetrics(world interface{ Health() []kube.FeedState }) *watchMetrics {
	return &watchMetrics{
		world: world,
		lastResponse: prometheus.NewDesc("podfit_watch_last_response_timestamp_seconds",
			"Unix time of the last response or watch event of the API server for a watched resource. A watch without changes receives a bookmark about once per minute.",
			[]string{"resource"}, nil),
		stale: prometheus.NewDesc("podfit_watch_stale",
			"1 while a watched resource may be out of date, else 0. While a resource other than events is stale, the updater changes no pods.", []string{"resource"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *watchMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.lastResponse; ch <- m.stale }

// Collect implements prometheus.Collector.
func (m *watchMetrics) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, s := range m.world.Health() {
		if !s.Heard.IsZero() {
			ch <- prometheus.MustNewConstMetric(m.lastResponse, prometheus.GaugeValue, float64(s.Heard.UnixMilli())/1000, s.Resource)
		}
		stale := 0.0
		if s.IsStale(now) {
			stale = 1
		}
		ch <- prometheus.MustNewConstMetric(m.stale, prometheus.GaugeValue, stale, s.Resource)
	}
}
