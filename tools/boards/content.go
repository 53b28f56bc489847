// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

// Units of Grafana.
const (
	number    = "short"
	share     = "percentunit"
	seconds   = "s"
	perSecond = "ops"
	cores     = "none"
	bytes     = "bytes"
	dates     = "dateTimeFromNow"
)

// Two replicas of a component export the same gauges, so sums are over the maximum of the replicas.
var overview = board{
	name: "overview", title: "Overview", description: "What podfit recommends and changes in the cluster.",
	rows: []row{
		{"Now", []panel{
			{"VPA objects", "", true, number, []query{{`sum(max by (update_mode, has_recommendation, matches_pods, unsupported_config) (vpa_recommender_vpa_objects_count{api="v1"}))`, ""}}},
			{"Without recommendation", "VPA objects that have no recommendation yet.", true, number, []query{{`sum(max by (update_mode, matches_pods, unsupported_config) (vpa_recommender_vpa_objects_count{api="v1",has_recommendation="false"}))`, ""}}},
			{"Without pods", "VPA objects whose target has no pods.", true, number, []query{{`sum(max by (update_mode, has_recommendation, unsupported_config) (vpa_recommender_vpa_objects_count{api="v1",matches_pods="false"}))`, ""}}},
			{"Unsupported", "VPA objects with a configuration that podfit does not support.", true, number, []query{{`sum(max by (update_mode, has_recommendation, matches_pods) (vpa_recommender_vpa_objects_count{api="v1",unsupported_config="true"}))`, ""}}},
			{"Pods controlled", "Pods that the updater may change.", true, number, []query{{`sum(max by (vpa_size_log2, update_mode) (vpa_updater_controlled_pods_total))`, ""}}},
			{"Pods that wait", "Pods that need an eviction to get their recommendation.", true, number, []query{{`sum(max by (vpa_size_log2, update_mode) (vpa_updater_evictable_pods_total))`, ""}}},
		}},
		{"Changes", []panel{
			{"Changed pods", "Evicted and resized pods, in each interval.", false, number, []query{
				{`sum(increase(vpa_updater_evicted_pods_total[$__rate_interval]))`, "evicted"},
				{`sum(increase(vpa_updater_in_place_updated_pods_total[$__rate_interval]))`, "resized in place"}}},
			{"Failed changes", "By reason.", false, number, []query{
				{`sum by (reason) (increase(vpa_updater_failed_eviction_attempts_total[$__rate_interval]))`, "eviction: {{reason}}"},
				{`sum by (reason) (increase(vpa_updater_failed_in_place_update_attempts_total[$__rate_interval]))`, "resize: {{reason}}"},
				{orZero(`sum(increase(vpa_updater_failed_eviction_attempts_total[$__rate_interval]))`) + ` + ` +
					orZero(`sum(increase(vpa_updater_failed_in_place_update_attempts_total[$__rate_interval]))`), "all"}}},
			{"Decisions", "Number of pods in the last pass of the updater, by decision and reason. docs/messages.md describes the reasons.", false, number, []query{
				{`max by (act, reason) (podfit_updater_decisions)`, "{{act}}: {{reason}}"}}},
			{"VPA objects by mode", "", false, number, []query{{`sum by (update_mode) (max by (update_mode, has_recommendation, matches_pods, unsupported_config) (vpa_recommender_vpa_objects_count{api="v1"}))`, "{{update_mode}}"}}},
			{"New pods", "Pods that the webhook reviewed.", false, perSecond, []query{
				{`sum by (applied) (rate(vpa_admission_controller_admission_pods_total[$__rate_interval]))`, "changed: {{applied}}"}}},
			{"Time to the first recommendation", "From the creation of a VPA object.", false, seconds, []query{
				{`histogram_quantile(0.5, sum by (le) (rate(vpa_recommender_recommendation_latency_seconds_bucket[1h])))`, "half"},
				{`histogram_quantile(0.9, sum by (le) (rate(vpa_recommender_recommendation_latency_seconds_bucket[1h])))`, "90 %"}}},
		}},
		{"Quality of recommendations", []panel{
			{"Usage compared with the recommendation", "Usage minus recommendation as a share of the recommendation: median and 95 % quantile of all samples. Above 0, the container used more than recommended.", false, share, []query{
				{`histogram_quantile(0.5, sum by (le, resource) (rate(vpa_quality_usage_recommendation_relative_diffs_bucket[30m])))`, "{{resource}}, median"},
				{`histogram_quantile(0.95, sum by (le, resource) (rate(vpa_quality_usage_recommendation_relative_diffs_bucket[30m])))`, "{{resource}}, 95 %"}}},
			{"Change of recommendations", "Relative change at each update of a recommendation: 5 % and 95 % quantile.", false, share, []query{
				{`histogram_quantile(0.05, sum by (le, resource) (rate(vpa_quality_relative_recommendation_changes_bucket[30m])))`, "{{resource}}, 5 %"},
				{`histogram_quantile(0.95, sum by (le, resource) (rate(vpa_quality_relative_recommendation_changes_bucket[30m])))`, "{{resource}}, 95 %"}}},
			{"Samples without recommendation", "Usage samples of containers that have no recommendation although a VPA targets them.", false, perSecond, []query{
				{`sum by (resource) (rate(vpa_quality_usage_sample_missing_recommendation_count[$__rate_interval]))`, "{{resource}}"}}},
		}},
	},
}

const (
	pods      = `namespace=~"$namespace",pod=~"$pod",container!="",container!="POD"`
	autoscale = `vpa_namespace=~"$namespace"`
	target    = "kube_customresource_verticalpodautoscaler_status_recommendation_containerrecommendations_target"
	lower     = "kube_customresource_verticalpodautoscaler_status_recommendation_containerrecommendations_lowerbound"
	upper     = "kube_customresource_verticalpodautoscaler_status_recommendation_containerrecommendations_upperbound"
)

var workload = board{
	name: "workload", title: "Workload", description: "Usage, requests, recommendations and changes of the pods of a namespace. Recommendations need --export-recommendations, or kube-state-metrics with a configuration for custom resources.",
	variables: []variable{
		{"namespace", "label_values(kube_pod_container_resource_requests, namespace)"},
		{"pod", `label_values(kube_pod_container_resource_requests{namespace=~"$namespace"}, pod)`},
	},
	rows: []row{
		{"CPU", []panel{
			{"CPU usage", "Highest usage of the pods, for each container.", false, cores, []query{
				{`max by (namespace, container) (rate(container_cpu_usage_seconds_total{` + pods + `}[$__rate_interval]))`, "{{namespace}} {{container}}"}}},
			{"CPU requests and recommendations", "", false, cores, []query{
				{`max by (namespace, container) (kube_pod_container_resource_requests{` + pods + `,resource="cpu"})`, "request {{namespace}} {{container}}"},
				{`max by (namespace, verticalpodautoscaler, container) (` + target + `{namespace=~"$namespace",resource="cpu"})`, "target {{verticalpodautoscaler}} {{container}}"},
				{`max by (namespace, verticalpodautoscaler, container) (` + lower + `{namespace=~"$namespace",resource="cpu"})`, "lower bound {{verticalpodautoscaler}} {{container}}"},
				{`max by (namespace, verticalpodautoscaler, container) (` + upper + `{namespace=~"$namespace",resource="cpu"})`, "upper bound {{verticalpodautoscaler}} {{container}}"}}},
			{"CPU throttling", "Share of the CFS periods in which the container was throttled.", false, share, []query{
				{`sum by (namespace, container) (rate(container_cpu_cfs_throttled_periods_total{` + pods + `}[$__rate_interval])) / sum by (namespace, container) (rate(container_cpu_cfs_periods_total{` + pods + `}[$__rate_interval]))`, "{{namespace}} {{container}}"}}},
			{"CPU usage compared with the request", "Highest share of the request that a pod uses, for each container. Above 100 % for 30 minutes, the alert PodfitUsageAboveRequest has the cause.", false, share, []query{
				{`max by (namespace, container) (max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{` + pods + `}[$__rate_interval])) / max by (namespace, pod, container) (kube_pod_container_resource_requests{` + pods + `,resource="cpu"} > 0))`, "{{namespace}} {{container}}"}}},
			{"Containers without CPU request", "Number of pods, for each container.", false, number, []query{
				{`count by (namespace, container) (max by (namespace, pod, container) (kube_pod_container_status_running{` + pods + `}) == 1 unless max by (namespace, pod, container) (kube_pod_container_resource_requests{` + pods + `,resource="cpu"} > 0)) or vector(0)`, "{{namespace}} {{container}}"}}},
		}},
		{"Memory", []panel{
			{"Memory usage", "Largest working set of the pods, for each container.", false, bytes, []query{
				{`max by (namespace, container) (container_memory_working_set_bytes{` + pods + `})`, "{{namespace}} {{container}}"}}},
			{"Memory requests and recommendations", "", false, bytes, []query{
				{`max by (namespace, container) (kube_pod_container_resource_requests{` + pods + `,resource="memory"})`, "request {{namespace}} {{container}}"},
				{`max by (namespace, verticalpodautoscaler, container) (` + target + `{namespace=~"$namespace",resource="memory"})`, "target {{verticalpodautoscaler}} {{container}}"},
				{`max by (namespace, verticalpodautoscaler, container) (` + lower + `{namespace=~"$namespace",resource="memory"})`, "lower bound {{verticalpodautoscaler}} {{container}}"},
				{`max by (namespace, verticalpodautoscaler, container) (` + upper + `{namespace=~"$namespace",resource="memory"})`, "upper bound {{verticalpodautoscaler}} {{container}}"}}},
			{"Restarts and OOM kills", "Restarts in each interval, and containers whose last termination was an OOM kill.", false, number, []query{
				{`sum by (namespace, container) (increase(kube_pod_container_status_restarts_total{` + pods + `}[$__rate_interval]))`, "restarts {{namespace}} {{container}}"},
				{`sum by (namespace, container) (kube_pod_container_status_last_terminated_reason{` + pods + `,reason="OOMKilled"})`, "OOM-killed {{namespace}} {{container}}"}}},
		}},
		{"Changes", []panel{
			{"Evictions", "By VPA object.", false, number, []query{{`sum by (vpa_namespace, vpa_name) (increase(vpa_updater_evicted_pods_total{` + autoscale + `}[$__rate_interval]))`, "{{vpa_namespace}}/{{vpa_name}}"}}},
			{"Resizes in place", "By VPA object.", false, number, []query{{`sum by (vpa_namespace, vpa_name) (increase(vpa_updater_in_place_updated_pods_total{` + autoscale + `}[$__rate_interval]))`, "{{vpa_namespace}}/{{vpa_name}}"}}},
			{"Failed changes", "By VPA object and reason.", false, number, []query{
				{`sum by (vpa_namespace, vpa_name, reason) (increase(vpa_updater_failed_eviction_attempts_total{` + autoscale + `}[$__rate_interval]))`, "{{vpa_namespace}}/{{vpa_name}} eviction: {{reason}}"},
				{`sum by (vpa_namespace, vpa_name, reason) (increase(vpa_updater_failed_in_place_update_attempts_total{` + autoscale + `}[$__rate_interval]))`, "{{vpa_namespace}}/{{vpa_name}} resize: {{reason}}"},
				{`sum by (vpa_namespace, vpa_name) (increase(vpa_updater_in_place_infeasible_skip_pods_total{` + autoscale + `}[$__rate_interval]))`, "{{vpa_namespace}}/{{vpa_name}} infeasible before"},
				{orZero(`sum(increase(vpa_updater_failed_eviction_attempts_total{`+autoscale+`}[$__rate_interval]))`) + ` + ` +
					orZero(`sum(increase(vpa_updater_failed_in_place_update_attempts_total{`+autoscale+`}[$__rate_interval]))`), "all attempts"}}},
		}},
	},
}

// orZero returns an expression that is 0 where another has no value, so that a panel shows that nothing has happened.
func orZero(expression string) string { return `(` + expression + ` or vector(0))` }

// component selects the pods of podfit that export a metric of every command.
const component = `* on (namespace, pod, container) group_left () max by (namespace, pod, container) (podfit_leader * 0 + 1)`

var operations = board{
	name: "operations", title: "Operations", description: "Whether podfit itself works. docs/runbook.md describes the alerts.",
	rows: []row{
		{"Leaders and passes", []panel{
			{"Leaders", "1 for each component with a leader.", false, number, []query{{`max by (namespace, container) (podfit_leader)`, "{{namespace}} {{container}}"}}},
			{"Changes of leaders", "", false, number, []query{{`sum by (namespace, container) (increase(podfit_leader_transitions_total[$__rate_interval]))`, "{{namespace}} {{container}}"}}},
			{"Age of the last complete pass", "Of the leaders.", false, seconds, []query{{`time() - podfit_pass_last_success_timestamp_seconds and on (namespace, pod, container) podfit_leader == 1`, "{{loop}} {{pod}}"}}},
			{"Failed passes", "Passes and objects with internal errors.", false, number, []query{{`sum by (loop) (increase(podfit_pass_failures_total[$__rate_interval]))`, "{{loop}}"}}},
			{"Skipped passes of the updater", "By reason.", false, number, []query{
				{`sum by (reason) (increase(podfit_updater_skipped_passes_total[$__rate_interval]))`, "{{reason}}"},
				{`sum by (reason) (increase(vpa_updater_admission_controller_status_invalid_total[$__rate_interval]))`, "status lease: {{reason}}"}}},
			{"Duration of steps", "Mean.", false, seconds, []query{
				{`sum by (step) (rate(vpa_recommender_execution_latency_seconds_sum[$__rate_interval])) / sum by (step) (rate(vpa_recommender_execution_latency_seconds_count[$__rate_interval]))`, "recommender: {{step}}"},
				{`sum by (step) (rate(vpa_updater_execution_latency_seconds_sum[$__rate_interval])) / sum by (step) (rate(vpa_updater_execution_latency_seconds_count[$__rate_interval]))`, "updater: {{step}}"}}},
		}},
		{"Webhook", []panel{
			{"Ready and registered replicas", "", false, number, []query{
				{`sum by (namespace) (podfit_admission_controller_ready)`, "ready {{namespace}}"},
				{`max by (namespace) (podfit_admission_controller_registered)`, "registered {{namespace}}"}}},
			{"Duration of reviews", "", false, seconds, []query{
				{`histogram_quantile(0.5, sum by (le, resource) (rate(vpa_admission_controller_admission_latency_seconds_bucket[$__rate_interval])))`, "{{resource}}, half"},
				{`histogram_quantile(0.99, sum by (le, resource) (rate(vpa_admission_controller_admission_latency_seconds_bucket[$__rate_interval])))`, "{{resource}}, 99 %"}}},
			{"Reviews", "By status.", false, perSecond, []query{{`sum by (status, resource) (rate(vpa_admission_controller_admission_latency_seconds_count[$__rate_interval]))`, "{{resource}} {{status}}"}}},
			{"Steps of a review", "Mean duration.", false, seconds, []query{{`sum by (step) (rate(vpa_admission_controller_execution_latency_seconds_sum[$__rate_interval])) / sum by (step) (rate(vpa_admission_controller_execution_latency_seconds_count[$__rate_interval]))`, "{{step}}"}}},
			{"Refused and unchanged objects", "By reason.", false, number, []query{
				{`sum by (reason) (increase(podfit_admission_controller_refused_reviews_total[$__rate_interval]))`, "refused: {{reason}}"},
				{`sum by (reason) (increase(podfit_admission_controller_unchecked_objects_total[$__rate_interval]))`, "too large: {{reason}}"},
				{`sum by (reason) (increase(podfit_admission_controller_unsized_pods_total[$__rate_interval]))`, "without recommendation: {{reason}}"}}},
			{"Certificate expires", "", true, dates, []query{{`min(podfit_admission_controller_certificate_expiry_timestamp_seconds > 0) * 1000`, ""}}},
		}},
		{"Sources and stored state", []panel{
			{"Responses of the Metrics API", "", false, perSecond, []query{{`sum by (is_error) (rate(vpa_recommender_metric_server_responses[$__rate_interval]))`, "error: {{is_error}}"}}},
			{"Rejected samples", "By reason.", false, perSecond, []query{{`sum by (reason) (rate(podfit_recommender_rejected_samples_total[$__rate_interval]))`, "{{reason}}"}}},
			{"Requests to Prometheus", "By status code.", false, perSecond, []query{{`sum by (code) (rate(vpa_recommender_prometheus_client_api_requests_count[$__rate_interval]))`, "{{code}}"}}},
			{"Watches: time since the last response", "", false, seconds, []query{{`max by (resource) (time() - podfit_watch_last_response_timestamp_seconds)`, "{{resource}}"}}},
			{"Stale watches", "", false, number, []query{{`max by (resource) (podfit_watch_stale)`, "{{resource}}"}}},
			{"Writes of stored state", "By result.", false, perSecond, []query{
				{`sum by (outcome) (rate(podfit_recommender_checkpoint_writes_total[$__rate_interval]))`, "checkpoints: {{outcome}}"},
				{`sum by (outcome) (rate(podfit_recommender_history_writes_total[$__rate_interval]))`, "usage histories: {{outcome}}"},
				{`sum by (result) (rate(podfit_updater_update_state_writes_total[$__rate_interval]))`, "update states: {{result}}"}}},
			{"Usage histories in memory", "One for each container of each workload.", false, number, []query{{`max(vpa_recommender_aggregate_container_states_count)`, "histories"}}},
			{"Backfill from Prometheus", "Number of namespaces by state.", false, number, []query{{`max by (state) (podfit_recommender_history_backfill_namespaces)`, "{{state}}"}}},
			{"Requests to the API server", "Of all processes of podfit, by status code.", false, perSecond, []query{{`sum by (container, code) (rate(rest_client_requests_total[$__rate_interval]) ` + component + `)`, "{{container}} {{code}}"}}},
		}},
		{"Processes", []panel{
			{"Memory", "", false, bytes, []query{{`process_resident_memory_bytes ` + component, "{{container}} {{pod}}"}}},
			{"CPU", "", false, cores, []query{{`rate(process_cpu_seconds_total[$__rate_interval]) ` + component, "{{container}} {{pod}}"}}},
			{"Goroutines", "", false, number, []query{{`go_goroutines ` + component, "{{container}} {{pod}}"}}},
		}},
	},
}

const pool = `pool=~"$pool"`

var capacity = board{
	name: "capacity", title: "Capacity", description: "How full the pools of nodes are, and when nodes must be ordered. docs/capacity.md describes the figures.",
	variables: []variable{{"pool", "label_values(podfit_capacity_total, pool)"}},
	rows: []row{
		{"Dates", []panel{
			{"Order nodes", "Last day for an order of nodes. None is needed for pools that are not shown.", true, dates, []query{{`min by (pool) (podfit_capacity_order_by_timestamp_seconds{` + pool + `}) * 1000`, "{{pool}}"}}},
			{"Full", "First day on which the requests may reach the threshold.", true, dates, []query{{`min by (pool, resource, percent) (podfit_capacity_reaches_threshold_timestamp_seconds{` + pool + `}) * 1000`, "{{pool}} {{resource}} {{percent}} %"}}},
			{"Forecasts", "1 if there is a forecast, 0 if there are not enough days yet.", true, number, []query{{`max by (pool, resource) (podfit_capacity_forecast_available{` + pool + `})`, "{{pool}} {{resource}}"}}},
			{"CPU requested", "Share of the capacity.", true, share, []query{{`max by (pool) (podfit_capacity_requested{` + pool + `,resource="cpu"}) / max by (pool) (podfit_capacity_total{` + pool + `,resource="cpu"})`, "{{pool}}"}}},
			{"Memory requested", "Share of the capacity.", true, share, []query{{`max by (pool) (podfit_capacity_requested{` + pool + `,resource="memory"}) / max by (pool) (podfit_capacity_total{` + pool + `,resource="memory"})`, "{{pool}}"}}},
			{"Pods without room", "Pods that would fit on no node with their recommendation.", true, number, []query{{`max(podfit_updater_decisions{act="leave",reason="Unplaceable"}) or vector(0)`, ""}}},
		}},
		{"CPU", capacityPanels("CPU", "cpu", cores)},
		{"Memory", capacityPanels("Memory", "memory", bytes)},
		{"Room for replacements", []panel{
			{"Replacements pending", "Time until the replacement of an evicted pod is on a node: 90 % quantile, by how its room was found.", false, seconds, []query{{`histogram_quantile(0.9, sum by (le, capacity) (rate(podfit_updater_replacement_pending_seconds_bucket[30m])))`, "{{capacity}}"}}},
			{"Surges", "By result.", false, number, []query{{`sum by (result) (increase(podfit_updater_surges_total[$__rate_interval]))`, "{{result}}"}}},
			{"Pods that wait for room", "Pods in the last pass of the updater.", false, number, []query{
				{`max by (reason) (podfit_updater_decisions{act="leave",reason=~"Unplaceable|AwaitingCapacity|CapacityNotFound"})`, "{{reason}}"},
				{orZero(`sum(max by (reason) (podfit_updater_decisions{act="leave",reason=~"Unplaceable|AwaitingCapacity|CapacityNotFound"}))`), "all"}}},
		}},
	},
}

// capacityPanels returns the panels of a resource.
func capacityPanels(title, resource, unit string) []panel {
	of := func(metric string) string {
		return `max by (pool) (` + metric + `{` + pool + `,resource="` + resource + `"})`
	}
	return []panel{
		{title + " requested and available", "Capacity of all nodes, and without the largest one.", false, unit, []query{
			{of("podfit_capacity_requested"), "requested {{pool}}"}, {of("podfit_capacity_total"), "capacity {{pool}}"},
			{of("podfit_capacity_without_largest_node"), "without the largest node {{pool}}"}}},
		{title + " that workloads could give back", "Requests above the recommended ones, and the largest pod that still fits.", false, unit, []query{
			{of("podfit_capacity_recoverable"), "could give back {{pool}}"}, {of("podfit_capacity_largest_pod"), "largest pod that fits {{pool}}"}}},
		{title + " growth in 28 days", "Change of the requests by cause.", false, unit, []query{
			{`max by (pool, cause) (podfit_capacity_growth_28d{` + pool + `,resource="` + resource + `"})`, "{{cause}} {{pool}}"}}},
	}
}
