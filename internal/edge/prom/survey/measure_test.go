// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"strings"
	"testing"
	"time"
)

// The expressions are those that test/e2e/survey sends to a real Prometheus.
func TestExpression_measures_areTheseQueries(t *testing.T) {
	const (
		one    = `{cluster="eu",namespace="shop",pod!="",container!="",container!="POD"}`
		two    = `{namespace=~"a\\.b|shop",pod!="",container!="",container!="POD"}`
		owners = ` * on (namespace,pod) group_left (workload,workload_type) topk by (namespace,pod) (1, ` +
			`group by (namespace,pod,workload,workload_type) (last_over_time(namespace_workload_pod:kube_pod_owner:relabel{namespace=~"a\\.b|shop",workload!=""}[1h]))))`
	)
	single := selector{namespaces: []string{"shop"}, labels: []Label{{"cluster", "eu"}}}
	several := selector{namespaces: []string{"a.b", "shop"}}
	for _, tt := range []struct {
		measure Measure
		of      selector
		joined  bool
		window  time.Duration
		want    string
	}{
		{CPU, single, false, 5 * time.Minute, `max by (namespace,pod,container) (max_over_time(rate(container_cpu_usage_seconds_total` + one + `[300s])[1h:300s]))`},
		{CPU, single, false, 40 * time.Minute, `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total` + one + `[1h]))`},
		{Memory, single, false, 0, `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes` + one + `[1h]))`},
		{Memory, several, true, 0, `max by (namespace,workload,workload_type,container) ((max_over_time(container_memory_working_set_bytes` + two + `[1h]))` + owners},
		{Kills, several, true, 0, `sum by (namespace,workload,workload_type,container) (((max by (namespace,pod,container) (round(increase(kube_pod_container_status_restarts_total` + two +
			`[1h])) > 0) and on (namespace,pod,container) max by (namespace,pod,container) (max_over_time(kube_pod_container_status_last_terminated_reason` +
			strings.TrimSuffix(two, "}") + `,reason="OOMKilled"}[1h]) > 0)) or max by (namespace,pod,container) (round(increase(container_oom_events_total` + two + `[1h])) > 0))` + owners},
		{KilledRequest, single, false, 0, `max by (namespace,pod,container) (max by (namespace,pod,container) (max_over_time(kube_pod_container_resource_requests` + strings.TrimSuffix(one, "}") +
			`,resource="memory"}[1h])) and on (namespace,pod,container) (` + kills(single) + `))`},
		{Throttled, single, false, 0, `max by (namespace,pod,container) (increase(container_cpu_cfs_throttled_periods_total` + one +
			`[1h]) / (increase(container_cpu_cfs_periods_total` + one + `[1h]) > 0) > 0.01)`},
	} {
		if got := tt.measure.expression(tt.of, tt.joined, tt.window); got != tt.want {
			t.Errorf("%v: got\n%s\nwant\n%s", tt.measure, got, tt.want)
		}
	}
}
