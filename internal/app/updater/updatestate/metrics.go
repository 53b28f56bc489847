// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of storing UpdateState objects.
type Metrics struct {
	available prometheus.Gauge
	writes    *prometheus.CounterVec
}

// The values of the label result.
const (
	resultOK    = "ok"
	resultError = "error"
)

// NewMetrics registers the metrics of storing UpdateState objects.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		available: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "podfit_updater", Name: "update_states_available",
			Help: "1 if UpdateState objects can be stored, 0 if the CRD or a permission is missing, or before they are loaded.",
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "podfit_updater", Name: "update_state_writes_total", Help: "Number of writes and deletions of UpdateState objects, by result: ok or error.",
		}, []string{"result"}),
	}
	for _, result := range []string{resultOK, resultError} {
		m.writes.WithLabelValues(result).Add(0)
	}
	reg.MustRegister(m.available, m.writes)
	return m
}
