// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
)

// A series is one series of a scrape.
type series struct {
	value float64 // of a gauge or counter
	count uint64  // observations of a histogram
	sum   float64 // sum of the observations
}

// gathered returns the series of one scrape of a collector. The key is the label values, joined by spaces, in the order of
// the label names.
func gathered(t *testing.T, c prometheus.Collector) map[string]series {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]series{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			all[strings.Join(values, " ")] = series{
				value: m.GetGauge().GetValue() + m.GetCounter().GetValue(),
				count: m.GetHistogram().GetSampleCount(), sum: m.GetHistogram().GetSampleSum(),
			}
		}
	}
	return all
}

// Dashboards and alerts use the series that upstream publishes, also those whose value is 0.
func TestMetrics_classWithoutObjects_isPublishedAsZero(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	m.publishObjects(map[objectKey]int{{mode: "Off", matches: true}: 3})
	objects := gathered(t, m.objects)
	for api, want := range map[string]float64{"v1": 3, "v1beta1": 0, "v1beta2": 0} {
		got, published := objects[api+" false true false Off"]
		if !published || got.value != want {
			t.Errorf("API version %s: published %t, %v objects, want %v", api, published, got.value, want)
		}
	}
	if n := testutil.CollectAndCount(m.objects); n != 6*8*3 {
		t.Errorf("%d series, want %d", n, 6*8*3)
	}
}

func TestMetrics_requestsRead_areCountedBySource(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	m.read(&cluster.Pod{Containers: []cluster.Container{{Reported: true}, {}, {Role: cluster.Sidecar, Reported: true}, {Role: cluster.Init}, {Role: cluster.Init}}})
	for source, want := range map[string]float64{
		"Pod.Status.ContainerStatuses": 1, "Pod.Spec.Containers": 1, "Pod.Status.InitContainerStatuses": 1, "Pod.Spec.InitContainers": 2,
	} {
		if got := testutil.ToFloat64(m.sources.WithLabelValues(source)); got != want {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}

// The number of objects does not change, so each scrape must see that number, even if objects change their class meanwhile.
func TestMetrics_scrapeWhilePublishing_seesOneCompleteSet(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	const objects = 10
	publish := func(i int) {
		k := objectKey{mode: "Off"}
		if i%2 == 1 {
			k = objectKey{mode: "Auto", advised: true, matches: true, unsupported: true}
		}
		m.publishObjects(map[objectKey]int{k: objects})
	}
	publish(0)
	stop := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				publish(i)
			}
		}
	})
	defer publisher.Wait()
	defer close(stop)
	for scrape := range 200 {
		sum := 0.0
		for _, s := range gathered(t, m.objects) {
			sum += s.value
		}
		if sum != objects {
			t.Fatalf("scrape %d: the values sum up to %v, want %d", scrape, sum, objects)
		}
	}
}

// An observation is one observation of the quality metrics: the metric, its label values, and the observed value.
type observation struct {
	metric string
	labels string
	value  float64
}

// observations returns all observations of the quality metrics, if each series has at most one.
func observations(t *testing.T, q *qualityMetrics) []observation {
	t.Helper()
	var all []observation
	for name, v := range map[string]*prometheus.HistogramVec{
		"relative": q.relative, "cpuOver": q.cpuOver, "cpuUnder": q.cpuUnder, "memOver": q.memOver, "memUnder": q.memUnder,
		"cpu": q.cpu, "mem": q.mem, "change": q.change,
	} {
		for labels, s := range gathered(t, v) {
			if s.count != 1 {
				t.Errorf("%s{%s} has %d observations, want 1", name, labels, s.count)
			}
			all = append(all, observation{name, labels, s.sum})
		}
	}
	for labels, s := range gathered(t, q.missing) {
		all = append(all, observation{"missing", labels, s.value})
	}
	slices.SortFunc(all, func(x, y observation) int {
		return cmp.Or(strings.Compare(x.metric, y.metric), strings.Compare(x.labels, y.labels))
	})
	return all
}

func TestQualityMetrics_oneSample_isObservedByTheMetricsOfItsKind(t *testing.T) {
	for name, tt := range map[string]struct {
		resource     cluster.Resource
		used, target float64
		known, oom   bool
		want         []observation
	}{
		"CPU usage below the target": {cluster.CPU, 1, 4, true, false, []observation{
			{"cpu", "Off", 4}, {"cpuOver", "false Off", 3}, {"relative", "false cpu Off", -0.75},
		}},
		"CPU usage above the target": {cluster.CPU, 3, 2, true, false, []observation{
			{"cpu", "Off", 2}, {"cpuUnder", "false Off", 1}, {"relative", "false cpu Off", 0.5},
		}},
		"memory usage below the target": {cluster.Memory, 100, 400, true, false, []observation{
			{"mem", "false Off", 400}, {"memOver", "false false Off", 300}, {"relative", "false memory Off", -0.75},
		}},
		"memory usage equal to the target": {cluster.Memory, 400, 400, true, false, []observation{
			{"mem", "false Off", 400}, {"memUnder", "false false Off", 0}, {"relative", "false memory Off", 0},
		}},
		"OOM kill above the target": {cluster.Memory, 600, 400, true, true, []observation{
			{"mem", "true Off", 400}, {"memUnder", "true false Off", 200}, {"relative", "true memory Off", 0.5},
		}},
		"no CPU recommendation": {cluster.CPU, 3, 99, false, false, []observation{
			{"cpuUnder", "true Off", 3}, {"missing", "false cpu Off", 1},
		}},
		"no memory recommendation": {cluster.Memory, 3, 99, false, true, []observation{
			{"memUnder", "true true Off", 3}, {"missing", "true memory Off", 1},
		}},
		"target 0": {cluster.CPU, 3, 0, true, false, []observation{
			{"cpu", "Off", 0}, {"cpuUnder", "false Off", 3},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMetrics(prometheus.NewRegistry())
			m.quality.sample(cluster.Off, tt.resource, tt.used, tt.target, tt.known, tt.oom)
			if got := observations(t, &m.quality); !slices.Equal(got, tt.want) {
				t.Errorf("observed %v, want %v", got, tt.want)
			}
		})
	}
}

func TestQualityMetrics_targetChanges_relativeChangeIsObserved(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	var noMemory cluster.Resources
	m.quality.changed(cluster.Off, noMemory.Set(cluster.CPU, 100), cluster.Amounts(150, 1<<20), 5)
	want := []observation{{"change", "cpu Off 2", 0.5}} // without an old target there is no relative change
	if got := observations(t, &m.quality); !slices.Equal(got, want) {
		t.Errorf("observed %v, want %v", got, want)
	}
}
