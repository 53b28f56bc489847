// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input/history"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input/oom"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/test/differential/cases"
)

// storedSeries is one series of a Prometheus: its labels, and its values by step number. A step without a value is a gap.
type storedSeries struct {
	labels map[string]string
	values map[int]float64
}

// A prometheus responds like a real one that has scraped once per step. Steps are counted from the start of the history. A time
// between two steps is rounded to the nearest one, because upstream requests the present time.
type prometheus struct {
	start       time.Time
	step        time.Duration
	cpu, memory []storedSeries
	pods        []storedSeries
	broken      func(query string, from time.Time) bool // which queries fail
	queries     []string
}

// RoundTrip implements http.RoundTripper.
func (p *prometheus) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	query := form.Get("query")
	p.queries = append(p.queries, query)
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/query_range"):
		from, to, step, err := span(form)
		if err != nil {
			return nil, err
		}
		if step != p.step {
			return nil, fmt.Errorf("query has steps of %v, the history has steps of %v", step, p.step)
		}
		if p.broken != nil && p.broken(query, from) {
			return reply(r, http.StatusServiceUnavailable, map[string]any{"status": "error", "errorType": "timeout", "error": "query timed out"})
		}
		series := p.memory
		if strings.Contains(query, "rate(") {
			series = p.cpu
		}
		if rest, ok := strings.CutPrefix(query, "max by ("); ok {
			by, _, _ := strings.Cut(rest, ")")
			series = largest(series, strings.Split(by, ", "))
		}
		answer = map[string]any{"resultType": "matrix", "result": p.matrix(series, p.index(from), p.index(to))}
	case strings.HasSuffix(query, "]"): // a range selector
		answer = map[string]any{"resultType": "matrix", "result": p.matrix(p.pods, 0, math.MaxInt)}
	default:
		vector := []any{}
		for _, s := range p.pods {
			vector = append(vector, map[string]any{"metric": s.labels, "value": []any{float64(p.start.Unix()), "1"}})
		}
		answer = map[string]any{"resultType": "vector", "result": vector}
	}
	return reply(r, http.StatusOK, map[string]any{"status": "success", "data": answer})
}

func reply(r *http.Request, code int, answer any) (*http.Response, error) {
	b, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)), Request: r,
	}, nil
}

func span(form url.Values) (from, to time.Time, step time.Duration, err error) {
	var v [3]float64
	for i, name := range []string{"start", "end", "step"} {
		f, parse := strconv.ParseFloat(form.Get(name), 64)
		v[i], err = f, errors.Join(err, parse)
	}
	at := func(seconds float64) time.Time { return time.UnixMilli(int64(math.Round(seconds * 1000))) }
	return at(v[0]), at(v[1]), time.Duration(v[2] * float64(time.Second)), err
}

// index returns the number of the step nearest to a time.
func (p *prometheus) index(at time.Time) int {
	return int(math.Round(float64(at.Sub(p.start)) / float64(p.step)))
}

func (p *prometheus) matrix(series []storedSeries, from, to int) []any {
	out := []any{}
	for _, s := range series {
		points := []any{}
		for _, i := range slices.Sorted(maps.Keys(s.values)) {
			if i >= from && i <= to {
				at := p.start.Add(time.Duration(i) * p.step)
				points = append(points, []any{float64(at.UnixMilli()) / 1000, strconv.FormatFloat(s.values[i], 'g', -1, 64)})
			}
		}
		if len(points) > 0 {
			out = append(out, map[string]any{"metric": s.labels, "values": points})
		}
	}
	return out
}

// largest implements max by of PromQL.
func largest(series []storedSeries, by []string) []storedSeries {
	groups := map[string]storedSeries{}
	for _, s := range series {
		labels, id := map[string]string{}, ""
		for _, name := range by {
			if v, ok := s.labels[name]; ok {
				labels[name] = v
			}
			id += "\xff" + s.labels[name]
		}
		g, ok := groups[id]
		if !ok {
			g = storedSeries{labels, map[int]float64{}}
			groups[id] = g
		}
		for i, v := range s.values {
			if old, ok := g.values[i]; !ok || math.IsNaN(old) || v > old {
				g.values[i] = v
			}
		}
	}
	var out []storedSeries
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, groups[id])
	}
	return out
}

// at sets the Prometheus of upstream's client. It can only be set for all HTTP clients of the process.
func (p *prometheus) at(t rapid.TB, use func()) {
	t.Helper()
	before := api.DefaultRoundTripper
	api.DefaultRoundTripper = p
	defer func() { api.DefaultRoundTripper = before }()
	use()
}

// learn lets both read the history of a Prometheus. It returns podfit's error; upstream only logs its own.
func (p *pair) learn(t rapid.TB, from *prometheus, now time.Time, labelsMetric string) error {
	t.Helper()
	length := now.Sub(from.start)
	from.at(t, func() {
		provider, err := history.NewPrometheusHistoryProvider(history.PrometheusHistoryProviderConfig{
			Address: "http://prometheus.invalid", QueryTimeout: time.Minute, Namespace: "shop",
			HistoryLength: seconds(length), HistoryResolution: seconds(from.step),
			PodLabelPrefix: "pod_label_", PodLabelsMetricName: labelsMetric,
			PodNamespaceLabel: "kubernetes_namespace", PodNameLabel: "kubernetes_pod_name",
			CtrNamespaceLabel: "namespace", CtrPodNameLabel: "pod_name", CtrNameLabel: "name",
			CadvisorMetricsJobName: "kubernetes-cadvisor",
			CPUMetricName:          "container_cpu_usage_seconds_total", MemoryMetricName: "container_memory_working_set_bytes",
		})
		if err != nil {
			t.Fatal(err)
		}
		input.ClusterStateFeederFactory{ClusterState: p.upstream, OOMObserver: oom.NewObserver()}.Make().InitFromHistoryProvider(provider)
	})
	client, err := prom.NewWithTransport(prom.Config{
		Address: "http://prometheus.invalid", Timeout: time.Minute, Job: "kubernetes-cadvisor", Length: length, Resolution: from.step,
		CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
		NamespaceLabel: "namespace", PodLabel: "pod_name", ContainerLabel: "name",
		LabelsMetric: labelsMetric, LabelPrefix: "pod_label_", LabelsNamespaceLabel: "kubernetes_namespace", LabelsPodLabel: "kubernetes_pod_name",
	}, from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PodLabels(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	p.sums = true
	for s, err := range client.HistorySince(context.Background(), "shop", now.Add(-length), now) {
		if err != nil {
			return err
		}
		p.book.Observe(s)
	}
	return nil
}

// seconds formats a duration for Prometheus.
func seconds(d time.Duration) string { return fmt.Sprintf("%ds", d/time.Second) }

// series returns a series of a container.
func series(pod, container string, values map[int]float64) storedSeries {
	return storedSeries{map[string]string{"namespace": "shop", "pod_name": pod, "name": container, "job": "kubernetes-cadvisor"}, values}
}

// labelled returns the series with a pod's labels.
func labelled(pod *cluster.Pod) storedSeries {
	return storedSeries{map[string]string{
		"kubernetes_namespace": "shop", "kubernetes_pod_name": pod.Name, "pod_label_app": "cart",
		"pod_label_pod_template_hash": pod.Controller.Name, "job": "kubernetes-pods",
	}, map[int]float64{0: 1}}
}

const rangeOfLabels = `kube_pod_labels{}[8d]`

// drawValues returns random values of a container's series: mostly similar ones, with gaps, staleness markers, and values close
// to zero.
func drawValues(t *rapid.T, steps int, usual []float64, odd []float64) map[int]float64 {
	values := map[int]float64{}
	begin, end := rapid.IntRange(0, steps).Draw(t, "begin"), rapid.IntRange(0, steps).Draw(t, "end")
	for i := begin; i <= end; {
		v := rapid.SampledFrom(usual).Draw(t, "value")
		for range rapid.IntRange(1, 40).Draw(t, "as long as") {
			if i <= end {
				values[i] = v
			}
			i++
		}
		switch rapid.IntRange(0, 5).Draw(t, "then") {
		case 0:
			i += rapid.IntRange(1, 30).Draw(t, "gap")
		case 1:
			values[min(i, end)] = rapid.SampledFrom(odd).Draw(t, "odd")
			i++
		}
	}
	return values
}

// TestPrometheus_storedHistory_equalsUpstream lets both read the history of the same Prometheus.
func TestPrometheus_storedHistory_equalsUpstream(t *testing.T) {
	numbers, rounded, asked := 0, 0, 0
	cases.Check(t, 3000, func(t *rapid.T) {
		params, config := drawParams(t)
		p := newPair(params, config)
		step := rapid.SampledFrom([]time.Duration{time.Minute, 7 * time.Minute, time.Hour, 95 * time.Minute, 25 * time.Hour}).Draw(t, "step")
		steps := rapid.IntRange(1, 190).Draw(t, "steps")
		length := time.Duration(steps) * step
		if rapid.Bool().Draw(t, "not a whole number of steps") {
			length += step / 3
		}
		now := time.Now().Truncate(time.Second)
		from := &prometheus{start: now.Add(-length), step: step}
		containers := []string{"app", "log"}[:rapid.IntRange(1, 2).Draw(t, "containers")]
		for n := range rapid.IntRange(1, 3).Draw(t, "pods") {
			pod := podOf(fmt.Sprint("cart-", n), rapid.IntRange(0, 1).Draw(t, "template"), containers...)
			p.add(pod)
			from.pods = append(from.pods, labelled(pod))
			for _, c := range containers {
				if rapid.IntRange(0, 9).Draw(t, "cpu") > 0 {
					from.cpu = append(from.cpu, series(pod.Name, c, drawValues(t, steps,
						[]float64{0, 1e-9, 0.0004, 0.0015, 0.05, 0.3, 1.2345678, 7}, []float64{math.NaN(), 0, 0.00099999999})))
				}
				if rapid.IntRange(0, 9).Draw(t, "memory") > 0 {
					from.memory = append(from.memory, series(pod.Name, c, drawValues(t, steps,
						[]float64{1, 1e6, 2e8, 2.5e8 + 0.75, 6e9}, []float64{math.NaN(), 1e12})))
				}
			}
		}
		if err := p.learn(t, from, now, rangeOfLabels); err != nil {
			t.Fatal(err)
		}
		n, r := p.compare(t)
		numbers, rounded, asked = numbers+n, rounded+r, asked+len(from.queries)
	})
	t.Logf("%d numbers compared, %d of them at the edge of a bucket, %d queries", numbers, rounded, asked)
	if rounded*200 > numbers {
		t.Errorf("%d of %d numbers differ by rounding, more than allowed", rounded, numbers)
	}
}

// aDay returns a pair with one pod, and a Prometheus with its hourly usage of two days.
func aDay() (*pair, *cluster.Pod, *prometheus, time.Time) {
	p, pod := newDefaultPair("app")
	now := time.Now().Truncate(time.Second)
	from := &prometheus{start: now.Add(-2 * day), step: time.Hour, pods: []storedSeries{labelled(pod)}}
	cpu, memory := map[int]float64{}, map[int]float64{}
	for i := range 49 {
		cpu[i], memory[i] = 0.3, 500*mib
	}
	from.cpu, from.memory = []storedSeries{series(pod.Name, "app", cpu)}, []storedSeries{series(pod.Name, "app", memory)}
	return p, pod, from, now
}

func (p *pair) targets() (podfit, upstream cluster.Resources) {
	upstream = p.recommended(asIs)["app"].Target
	return p.advised()["app"].Target, upstream
}

// The recommendation for 300m and 500Mi, and upstream's minimum for a resource without samples.
func learnt() cluster.Resources { return cluster.Amounts(cpuTarget(300), peakTarget(500*mib)) }

var unlearnt = cluster.Amounts(25, 250*mib)

// cpuTarget returns upstream's target for a container of one CPU sample.
func cpuTarget(milli int64) int64 {
	p, pod := newDefaultPair("app")
	p.observe(pod, "app", reading{at: noon, cpu: milli, has: cluster.Of(cluster.CPU)})
	return p.recommended(asIs)["app"].Target.CPU
}

// W-29: an instant query, the default, returns a vector. Upstream expects a matrix and drops the whole history.
func TestPrometheus_podLabelsAsVector_areRead(t *testing.T) {
	p, _, from, now := aDay()
	if err := p.learn(t, from, now, `up{job="kubernetes-pods"}`); err != nil {
		t.Fatal(err)
	}
	podfit, upstream := p.targets()
	differ(t, "the target", podfit, learnt(), upstream, unlearnt)
}

// W-29: if one query fails, upstream drops the whole history, podfit only the result of that query.
func TestPrometheus_partialFailure_keepsWhatWasRead(t *testing.T) {
	p, _, from, now := aDay()
	from.broken = func(query string, at time.Time) bool { // the memory of the second day
		return !strings.Contains(query, "rate(") && (!strings.HasPrefix(query, "max by") || from.index(at) > 0)
	}
	if err := p.learn(t, from, now, rangeOfLabels); err == nil {
		t.Error("podfit does not report the failure")
	}
	podfit, upstream := p.targets()
	differ(t, "the target", podfit, learnt(), upstream, unlearnt)
}

func TestPrometheus_impossibleValues_areRejected(t *testing.T) {
	for name, v := range map[string]float64{"negative": -1, "infinite": math.Inf(1)} {
		t.Run(name, func(t *testing.T) {
			p, pod, from, now := aDay()
			for i := range from.cpu[0].values {
				from.cpu[0].values[i], from.memory[0].values[i] = v, v
			}
			from.cpu[0].values[0], from.memory[0].values[0] = 0.3, 500*mib
			if err := p.learn(t, from, now, rangeOfLabels); err != nil {
				t.Fatal(err)
			}
			podfit, upstream := p.targets()
			differ(t, "the target is that of the good sample", podfit == learnt(), true, upstream == learnt(), false)
			if n := p.book.Series(cart, "app").Seen(cluster.CPU).Count; n != 1 {
				t.Errorf("%d samples of %s were accepted", n, pod.Name)
			}
		})
	}
}

func TestPrometheus_twoSeriesOfOneContainer_areMerged(t *testing.T) {
	p, pod, from, now := aDay()
	// Few enough values that upstream's unstable sort keeps their order.
	first, second := map[int]float64{}, map[int]float64{}
	for i := range 5 {
		first[i], second[i] = 0.3, 0.9
	}
	from.cpu[0].values = first
	twin := series(pod.Name, "app", second)
	twin.labels["instance"] = "another scraper"
	from.cpu = append(from.cpu, twin)
	if err := p.learn(t, from, now, rangeOfLabels); err != nil {
		t.Fatal(err)
	}
	podfit, upstream := p.targets()
	differ(t, "the target of CPU comes of the larger of the two", podfit.CPU == cpuTarget(900), true, upstream.CPU == cpuTarget(900), false)
}

// If one series has no container label, upstream drops the whole history.
func TestPrometheus_seriesWithoutLabels_areIgnored(t *testing.T) {
	p, _, from, now := aDay()
	from.cpu = append(from.cpu, storedSeries{map[string]string{"pod_name": "cart-1", "name": "app"}, map[int]float64{0: 0.1}})
	if err := p.learn(t, from, now, rangeOfLabels); err != nil {
		t.Fatal(err)
	}
	podfit, upstream := p.targets()
	differ(t, "the target", podfit, learnt(), upstream, unlearnt)
}
