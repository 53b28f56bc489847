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
			Namespace: "podfit", Name: "leader", Help: "1 while this process does the work of the leader, 0 while it stands by. Without --leader-elect it is 1.",
		}),
		transitions: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "podfit", Name: "leader_transitions_total", Help: "Number of times that this process began or ended the work of the leader.",
		}),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "pass_last_success_timestamp_seconds",
			Help: "Unix time at which a loop last completed a pass. A recommender pass without usage data, and an updater pass that was left out or cut short, is not complete.",
		}, []string{"loop"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podfit", Name: "pass_failures_total", Help: "Number of passes that an internal error ended, and of objects that were skipped because of one.",
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
			"Unix time at which the API server last answered or sent something for a watched resource. A watch without changes gets a bookmark about once a minute.",
			[]string{"resource"}, nil),
		stale: prometheus.NewDesc("podfit_watch_stale",
			"1 while a watched resource is not known to be up to date, else 0. While one other than events is stale, the updater changes no pods.", []string{"resource"}, nil),
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
