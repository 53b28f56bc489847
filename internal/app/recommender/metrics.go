// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/forecast"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
)

// Metrics are the metrics of the recommender. Those that upstream has keep upstream's names.
type Metrics struct {
	objects    *process.SnapshotGauge
	conditions *process.SnapshotGauge
	lacks      *process.SnapshotGauge
	latency    prometheus.Histogram
	execution  *prometheus.HistogramVec
	aggregates prometheus.Gauge
	responses  *prometheus.CounterVec
	rejected   *prometheus.CounterVec
	history    *history.Metrics
	sources    *prometheus.CounterVec
	quality    qualityMetrics
	capacity   *forecast.Metrics
	optIn      *prometheus.CounterVec
}

// NewMetrics registers the metrics of the recommender.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	const ns = "vpa_recommender"
	return &Metrics{
		objects: process.NewSnapshotGauge(reg, ns, "vpa_objects_count", "Number of VPA objects in the cluster.",
			"update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"),
		conditions: process.NewSnapshotGauge(reg, "podfit_recommender", "vpas_with_condition",
			"Number of VPA objects with a condition that only podfit sets, by type and reason. Conditions that the updater sets are not counted.", "condition", "reason"),
		lacks: process.NewSnapshotGauge(reg, "podfit_recommender", "packed_cpu_lacking_cores",
			"CPU that a container sized for full nodes (packed) would lack while all pods of its node need CPU: its usage minus the share of its request. At most 10 containers.",
			"namespace", "target_kind", "target_name", "container"),
		latency: promauto.With(reg).NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Name: "recommendation_latency_seconds",
			Help:    "Time from the creation of a VPA object to its first recommendation.",
			Buckets: []float64{1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800},
		}),
		execution: process.ExecutionLatency(reg, ns, "Duration of each step of a recommender pass."),
		aggregates: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "aggregate_container_states_count",
			Help: "Number of usage histories in memory. There is one for each container of each workload.",
		}),
		responses: process.NewCounter(reg, ns, "metric_server_responses", "Number of responses of the Metrics API.", "is_error", "client_name"),
		rejected:  process.NewCounter(reg, "podfit_recommender", "rejected_samples_total", "Number of rejected usage samples, by reason.", "reason"),
		sources: process.NewCounter(reg, "vpa_resources", "get_resources_count",
			"Number of times that requests and limits of a container were read, by source: pod status or pod spec.", "source"),
		history: history.NewMetrics(reg),
		quality: newQualityMetrics(reg), capacity: forecast.NewMetrics(reg),
		optIn: process.NewCounter(reg, "podfit_namespace_opt_in", "writes_total",
			"Number of writes of VPAs for namespaces that opt in, by act (create, update, end, delete) and outcome (done, failed).", "act", "outcome"),
	}
}

// objectKey is a class of VPA objects: one combination of the labels of vpa_objects_count.
type objectKey struct {
	mode                          string
	advised, matches, unsupported bool
}

// publishObjects replaces the number of VPA objects of each class. A class without objects has the value 0, as with upstream.
func (m *Metrics) publishObjects(count map[objectKey]int) {
	next := m.objects.Next()
	for _, mode := range cluster.Modes() {
		for i := range 8 {
			k := objectKey{mode.String(), i&1 != 0, i&2 != 0, i&4 != 0}
			for _, api := range []string{"v1beta1", "v1beta2", "v1"} { // upstream also publishes the old API versions, always with 0 objects
				n := 0
				if api == "v1" {
					n = count[k]
				}
				next.WithLabelValues(k.mode, strconv.FormatBool(k.advised), api, strconv.FormatBool(k.matches), strconv.FormatBool(k.unsupported)).Set(float64(n))
			}
		}
	}
	m.objects.Publish(next)
}

// publishConditions replaces the number of VPA objects by condition type and reason. Those of upstream are left out, and a reason without
// objects has the value 0.
func (m *Metrics) publishConditions(count map[[2]string]int) {
	next := m.conditions.Next()
	for name, reasons := range ConditionReasons {
		for _, reason := range reasons {
			next.WithLabelValues(name, reason).Set(float64(count[[2]string{name, reason}]))
		}
	}
	m.conditions.Publish(next)
}

// publishLacks replaces the containers that would lack most CPU on a busy node.
func (m *Metrics) publishLacks(all []contention.Lack) {
	next := m.lacks.Next()
	for _, lack := range all {
		w := lack.Workload
		next.WithLabelValues(w.Namespace, w.Kind, w.Name, lack.Container).Set(cluster.CPU.InUnits(lack.Millicores))
	}
	m.lacks.Publish(next)
}

// counted counts the requests of a reading, and the containers whose usage cannot be parsed. It returns the samples and the error.
func (m *Metrics) counted(r metrics.Reading, err error) ([]usage.Sample, error) {
	for isError, n := range map[bool]int{false: r.Answered, true: r.Failed} {
		if n > 0 {
			m.responses.WithLabelValues(strconv.FormatBool(isError), "default-metrics-client").Add(float64(n))
		}
	}
	if r.Unreadable > 0 {
		m.rejected.WithLabelValues("unreadable").Add(float64(r.Unreadable))
	}
	return r.Samples, err
}

// qualityMetrics compare recommendations with usage.
type qualityMetrics struct {
	relative, cpuOver, cpuUnder, memOver, memUnder, cpu, mem, change *prometheus.HistogramVec
	missing                                                          *prometheus.CounterVec
}

func newQualityMetrics(reg prometheus.Registerer) qualityMetrics {
	const ns = "vpa_quality"
	cores := prometheus.ExponentialBuckets(0.01, 2, 17)
	bytes := prometheus.ExponentialBuckets(1e6, 2, 17)
	shares := []float64{-1, -.75, -.5, -.25, -.1, -.05, -.025, -.01, -.005, -.0025, -.001, 0,
		.001, .0025, .005, .01, .025, .05, .1, .25, .5, .75, 1, 2.5, 5, 10, 25, 50, 100}
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{Namespace: ns, Name: name, Help: help, Buckets: buckets}, labels)
	}
	return qualityMetrics{
		relative: hist("usage_recommendation_relative_diffs", "Usage minus recommendation, as a fraction of the recommendation.", shares, "update_mode", "resource", "is_oom"),
		cpuOver:  hist("cpu_recommendation_over_usage_diffs_cores", "Recommendation minus CPU usage, where the recommendation is greater.", cores, "update_mode", "recommendation_missing"),
		cpuUnder: hist("cpu_recommendation_lower_equal_usage_diffs_cores", "CPU usage minus recommendation, where the recommendation is at most the usage.", cores, "update_mode", "recommendation_missing"),
		memOver:  hist("mem_recommendation_over_usage_diffs_bytes", "Recommendation minus memory usage, where the recommendation is greater.", bytes, "update_mode", "recommendation_missing", "is_oom"),
		memUnder: hist("mem_recommendation_lower_equal_usage_diffs_bytes", "Memory usage minus recommendation, where the recommendation is at most the usage.", bytes, "update_mode", "recommendation_missing", "is_oom"),
		cpu:      hist("cpu_recommendations_cores", "CPU recommendation at the time of each usage sample.", cores, "update_mode"),
		mem:      hist("mem_recommendations_bytes", "Memory recommendation at the time of each usage sample.", bytes, "update_mode", "is_oom"),
		change:   hist("relative_recommendation_changes", "Change of a recommendation, as a fraction of the previous recommendation.", shares, "update_mode", "resource", "vpa_size_log2"),
		missing: process.NewCounter(reg, ns, "usage_sample_missing_recommendation_count",
			"Number of usage samples of containers that have no recommendation although a VPA targets them.", "update_mode", "resource", "is_oom"),
	}
}

// sample records the usage of a resource and the recommended target at that time, both in cores or bytes. known is false if
// there was no recommendation. oom is true if used is the request of an OOM-killed container.
func (q *qualityMetrics) sample(mode cluster.Mode, res cluster.Resource, used, target float64, known, oom bool) {
	m := mode.String()
	isOOM := strconv.FormatBool(oom)
	if known {
		if res == cluster.CPU {
			q.cpu.WithLabelValues(m).Observe(target)
		} else {
			q.mem.WithLabelValues(m, isOOM).Observe(target)
		}
		if target > 0 {
			q.relative.WithLabelValues(m, res.String(), isOOM).Observe((used - target) / target)
		}
	} else {
		q.missing.WithLabelValues(m, res.String(), isOOM).Inc()
		target = 0
	}
	diff := math.Abs(used - target)
	missing := strconv.FormatBool(!known)
	switch {
	case res == cluster.CPU && target > used:
		q.cpuOver.WithLabelValues(m, missing).Observe(diff)
	case res == cluster.CPU:
		q.cpuUnder.WithLabelValues(m, missing).Observe(diff)
	case target > used:
		q.memOver.WithLabelValues(m, missing, isOOM).Observe(diff)
	default:
		q.memUnder.WithLabelValues(m, missing, isOOM).Observe(diff)
	}
}

// changed records the relative change of the target of a container. pods is the number of pods of the VPA.
func (q *qualityMetrics) changed(mode cluster.Mode, before, after cluster.Resources, pods int) {
	for _, res := range cluster.All {
		old, _ := before.Get(res)
		target, ok := after.Get(res)
		if ok && old > 0 {
			q.change.WithLabelValues(mode.String(), res.String(), process.SizeLog2(pods)).Observe(float64(target)/float64(old) - 1)
		}
	}
}

// read counts, for each container of a pod, whether its requests and limits come from the pod status or from the pod spec.
func (m *Metrics) read(p *cluster.Pod) {
	for i := range p.Containers {
		c := &p.Containers[i]
		m.sources.WithLabelValues(sourceNames[[2]bool{c.Role != cluster.Regular, c.Reported}]).Inc()
	}
}

// sourceNames are the sources of requests and limits: whether it is an init container, and whether the pod status has them.
var sourceNames = map[[2]bool]string{
	{false, false}: "Pod.Spec.Containers", {false, true}: "Pod.Status.ContainerStatuses",
	{true, false}: "Pod.Spec.InitContainers", {true, true}: "Pod.Status.InitContainerStatuses",
}
