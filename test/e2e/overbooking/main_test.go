// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// speed is the number of seconds of simulated usage per second: a day of the daily curve passes in 30 seconds.
const speed = 2880

// oneDay is the time in which a day of simulated usage passes.
const oneDay = day / speed

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: end-to-end tests are not short")
		return
	}
	os.Exit(m.Run())
}

// A world is the cluster of the scene, with podfit and Prometheus.
type world struct {
	*bed.Cluster
	root, binary string
	start        time.Time // of the history's last day
	nodes        []string
	prometheus   *prometheus
	podfit       *bed.Podfit
}

// newWorld starts the cluster with the workloads, and a Prometheus with their history and podfit's alerts. podfit does not run yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := new(world)
	var err error
	if w.root, err = bed.Root(); err != nil {
		t.Fatal(err)
	}
	if w.binary, err = bed.Build(t.Context(), w.root, os.Stderr); err != nil {
		t.Fatal(err)
	}
	w.Cluster, err = bed.Up(t.Context(), bed.Options{
		Root: w.root, Nodes: 3, NodeCPU: 64, NodeMemory: "256Gi", Metrics: 5 * time.Second, StateMetrics: true, Speed: speed, Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Down(); err != nil {
			t.Error(err)
		}
	})
	for _, folder := range []string{"deploy", "deploy/all-in-one"} {
		if err := w.Install(t.Context(), filepath.Join(w.root, folder)); err != nil {
			t.Fatal(err)
		}
	}
	w.nodes = w.Nodes()
	for _, node := range w.nodes {
		w.patch(t, node)
	}
	w.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}", machineProfile, capacityPlan)
	eventually(t, "the namespace has the service account of pods", time.Minute, func(ctx context.Context) error {
		_, err := w.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return w
}

// patch gives a node the role worker, which names its pool.
func (w *world) patch(t *testing.T, node string) {
	t.Helper()
	role := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
	if _, err := w.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, role, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// apply applies manifests.
func (w *world) apply(t *testing.T, manifests ...string) {
	t.Helper()
	for _, m := range manifests {
		if err := w.ApplyYAML(t.Context(), namespace, m); err != nil {
			t.Fatal(err)
		}
	}
}

// run creates the workloads and their VPAs, which change nothing yet, and waits until all pods run. One replica of runaway then uses ten times
// as much as the others.
func (w *world) run(t *testing.T) []corev1.Pod {
	t.Helper()
	want := 0
	for _, x := range scene() {
		w.apply(t, x.manifest(), x.autoscaler("\"Off\""))
		want += x.replicas
	}
	var pods []corev1.Pod
	eventually(t, "all pods run", 2*time.Minute, func(ctx context.Context) (err error) {
		pods, err = w.pods(ctx)
		running := 0
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if err == nil && running != want {
			err = fmt.Errorf("%d of %d pods run", running, want)
		}
		return err
	})
	for i := range pods {
		if workloadOf(pods[i].Name) == "runaway" {
			demand := []byte(`{"metadata":{"annotations":{"sim.podfit.dev/app.cpu":"3"}}}`)
			if _, err := w.CoreV1().Pods(namespace).Patch(t.Context(), pods[i].Name, types.MergePatchType, demand, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			w.awaitUsage(t, pods[i].Name, 3)
			break
		}
	}
	return pods
}

// awaitUsage waits until a pod uses a number of cores.
func (w *world) awaitUsage(t *testing.T, pod string, cores float64) {
	t.Helper()
	eventually(t, "the pod uses more", 30*time.Second, func(ctx context.Context) error {
		all, err := w.Usage(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(u bed.Usage) bool { return u.Pod == pod && u.CPU == cores }) {
			return fmt.Errorf("pod %s does not use %v cores", pod, cores)
		}
		return nil
	})
}

// pods returns the pods of the workloads that are not being deleted.
func (w *world) pods(ctx context.Context) (out []corev1.Pod, err error) {
	l, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range l.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// startPrometheus starts the Prometheus of the scene. The rules are those of deploy/monitoring, without the time that an alert waits before it
// fires: tests of test/monitoring prove these times.
func (w *world) startPrometheus(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	w.start = time.Now()
	config := "global: {scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 5s}\nrule_files: [rules.yaml]\nscrape_configs:\n" +
		w.ScrapeConfig() + "- job_name: podfit\n  file_sd_configs: [{files: [podfit*.json], refresh_interval: 1s}]\n"
	history := append(requestHistory(w.start, w.nodes, historyDays), usageHistory(w.start, pods)...)
	w.prometheus = startPrometheus(t, w.root, history, config, map[string]string{"rules.yaml": w.rules(t)})
}

// rules returns the alerts about the capacity as a file of rules, without waiting times.
func (w *world) rules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.root, ruleFiles[0]))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := bed.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var groups []map[string]any
	for _, o := range objects {
		all, _, err := unstructured.NestedSlice(o.Object, "spec", "groups")
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			if g, ok := g.(map[string]any); ok && g["name"] == "podfit-capacity" {
				groups = append(groups, g)
			}
		}
	}
	for _, g := range groups {
		all, _ := g["rules"].([]any)
		for _, r := range all {
			if r, ok := r.(map[string]any); ok {
				delete(r, "for")
			}
		}
	}
	out, err := json.Marshal(map[string]any{"groups": groups})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// startPodfit starts all components of podfit in one process, with short intervals.
func (w *world) startPodfit(t *testing.T) {
	t.Helper()
	serving, err := bed.Serving()
	if err != nil {
		t.Fatal(err)
	}
	w.podfit, err = w.Run(t.Context(), w.binary, bed.All().With(serving...).With(
		"--recommender-interval=5s", "--updater-interval=5s", "--storage=prometheus", "--prometheus-address="+w.prometheus.url,
		"--container-pod-name-label=pod", "--container-name-label=container"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.report(t)
		}
		if err := w.podfit.Stop(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "podfit is healthy", time.Minute, w.podfit.Healthy)
	eventually(t, "the webhook is registered", time.Minute, w.Registered)
	target := fmt.Sprintf(`[{"targets": [%q], "labels": {"namespace": "kube-system", "pod": "podfit-0", "container": "podfit"}}]`, w.podfit.Address)
	file := filepath.Join(w.prometheus.dir, "podfit.json")
	if err := os.WriteFile(file+".new", []byte(target), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil { // Prometheus reads no half of it
		t.Fatal(err)
	}
}

// report logs the state of the cluster after a failure.
func (w *world) report(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if pods, err := w.pods(ctx); err == nil {
		for i := range pods {
			t.Logf("pod %s %s request %v", pods[i].Name, pods[i].Status.Phase, cpuRequest(&pods[i]))
		}
	}
	if all, err := w.Autoscalers(ctx, namespace); err == nil {
		for _, a := range all {
			t.Logf("VPA %s: target %v, conditions %+v", a.Name, target(a), a.Status.Conditions)
		}
	}
	t.Logf("podfit\n%s", w.podfit.Tail(60))
}

// plan reads the CapacityPlan.
func (w *world) plan(ctx context.Context) (*v1alpha1.CapacityPlan, error) {
	o, err := w.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceCapacityPlans)).Get(ctx, v1alpha1.CapacityPlanName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	p := new(v1alpha1.CapacityPlan)
	return p, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p)
}

// capacity runs podfit capacity.
func (w *world) capacity(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.binary, append([]string{"capacity", "--kubeconfig", w.Kubeconfig}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "PROMETHEUS_URL=")
	if err := cmd.Run(); err != nil {
		t.Fatalf("podfit capacity: %v: %s", err, errs.String())
	}
	return out.String()
}

// metric returns the value of a series of podfit's /metrics, such as podfit_capacity_total{pool="worker",resource="cpu"}.
func (w *world) metric(ctx context.Context, series string) (float64, error) {
	page, err := w.podfit.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			_, err := fmt.Sscan(rest, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("podfit has no series %s", series)
}

// target returns the recommended CPU of the container of a VPA, in cores; 0 without a recommendation.
func target(a *vpav1.VerticalPodAutoscaler) float64 {
	if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) == 0 {
		return 0
	}
	return a.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().AsApproximateFloat64()
}

// eventually polls until check returns nil.
func eventually(t *testing.T, what string, within time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 250*time.Millisecond, check); err != nil {
		t.Fatalf("%s, within %v: %v", what, within, err)
	}
}
