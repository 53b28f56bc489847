// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

const (
	benchPods   = 15_000
	benchPerPod = 2 // containers
	benchScrape = 30 * time.Second
	benchLength = 12 * time.Minute
)

// BenchmarkWorkloadAlerts_15000Pods is one evaluation of all rules on workloads, in a cluster with 30,000 containers in pods of 20 replicas. Half
// of the containers have a limit; one in 20 is above its request, and one in 40 is throttled.
func BenchmarkWorkloadAlerts_15000Pods(b *testing.B) {
	store := teststorage.New(b)
	defer store.Close()
	var fleet []sized
	for i := range benchPods {
		fleet = append(fleet, seriesOf(i)...)
	}
	for i := range 240 {
		node := fmt.Sprint("n", i)
		fleet = append(fleet, sized{labels.FromStrings("__name__", "kube_node_status_allocatable", "resource", "cpu", "node", node), 64, false},
			sized{labels.FromStrings("__name__", "kube_node_info", "kernel_version", "5.15.0", "node", node), 1, false})
	}
	for at := time.Duration(0); at <= benchLength; at += benchScrape {
		scrape(b, store, fleet, at)
	}
	engine := promqltest.NewTestEngine(b, false, 0, 50_000_000)
	var ordered []rules.Rule
	for _, g := range groups(b) {
		if g.Name == "podfit-workloads" {
			ordered, _ = rulesOf(b, g)
		}
	}
	g := rules.NewGroup(rules.GroupOptions{Name: "workloads", Interval: time.Minute, Rules: ordered, Opts: &rules.ManagerOptions{
		Context: b.Context(), QueryFunc: rules.EngineQueryFunc(engine, store), Appendable: store, Queryable: store,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	}})
	at := time.Unix(0, 0).Add(benchLength)
	g.Eval(b.Context(), at)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		at = at.Add(time.Millisecond)
		g.Eval(b.Context(), at)
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
	for _, r := range ordered {
		if r.LastError() != nil {
			b.Errorf("%s: %v", r.Name(), r.LastError())
		}
		b.Logf("%8.1f ms  %s", float64(r.GetEvaluationDuration().Microseconds())/1000, r.Name())
	}
}

// cpuTime returns the CPU time of the process, which does not depend on the load of the machine as much as the time of the benchmark.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// sized is a series with its value, which is a rate for a counter.
type sized struct {
	labels  labels.Labels
	value   float64
	counter bool
}

func seriesOf(i int) (out []sized) {
	namespace, pod := fmt.Sprint("team-", i%200), fmt.Sprint("pod-", i)
	owner, node := fmt.Sprint("web-", i/20), fmt.Sprint("n", i%240)
	out = append(out, sized{labels.FromStrings("__name__", "kube_pod_info", "namespace", namespace, "pod", pod, "node", node, "created_by_name", owner), 1, false})
	for k := range benchPerPod {
		id := i*benchPerPod + k
		add := func(metric string, value float64, counter bool, more ...string) {
			out = append(out, sized{labels.FromStrings(append(more, "__name__", metric, "namespace", namespace, "pod", pod, "container", fmt.Sprint("c", k))...), value, counter})
		}
		used, throttled := 0.2, 0.5
		if id%20 == 0 {
			used = 0.45
		}
		if id%40 == 0 {
			throttled = 5
		}
		add("container_cpu_usage_seconds_total", used, true)
		add("kube_pod_container_resource_requests", 0.3, false, "resource", "cpu")
		add("kube_pod_container_status_running", 1, false)
		add("kube_pod_container_state_started", -1e6, false)
		if id%2 == 0 {
			add("kube_pod_container_resource_limits", 1, false, "resource", "cpu")
			add("container_cpu_cfs_periods_total", 10, true)
			add("container_cpu_cfs_throttled_periods_total", throttled, true)
		}
	}
	return out
}

func scrape(b *testing.B, store storage.Appendable, fleet []sized, at time.Duration) {
	b.Helper()
	app := store.Appender(b.Context())
	for i := range fleet {
		v := fleet[i].value
		if fleet[i].counter {
			v *= at.Seconds()
		}
		if _, err := app.Append(0, fleet[i].labels, at.Milliseconds(), v); err != nil {
			b.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		b.Fatal(err)
	}
}
