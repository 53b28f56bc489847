// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// The chart and the kustomization contain the same alerts as deploy/monitoring, and their PodMonitor selects all pods of podfit. Alerts on all
// workloads are optional.
func TestMonitoring_eachWay_hasAlertsAndScrapesAllPods(t *testing.T) {
	manifests, optional := files(t, "deploy/monitoring/*.yaml"), files(t, "deploy/monitoring/workloads/*.yaml")
	own, workloads := specOf(t, manifests), specOf(t, optional)
	set := []string{"monitoring.podMonitor.enabled=true", "monitoring.podMonitor.labels.release=prometheus", "monitoring.prometheusRule.enabled=true"}
	all, chartName := "monitoring.prometheusRule.workloads=true", "vpa-vertical-pod-autoscaler"
	for name, c := range map[string]struct {
		objects objects
		want    map[string]any // specs by name
	}{
		"manifests":                {slices.Concat(manifests, files(t, "deploy/*.yaml"), files(t, "deploy/all-in-one/*.yaml")), map[string]any{"podfit": own}},
		"kustomize":                {build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/monitoring]\n")), map[string]any{"podfit": own}},
		"kustomize with workloads": {build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/monitoring, DEPLOY/monitoring/workloads]\n")), map[string]any{"podfit": own, "podfit-workloads": workloads}},
		"chart":                    {render(t, set...), map[string]any{chartName: own}},
		"chart with workloads":     {render(t, append(set, all)...), map[string]any{chartName: own, chartName + "-workloads": workloads}},
		"single":                   {render(t, append(set, "mode=single")...), map[string]any{chartName: own}},
	} {
		got, monitors := map[string]any{}, 0
		for _, o := range c.objects {
			switch o.GetKind() {
			case "PrometheusRule":
				got[o.GetName()] = o.Object["spec"]
			case "PodMonitor":
				monitors++
				checkMonitor(t, name, o, of[appsv1.Deployment](t, c.objects, "Deployment"))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || monitors != 1 {
			t.Errorf("%s: %d PodMonitors; alerts; run make generate\n%s", name, monitors, diff)
		}
	}
}

// specOf returns the spec of the only PrometheusRule.
func specOf(t *testing.T, all objects) any {
	t.Helper()
	var specs []any
	for _, o := range all {
		if o.GetKind() == "PrometheusRule" {
			specs = append(specs, o.Object["spec"])
		}
	}
	if len(specs) != 1 {
		t.Fatalf("%d PrometheusRules", len(specs))
	}
	return specs[0]
}

// The chart and the kustomization contain the boards of deploy/monitoring/boards, where Grafana's sidecar finds them.
func TestMonitoring_boards_areConfigMapsWithTheLabelOfGrafana(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "deploy", "monitoring", "boards", "*.json"))
	if err != nil || len(paths) != 4 {
		t.Fatalf("%d boards, %v", len(paths), err)
	}
	for name, all := range map[string]objects{
		"kustomize": build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/monitoring]\n")),
		"chart":     render(t, "monitoring.dashboards.enabled=true"),
	} {
		found := map[string]string{}
		for _, m := range of[corev1.ConfigMap](t, all, "ConfigMap") {
			if m.Labels["grafana_dashboard"] == "1" && m.Namespace == "kube-system" {
				maps.Copy(found, m.Data)
			}
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := found["podfit-"+filepath.Base(path)]; strings.TrimSpace(got) != strings.TrimSpace(string(text)) {
				t.Errorf("%s: %s has %d bytes, want %d; run make generate", name, filepath.Base(path), len(got), len(text))
			}
		}
		if len(found) != len(paths) {
			t.Errorf("%s: boards %v", name, slices.Sorted(maps.Keys(found)))
		}
	}
}

func checkMonitor(t *testing.T, name string, monitor *unstructured.Unstructured, deployments []*appsv1.Deployment) {
	t.Helper()
	var spec struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port string `json:"port"`
		} `json:"podMetricsEndpoints"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(monitor.Object["spec"].(map[string]any), &spec); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments {
		if d.Namespace != monitor.GetNamespace() || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s: %v does not select the pods of %s", name, selector, d.Name)
		}
		has := false
		for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
			has = has || p.Name == spec.PodMetricsEndpoints[0].Port
		}
		if !has {
			t.Errorf("%s: %s has no port %s", name, d.Name, spec.PodMetricsEndpoints[0].Port)
		}
	}
}
