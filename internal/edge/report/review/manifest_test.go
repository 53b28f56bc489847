// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	vpa "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
)

// The resources at the top of the values of a chart are those of its main container, so a sidecar that changes alone must not be there.
func TestHelmValues_onlyTheSidecarChanges_isBelowItsName(t *testing.T) {
	same := cluster.Amounts(100, 128*mib)
	app := subject(deploy("shop", "web"), "app", 2, same, cluster.Resources{}, same)
	proxy := subject(deploy("shop", "web"), "istio-proxy", 2, cluster.Amounts(500, 512*mib), cluster.Resources{}, cluster.Amounts(33, 67*mib))
	got := written(t, "helm-values", core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced"}}, []core.Subject{app, proxy}), Options{})
	if !strings.Contains(got, "# shop/deploy/web\nistio-proxy:\n  resources:\n    requests:\n      cpu: 33m\n") || strings.Contains(got, "\nresources:") {
		t.Errorf("got\n%s", got)
	}
}

// The API server refuses a pod whose containers request more than its pod-level request.
func TestPatch_podLevelRequest_workloadIsLeftOutWithTheReason(t *testing.T) {
	app := subject(deploy("shop", "web"), "app", 2, cluster.Resources{}, cluster.Resources{}, cluster.Amounts(300, 300*mib))
	app.PodLevel = cluster.Both
	got := written(t, "patch", core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced"}}, []core.Subject{app}), Options{})
	if strings.Contains(got, "kubectl patch") || !strings.Contains(got, "# left out: shop/deploy/web, container app: its pods have pod-level requests (spec.resources)") {
		t.Errorf("got\n%s", got)
	}
}

// Two objects with one name would be one VPA, with the target of the second.
func TestVPA_sameNameInANamespace_isGivenOnce(t *testing.T) {
	amounts, target := cluster.Amounts(500, gib), cluster.Amounts(100, gib)
	set := func(namespace, name string) cluster.Workload {
		return cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: namespace, Name: name}
	}
	governed := subject(deploy("pay", "ledger"), "app", 1, amounts, cluster.Resources{}, target)
	governed.VPA = "db"
	subjects := []core.Subject{
		subject(deploy("shop", "web"), "app", 1, amounts, cluster.Resources{}, target),
		subject(set("shop", "web"), "app", 1, amounts, cluster.Resources{}, target),
		subject(set("shop", "web"), "proxy", 1, amounts, cluster.Resources{}, target),
		subject(set("shop", "cart"), "app", 1, amounts, cluster.Resources{}, target),
		subject(set("ml", "web"), "app", 1, amounts, cluster.Resources{}, target),
		governed,
		subject(set("pay", "db"), "app", 1, amounts, cluster.Resources{}, target),
	}
	got := written(t, "vpa", core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced"}}, subjects), Options{})
	for object, want := range map[string]int{
		"  name: web-deployment\n  namespace: shop\n": 1, "  name: web-statefulset\n  namespace: shop\n": 1, "  name: cart\n  namespace: shop\n": 1,
		"  name: web\n  namespace: ml\n": 1, "  name: db-statefulset\n  namespace: pay\n": 1, "kind: VerticalPodAutoscaler\n": 5,
	} {
		if n := strings.Count(got, object); n != want {
			t.Errorf("got %d times %q, want %d, in\n%s", n, object, want, got)
		}
	}
}

func TestLack_cause_isTrue(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*core.Subject)
		want   string
	}{
		"no usage":         {func(s *core.Subject) { s.Evidence = &core.Evidence{} }, "no usage in the window"},
		"some minutes":     {func(s *core.Subject) { s.Evidence.Hours, s.Evidence.Samples = 0, 20 }, "not enough usage: less than 1 hour, 6 are needed"},
		"some hours":       {func(s *core.Subject) { s.Evidence.Hours = 3 }, "not enough usage: 3 hours, 6 are needed"},
		"not sized at all": {func(s *core.Subject) { s.Targets[0].Amount = cluster.Resources{} }, "no recommendation, although its usage is known"},
		"known cause":      {func(s *core.Subject) { s.Evidence.Lack = "no VPA" }, "no VPA"},
	} {
		s := subject(deploy("shop", "web"), "app", 1, cluster.Amounts(500, gib), cluster.Resources{}, cluster.Amounts(100, gib))
		s.Evidence.To = now.Add(-time.Minute)
		tt.change(&s)
		r := core.New(core.Config{Now: now, Profiles: []string{"balanced"}}, []core.Subject{s})
		if got := r.Rows[0].Lack(); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// Each object is one that the API server accepts: it has only fields of the API, a target, and a mode that changes no pods.
func TestVPA_eachObject_hasFieldsOfTheAPIOnlyAndChangesNoPods(t *testing.T) {
	n := 0
	for _, document := range strings.Split(written(t, "vpa", example(), Options{}), "\n---\n") {
		var object vpa.VerticalPodAutoscaler
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.APIVersion == "" {
			continue // only comments
		}
		n++
		mode, target := object.Spec.UpdatePolicy, object.Spec.TargetRef
		if object.APIVersion != "autoscaling.k8s.io/v1" || object.Kind != "VerticalPodAutoscaler" || object.Namespace == "" || mode == nil || mode.UpdateMode == nil || *mode.UpdateMode != vpa.UpdateModeOff ||
			target == nil || target.Kind == "" || target.Name == "" || target.APIVersion == "" {
			t.Errorf("got\n%s", document)
		}
	}
	if n != 6 { // one of the 8 workloads has a VPA, and of another the API version is not known
		t.Errorf("%d objects, want 6", n)
	}
}

// Pipelines that read KRR's JSON format find its fields. Source: robusta_krr/core/models/result.py and objects.py of KRR.
func TestKRRJSON_fields_areThoseOfKRR(t *testing.T) {
	var result map[string]any
	if err := json.Unmarshal([]byte(written(t, "krr-json", example(), Options{})), &result); err != nil {
		t.Fatal(err)
	}
	scans, _ := result["scans"].([]any)
	if len(scans) != 9 {
		t.Fatalf("%d scans, want 9", len(scans))
	}
	check := func(what string, of any, want ...string) map[string]any {
		t.Helper()
		fields, _ := of.(map[string]any)
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has the fields %q, want %q", what, got, want)
		}
		return fields
	}
	check("the result", result, "scans", "score", "resources", "description", "strategy", "errors", "clusterSummary")
	check("the strategy", result["strategy"], "name", "settings")
	for _, of := range scans {
		scan := check("a scan", of, "object", "recommended", "severity")
		object := check("an object", scan["object"], "cluster", "name", "container", "pods", "hpa", "namespace", "kind", "allocations", "warnings")
		pods, _ := object["pods"].([]any)
		for _, pod := range pods {
			check("a pod", pod, "name", "deleted")
		}
		for what, part := range map[string]any{"allocations": object["allocations"], "recommended": scan["recommended"]} {
			parts := check(what, part, "requests", "limits", "info")
			for name, amounts := range parts {
				resources := check(what+" "+name, amounts, "cpu", "memory")
				if what == "recommended" && name != "info" {
					check("CPU", resources["cpu"], "value", "severity")
					check("memory", resources["memory"], "value", "severity")
				}
			}
		}
	}
}

// A patch that also selects workloads without a namespace could select the workload of another namespace with the same name.
func TestKustomize_sameNameInSeveralNamespaces_selectsOneNamespaceAndWarns(t *testing.T) {
	amounts, target := cluster.Amounts(500, gib), cluster.Amounts(100, gib)
	subjects := []core.Subject{
		subject(deploy("shop", "web"), "app", 1, amounts, cluster.Resources{}, target),
		subject(deploy("pay", "web"), "app", 1, amounts, cluster.Resources{}, target),
		subject(deploy("pay", "ledger"), "app", 1, amounts, cluster.Resources{}, target),
		subject(deploy("default", "home"), "app", 1, amounts, cluster.Resources{}, target),
	}
	got := written(t, "kustomize", core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced"}}, subjects), Options{})
	if !strings.HasPrefix(got, "# ATTENTION: several namespaces have workloads with the same name: pay/deploy/web, shop/deploy/web.\n") {
		t.Errorf("the first line does not say so:\n%s", got)
	}
	for _, want := range []string{"    namespace: shop\n", "    namespace: pay\n", "    namespace: (pay|default)\n", "    namespace: default\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// Pipelines that read KRR's CSV format find its columns in its order. KRR writes the severity unless it is called with --exclude-severity.
// Source: tests/formatters/test_csv_formatter.py of KRR.
func TestKRRCSV_columns_areThoseOfKRR(t *testing.T) {
	got := written(t, "krr-csv", example(), Options{})
	const header = "Namespace,Name,Pods,Old Pods,Type,Container,Severity,CPU Diff,CPU Requests,CPU Limits,Memory Diff,Memory Requests,Memory Limits\n"
	if !strings.HasPrefix(got, header) {
		t.Errorf("got\n%s\nwant the header %s", got, header)
	}
	for _, want := range []string{",Deployment,app,CRITICAL,-26800m,", ",Deployment,app,UNKNOWN,,100m -> ?,", "\n,,,,,proxy,GOOD,"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
