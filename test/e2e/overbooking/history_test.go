// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

const (
	day          = 24 * time.Hour
	historyDays  = 60
	usageDays    = 8   // what the recommender reads
	growthPerDay = 0.9 // cores by which the requests grow
	usageStep    = 5 * time.Minute
	scrapeStep   = 30 * time.Second
)

// A series is a series of the file that test/tsdb reads.
type series struct {
	Labels map[string]string `json:"labels"`
	Start  int64             `json:"start"`
	Step   int64             `json:"step"`
	Values []float64         `json:"values"`
}

// sampled returns a series with the values of a function in [from, to).
func sampled(from, to time.Time, step time.Duration, value func(time.Time) float64, labels ...string) series {
	from = from.Truncate(step)
	s := series{Labels: map[string]string{}, Start: from.Unix(), Step: int64(step / time.Second)}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	for at := from; at.Before(to); at = at.Add(step) {
		s.Values = append(s.Values, value(at))
	}
	return s
}

// daily returns a daily curve with its minimum at 0:00 and its maximum at 12:00 UTC.
func daily(low, high float64) func(hour float64) float64 {
	return func(hour float64) float64 { return low + (high-low)*(1-math.Cos(2*math.Pi*hour/24))/2 }
}

// requestsOn returns the requested cores of a day: 154 today, 0.9 less on each day before, one less on weekends, and a little noise in the past.
func requestsOn(now time.Time, age int) float64 {
	v := requested - growthPerDay*float64(age)
	if w := now.UTC().AddDate(0, 0, -age).Weekday(); age != 0 && (w == time.Saturday || w == time.Sunday) {
		v--
	}
	if age > 0 {
		v += 0.15 * float64(age*7919%5-2)
	}
	return v
}

// trueDate returns the first day on which the requests reach the capacity if they continue to grow in the same way.
func trueDate(now time.Time) time.Time {
	for ahead := 1; ; ahead++ {
		if requestsOn(now, -ahead) >= capacityCores {
			return now.UTC().Truncate(day).AddDate(0, 0, ahead)
		}
	}
}

// requestHistory returns what kube-state-metrics has recorded in a number of days: the requests by node, and the capacity of the nodes.
func requestHistory(now time.Time, nodes []string, days int) (out []series) {
	today := now.UTC().Truncate(day)
	from := today.AddDate(0, 0, -days)
	share := func(at time.Time) float64 {
		age := int(today.Sub(at.UTC().Truncate(day)) / day)
		return requestsOn(now, age) / float64(len(nodes))
	}
	constant := func(v float64) func(time.Time) float64 { return func(time.Time) float64 { return v } }
	for _, node := range nodes {
		pod := []string{"namespace", namespace, "pod", "recorded-" + node}
		add := func(name string, value func(time.Time) float64, labels ...string) {
			out = append(out, sampled(from, now, time.Hour/4, value, append(labels, "__name__", name, "job", "kube-state-metrics")...))
		}
		add("kube_pod_container_resource_requests", share, append(pod, "container", "app", "node", node, "resource", "cpu", "unit", "core")...)
		add("kube_pod_container_resource_requests", constant(13<<30), append(pod, "container", "app", "node", node, "resource", "memory", "unit", "byte")...)
		add("kube_pod_status_phase", constant(1), append(pod, "phase", "Running")...)
		add("kube_node_status_capacity", constant(64), "node", node, "resource", "cpu", "unit", "core")
		add("kube_node_status_capacity", constant(256<<30), "node", node, "resource", "memory", "unit", "byte")
	}
	return out
}

// usageHistory returns what cAdvisor has recorded about the pods in eight days, as if they had run all the time.
func usageHistory(now time.Time, pods []corev1.Pod) (out []series) {
	from := now.Add(-usageDays * day).Truncate(usageStep)
	byName := map[string]workload{}
	for _, w := range scene() {
		byName[w.name] = w
	}
	for i := range pods {
		p := &pods[i]
		w := byName[workloadOf(p.Name)]
		add := func(name string, from time.Time, step time.Duration, value func(time.Time) float64) {
			out = append(out, sampled(from, now, step, value, "__name__", name, "job", "kubernetes-cadvisor", "namespace", p.Namespace, "pod", p.Name, "container", "app"))
		}
		step := usageStep
		if w.limit > 0 {
			step = scrapeStep // as often as throttling is read
		}
		seconds := 0.0
		add("container_cpu_usage_seconds_total", from, step, func(at time.Time) float64 {
			seconds += step.Seconds() * w.past(at.UTC().Sub(at.UTC().Truncate(day)).Hours())
			return seconds
		})
		add("container_memory_working_set_bytes", from, usageStep, func(time.Time) float64 { return 400 << 20 })
		if w.limit > 0 { // 10 periods a second
			since := now.Add(-time.Hour)
			add("container_cpu_cfs_periods_total", since, scrapeStep, func(at time.Time) float64 { return 10 * at.Sub(since).Seconds() })
			add("container_cpu_cfs_throttled_periods_total", since, scrapeStep, func(at time.Time) float64 { return 10 * w.throttled * at.Sub(since).Seconds() })
		}
	}
	return out
}

// A prometheus is a real Prometheus.
type prometheus struct {
	url, dir string
	process  *bed.Process
}

// startPrometheus writes series as blocks, and starts a Prometheus with them. config is added to its configuration; files are written beside it.
func startPrometheus(t *testing.T, root string, all []series, config string, files map[string]string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("series.json", text)
	write("prometheus.yaml", []byte(config))
	for name, content := range files {
		write(name, []byte(content))
	}
	backfill := exec.CommandContext(t.Context(), "go", "run", ".", "-dir="+filepath.Join(dir, "data"), "-series="+filepath.Join(dir, "series.json"))
	backfill.Dir = filepath.Join(root, "test", "tsdb")
	if out, err := backfill.CombinedOutput(); err != nil {
		t.Fatalf("write the blocks of Prometheus: %v: %s", err, out)
	}
	port, err := bed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := bed.Start(bed.Command{
		Name: "prometheus", Path: executable(t, root), Dir: dir, Log: filepath.Join(dir, "prometheus.log"),
		Args: []string{
			"--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + address, "--log.level=warn",
			"--storage.tsdb.retention.time=1y", "--storage.tsdb.min-block-duration=1d", "--storage.tsdb.max-block-duration=1d", "--web.enable-lifecycle",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("prometheus\n%s", process.Tail(40))
		}
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &prometheus{url: "http://" + address, dir: dir, process: process}
	eventually(t, "Prometheus is ready", time.Minute, func(ctx context.Context) error {
		if !process.Running() {
			return fmt.Errorf("Prometheus exited: %w", process.Err())
		}
		return p.get(ctx, "/-/ready", nil)
	})
	return p
}

// executable returns the path of the executable of Prometheus, and builds it if necessary.
func executable(t *testing.T, root string) string {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "run", "./cmd/localcluster", "build", "--prometheus")
	build.Dir, build.Stderr = filepath.Join(root, "localcluster"), os.Stderr
	out, err := build.Output()
	if err != nil {
		t.Fatalf("build Prometheus: %v", err)
	}
	lines := strings.Fields(string(out))
	return lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(filepath.Base(l), "prometheus-") })]
}

// get sends a request, and decodes a JSON answer into a value that is not nil.
func (p *prometheus) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return err
	case a.StatusCode >= 300:
		return fmt.Errorf("GET %s: %s: %s", path, a.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// An instance is an element of the result of a query.
type instance struct {
	Metric map[string]string
	Value  [2]any // time, value as text
}

// query runs an instant query.
func (p *prometheus) query(ctx context.Context, query string) ([]instance, error) {
	var answer struct{ Data struct{ Result []instance } }
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(query), &answer)
	return answer.Data.Result, err
}
