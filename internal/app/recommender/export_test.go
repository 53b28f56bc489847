// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
)

// A stateMetrics is the part of the configuration of kube-state-metrics for custom resources that podfit uses.
type stateMetrics struct {
	Spec struct {
		Resources []struct {
			GroupVersionKind struct{ Group, Version, Kind string }
			LabelsFromPath   map[string][]string
			Metrics          []struct {
				Name, Help   string
				CommonLabels map[string]string
				Each         struct {
					Type  string
					Gauge struct {
						Path, ValueFrom []string
						LabelsFromPath  map[string][]string
					}
				}
			}
		}
	}
}

// exporterOfWeb returns an exporter with the recommendation of one container.
func exporterOfWeb() *Exporter {
	e := NewExporter(prometheus.NewRegistry())
	e.publish([]*cluster.Autoscaler{{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, APIVersion: "apps/v1",
		Target: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "front"},
		Advice: []cluster.Advice{{
			Container: "app", Uncapped: cluster.Amounts(2500, 1<<30),
			Estimate: cluster.Estimate{Lower: cluster.Amounts(100, 1<<20), Target: cluster.Amounts(250, 2<<20), Upper: cluster.Amounts(1000, 3<<20)},
		}},
	}})
	return e
}

// The names, labels and units are those of kube-state-metrics with deploy/monitoring/kube-state-metrics/config.yaml, so that boards work with either.
func TestExporter_recommendation_hasTheSeriesOfKubeStateMetrics(t *testing.T) {
	const target = `target_api_version="apps/v1",target_kind="Deployment",target_name="front"`
	var want strings.Builder
	for _, m := range []struct{ name, help, cpu, memory string }{
		{"lowerbound", "Lower bound of the recommended request of a container, in cores or bytes.", "0.1", "1.048576e+06"},
		{"target", "Recommended request of a container, in cores or bytes.", "0.25", "2.097152e+06"},
		{"uncappedtarget", "Recommended request of a container before the resource policy and other maximums apply, in cores or bytes.", "2.5", "1.073741824e+09"},
		{"upperbound", "Upper bound of the recommended request of a container, in cores or bytes.", "1", "3.145728e+06"},
	} {
		name := "kube_customresource_verticalpodautoscaler_status_recommendation_containerrecommendations_" + m.name
		want.WriteString("# HELP " + name + " " + m.help + "\n# TYPE " + name + " gauge\n" +
			name + `{container="app",namespace="shop",resource="cpu",` + target + `,unit="core",verticalpodautoscaler="web"} ` + m.cpu + "\n" +
			name + `{container="app",namespace="shop",resource="memory",` + target + `,unit="byte",verticalpodautoscaler="web"} ` + m.memory + "\n")
	}
	if err := testutil.CollectAndCompare(exporterOfWeb(), strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
}

// A status can be written by any client with the right to do so. Prometheus rejects a scrape with two equal series as a whole.
func TestExporter_containerTwiceInAStatus_isExportedOnce(t *testing.T) {
	e := NewExporter(prometheus.NewRegistry())
	advice := cluster.Advice{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(250, 1<<20)}}
	cpuOnly := cluster.Advice{Container: "proxy", Estimate: cluster.Estimate{Target: cluster.Resources{}.Set(cluster.CPU, 10)}}
	e.publish([]*cluster.Autoscaler{{Key: cluster.Key{Namespace: "shop", Name: "web"}, Advice: []cluster.Advice{advice, advice, cpuOnly}}})
	if n := seriesOf(t, registryOf(t, e)); n != 3 {
		t.Errorf("%d series, want CPU and memory of app, and CPU of proxy", n)
	}
}

func registryOf(t *testing.T, c prometheus.Collector) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	return reg
}

// Only the leader has series, of the VPAs that it sizes. Otherwise each replica or recommender would add to a sum.
func TestRecommender_exportsRecommendations_whileItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		b.autoscale("other", b.deployment("other", 1, "app")).Recommender = "another"
		d := b.dependencies()
		d.exporter = NewExporter(prometheus.NewRegistry())
		reg := registryOf(t, d.exporter)
		r := newRecommender(b.config, d)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var series []int
		err := r.lead(ctx, func(ctx context.Context, now time.Time) {
			r.pass(ctx, now)
			series = append(series, seriesOf(t, reg))
			if len(series) == 5 {
				b.autoscalers = slices.DeleteFunc(b.autoscalers, func(a *cluster.Autoscaler) bool { return a.Name == "web" })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if series[0] != 0 || series[4] != 8 || series[5] != 0 {
			t.Errorf("series after each pass %v, want none before the first recommendation, then 8, and none after the VPA is deleted", series)
		}
		b.autoscale("web", b.deployment("web", 1, "app"))
		r.exporter.publish(b.autoscalers)
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _ = r.lead(ctx, r.pass); seriesOf(t, reg) != 0 {
			t.Errorf("%d series after the term ends, want 0", seriesOf(t, reg))
		}
	})
}

// Users of kube-state-metrics get the same series from the shipped configuration: it is applied here to a VPA object as stored.
func TestStateMetricsConfiguration_storedObject_givesTheSeriesOfTheExporter(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/monitoring/kube-state-metrics/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c stateMetrics
	if err := yaml.UnmarshalStrict(text, &struct {
		Kind string
		*stateMetrics
	}{stateMetrics: &c}); err != nil {
		t.Fatal(err)
	}
	const object = `{"metadata": {"namespace": "shop", "name": "web"}, "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "front"}},
		"status": {"recommendation": {"containerRecommendations": [{"containerName": "app",
			"target": {"cpu": "250m", "memory": "2Mi"}, "lowerBound": {"cpu": "100m", "memory": "1Mi"},
			"upperBound": {"cpu": "1", "memory": "3Mi"}, "uncappedTarget": {"cpu": "2500m", "memory": "1Gi"}}]}}}`
	if err := yaml.UnmarshalStrict([]byte(object), &v1.VerticalPodAutoscaler{}); err != nil {
		t.Fatal(err) // paths in the object are those of the API
	}
	var o map[string]any
	if err := yaml.Unmarshal([]byte(object), &o); err != nil {
		t.Fatal(err)
	}
	r := c.Spec.Resources[0]
	if gvk := r.GroupVersionKind; gvk.Group != v1.GroupVersion().Group || gvk.Version != "v1" || gvk.Kind != "VerticalPodAutoscaler" {
		t.Errorf("resource %+v", gvk)
	}
	var want []string
	for _, m := range r.Metrics {
		for _, element := range at(o, m.Each.Gauge.Path).([]any) {
			labels := map[string]string{}
			for name, path := range r.LabelsFromPath {
				labels[name] = at(o, path).(string)
			}
			for name, path := range m.Each.Gauge.LabelsFromPath {
				labels[name] = at(element, path).(string)
			}
			maps.Copy(labels, m.CommonLabels)
			q := resource.MustParse(at(element, m.Each.Gauge.ValueFrom).(string))
			want = append(want, fmt.Sprint("kube_customresource_", m.Name, " ", m.Help, " ", labels, " ", q.AsApproximateFloat64()))
		}
		if m.Each.Type != "Gauge" {
			t.Errorf("%s is a %s", m.Name, m.Each.Type)
		}
	}
	families, err := registryOf(t, exporterOfWeb()).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			got = append(got, fmt.Sprint(f.GetName(), " ", f.GetHelp(), " ", labels, " ", m.GetGauge().GetValue()))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series of kube-state-metrics (-) and of podfit (+):\n%s", diff)
	}
}

// at returns the value at a path in a JSON object.
func at(o any, path []string) any {
	for _, field := range path {
		o = o.(map[string]any)[field]
	}
	return o
}
