// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// A Flag is one of upstream's command line flags.
//
// Upstream reads an underscore in a flag's name as a dash, and takes values as pflag does: a bool needs none.
type Flag struct {
	Name    string
	Type    string // bool, int, uint, float, duration, quantity, string, or what klog calls it
	Default string // as pflag prints it
	Means   string
}

// RecommenderFlags returns upstream's flags of the recommender, sorted by name.
func RecommenderFlags() []Flag {
	return sorted(commonFlags(), klogFlags(), electionFlags("vpa-recommender-lease"), []Flag{
		{"address", "string", ":8942", "where /metrics and /health-check are served"},
		{"recommender-name", "string", "default", "whose autoscalers are served: those that name it, and if it is default those that name nobody"},
		{"recommender-interval", "duration", "1m0s", "time between two passes"},
		{"storage", "string", "", "where history comes from: checkpoint (also when empty) or prometheus, which turns checkpoints off"},
		{"checkpoints-gc-interval", "duration", "10m0s", "time between two searches for checkpoints nobody needs"},
		{"checkpoints-timeout", "duration", "1m0s", "time within which checkpoints are written, from the start of the pass"},
		{"min-checkpoints", "int", "10", "deprecated, without effect"},
		{"update-worker-count", "int", "10", "how many status and checkpoint writes go on at the same time"},
		{"memory-saver", "bool", "false", "keep only pods that have an autoscaler"},

		{"recommendation-margin-fraction", "float", "0.15", "margin on top of the percentile"},
		{"pod-recommendation-min-cpu-millicores", "float", "25", "least CPU of a pod, split over its containers"},
		{"pod-recommendation-min-memory-mb", "float", "250", "least memory of a pod in MiB, split over its containers"},
		{"target-cpu-percentile", "float", "0.9", "percentile of CPU usage behind the target"},
		{"recommendation-lower-bound-cpu-percentile", "float", "0.5", "percentile of CPU usage behind the lower bound"},
		{"recommendation-upper-bound-cpu-percentile", "float", "0.95", "percentile of CPU usage behind the upper bound"},
		{"confidence-interval-cpu", "duration", "24h0m0s", "history at which the CPU bounds are twice as wide as in the end"},
		{"target-memory-percentile", "float", "0.9", "percentile of memory peaks behind the target"},
		{"recommendation-lower-bound-memory-percentile", "float", "0.5", "percentile of memory peaks behind the lower bound"},
		{"recommendation-upper-bound-memory-percentile", "float", "0.95", "percentile of memory peaks behind the upper bound"},
		{"confidence-interval-memory", "duration", "24h0m0s", "history at which the memory bounds are twice as wide as in the end"},
		{"humanize-memory", "bool", "false", "deprecated: write memory with a suffix and two decimals"},
		{"round-cpu-millicores", "int", "1", "CPU is rounded up to a multiple of this"},
		{"round-memory-bytes", "int", "1", "memory is rounded up to a multiple of this"},

		{"memory-aggregation-interval", "duration", "24h0m0s", "of the memory used in such an interval only the peak counts"},
		{"memory-aggregation-interval-count", "int", "8", "how many such intervals are remembered"},
		{"memory-histogram-decay-half-life", "duration", "24h0m0s", "age at which a memory peak counts half"},
		{"cpu-histogram-decay-half-life", "duration", "24h0m0s", "age at which a CPU sample counts half"},
		{"oom-bump-up-ratio", "float", "1.2", "factor on the memory at which a container was killed"},
		{"oom-min-bump-up-bytes", "float", "1.048576e+08", "least addition to the memory at which a container was killed"},

		{"cpu-integer-post-processor-enabled", "bool", "false", "round CPU up to whole cores where an annotation asks for it"},
		{"container-recommendation-max-allowed-cpu", "quantity", "", "most CPU for a container whose policy does not say"},
		{"container-recommendation-max-allowed-memory", "quantity", "", "most memory for a container whose policy does not say"},

		{"prometheus-address", "string", "http://prometheus.monitoring.svc", "where Prometheus is"},
		{"prometheus-insecure", "bool", "false", "do not verify its certificate"},
		{"prometheus-cadvisor-job-name", "string", "kubernetes-cadvisor", "value of the label job of the cAdvisor metrics"},
		{"prometheus-query-timeout", "string", "5m", "how long a query may take"},
		{"prometheus-bearer-token", "string", "", "token shown to it"},
		{"prometheus-bearer-token-file", "string", "", "file with the token shown to it"},
		{"username", "string", "", "user name shown to it; also PROMETHEUS_USERNAME"},
		{"password", "string", "", "password shown to it; also PROMETHEUS_PASSWORD"},
		{"history-length", "string", "8d", "how far back history is read"},
		{"history-resolution", "string", "1h", "distance between two points of history"},
		{"history-cpu-metric", "string", "container_cpu_usage_seconds_total", "metric of CPU usage"},
		{"history-memory-metric", "string", "container_memory_working_set_bytes", "metric of memory usage"},
		{"pod-label-prefix", "string", "pod_label_", "prefix of the metric labels that hold pod labels"},
		{"metric-for-pod-labels", "string", `up{job="kubernetes-pods"}`, "metric that has those labels"},
		{"pod-namespace-label", "string", "kubernetes_namespace", "its label with the pod's namespace"},
		{"pod-name-label", "string", "kubernetes_pod_name", "its label with the pod's name"},
		{"container-namespace-label", "string", "namespace", "label of the usage metrics with the namespace"},
		{"container-pod-name-label", "string", "pod_name", "label of the usage metrics with the pod's name"},
		{"container-name-label", "string", "name", "label of the usage metrics with the container's name"},

		{"use-external-metrics", "bool", "false", "alpha: read usage from the external metrics API"},
		{"external-metrics-cpu-metric", "string", "", "alpha: its metric of CPU usage"},
		{"external-metrics-memory-metric", "string", "", "alpha: its metric of memory usage"},
	})
}

// UpdaterFlags returns upstream's flags of the updater, sorted by name.
func UpdaterFlags() []Flag {
	return sorted(commonFlags(), klogFlags(), electionFlags("vpa-updater"), []Flag{
		{"address", "string", ":8943", "where /metrics and /health-check are served"},
		{"updater-interval", "duration", "1m0s", "time between two passes"},
		{"min-replicas", "int", "2", "pods of a workload that must be alive before one is evicted"},
		{"eviction-tolerance", "float", "0.5", "share of a workload's replicas that may be away at the same time"},
		{"eviction-rate-limit", "float", "-1", "evictions per second; none or less means without limit"},
		{"eviction-rate-burst", "int", "1", "evictions at once"},
		{"pod-update-threshold", "float", "0.1", "relative change below which a pod within its bounds is left alone"},
		{"in-recommendation-bounds-eviction-lifetime-threshold", "duration", "12h0m0s", "age from which a pod within its bounds may be replaced"},
		{"evict-after-oom-threshold", "duration", "10m0s", "a container killed for memory sooner than this after its start makes its pod a candidate"},
		{"in-place-skip-disruption-budget", "bool", "false", "resizes that restart nothing do not count as disruption"},
		{"concurrent-cpu-startup-boost-syncs", "int", "1", "how many pods lose their start-up boost at the same time; positive"},
		{"use-admission-controller-status", "bool", "true", "change no pod while the webhook's lease is stale"},
		{"admission-controller-status-lease-name", "string", "vpa-admission-controller", "name of that lease"},
		{"admission-controller-status-lease-namespace", "string", "", "its namespace; empty means NAMESPACE, then kube-system"},
		{"admission-controller-status-lease-timeout", "duration", "1m0s", "age from which it is stale; positive"},
	})
}

// AdmissionFlags returns upstream's flags of the admission controller, sorted by name.
func AdmissionFlags() []Flag {
	return sorted(commonFlags(), klogFlags(), []Flag{
		{"address", "string", ":8944", "where /metrics and /health-check are served"},
		{"client-ca-file", "string", "/etc/tls-certs/caCert.pem", "certificate authority that is registered with the webhook"},
		{"tls-cert-file", "string", "/etc/tls-certs/serverCert.pem", "the webhook's certificate"},
		{"tls-private-key", "string", "/etc/tls-certs/serverKey.pem", "its key"},
		{"reload-cert", "bool", "false", "read the three files again when they change"},
		{"tls-ciphers", "string", "", "cipher suites for TLS 1.2, separated by commas or colons"},
		{"min-tls-version", "string", "tls1_2", "oldest TLS version: tls1_2 or tls1_3"},
		{"port", "int", "8000", "where the webhook listens"},
		{"webhook-service", "string", "vpa-webhook", "service in front of it"},
		{"register-by-url", "bool", "false", "register it by URL instead of by service"},
		{"webhook-address", "string", "", "host of the URL"},
		{"webhook-port", "string", "", "port of the URL"},
		{"register-webhook", "bool", "true", "register it at all"},
		{"webhook-timeout-seconds", "int", "30", "how long the API server waits for it"},
		{"webhook-failure-policy-fail", "bool", "false", "refuse pods while it does not answer"},
		{"webhook-labels", "string", "", "labels of its registration, as key:value,key:value"},
		{"status-lease-name", "string", "vpa-admission-controller", "lease that says it works"},
		{"status-lease-namespace", "string", "", "its namespace; empty means NAMESPACE, then kube-system"},
		{"status-lease-update-interval", "duration", "10s", "time between two renewals; positive"},
		{"max-allowed-cpu-boost", "quantity", "", "most CPU a start-up boost may lead to"},
	})
}

func commonFlags() []Flag {
	return []Flag{
		{"kubeconfig", "string", "", "file with the cluster's address and credentials; empty means in the cluster"},
		{"kube-api-qps", "float", "50", "requests per second to the API server"},
		{"kube-api-burst", "float", "100", "requests to the API server at once"},
		{"profiling", "bool", "false", "serve /debug/pprof/"},
		{"vpa-object-namespace", "string", "", "only this namespace's autoscalers; not together with the next"},
		{"ignored-vpa-object-namespaces", "string", "", "all autoscalers but those of these namespaces, separated by commas"},
		{"feature-gates", "mapStringBool", "", "AllAlpha, AllBeta, CPUStartupBoost, InPlace, PerVPAConfig; all off"},
	}
}

func klogFlags() []Flag {
	return []Flag{
		{"v", "Level", "4", "how much is logged"},
		{"vmodule", "moduleSpec", "", "how much is logged, file by file"},
		{"logtostderr", "bool", "true", "log to standard error and not to files"},
		{"alsologtostderr", "bool", "false", "log to standard error and to files"},
		{"alsologtostderrthreshold", "severity", "", "least severity that alsologtostderr sends to standard error"},
		{"stderrthreshold", "severity", "info", "least severity that goes to standard error"},
		{"legacy-stderr-threshold-behavior", "bool", "true", "stderrthreshold does nothing while logtostderr is on"},
		{"log-dir", "string", "", "folder of the log files"},
		{"log-file", "string", "", "the log file"},
		{"log-file-max-size", "uint", "1800", "its greatest size in megabytes; 0 means without limit"},
		{"log-backtrace-at", "traceLocation", ":0", "file:line whose message comes with a stack trace"},
		{"add-dir-header", "bool", "false", "log the source file's folder"},
		{"skip-headers", "bool", "false", "log without a prefix"},
		{"skip-log-headers", "bool", "false", "start log files without a header"},
		{"one-output", "bool", "false", "write each message to the file of its own severity only"},
	}
}

func electionFlags(lease string) []Flag {
	return []Flag{
		{"leader-elect", "bool", "false", "work only while holding a lease"},
		{"leader-elect-lease-duration", "duration", "15s", "how long a lease is honoured after it was renewed"},
		{"leader-elect-renew-deadline", "duration", "10s", "how long its holder tries to renew it"},
		{"leader-elect-retry-period", "duration", "2s", "time between two attempts"},
		{"leader-elect-resource-lock", "string", "leases", "kind of the lock; only leases"},
		{"leader-elect-resource-name", "string", lease, "name of the lease"},
		{"leader-elect-resource-namespace", "string", "kube-system", "its namespace"},
	}
}

func sorted(groups ...[]Flag) []Flag {
	all := slices.Concat(groups...)
	slices.SortFunc(all, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return all
}
