// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"strings"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
)

// Essential lists by command the flags that its help shows, separated by blanks, most important first. Commands that are not in it have few flags, and show all.
var Essential = map[string]string{
	// A trial needs the cluster and a dry run; then come the decisions that podfit cannot take: HPAs, autoscaled nodes, the amount of changes.
	"run": "dry-run context namespace compatibility hpa min-replicas replacement-must-fit max-change-per-hour-cluster leader-elect web-address v",
	// Which VPAs, how often, from which history, and the floor and the margin that small containers meet first.
	"recommender": "context namespace recommender-name recommender-interval storage prometheus-address history-length recommendation-margin-fraction pod-recommendation-min-memory-mb leader-elect v",
	// When pods may be evicted, and how many.
	"updater": "dry-run context namespace updater-interval min-replicas eviction-tolerance replacement-must-fit oom-rescue max-change-per-hour-cluster leader-elect v",
	// How the API server reaches and trusts the webhook, and what happens if it does not answer.
	"admission-controller": "context namespace port webhook-service client-ca-file tls-cert-file tls-private-key register-webhook register-by-url webhook-failure-policy-fail v",
	// The cluster, and what is added to it: history, prices, and viewers on other machines.
	"web": "context namespace prometheus web-prices web-exclude-namespaces web-address web-auth web-hosts",
	// What is reviewed, from which usage, by which profile, and the form of the result.
	"recommend": "context namespace selector source prometheus history profile prices output top fail-on",
	// The object, the time and the what-ifs. Flags of the jobs are read from the cluster.
	"explain": "context namespace container at if prometheus output",
	// The history, the pools, and the form of the result.
	"capacity": "context prometheus pool lead-time fragments for apply output fail-on",
	// The usage, the recommenders, and how they are compared.
	"backtest": "trace prometheus namespace all-namespaces history-length recommenders learning nodes cpu-price memory-price output",
}

// A FlagGroup is a group of flags in the help, separated by blanks.
type FlagGroup struct{ Title, Flags string }

// FlagGroups are the groups of the help with all flags, in its order. A flag is in the same group in every command. Those without effect
// are not listed here.
var FlagGroups = []FlagGroup{
	{"Which cluster and which objects", `
		context kubeconfig as namespace all-namespaces vpa-object-namespace ignored-vpa-object-namespaces exclude-namespaces recommender-name kind
		selector container pool namespace-opt-in`},
	{"Dry run and compatibility with upstream", "dry-run compatibility updater-rules feature-gates own-conditions updating-condition"},
	{"Where usage comes from", `
		source for trace since until prometheus prometheus-header prometheus-param prometheus-token-file cluster-label history load no-cache storage
		prometheus-address prometheus-insecure prometheus-bearer-token prometheus-bearer-token-file username password prometheus-query-timeout
		history-length history-resolution history-cpu-metric history-memory-metric prometheus-job prometheus-cadvisor-job-name
		container-namespace-label container-pod-name-label container-name-label namespace-label pod-label container-label metric-for-pod-labels
		pod-label-prefix pod-namespace-label pod-name-label use-external-metrics external-metrics-cpu-metric external-metrics-memory-metric
		memory-saver kubelet-usage kubelet-insecure-tls`},
	{"How containers are sized", `
		profile recommenders mode learning parallel limits hpa recommendation-margin-fraction target-cpu-percentile target-memory-percentile
		recommendation-lower-bound-cpu-percentile recommendation-lower-bound-memory-percentile recommendation-upper-bound-cpu-percentile
		recommendation-upper-bound-memory-percentile confidence-interval-cpu confidence-interval-memory cpu-histogram-decay-half-life
		memory-histogram-decay-half-life memory-aggregation-interval memory-aggregation-interval-count oom-bump-up-ratio oom-min-bump-up-bytes
		pod-recommendation-min-cpu-millicores pod-recommendation-min-memory-mb container-recommendation-max-allowed-cpu
		container-recommendation-max-allowed-memory max-allowed-cpu-boost cpu-integer-post-processor-enabled round-cpu-millicores round-memory-bytes
		humanize-memory size-sidecars size-pod-level size-by-run role-history`},
	{"When recommendations are written", "recommender-interval status-interval update-worker-count checkpoints-timeout checkpoints-gc-interval"},
	{"When pods are changed", `
		updater-interval early-passes pod-update-threshold in-recommendation-bounds-eviction-lifetime-threshold evict-after-oom-threshold oom-rescue
		concurrent-cpu-startup-boost-syncs use-admission-controller-status admission-controller-status-lease-name
		admission-controller-status-lease-namespace admission-controller-status-lease-timeout`},
	{"Safety: how much is changed at a time", `
		min-replicas eviction-tolerance eviction-rate-limit eviction-rate-burst eviction-backoff statefulset-pause in-place-skip-disruption-budget
		max-change-per-hour-namespace max-change-per-hour-cluster freeze-configmap`},
	{"Room on nodes and capacity", `
		replacement-must-fit fit-nodes max-node-cpu max-node-memory make-room scheduler-resize-preemption mover node-guard node-guard-pressure
		capacity-before-eviction placeholder-image provisioning-class capacity-plan lead-time fragments apply max-moves yes`},
	{"Webhook and its certificate", `
		port register-webhook register-by-url webhook-service webhook-address webhook-port webhook-timeout-seconds webhook-failure-policy-fail
		webhook-labels client-ca-file tls-cert-file tls-private-key reload-cert min-tls-version tls-ciphers status-lease-name status-lease-namespace
		status-lease-update-interval`},
	{"Web page", "web-address web-auth web-hosts web-trusted-proxies web-unauthenticated web-prices web-exclude-namespaces"},
	{"API server and leader election", `
		kube-api-qps kube-api-burst leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-retry-period
		leader-elect-resource-lock leader-elect-resource-name leader-elect-resource-namespace`},
	{"Metrics and logs", "address export-recommendations profiling log-format v log-file logtostderr alsologtostderr verbose"},
	{"Money and comparison", "prices opencost no-money nodes cpu-price memory-price currency oom-budget cpu-shortfall"},
	{"What is shown", "at if output group-by sort top min-saving include-young workloads timeline no-color quiet"},
	{"In pipelines", "fail-on fail-saving"},
	{"Help", "help help-all"},
}

// HelpAll is the flag that prints the help with all flags.
const HelpAll = "help-all"

// Prepare completes a command: it takes no arguments if its usage line has none, a long help has a short form, and shells complete the values
// of Choices.
func Prepare(c *cobra.Command) {
	if c.Args == nil && !strings.Contains(c.Use, " ") {
		c.Args = NoArguments
	}
	if Essential[c.Name()] != "" {
		c.Flags().BoolFunc(HelpAll, "Print this help with all flags, in groups.", func(value string) error { return c.Flags().Set("help", value) })
	}
	for flag, values := range Choices {
		if _, isSet := c.GetFlagCompletionFunc(flag); !isSet && c.Flags().Lookup(flag) != nil {
			process.CompleteFlag(c, flag, values...)
		}
	}
}

// Choices are the values of the flags that accept one of a few words.
var Choices = map[string][]string{
	"capacity-before-eviction": {"off", "ask"}, compatibility.FlagName: compatibility.Modes(), "hpa": {process.HPALeave, process.HPAIgnore}, "log-format": {"text", "json"}, "make-room": {"off", "shrink", "split", "move"}, "scheduler-resize-preemption": {"auto", "on", "off"},
	"min-tls-version": {"tls1_2", "tls1_3"}, "mover": {"evict", "room", "surge"}, "oom-rescue": {"off", "evict", "delete"}, "storage": {"checkpoint", "prometheus"}, "updater-rules": compatibility.Modes(),
	"web-auth": {"none", "token", "header"},
}
