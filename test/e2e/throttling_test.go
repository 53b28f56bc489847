// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/prom"
)

// TestThrottling_realPrometheus_sharesArePerPartAndContainer stores the CPU periods of a canary, of the changed pod before, and of other pods
// in a real Prometheus, which evaluates podfit's query.
func TestThrottling_realPrometheus_sharesArePerPartAndContainer(t *testing.T) {
	p := newPlace(t, "throttling")
	server := p.startPrometheus()
	now := time.Now()
	var request []byte
	for pod, share := range map[string]float64{"web.new": 0.5, "web-b": 0.05, "web-c": 0.05, "web-old": 0.02, "webxnew": 0.99} {
		for _, container := range []string{"app", "agent", "POD", ""} {
			if container == "agent" {
				share = 0
			}
			for metric, rate := range map[string]float64{"container_cpu_cfs_periods_total": 10, "container_cpu_cfs_throttled_periods_total": 10 * share} {
				var one []byte
				for _, l := range [][2]string{{"__name__", metric}, {"container", container}, {"namespace", p.ns}, {"pod", pod}} {
					if l[1] != "" {
						one = message(one, 1, message(message(nil, 1, []byte(l[0])), 2, []byte(l[1])))
					}
				}
				for age := 40 * time.Minute; age >= 0; age -= 15 * time.Second {
					one = message(one, 2, sample(rate*(time.Hour-age).Seconds(), now.Add(-age)))
				}
				request = message(request, 1, one)
			}
		}
	}
	request = usageOf(request, p.ns, "web-b", "app", 0.8, now)
	request = usageOf(request, p.ns+"-bank", "vault-0", "app", 5, now)
	header := http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}, "X-Prometheus-Remote-Write-Version": {"0.1.0"},
	}
	if err := server.do(t.Context(), http.MethodPost, "/api/v1/write", header, snappy(request)); err != nil {
		t.Fatal(err)
	}
	client, err := prom.New(prom.Config{
		Address: server.url, Insecure: true, Username: "podfit", Password: "history", Timeout: 10 * time.Second, Length: time.Hour, Resolution: time.Minute,
		NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container", CPUMetric: "container_cpu_usage_seconds_total",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Throttling(t.Context(), rollout.ThrottlingQuery{
		Namespace: p.ns, Canaries: []string{"web.new"}, Others: []string{"web-b", "web-c"}, Changed: "web-old",
		Since: now.Add(-5 * time.Minute), Change: now.Add(-6 * time.Minute), Before: 10 * time.Minute,
	}, now)
	if err != nil || len(got) != 2 || got[0].Container != "agent" || got[1].Container != "app" {
		t.Fatalf("containers %+v, error %v", got, err)
	}
	percent := func(s rollout.Periods) string { return fmt.Sprintf("%.0f%%", 100*s.Throttled/s.All) }
	if text := percent(got[1].Canaries) + " " + percent(got[1].Before) + " " + percent(got[1].Others); text != "50% 2% 5%" {
		t.Errorf("shares of the canary, before and of the others: %s, want 50%% 2%% 5%%", text)
	}
	if all := got[1].Others.All; math.Abs(all-6000) > 300 { // two pods for 5 minutes
		t.Errorf("%f periods of the other pods, want 6000", all)
	}
	containers, err := client.ContainerThrottling(t.Context(), contention.ThrottlingQuery{Namespace: p.ns, Pods: []string{"web.new", "web-b"}}, now)
	if err != nil || len(containers) != 4 {
		t.Fatalf("containers %+v, error %v", containers, err)
	}
	b, changed := containers[1], containers[3] // after the agents
	if b.Pod != "web-b" || b.Container != "app" || math.Abs(b.P95-0.8) > 0.05 || math.Abs(b.Mean-0.8) > 0.05 || math.Abs(b.Throttled/b.All-0.05) > 0.01 || math.Abs(b.All-18000) > 900 {
		t.Errorf("web-b: %+v, want 18000 periods with 5 %% throttled, and a usage of 0.8 cores", b)
	}
	if changed.Pod != "web.new" || math.Abs(changed.Throttled/changed.All-0.5) > 0.02 || !math.IsNaN(changed.P95) {
		t.Errorf("web.new: %+v, want 50 %% throttled, and unknown usage", changed)
	}
	// The query of an objective reads only series of its namespace, whatever it asks for.
	for query, want := range map[string]string{
		"sum(rate(container_cpu_usage_seconds_total[5m])) < 1":                                                     "[0.8]",
		"quantile(0.5, rate(container_cpu_usage_seconds_total[5m] offset 5m)) >= -1":                               "[0.8]",
		"count(container_cpu_usage_seconds_total or container_cpu_usage_seconds_total{namespace=~\".+\"}) < 1":     "[1.0]",
		"sum(rate(container_cpu_usage_seconds_total{namespace=\"" + p.ns + "-bank\"}[5m])) < 1":                    "[]",
		"container_cpu_cfs_periods_total < 1":                                                                      "two",
		"no_such_metric < 1":                                                                                       "[]",
		"sum(container_cpu_usage_seconds_total) / sum(container_cpu_usage_seconds_total{pod=\"vault-0\"}) * 0 < 1": "[]",
	} {
		values, refused, err := client.Objective(t.Context(), p.ns, query, now)
		text := fmt.Sprintf("%.1f", values)
		if len(values) == 2 {
			text = "two"
		}
		if err != nil || refused != "" || text != want {
			t.Errorf("%s: %s, refused %q, error %v, want %s", query, text, refused, err, want)
		}
	}
	if values, refused, err := client.Objective(t.Context(), p.ns, "(container_cpu_cfs_periods_total * on (container) container_cpu_cfs_throttled_periods_total) < 1", now); err != nil || !strings.HasPrefix(refused, "execution: ") {
		t.Errorf("several series match, and the values are %v, refused %q, error %v", values, refused, err)
	}
}

// usageOf adds 40 minutes of CPU usage of a container, in cores, to a request of the remote write protocol.
func usageOf(request []byte, namespace, pod, container string, cores float64, now time.Time) []byte {
	var one []byte
	for _, l := range [][2]string{{"__name__", "container_cpu_usage_seconds_total"}, {"container", container}, {"namespace", namespace}, {"pod", pod}} {
		one = message(one, 1, message(message(nil, 1, []byte(l[0])), 2, []byte(l[1])))
	}
	for age := 40 * time.Minute; age >= 0; age -= 15 * time.Second {
		one = message(one, 2, sample(cores*(time.Hour-age).Seconds(), now.Add(-age)))
	}
	return message(request, 1, one)
}
