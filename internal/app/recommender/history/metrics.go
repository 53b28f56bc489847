// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
)

// Metrics are the metrics of loading and storing usage history. Those that upstream has keep upstream's names.
type Metrics struct {
	checkpoints *prometheus.CounterVec
	modelStates *prometheus.CounterVec
	namespaces  *process.SnapshotGauge   // of the backfill
	requests    *prometheus.CounterVec   // to Prometheus
	durations   *prometheus.HistogramVec // of requests to Prometheus
}

// NewMetrics registers the metrics of loading and storing usage history.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		checkpoints: process.NewCounter(reg, "podfit_recommender", "checkpoint_writes_total", "Number of checkpoint writes, by outcome.", "outcome"),
		modelStates: process.NewCounter(reg, "podfit_recommender", "history_writes_total", "Number of writes of UsageHistory objects, by outcome.", "outcome"),
		namespaces: process.NewSnapshotGauge(prometheus.GaugeOpts{
			Namespace: "podfit_recommender", Name: "history_backfill_namespaces",
			Help: "With --storage=prometheus: number of namespaces by the state of their backfill: pending, incomplete or done.",
		}, "state"),
		requests: process.NewCounter(reg, "vpa_recommender", "prometheus_client_api_requests_count", "Number of requests to Prometheus.", "code", "method"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "vpa_recommender", Name: "prometheus_client_api_requests_duration_seconds", Help: "Duration of requests to Prometheus.",
			Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120, 300},
		}, []string{"code", "method"}),
	}
	reg.MustRegister(m.namespaces, m.durations)
	return m
}

// publishBackfill replaces the number of namespaces in each state of the backfill.
func (m *Metrics) publishBackfill(count map[BackfillState]int) {
	next := m.namespaces.Next()
	for _, s := range []BackfillState{BackfillPending, BackfillIncomplete, BackfillDone} {
		next.WithLabelValues(s.String()).Set(float64(count[s]))
	}
	m.namespaces.Publish(next)
}
