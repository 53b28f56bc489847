// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ruleFiles are the PrometheusRule objects: the first one has the alerts about podfit and the capacity, the second one those about workloads.
var ruleFiles = []string{"deploy/monitoring/alerts.yaml", "deploy/monitoring/workloads/alerts.yaml"}

// alerts returns the names of the alerts that fire.
func (p *prometheus) alerts(ctx context.Context) (map[string]bool, error) {
	found, err := p.query(ctx, `ALERTS{alertstate="firing"}`)
	out := map[string]bool{}
	for _, a := range found {
		out[a.Metric["alertname"]] = true
	}
	return out, err
}

// firing waits until alerts fire in the real Prometheus, without their waiting time.
func (w *world) firing(t *testing.T, names ...string) {
	t.Helper()
	eventually(t, "the alerts fire", time.Minute, func(ctx context.Context) error {
		got, err := w.prometheus.alerts(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !got[name] {
				return fmt.Errorf("only %v fire, want %v", slices.Sorted(maps.Keys(got)), names)
			}
		}
		return nil
	})
}

// lasting is the time for which the state of the cluster is continued.
const lasting = 7 * time.Hour

// lastingAlerts evaluates the alerts as if what Prometheus has scraped lasted for seven hours: gauges keep their values, and counters grow at their
// present rates. Only two workloads change in this time: the containers of starter start again 40 minutes before its end and take that long, and the
// load of spare is high in the last two hours only.
func (w *world) lastingAlerts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "series.json")
	text, err := json.Marshal(w.continued(t, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, f := range ruleFiles {
		rules = append(rules, filepath.Join(w.root, f))
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./evaluate", "-rules="+strings.Join(rules, ","), "-series="+file)
	cmd.Dir = filepath.Join(w.root, "test", "monitoring")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("evaluate the rules: %v: %s", err, errs.String())
	}
	var alerts []struct{ Labels, Annotations map[string]string }
	if err := json.Unmarshal(out, &alerts); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, a := range alerts {
		l := a.Labels
		about := l["resource"]
		if l["pod"] != "" && l["namespace"] == namespace {
			about = workloadOf(l["pod"])
		}
		key := strings.TrimSpace(strings.Join([]string{l["alertname"], about, l["cause"]}, " "))
		got[key] = true
		t.Logf("%s: %s", key, a.Annotations["description"])
	}
	want := map[string]bool{
		"PodfitCapacityAbove70 cpu":                       true,
		"PodfitCapacityOrderNow cpu":                      true,
		"PodfitCannotLoseANode cpu":                       true,
		"PodfitUsageAboveRequest runaway OneReplica":      true,
		"PodfitUsageAboveRequest starter Starting":        true,
		"PodfitUsageAboveRequest low RequestTooLow":       true,
		"PodfitUsageAboveRequest spare NodeHasSpare":      true,
		"PodfitThrottledAtLimit limited":                  true,
		"PodfitThrottledFarFromLimit bursty KernelTooOld": true, // the simulated nodes have kernel 0.0.0
		"PodfitNoCPURequest":                              true,
		"PodfitJVMSeesAllCores":                           true,
	}
	if !maps.Equal(got, want) {
		t.Errorf("firing: %q\nwant:   %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// kept are the gauges that are continued, and counted the counters. recorded- are the pods of the backfilled history.
const (
	kept = `{__name__=~"podfit_capacity_.+|kube_pod_info|kube_pod_container_resource_(requests|limits)|kube_pod_container_status_running|kube_pod_container_state_started|kube_node_info|kube_node_status_allocatable",pod!~"recorded-.+"}`

	rateWindow = "50s" // four periods of bursty
)

var counted = []string{"container_cpu_usage_seconds_total", "container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"}

// continued returns the series of the seven hours from a time on.
func (w *world) continued(t *testing.T, from time.Time) (out []series) {
	t.Helper()
	end := from.Add(lasting)
	restart, load := end.Add(-40*time.Minute), end.Add(-2*time.Hour)
	w.each(t, kept, func(labels map[string]string, now float64) {
		out = append(out, extended(labels, from, func(at time.Time) float64 {
			if labels["__name__"] == "kube_pod_container_state_started" && isOf(labels, "starter") && !at.Before(restart) {
				return float64(restart.Unix())
			}
			return now
		}))
	})
	for _, name := range counted {
		// Without id and image, as several series of a container have the same usage.
		query := fmt.Sprintf(`max by (namespace, pod, container) (rate(%s{namespace=%q,container="app"}[%s]))`, name, namespace, rateWindow)
		w.each(t, query, func(labels map[string]string, rate float64) {
			labels["__name__"] = name
			sum := 0.0
			out = append(out, extended(labels, from, func(at time.Time) float64 {
				switch isUsage := name == counted[0]; {
				case isUsage && isOf(labels, "starter") && !at.Before(restart):
					sum += 3 * 60
				case isUsage && isOf(labels, "spare") && at.Before(load):
					sum += 0.3 * 60
				default:
					sum += rate * 60
				}
				return sum
			}))
		})
	}
	pods, err := w.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods { // kube-state-metrics has these with --metric-labels-allowlist
		if runtime := pods[i].Labels["podfit.dev/runtime"]; runtime != "" {
			labels := map[string]string{"__name__": "kube_pod_labels", "namespace": namespace, "pod": pods[i].Name, "label_podfit_dev_runtime": runtime}
			out = append(out, extended(labels, from, func(time.Time) float64 { return 1 }))
		}
	}
	return out
}

// each runs a query that has a result, and calls a function for each element.
func (w *world) each(t *testing.T, query string, do func(labels map[string]string, v float64)) {
	t.Helper()
	found, err := w.prometheus.query(t.Context(), query)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d results, error %v", query, len(found), err)
	}
	for _, f := range found {
		text, _ := f.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		do(f.Metric, v)
	}
}

// extended returns a series with a value per minute.
func extended(labels map[string]string, from time.Time, value func(time.Time) float64) series {
	s := sampled(from, from.Add(lasting), time.Minute, value)
	s.Labels = labels
	return s
}

// isOf reports whether labels are those of a pod of a workload.
func isOf(labels map[string]string, workload string) bool {
	return labels["namespace"] == namespace && labels["pod"] != "" && workloadOf(labels["pod"]) == workload
}
