// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package boards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/test/e2e/bed"
)

const (
	namespace = "shop" // of the demo
	scrape    = 5 * time.Second
	deadline  = 3 * time.Minute // until all panels have data
)

// A panel is what the test reads of a panel.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

// TestBoards_workloadsOfTheDemo_eachPanelHasData runs podfit with the workloads of the demo, and with flags that give all boards something
// to show: a Prometheus, exported recommendations and a history of capacity. A panel has data if one of its expressions has a value. The alerts on
// workloads have data if the series that they are made of have: the real kube-state-metrics and kubelets have all labels that the rules join by.
func TestBoards_workloadsOfTheDemo_eachPanelHasData(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end tests are not short")
	}
	w := start(t)
	panels := w.panels()
	maps.Copy(panels, w.records())
	err := bed.Until(within(t, deadline), 2*time.Second, func(ctx context.Context) error {
		for name, p := range panels {
			if w.hasData(ctx, p) == nil {
				delete(panels, name) // it has had data
			}
		}
		if len(panels) > 0 {
			return fmt.Errorf("%d panels have had no data", len(panels))
		}
		return nil
	})
	if err != nil {
		for name, p := range panels {
			t.Errorf("%s: %v", name, w.hasData(t.Context(), p))
		}
		t.Error(err)
	}
}

// A world is a cluster with podfit and the workloads of the demo.
type world struct {
	*testing.T
	*bed.Cluster
	root string
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := bed.WithPatience(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T) *world {
	t.Helper()
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := bed.Build(t.Context(), root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "run", "./cmd/localcluster", "build", "--prometheus", "--kube-state-metrics")
	build.Dir = filepath.Join(root, "localcluster")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatalf("build the local cluster: %v", err)
	}
	c, err := bed.Up(t.Context(), bed.Options{
		Root: root, Tool: filepath.Join(root, ".cache", "bin", "localcluster"), Nodes: 3, NodeCPU: 4, NodeMemory: "16Gi", Metrics: scrape,
		Prometheus: true, StateMetrics: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, Cluster: c, root: root}
	if err := c.Install(t.Context(), filepath.Join(root, "deploy")); err != nil {
		t.Fatal(err)
	}
	w.writeHistory()
	if err := c.ApplyYAML(t.Context(), "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"); err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile(filepath.Join(root, "test", "e2e", "demo", "workloads.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(t.Context(), namespace, string(manifests)); err != nil {
		t.Fatal(err)
	}
	w.runPodfit(binary) // at its start it reads the history of the VPAs from Prometheus
	return w
}

// writeHistory stores a history of 60 days in the CapacityPlan, in which requests grow, so that there is a forecast with dates.
func (w *world) writeHistory() {
	w.Helper()
	const days, capacity, capacityMemory = 60, 12_000, 48 << 10
	var names, cpu, memory, capacities, memories []any
	for i := range days {
		names = append(names, time.Now().UTC().AddDate(0, 0, i-days).Format(time.DateOnly))
		cpu = append(cpu, int64(4000+100*i))
		memory = append(memory, int64(16<<10+400*i))
		capacities = append(capacities, int64(capacity))
		memories = append(memories, int64(capacityMemory))
	}
	amounts := func(capacity, requested string) map[string]any {
		return map[string]any{
			"capacity": capacity, "capacityWithoutLargestNode": capacity, "requested": requested, "recoverable": "0", "recoverableWorkloads": int64(0),
			"forecastDays": int64(0), "advice": "NoForecast",
		}
	}
	plan := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "podfit.dev/v1alpha1", "kind": "CapacityPlan", "metadata": map[string]any{"name": "cluster"},
	}}
	client := w.Dynamic.Resource(schema.GroupVersionResource{Group: "podfit.dev", Version: "v1alpha1", Resource: "capacityplans"})
	plan, err := client.Create(w.Context(), plan, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	plan.Object["status"] = map[string]any{"pools": []any{map[string]any{
		"name": "other", "nodes": int64(3), "schedulableNodes": int64(3), "pods": int64(0), "pendingPods": int64(0), "workloadsWithoutRecommendation": int64(0),
		"leadTimeDays": int64(14), "cpu": amounts("12", "10"), "memory": amounts("48Gi", "40Gi"),
		"history": map[string]any{
			"days": names,
			"cpu":  map[string]any{"requested": cpu, "capacity": capacities}, "memory": map[string]any{"requested": memory, "capacity": memories},
		},
	}}}
	if _, err := client.UpdateStatus(w.Context(), plan, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// runPodfit starts podfit's components as the demo does, and lets Prometheus scrape them with the labels of the PodMonitor.
func (w *world) runPodfit(binary string) {
	w.Helper()
	serving, err := bed.Serving()
	if err != nil {
		w.Fatal(err)
	}
	var targets []map[string]any
	for _, component := range []bed.Component{
		bed.Admission().With(serving...),
		bed.Recommender().With("--recommender-interval=5s", "--confidence-interval-cpu=1m", "--confidence-interval-memory=1m", "--export-recommendations",
			"--storage=prometheus", "--prometheus-address="+w.Prometheus, "--container-pod-name-label=pod", "--container-name-label=container",
			"--metric-for-pod-labels=kube_pod_labels[8d]", "--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod"),
		bed.Updater().With("--updater-interval=5s", "--in-recommendation-bounds-eviction-lifetime-threshold=30s"),
	} {
		p, err := w.Cluster.Run(w.Context(), binary, component)
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			if err := p.Stop(); err != nil {
				w.Error(err)
			}
			if w.Failed() {
				w.Logf("last lines of %s:\n%s", p.Name, p.Tail(20))
			}
		})
		if err := bed.Until(within(w.T, time.Minute), 100*time.Millisecond, p.Healthy); err != nil {
			w.Fatal(err)
		}
		targets = append(targets, map[string]any{
			"targets": []string{p.Address}, "labels": map[string]string{"namespace": bed.Namespace, "pod": p.Name + "-0", "container": component.Name},
		})
	}
	text, err := json.Marshal(targets)
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Targets, "podfit.json"), text, 0o600); err != nil {
		w.Fatal(err)
	}
	if err := bed.Until(within(w.T, time.Minute), 100*time.Millisecond, w.Registered); err != nil {
		w.Fatal(err)
	}
}

// panels returns the panels with expressions of all boards, by board and title.
func (w *world) panels() map[string]panel {
	w.Helper()
	paths, err := filepath.Glob(filepath.Join(w.root, "deploy", "monitoring", "boards", "*.json"))
	if err != nil || len(paths) != 4 {
		w.Fatalf("%d boards, %v", len(paths), err)
	}
	out := map[string]panel{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			w.Fatal(err)
		}
		var board struct{ Panels []panel }
		if err := json.Unmarshal(text, &board); err != nil {
			w.Fatalf("%s: %v", path, err)
		}
		for _, p := range board.Panels {
			if len(p.Targets) > 0 {
				out[strings.TrimSuffix(filepath.Base(path), ".json")+" / "+p.Title] = p
			}
		}
	}
	return out
}

// records returns the recording rules of the alerts on workloads that join the metrics of other programs. The others depend on them.
func (w *world) records() map[string]panel {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.root, "deploy", "monitoring", "workloads", "alerts.yaml"))
	if err != nil {
		w.Fatal(err)
	}
	var object struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Record, Expr string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		w.Fatal(err)
	}
	out, known := map[string]panel{}, []string{}
	for _, r := range object.Spec.Groups[0].Rules {
		switch r.Record {
		case "podfit:container_cpu_usage_cores:rate5m", "podfit:container_cpu_usage_limit:ratio_rate5m", "podfit:container_cpu_throttled:ratio_rate5m", "podfit:node_cpu_usage:ratio_rate5m":
			expr := strings.NewReplacer(known...).Replace(r.Expr)
			known = append(known, r.Record, "("+expr+")")
			out["alerts / "+r.Record] = panel{r.Record, []struct{ Expr string }{{"(" + expr + `) and on (node) kube_node_info`}}}
		}
	}
	if len(out) != 4 {
		w.Fatalf("%d recording rules", len(out))
	}
	return out
}

// hasData returns an error unless an expression of a panel has a value.
func (w *world) hasData(ctx context.Context, p panel) error {
	var errs []error
	for _, target := range p.Targets {
		n, err := w.query(ctx, expression(target.Expr))
		if err == nil && n > 0 {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %d series, %w", target.Expr, n, err))
	}
	return errors.Join(errs...)
}

// expression returns what Grafana asks for with the first values of all variables.
func expression(text string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*", "$pool", ".*", "$pod", ".*").Replace(text)
}

// query returns the number of series of an instant query.
func (w *world) query(ctx context.Context, expr string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Prometheus+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var body struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return 0, err
	}
	if body.Status != "success" {
		return 0, errors.New(body.Error)
	}
	return len(body.Data.Result), nil
}
