// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/report/review"
)

// component returns the component of a report with one Deployment web of two containers in each of some namespaces, of which container app
// shall have 250m and 512Mi.
func component(t *testing.T, namespaces ...string) []byte {
	t.Helper()
	var subjects []core.Subject
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	for _, namespace := range namespaces {
		subjects = append(subjects, core.Subject{
			Workload: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: "web"}, Container: "app",
			Places: []core.Place{{Requests: cluster.Amounts(1000, 1<<30)}}, Requests: cluster.Amounts(1000, 1<<30),
			Targets:  []core.Target{{Profile: "balanced", Amount: cluster.Amounts(250, 512<<20)}},
			Evidence: &core.Evidence{From: now.AddDate(0, 0, -9), To: now, Hours: 9 * 24, Samples: 9 * 24},
		})
	}
	var out bytes.Buffer
	r := core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced"}}, subjects)
	if err := review.Write(&out, "kustomize", r, review.Options{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// deployment returns the manifest of Deployment web.
func deployment(namespace string) string {
	if namespace != "" {
		namespace = ", namespace: " + namespace
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web%s}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: app:1, resources: {requests: {cpu: "1", memory: 1Gi}}}
      - {name: proxy, image: proxy:1, resources: {requests: {cpu: 10m}}}
`, namespace)
}

// built returns what "kustomize build" prints for a kustomization with the component.
func built(t *testing.T, kustomization string, component []byte, files map[string]string) string {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	files["overlay/kustomization.yaml"] = kustomization + "components: [../sizes]\n"
	files["sizes/kustomization.yaml"] = string(component)
	for path, text := range files {
		if err := fs.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "overlay")
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestComponent_namespaceInTheManifestOrOfTheKustomization_changesTheRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		kustomization, namespace string
		component                []byte
		want                     bool
	}{
		"namespace in the manifest":              {"resources: [web.yaml]\n", "shop", component(t, "shop"), true},
		"namespace of the kustomization":         {"namespace: shop\nresources: [web.yaml]\n", "", component(t, "shop"), true},
		"another namespace":                      {"resources: [web.yaml]\n", "other", component(t, "shop"), false},
		"several, namespace in the manifest":     {"resources: [web.yaml]\n", "shop", component(t, "shop", "pay"), true},
		"several, namespace of a kustomization":  {"namespace: shop\nresources: [web.yaml]\n", "", component(t, "shop", "pay"), false}, // the first line says so
		"namespace default, in the manifest":     {"resources: [web.yaml]\n", "default", component(t, "default"), true},
		"namespace default, not in the manifest": {"resources: [web.yaml]\n", "", component(t, "default"), true},
	} {
		t.Run(name, func(t *testing.T) {
			got := built(t, tt.kustomization, tt.component, map[string]string{"overlay/web.yaml": deployment(tt.namespace)})
			if changed := strings.Contains(got, "cpu: 250m\n            memory: 512Mi"); changed != tt.want {
				t.Errorf("changed: %v, want %v, in\n%s", changed, tt.want, got)
			}
			if !strings.Contains(got, "image: app:1") || !strings.Contains(got, "image: proxy:1") || !strings.Contains(got, "cpu: 10m") {
				t.Errorf("other fields changed in\n%s", got)
			}
			wantNamespace := "shop"
			if tt.namespace != "" {
				wantNamespace = tt.namespace
			}
			if !strings.Contains(tt.kustomization, "namespace") && tt.namespace == "" {
				return
			}
			if !strings.Contains(got, "namespace: "+wantNamespace) {
				t.Errorf("the namespace is not %s in\n%s", wantNamespace, got)
			}
		})
	}
}
