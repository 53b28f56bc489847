// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/surges"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
)

// Metrics are the updater's metrics, with upstream's names.
type Metrics struct {
	controlled, evictable, withEvictable, withEvicted *process.SnapshotGauge
	resizable, withResizable, withResized             *process.SnapshotGauge
	evicted, evictFailed                              *prometheus.CounterVec
	resized, resizeFailed, infeasibleSkip             *prometheus.CounterVec
	statusInvalid                                     *prometheus.CounterVec
	decisions                                         *process.SnapshotGauge
	skipped                                           *prometheus.CounterVec
	states                                            *updatestate.Metrics
	surges                                            *prometheus.CounterVec
	execution                                         *prometheus.HistogramVec
	nodeMetrics
	byAutoscaler autoscalerSeries
}

// nodeMetrics are about nodes.
type nodeMetrics struct {
	pending   *prometheus.HistogramVec
	reserves  *process.SnapshotGauge
	unguarded prometheus.Gauge
}

// NewMetrics registers the metrics of the updater.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	const ns = "vpa_updater"
	gauge := func(name, help string, labels ...string) *process.SnapshotGauge {
		return process.NewSnapshotGauge(reg, ns, name, help, labels...)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return process.NewCounter(reg, ns, name, help, labels...)
	}
	m := &Metrics{
		controlled:    gauge("controlled_pods_total", "Number of pods controlled by the updater.", "vpa_size_log2", "update_mode"),
		evictable:     gauge("evictable_pods_total", "Number of pods that need an eviction to get their recommendation.", "vpa_size_log2", "update_mode"),
		withEvictable: gauge("vpas_with_evictable_pods_total", "Number of VPA objects with at least one pod that needs an eviction.", "vpa_size_log2", "update_mode"),
		withEvicted:   gauge("vpas_with_evicted_pods_total", "Number of VPA objects with at least one pod that was evicted in the last pass.", "vpa_size_log2", "update_mode"),
		evicted:       counter("evicted_pods_total", "Number of pods evicted to apply a recommendation.", "vpa_size_log2", "update_mode", "vpa_name", "vpa_namespace"),
		evictFailed:   counter("failed_eviction_attempts_total", "Number of failed evictions, by reason.", "vpa_size_log2", "update_mode", "reason", "vpa_name", "vpa_namespace"),
		resizable:     gauge("in_place_updatable_pods_total", "Number of pods that need an in-place resize to get their recommendation.", "vpa_size_log2"),
		withResizable: gauge("vpas_with_in_place_updatable_pods_total", "Number of VPA objects with at least one pod that needs an in-place resize.", "vpa_size_log2"),
		withResized:   gauge("vpas_with_in_place_updated_pods_total", "Number of VPA objects with at least one pod that was resized in place in the last pass.", "vpa_size_log2"),
		resized:       counter("in_place_updated_pods_total", "Number of pods resized in place.", "vpa_size_log2", "vpa_name", "vpa_namespace"),
		resizeFailed:  counter("failed_in_place_update_attempts_total", "Number of failed in-place resizes, by reason.", "vpa_size_log2", "reason", "vpa_name", "vpa_namespace"),
		infeasibleSkip: counter("in_place_infeasible_skip_pods_total", "Number of in-place resizes that were skipped because the same resize was infeasible before.",
			"vpa_size_log2", "vpa_name", "vpa_namespace"),
		statusInvalid: counter("admission_controller_status_invalid_total", "Number of skipped passes because the status lease of the admission controller was not valid.", "reason"),
		states:        updatestate.NewMetrics(reg),
		surges:        surges.NewCounter(reg),
		execution:     process.ExecutionLatency(reg, ns, "Duration of each step of an updater pass."),
		decisions:     process.NewSnapshotGauge(reg, "podfit_updater", "decisions", "Number of pods in the last pass, by decision and reason.", "act", "reason"),
		skipped: process.NewCounter(reg, "podfit_updater", "skipped_passes_total",
			"Number of skipped passes, by reason. StaleWatch: a watched resource was not up to date.", "reason"),
		nodeMetrics: nodeMetrics{
			reserves: process.NewSnapshotGauge(reg, "podfit", "node_reserve_used",
				"Share of the memory for peaks, the last 15 % of the node, that its pods use, of nodes where they do (--node-guard).", "node"),
			unguarded: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
				Namespace: "podfit", Name: "unguarded_nodes",
				Help: "Number of nodes that --node-guard should watch, but cannot: a right is missing, or their memory usage has not been known for five minutes.",
			}),
			pending: promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
				Namespace: "podfit_updater", Name: "replacement_pending_seconds",
				Help: "Time from the creation of the replacement of an evicted pod until it is on a node, in seconds, by how its room was found: " +
					"placeholder (a placeholder pod held it), provisioning-request (an autoscaler provided it) or free.",
				Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600},
			}, []string{"capacity"}),
		},
	}
	m.skipped.WithLabelValues(staleWatch).Add(0)
	for _, capacity := range []string{capacityFree, capacityHeld, capacityAdded} {
		m.pending.WithLabelValues(capacity)
	}
	for _, v := range []*prometheus.CounterVec{m.evicted, m.evictFailed, m.resized, m.resizeFailed, m.infeasibleSkip} {
		m.byAutoscaler.vectors = append(m.byAutoscaler.vectors, v.MetricVec)
	}
	return m
}

// publishDecisions replaces the numbers of decisions by those of a pass.
func (m *Metrics) publishDecisions(decisions []decision.Decision) {
	next := m.decisions.Next()
	for i := range decisions {
		next.WithLabelValues(decisions[i].Do.String(), decisions[i].Reason.Code.String()).Inc()
	}
	m.decisions.Publish(next)
}

// publishNodes replaces the nodes that are nearly out of memory, and the number of those without the node guard.
func (m *Metrics) publishNodes(alarms []guard.Alarm, unguarded int) {
	m.unguarded.Set(float64(unguarded))
	next := m.reserves.Next()
	for i := range alarms {
		if !alarms[i].Coming {
			next.WithLabelValues(alarms[i].Node).Set(alarms[i].Share())
		}
	}
	m.reserves.Publish(next)
}

// seriesTTL is how long the metric series of an autoscaler are served after its deletion, so that every scraper gets their
// last values.
const seriesTTL = 15 * time.Minute

// autoscalerSeries are the metrics that have an autoscaler's name among their labels.
type autoscalerSeries struct {
	vectors []*prometheus.MetricVec
	seen    map[cluster.Key]time.Time // when each autoscaler existed last
}

// retain deletes the series of autoscalers that were deleted seriesTTL ago.
func (s *autoscalerSeries) retain(now time.Time, all []*cluster.Autoscaler) {
	if s.seen == nil {
		s.seen = make(map[cluster.Key]time.Time, len(all))
	}
	for _, a := range all {
		s.seen[a.Key] = now
	}
	for key, last := range s.seen {
		if now.Sub(last) < seriesTTL {
			continue
		}
		delete(s.seen, key)
		for _, v := range s.vectors {
			v.DeletePartialMatch(prometheus.Labels{"vpa_name": key.Name, "vpa_namespace": key.Namespace})
		}
	}
}
