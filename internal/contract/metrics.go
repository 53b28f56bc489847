// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

// A Metric is a Prometheus metric of upstream.
type Metric struct {
	Name    string
	Type    string   // counter, gauge or histogram
	Labels  []string // in upstream's order
	Buckets []float64
}

// The label values of upstream's metrics, in the order in which they occur in a pass.
var (
	RecommenderSteps = []string{
		"LoadVPAs", "LoadPods", "LoadMetrics", "DeleteRemovedPods", "UpdateVPAs", "MaintainCheckpoints", "GarbageCollect", "total",
	}
	UpdaterSteps   = []string{"ListVPAs", "ListPods", "FilterPods", "AdmissionInit", "EvictPods", "total"}
	AdmissionSteps = []string{"read_request", "admit", "build_response", "write_response", "total"}

	AdmissionStatuses  = []string{"error", "skipped", "applied"}
	AdmissionResources = []string{"unknown", "Pod", "VPA"}

	EvictionFailures = []string{"EvictionError", "EvictionRateLimiterWaitFailed"}
	InPlaceFailures  = []string{
		"InPlaceUpdateError", "InPlaceUpdateInfeasible", "InPlaceUpdateRateLimiterWaitFailed", "UnboostError",
	}
	ResourceSources = []string{
		"Pod.Status.ContainerStatuses", "Pod.Status.InitContainerStatuses", "Pod.Spec.Containers", "Pod.Spec.InitContainers",
	}
)

// Buckets of upstream's histograms.
var (
	stepBuckets = []float64{
		0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300,
	}
	requestBuckets = []float64{
		0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120, 300,
	}
	firstRecommendationBuckets = []float64{
		1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800,
	}
	relativeBuckets = []float64{
		-1, -.75, -.5, -.25, -.1, -.05, -.025, -.01, -.005, -.0025, -.001,
		0, .001, .0025, .005, .01, .025, .05, .1, .25, .5, .75, 1, 2.5, 5, 10, 25, 50, 100,
	}
)

// doubling returns n bucket bounds. The first is given, and each other is twice the previous one.
func doubling(first float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = first
		first *= 2
	}
	return bounds
}

// RecommenderMetrics returns the metrics of upstream's recommender.
func RecommenderMetrics() []Metric {
	cores, bytes := doubling(0.01, 17), doubling(1e6, 17)
	return []Metric{
		{"vpa_recommender_vpa_objects_count", "gauge",
			[]string{"update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"}, nil},
		{"vpa_recommender_recommendation_latency_seconds", "histogram", nil, firstRecommendationBuckets},
		{"vpa_recommender_execution_latency_seconds", "histogram", []string{"step"}, stepBuckets},
		{"vpa_recommender_aggregate_container_states_count", "gauge", nil, nil},
		{"vpa_recommender_metric_server_responses", "counter", []string{"is_error", "client_name"}, nil},
		{"vpa_recommender_prometheus_client_api_requests_count", "counter", []string{"code", "method"}, nil},
		{"vpa_recommender_prometheus_client_api_requests_duration_seconds", "histogram", []string{"code", "method"}, requestBuckets},

		{"vpa_quality_usage_recommendation_relative_diffs", "histogram", []string{"update_mode", "resource", "is_oom"}, relativeBuckets},
		{"vpa_quality_usage_sample_missing_recommendation_count", "counter", []string{"update_mode", "resource", "is_oom"}, nil},
		{"vpa_quality_cpu_recommendation_over_usage_diffs_cores", "histogram", []string{"update_mode", "recommendation_missing"}, cores},
		{"vpa_quality_mem_recommendation_over_usage_diffs_bytes", "histogram",
			[]string{"update_mode", "recommendation_missing", "is_oom"}, bytes},
		{"vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores", "histogram",
			[]string{"update_mode", "recommendation_missing"}, cores},
		{"vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes", "histogram",
			[]string{"update_mode", "recommendation_missing", "is_oom"}, bytes},
		{"vpa_quality_cpu_recommendations_cores", "histogram", []string{"update_mode"}, cores},
		{"vpa_quality_mem_recommendations_bytes", "histogram", []string{"update_mode", "is_oom"}, bytes},
		{"vpa_quality_relative_recommendation_changes", "histogram", []string{"update_mode", "resource", "vpa_size_log2"}, relativeBuckets},

		{"vpa_resources_get_resources_count", "counter", []string{"source"}, nil},
	}
}

// UpdaterMetrics returns the metrics of upstream's updater.
func UpdaterMetrics() []Metric {
	size, sizeMode := []string{"vpa_size_log2"}, []string{"vpa_size_log2", "update_mode"}
	return []Metric{
		{"vpa_updater_controlled_pods_total", "gauge", sizeMode, nil},
		{"vpa_updater_evictable_pods_total", "gauge", sizeMode, nil},
		{"vpa_updater_vpas_with_evictable_pods_total", "gauge", sizeMode, nil},
		{"vpa_updater_vpas_with_evicted_pods_total", "gauge", sizeMode, nil},
		{"vpa_updater_evicted_pods_total", "counter",
			[]string{"vpa_size_log2", "update_mode", "vpa_name", "vpa_namespace"}, nil},
		{"vpa_updater_failed_eviction_attempts_total", "counter",
			[]string{"vpa_size_log2", "update_mode", "reason", "vpa_name", "vpa_namespace"}, nil},
		{"vpa_updater_in_place_updatable_pods_total", "gauge", size, nil},
		{"vpa_updater_vpas_with_in_place_updatable_pods_total", "gauge", size, nil},
		{"vpa_updater_vpas_with_in_place_updated_pods_total", "gauge", size, nil},
		{"vpa_updater_in_place_updated_pods_total", "counter",
			[]string{"vpa_size_log2", "vpa_name", "vpa_namespace"}, nil},
		{"vpa_updater_failed_in_place_update_attempts_total", "counter",
			[]string{"vpa_size_log2", "reason", "vpa_name", "vpa_namespace"}, nil},
		{"vpa_updater_in_place_infeasible_skip_pods_total", "counter",
			[]string{"vpa_size_log2", "vpa_name", "vpa_namespace"}, nil},
		{"vpa_updater_admission_controller_status_invalid_total", "counter", []string{"reason"}, nil},
		{"vpa_updater_execution_latency_seconds", "histogram", []string{"step"}, stepBuckets},
	}
}

// AdmissionMetrics returns the metrics of upstream's admission controller.
func AdmissionMetrics() []Metric {
	return []Metric{
		{"vpa_admission_controller_admission_pods_total", "counter", []string{"applied"}, nil},
		{"vpa_admission_controller_admission_latency_seconds", "histogram", []string{"status", "resource"}, requestBuckets},
		{"vpa_admission_controller_execution_latency_seconds", "histogram", []string{"step"}, stepBuckets},
	}
}
