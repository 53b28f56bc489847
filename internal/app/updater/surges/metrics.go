// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surges

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of surges.
type Metrics struct {
	surges *prometheus.CounterVec
}

// The values of the label result.
const (
	resultBegun     = "begun"
	resultCompleted = "completed"
	resultFailed    = "failed"
)

// NewMetrics registers the metrics of surges.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{surges: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "podfit_updater", Name: "surges_total", Help: "Number of surges, by result: begun, completed or failed. The number of replicas is as before in the last two cases.",
	}, []string{"result"})}
	for _, result := range []string{resultBegun, resultCompleted, resultFailed} {
		m.surges.WithLabelValues(result).Add(0)
	}
	reg.MustRegister(m.surges)
	return m
}
