// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// pool returns the metrics of the CPU of a pool of 192 cores, whose largest node has 64.
func pool(requested string, more ...series) []series {
	return append([]series{
		{`podfit_capacity_requested{pool="worker",resource="cpu",pod="a"}`, requested},
		{`podfit_capacity_total{pool="worker",resource="cpu",pod="a"}`, "192x300"},
		{`podfit_capacity_without_largest_node{pool="worker",resource="cpu",pod="a"}`, "128x300"},
	}, more...)
}

// day is a day of 1970 as Unix time.
func day(n int) int { return n * 24 * 3600 }

var capacityScenarios = []scenario{
	{"PodfitCapacityAbove70", true, "80 % for two hours", pool("154x300",
		series{`podfit_capacity_growth_28d{pool="worker",resource="cpu",cause="replicas"}`, "19.5x300"},
		series{`podfit_capacity_growth_28d{pool="worker",resource="cpu",cause="gone"}`, "-3x300"},
		series{`podfit_capacity_growth_28d{pool="worker",resource="cpu",cause="new"}`, "0x300"},
		series{`podfit_capacity_growth_28d{pool="other",resource="cpu",cause="new"}`, "7x300"},
		series{`podfit_capacity_recoverable{pool="worker",resource="cpu"}`, "71x300"}),
		2 * time.Hour, []string{`severity="warning"`, "cpu in pool worker are 80.21% of", "by cause: gone -3.0 cores, replicas +19.5 cores.", "could give back: +71.0 cores."}},
	{"PodfitCapacityAbove70", true, "memory of a pool without a history", []series{
		{`podfit_capacity_requested{pool="worker",resource="memory"}`, fmt.Sprintf("%dx300", 90<<30)}, {`podfit_capacity_total{pool="worker",resource="memory"}`, fmt.Sprintf("%dx300", 100<<30)},
		{`podfit_capacity_recoverable{pool="worker",resource="memory"}`, fmt.Sprintf("%dx300", 5<<30)}},
		2 * time.Hour, []string{"90% of its capacity. Growth by cause is not known yet.", "5GiB."}},
	{"PodfitCapacityAbove70", false, "60 %", pool("115x300"), 2 * time.Hour, nil},
	{"PodfitCapacityAbove70", false, "80 % for half an hour", pool("115x60 154x300"), 90 * time.Minute, nil},
	{"PodfitCapacityAbove70", false, "a pool without nodes", []series{{`podfit_capacity_requested{pool="worker",resource="cpu"}`, "5x300"}, {`podfit_capacity_total{pool="worker",resource="cpu"}`, "0x300"}}, 2 * time.Hour, nil},
	{"PodfitCapacityOrderNow", true, "the order-by date is today", pool("154x300",
		series{`podfit_capacity_order_by_timestamp_seconds{pool="worker",resource="cpu"}`, "0x300"},
		series{`podfit_capacity_reaches_threshold_timestamp_seconds{pool="worker",resource="cpu",percent="100"}`, fmt.Sprintf("%dx300", day(17))},
		series{`podfit_capacity_reaches_threshold_latest_timestamp_seconds{pool="worker",resource="cpu",percent="100"}`, fmt.Sprintf("%dx300", day(30))}),
		2 * time.Hour, []string{"pool worker is 1 Jan 1970, because of cpu", "between 18 Jan 1970 and 31 Jan 1970."}},
	{"PodfitCapacityOrderNow", true, "the range has no end", pool("154x300",
		series{`podfit_capacity_order_by_timestamp_seconds{pool="worker",resource="cpu"}`, "0x300"},
		series{`podfit_capacity_reaches_threshold_timestamp_seconds{pool="worker",resource="cpu",percent="100"}`, fmt.Sprintf("%dx300", day(17))}),
		2 * time.Hour, []string{"between 18 Jan 1970 and a day after the forecast."}},
	{"PodfitCapacityOrderNow", true, "the pool is full", pool("200x300",
		series{`podfit_capacity_order_by_timestamp_seconds{pool="worker",resource="cpu"}`, "0x300"},
		series{`podfit_capacity_reaches_threshold_timestamp_seconds{pool="worker",resource="cpu",percent="100"}`, "0x300"}),
		2 * time.Hour, []string{"100 % of the capacity or more since 1 Jan 1970."}},
	{"PodfitCapacityOrderNow", false, "the order-by date is in four days", pool("154x300",
		series{`podfit_capacity_order_by_timestamp_seconds{pool="worker",resource="cpu"}`, fmt.Sprintf("%dx300", day(4))}), 2 * time.Hour, nil},
	{"PodfitCapacityOrderNow", false, "no order is needed within the forecast", pool("154x300"), 2 * time.Hour, nil},
	{"PodfitCannotLoseANode", true, "requests exceed the capacity of two of three nodes", pool("154x300"), 20 * time.Minute, []string{"pool worker fails", "requests for cpu"}},
	{"PodfitCannotLoseANode", false, "requests fit on two of three nodes", pool("120x300"), 20 * time.Minute, nil},
	{"PodfitCannotLoseANode", false, "a node is replaced within five minutes", pool("120x60 154x5 120x60"), 66 * time.Minute, nil},
}

// A container is what cAdvisor and kube-state-metrics report of a container in three hours. Empty fields are not reported.
type container struct {
	pod, name, owner, node string
	used                   string // cores, as values of a rate: "0.2x60 0.5x120"
	request, limit         float64
	throttled              float64 // share of the CPU periods
	started                int     // minute
	finished               bool
}

const minutes = 200

// counter returns the values of a counter that increases by a rate each second. The rate is "0.2" or "0.2x60 0.5", with the rest of the time.
func counter(rate string) string {
	var out strings.Builder
	total, left := 0.0, minutes
	for part := range strings.FieldsSeq(rate) {
		var v float64
		n := left
		if _, err := fmt.Sscanf(part, "%gx%d", &v, &n); err != nil {
			if _, err := fmt.Sscanf(part, "%g", &v); err != nil {
				panic(part)
			}
		}
		for range n {
			fmt.Fprintf(&out, "%g ", total)
			total += 60 * v
		}
		left -= n
	}
	return out.String()
}

// workload returns the series of containers on nodes with 64 cores, of which other pods use a share.
func workload(busy float64, containers ...container) []series {
	all := append([]container{{pod: "rest", name: "rest", owner: "rest", node: "n1", used: fmt.Sprint(64 * busy), request: 64}}, containers...)
	always := func(v float64) string { return fmt.Sprintf("%gx%d", v, minutes) }
	out := []series{
		{`kube_node_status_allocatable{node="n1",resource="cpu"}`, always(64)},
		{`kube_node_status_allocatable{node="n2",resource="cpu"}`, always(64)},
		{`kube_node_info{node="n1",kernel_version="5.15.0-119-generic"}`, always(1)},
		{`kube_node_info{node="n2",kernel_version="4.14.35"}`, always(1)},
	}
	for _, c := range all {
		pod := fmt.Sprintf(`namespace="shop",pod=%q`, c.pod)
		one := fmt.Sprintf(`%s,container=%q`, pod, c.name)
		if c.node != "" {
			// Two replicas of kube-state-metrics.
			for _, replica := range []string{"a", "b"} {
				out = append(out, series{fmt.Sprintf(`kube_pod_info{%s,node=%q,created_by_kind="ReplicaSet",created_by_name=%q,instance=%q}`, pod, c.node, c.owner, replica), always(1)})
			}
		}
		if c.used != "" {
			out = append(out, series{`container_cpu_usage_seconds_total{` + one + `,cpu="total"}`, counter(c.used)})
		}
		running := 1.0
		if c.finished {
			running = 0
		}
		out = append(out, series{`kube_pod_container_status_running{` + one + `}`, always(running)},
			series{`kube_pod_container_state_started{` + one + `}`, always(float64(60 * c.started))})
		if c.request > 0 {
			out = append(out, series{`kube_pod_container_resource_requests{` + one + `,resource="cpu",unit="core",node="` + c.node + `"}`, always(c.request)})
		}
		if c.limit > 0 {
			out = append(out, series{`kube_pod_container_resource_limits{` + one + `,resource="cpu",unit="core",node="` + c.node + `"}`, always(c.limit)},
				series{`container_cpu_cfs_periods_total{` + one + `}`, counter("10")},
				series{`container_cpu_cfs_throttled_periods_total{` + one + `}`, counter(fmt.Sprint(10 * c.throttled))})
		}
	}
	return out
}

// without removes the series of a metric.
func without(metric string, all []series) []series {
	return slices.DeleteFunc(all, func(s series) bool { return strings.HasPrefix(s.name, metric+"{") })
}

// Scenarios are evaluated after 100 minutes. Containers of the pod "web-1" have the problem.
var (
	greedy    = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.5", request: 0.2, started: -600}
	modest    = container{pod: "web-2", name: "app", owner: "web", node: "n1", used: "0.1", request: 0.2, started: -600}
	modest2   = container{pod: "web-3", name: "app", owner: "web", node: "n1", used: "0.1", request: 0.2, started: -600}
	restarted = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.5", request: 0.2, started: 70}
	small     = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.14", request: 0.1, started: -600}
	briefly   = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.1x80 0.5", request: 0.2, started: -600}
	atLimit   = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.49", request: 0.2, limit: 0.5, started: -600}
	throttled = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.49", request: 0.2, limit: 0.5, throttled: 0.6, started: -600}
	bursts    = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.2", request: 0.3, limit: 1, throttled: 0.4, started: -600}
	oldKernel = container{pod: "web-1", name: "app", owner: "web", node: "n2", used: "0.2", request: 0.3, limit: 1, throttled: 0.4, started: -600}
	between   = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.7", request: 0.8, limit: 1, throttled: 0.4, started: -600}
	free      = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.2", started: -600}
	trap      = container{pod: "web-1", name: "app", owner: "web", node: "n1", used: "0.2", request: 1, started: -600}
)

const after = 100 * time.Minute

func isJVM(all []series) []series {
	return append(all, series{`kube_pod_labels{namespace="shop",pod="web-1",label_podfit_dev_runtime="jvm"}`, fmt.Sprintf("1x%d", minutes)})
}

func with(c container, change func(*container)) container {
	change(&c)
	return c
}

var workloadScenarios = []scenario{
	{"PodfitUsageAboveRequest", true, "the node is busy", workload(0.6, greedy), after, []string{`cause="RequestTooLow"`, `severity="info"`, `pod="web-1"`, "now 0.50 cores", "podfit explain pod/web-1 -n shop"}},
	{"PodfitUsageAboveRequest", true, "the node has spare CPU", workload(0.2, greedy), after, []string{`cause="NodeHasSpare"`, `severity="info"`, "Node n1 has spare CPU"}},
	{"PodfitUsageAboveRequest", true, "the replicas use much less", workload(0.6, greedy, modest, modest2), after, []string{`cause="OneReplica"`, `severity="info"`, "the pods of web:"}},
	{"PodfitUsageAboveRequest", true, "all replicas use much", workload(0.6, greedy, with(greedy, func(c *container) { c.pod = "web-2" }), with(greedy, func(c *container) { c.pod = "web-3" })), after, []string{`cause="RequestTooLow"`}},
	{"PodfitUsageAboveRequest", true, "pods without an owner are no replicas", workload(0.6, with(greedy, func(c *container) { c.owner = "<none>" }), with(modest, func(c *container) { c.owner = "<none>" }), with(modest2, func(c *container) { c.owner = "<none>" })), after, []string{`cause="RequestTooLow"`}},
	{"PodfitUsageAboveRequest", true, "it restarted", workload(0.6, restarted, modest, modest2), after, []string{`cause="Starting"`, `severity="info"`}},
	{"PodfitUsageAboveRequest", true, "at the limit", workload(0.2, atLimit), after, []string{`cause="RequestTooLow"`, `severity="warning"`}},
	{"PodfitUsageAboveRequest", true, "the allocatable of nodes is not known", without("kube_node_status_allocatable", workload(0.2, greedy)), after, []string{`cause="RequestTooLow"`, `severity="info"`}},
	{"PodfitUsageAboveRequest", false, "throttled at the limit, which has another alert", workload(0.6, throttled), after, nil},
	{"PodfitUsageAboveRequest", false, "for 20 minutes", workload(0.6, briefly), after, nil},
	{"PodfitUsageAboveRequest", false, "by less than 50m", workload(0.6, small), after, nil},
	{"PodfitUsageAboveRequest", false, "usage below the request", workload(0.6, modest), after, nil},
	{"PodfitUsageAboveRequest", false, "no request", workload(0.6, free), after, nil},
	{"PodfitUsageAboveRequest", false, "no requests from kube-state-metrics", without("kube_pod_container_resource_requests", workload(0.6, greedy)), after, nil},
	{"PodfitUsageAboveRequest", false, "no usage from cAdvisor", without("container_cpu_usage_seconds_total", workload(0.6, greedy)), after, nil},
	{"PodfitUsageAboveRequest", false, "no kube-state-metrics", slices.DeleteFunc(workload(0.6, greedy), func(s series) bool { return strings.HasPrefix(s.name, "kube_") }), after, nil},

	{"PodfitThrottledAtLimit", true, "usage at the limit", workload(0.2, throttled), after, []string{`severity="warning"`, "throttled in 60%"}},
	{"PodfitThrottledAtLimit", false, "usage at the limit, not throttled", workload(0.2, atLimit), after, nil},
	{"PodfitThrottledAtLimit", false, "usage far from the limit", workload(0.2, bursts), after, nil},
	{"PodfitThrottledAtLimit", false, "no CPU periods from cAdvisor", without("container_cpu_cfs_periods_total", workload(0.2, throttled)), after, nil},
	{"PodfitThrottledAtLimit", false, "no limits from kube-state-metrics", without("kube_pod_container_resource_limits", workload(0.2, throttled)), after, nil},

	{"PodfitThrottledFarFromLimit", true, "kernel 5.15", workload(0.2, bursts), after, []string{`cause="BurstsOfThreads"`, `severity="info"`, "throttled in 40%"}},
	{"PodfitThrottledFarFromLimit", true, "kernel 4.14", workload(0.2, oldKernel), after, []string{`cause="KernelTooOld"`, `severity="info"`, "Kernel 4.14.35 of node n2"}},
	{"PodfitThrottledFarFromLimit", true, "kernel not known", without("kube_node_info", workload(0.2, oldKernel)), after, []string{`cause="BurstsOfThreads"`}},
	{"PodfitThrottledFarFromLimit", false, "usage at the limit", workload(0.2, throttled), after, nil},
	{"PodfitThrottledFarFromLimit", false, "usage at 70 % of the limit", workload(0.2, between), after, nil},
	{"PodfitThrottledFarFromLimit", false, "throttled in 20 % of the periods", workload(0.2, with(bursts, func(c *container) { c.throttled = 0.2 })), after, nil},

	{"PodfitNoCPURequest", true, "a container without request", workload(0.2, free), after, []string{`severity="info"`, "Container app in 1 pods of namespace shop"}},
	{"PodfitNoCPURequest", false, "all containers have requests", workload(0.2, modest), after, nil},
	{"PodfitNoCPURequest", false, "its pod has finished", workload(0.2, with(free, func(c *container) { c.finished = true })), after, nil},
	{"PodfitNoCPURequest", false, "no requests from kube-state-metrics", without("kube_pod_container_resource_requests", workload(0.2, free, modest)), after, nil},

	{"PodfitJVMSeesAllCores", true, "1000m", isJVM(workload(0.2, trap)), after, []string{`container="app"`, `severity="info"`, "in 1 JVM pods of namespace shop"}},
	{"PodfitJVMSeesAllCores", true, "2550m", isJVM(workload(0.2, with(trap, func(c *container) { c.request = 2.55 }))), after, nil},
	{"PodfitJVMSeesAllCores", false, "1001m", isJVM(workload(0.2, with(trap, func(c *container) { c.request = 1.001 }))), after, nil},
	{"PodfitJVMSeesAllCores", false, "988m", isJVM(workload(0.2, with(trap, func(c *container) { c.request = 0.988 }))), after, nil},
	{"PodfitJVMSeesAllCores", false, "1000m and a limit", isJVM(workload(0.2, with(trap, func(c *container) { c.limit = 2 }))), after, nil},
	{"PodfitJVMSeesAllCores", false, "its pod has finished", isJVM(workload(0.2, with(trap, func(c *container) { c.finished = true }))), after, nil},
	{"PodfitJVMSeesAllCores", false, "1000m and no JVM", workload(0.2, trap), after, nil},
}

// The cause of an alert is exactly one for each container, also while causes change.
func TestUsageAboveRequest_changingCauses_oneAlertForEachContainer(t *testing.T) {
	load := workload(0.6, with(restarted, func(c *container) { c.started = 20 }), with(modest, func(c *container) { c.used = "0.1x90 0.5" }), modest2)
	for at, cause := range map[time.Duration]string{60 * time.Minute: "Starting", 80 * time.Minute: "OneReplica", 150 * time.Minute: "RequestTooLow"} {
		got := fires(t, "PodfitUsageAboveRequest", load, at)
		causes := map[string][]string{}
		for _, a := range got {
			causes[a.Labels.Get("pod")] = append(causes[a.Labels.Get("pod")], a.Labels.Get("cause"))
		}
		if !slices.Equal(causes["web-1"], []string{cause}) {
			t.Errorf("after %v: causes %v, want %s for web-1", at, causes, cause)
		}
	}
}

// workloadAlerts returns the names of the alerts that need metrics of cAdvisor and kube-state-metrics.
func workloadAlerts(t *testing.T) (out []string) {
	t.Helper()
	for _, g := range groups(t) {
		if g.Name != "podfit-workloads" {
			continue
		}
		for _, r := range g.Rules {
			if r.Alert != "" {
				out = append(out, r.Alert)
			}
		}
	}
	return out
}

// The metrics of the alerts on workloads are recorded by rules before, or docs/runbook.md lists them with all labels that the rules select by.
func TestWorkloadAlerts_metrics_areRecordedOrDocumented(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = false
	}
	for _, g := range groups(t) {
		if g.Name != "podfit-workloads" {
			continue
		}
		recorded := map[string]bool{}
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatalf("%s%s: %v", r.Alert, r.Record, err)
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				v, ok := n.(*parser.VectorSelector)
				if !ok || recorded[v.Name] {
					return nil
				}
				if _, ok := listed[v.Name]; !ok {
					t.Errorf("%s%s: docs/runbook.md does not list %s", r.Alert, r.Record, v.Name)
				}
				listed[v.Name] = true
				return nil
			})
			recorded[r.Record] = true
		}
	}
	for name, used := range listed {
		if !used {
			t.Errorf("docs/runbook.md lists %s, which no alert uses", name)
		}
	}
}
