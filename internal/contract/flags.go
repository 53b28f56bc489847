// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// A Flag is a command line flag of upstream. In its name, upstream accepts underscores instead of dashes.
type Flag struct {
	Name    string
	Type    string // bool, int, uint, float, duration, quantity or string; for klog's flags, the type that klog prints
	Default string // as printed by pflag
}

// RecommenderFlags returns upstream's flags of the recommender, sorted by name.
func RecommenderFlags() []Flag {
	return sorted(commonFlags(), klogFlags(), electionFlags("vpa-recommender-lease"), []Flag{
		{"address", "string", ":8942"},
		{"recommender-name", "string", "default"},
		{"recommender-interval", "duration", "1m0s"},
		{"storage", "string", ""},
		{"checkpoints-gc-interval", "duration", "10m0s"},
		{"checkpoints-timeout", "duration", "1m0s"},
		{"min-checkpoints", "int", "10"},
		{"update-worker-count", "int", "10"},
		{"memory-saver", "bool", "false"},

		{"recommendation-margin-fraction", "float", "0.15"},
		{"pod-recommendation-min-cpu-millicores", "float", "25"},
		{"pod-recommendation-min-memory-mb", "float", "250"},
		{"target-cpu-percentile", "float", "0.9"},
		{"recommendation-lower-bound-cpu-percentile", "float", "0.5"},
		{"recommendation-upper-bound-cpu-percentile", "float", "0.95"},
		{"confidence-interval-cpu", "duration", "24h0m0s"},
		{"target-memory-percentile", "float", "0.9"},
		{"recommendation-lower-bound-memory-percentile", "float", "0.5"},
		{"recommendation-upper-bound-memory-percentile", "float", "0.95"},
		{"confidence-interval-memory", "duration", "24h0m0s"},
		{"humanize-memory", "bool", "false"},
		{"round-cpu-millicores", "int", "1"},
		{"round-memory-bytes", "int", "1"},

		{"memory-aggregation-interval", "duration", "24h0m0s"},
		{"memory-aggregation-interval-count", "int", "8"},
		{"memory-histogram-decay-half-life", "duration", "24h0m0s"},
		{"cpu-histogram-decay-half-life", "duration", "24h0m0s"},
		{"oom-bump-up-ratio", "float", "1.2"},
		{"oom-min-bump-up-bytes", "float", "1.048576e+08"},

		{"cpu-integer-post-processor-enabled", "bool", "false"},
		{"container-recommendation-max-allowed-cpu", "quantity", ""},
		{"container-recommendation-max-allowed-memory", "quantity", ""},

		{"prometheus-address", "string", "http://prometheus.monitoring.svc"},
		{"prometheus-insecure", "bool", "false"},
		{"prometheus-cadvisor-job-name", "string", "kubernetes-cadvisor"},
		{"prometheus-query-timeout", "string", "5m"},
		{"prometheus-bearer-token", "string", ""},
		{"prometheus-bearer-token-file", "string", ""},
		{"username", "string", ""},
		{"password", "string", ""},
		{"history-length", "string", "8d"},
		{"history-resolution", "string", "1h"},
		{"history-cpu-metric", "string", "container_cpu_usage_seconds_total"},
		{"history-memory-metric", "string", "container_memory_working_set_bytes"},
		{"pod-label-prefix", "string", "pod_label_"},
		{"metric-for-pod-labels", "string", `up{job="kubernetes-pods"}`},
		{"pod-namespace-label", "string", "kubernetes_namespace"},
		{"pod-name-label", "string", "kubernetes_pod_name"},
		{"container-namespace-label", "string", "namespace"},
		{"container-pod-name-label", "string", "pod_name"},
		{"container-name-label", "string", "name"},

		{"use-external-metrics", "bool", "false"},
		{"external-metrics-cpu-metric", "string", ""},
		{"external-metrics-memory-metric", "string", ""},
	})
}

// UpdaterFlags returns upstream's flags of the updater, sorted by name.
func UpdaterFlags() []Flag {
	return sorted(commonFlags(), klogFlags(), electionFlags("vpa-updater"), []Flag{
		{"address", "string", ":8943"},
		{"updater-interval", "duration", "1m0s"},
		{"min-replicas", "int", "2"},
		{"eviction-tolerance", "float", "0.5"},
		{"eviction-rate-limit", "float", "-1"},
		{"eviction-rate-burst", "int", "1"},
		{"pod-update-threshold", "float", "0.1"},
		{"in-recommendation-bounds-eviction-lifetime-threshold", "duration", "12h0m0s"},
		{"evict-after-oom-threshold", "duration", "10m0s"},
		{"in-place-skip-disruption-budget", "bool", "false"},
		{"concurrent-cpu-startup-boost-syncs", "int", "1"},
		{"use-admission-controller-status", "bool", "true"},
		{"admission-controller-status-lease-name", "string", "vpa-admission-controller"},
		{"admission-controller-status-lease-namespace", "string", ""},
		{"admission-controller-status-lease-timeout", "duration", "1m0s"},
	})
}

// AdmissionFlags returns upstream's flags of the admission controller, sorted by name.
func AdmissionFlags() []Flag {
	return sorted(commonFlags(), klogFlags(), []Flag{
		{"address", "string", ":8944"},
		{"client-ca-file", "string", "/etc/tls-certs/caCert.pem"},
		{"tls-cert-file", "string", "/etc/tls-certs/serverCert.pem"},
		{"tls-private-key", "string", "/etc/tls-certs/serverKey.pem"},
		{"reload-cert", "bool", "false"},
		{"tls-ciphers", "string", ""},
		{"min-tls-version", "string", "tls1_2"},
		{"port", "int", "8000"},
		{"webhook-service", "string", "vpa-webhook"},
		{"register-by-url", "bool", "false"},
		{"webhook-address", "string", ""},
		{"webhook-port", "string", ""},
		{"register-webhook", "bool", "true"},
		{"webhook-timeout-seconds", "int", "30"},
		{"webhook-failure-policy-fail", "bool", "false"},
		{"webhook-labels", "string", ""},
		{"status-lease-name", "string", "vpa-admission-controller"},
		{"status-lease-namespace", "string", ""},
		{"status-lease-update-interval", "duration", "10s"},
		{"max-allowed-cpu-boost", "quantity", ""},
	})
}

func commonFlags() []Flag {
	return []Flag{
		{"kubeconfig", "string", ""},
		{"kube-api-qps", "float", "50"},
		{"kube-api-burst", "float", "100"},
		{"profiling", "bool", "false"},
		{"vpa-object-namespace", "string", ""},
		{"ignored-vpa-object-namespaces", "string", ""},
		{"feature-gates", "mapStringBool", ""},
	}
}

func klogFlags() []Flag {
	return []Flag{
		{"v", "Level", "4"},
		{"vmodule", "moduleSpec", ""},
		{"logtostderr", "bool", "true"},
		{"alsologtostderr", "bool", "false"},
		{"alsologtostderrthreshold", "severity", ""},
		{"stderrthreshold", "severity", "info"},
		{"legacy-stderr-threshold-behavior", "bool", "true"},
		{"log-dir", "string", ""},
		{"log-file", "string", ""},
		{"log-file-max-size", "uint", "1800"},
		{"log-backtrace-at", "traceLocation", ":0"},
		{"add-dir-header", "bool", "false"},
		{"skip-headers", "bool", "false"},
		{"skip-log-headers", "bool", "false"},
		{"one-output", "bool", "false"},
	}
}

func electionFlags(lease string) []Flag {
	return []Flag{
		{"leader-elect", "bool", "false"},
		{"leader-elect-lease-duration", "duration", "15s"},
		{"leader-elect-renew-deadline", "duration", "10s"},
		{"leader-elect-retry-period", "duration", "2s"},
		{"leader-elect-resource-lock", "string", "leases"},
		{"leader-elect-resource-name", "string", lease},
		{"leader-elect-resource-namespace", "string", "kube-system"},
	}
}

func sorted(groups ...[]Flag) []Flag {
	all := slices.Concat(groups...)
	slices.SortFunc(all, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return all
}
