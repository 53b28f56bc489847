// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surface

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// documents returns the objects of YAML files.
func documents(t *testing.T, pattern string) (out []map[string]any) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var o map[string]any
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if o["metadata"] != nil {
				out = append(out, o)
			}
		}
	}
	return out
}

// upstreams returns the path of files in upstream's deploy folder.
func upstreams(t *testing.T, pattern string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/autoscaler/vertical-pod-autoscaler").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "deploy", pattern)
}

const podfits = "../../../deploy"

func named(o map[string]any) string {
	m := o["metadata"].(map[string]any)
	namespace, _ := m["namespace"].(string)
	return fmt.Sprintf("%v %s/%v", o["kind"], namespace, m["name"])
}

// Objects that only podfit has, and why.
var ownObjects = map[string]string{
	"CustomResourceDefinition /capacityplans.podfit.dev":       "podfit's own API",
	"ClusterRole /podfit:capacity-planner":                     "to write it",
	"ClusterRoleBinding /podfit:capacity-planner":              "to write it",
	"CustomResourceDefinition /sizingprofiles.podfit.dev":      "podfit's own API",
	"CustomResourceDefinition /usagehistories.podfit.dev":      "podfit's own API",
	"CustomResourceDefinition /updatestates.podfit.dev":        "podfit's own API",
	"ClusterRole /podfit:profile-reader":                       "to read it",
	"ClusterRoleBinding /podfit:profile-reader":                "to read it",
	"ClusterRole /podfit:recommender":                          "what only the recommender does; upstream allows it to the updater, too",
	"ClusterRoleBinding /podfit:recommender":                   "likewise",
	"ClusterRole /podfit:updater":                              "what only the updater does; upstream allows it to the recommender, too",
	"ClusterRoleBinding /podfit:updater":                       "likewise",
	"ClusterRole /podfit:view":                                 "so that users with the role view may read VPA objects, and podfit's",
	"Role kube-system/podfit:updater":                          "the ConfigMap that stops all changes",
	"RoleBinding kube-system/podfit:updater":                   "likewise",
	"Secret kube-system/vpa-tls-certs":                         "filled by podfit, which may not create Secrets; upstream leaves it to a script",
	"MutatingWebhookConfiguration /vpa-webhook-config":         "filled by podfit, which may not create webhook configurations; upstream creates it",
	"NetworkPolicy kube-system/vpa-recommender":                "who may connect",
	"NetworkPolicy kube-system/vpa-updater":                    "likewise",
	"NetworkPolicy kube-system/vpa-admission-controller":       "likewise",
	"Role kube-system/system:vpa-admission-controller":         "the Secret with the certificates, which upstream leaves to a script",
	"RoleBinding kube-system/system:vpa-admission-controller":  "likewise",
	"PodDisruptionBudget kube-system/vpa-recommender":          "upstream has them in its Helm chart",
	"PodDisruptionBudget kube-system/vpa-updater":              "likewise",
	"PodDisruptionBudget kube-system/vpa-admission-controller": "likewise",
}

// Applying podfit's manifests replaces all objects of upstream.
func TestManifests_objectNames_equalUpstream(t *testing.T) {
	have := map[string]bool{}
	for _, o := range documents(t, podfits+"/*.yaml") {
		have[named(o)] = true
	}
	known := map[string]bool{}
	for _, o := range documents(t, upstreams(t, "*.yaml")) {
		known[named(o)] = true
		if !have[named(o)] {
			t.Errorf("%s of upstream is missing", named(o))
		}
	}
	if len(known) < 30 {
		t.Errorf("upstream has only %d objects", len(known))
	}
	for name := range have {
		if !known[name] && ownObjects[name] == "" {
			t.Errorf("%s does not exist in upstream and has no reason in the table", name)
		}
	}
}

// The CRDs equal upstream's in schema, columns, names and scope. Only descriptions differ.
func TestCRDs_schema_equalsUpstream(t *testing.T) {
	crds := func(objects []map[string]any) map[string]map[string]any {
		out := map[string]map[string]any{}
		for _, o := range objects {
			if o["kind"] == "CustomResourceDefinition" {
				out[named(o)] = o["spec"].(map[string]any)
			}
		}
		return out
	}
	ours := crds(documents(t, podfits+"/*.yaml"))
	for name, theirs := range crds(documents(t, upstreams(t, "vpa-v1-crd-gen.yaml"))) {
		got := ours[name]
		for _, field := range []string{"group", "scope", "names"} {
			if a, b := text(t, got[field]), text(t, theirs[field]); a != b {
				t.Errorf("%s: %s is %s, upstream's %s", name, field, a, b)
			}
		}
		a, b := version(t, got, "v1"), version(t, theirs, "v1")
		for _, field := range []string{"served", "storage", "subresources", "additionalPrinterColumns"} {
			if text(t, a[field]) != text(t, b[field]) {
				t.Errorf("%s: %s is %s, upstream's %s", name, field, text(t, a[field]), text(t, b[field]))
			}
		}
		compareSchemas(t, name, "", a["schema"].(map[string]any)["openAPIV3Schema"], b["schema"].(map[string]any)["openAPIV3Schema"])
		for _, field := range []string{"served", "storage"} {
			if a, b := version(t, got, "v1beta2"), version(t, theirs, "v1beta2"); text(t, a[field]) != text(t, b[field]) {
				t.Errorf("%s v1beta2: %s is %s", name, field, text(t, a[field]))
			}
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func version(t *testing.T, spec map[string]any, name string) map[string]any {
	t.Helper()
	for _, v := range spec["versions"].([]any) {
		if v := v.(map[string]any); v["name"] == name {
			return v
		}
	}
	t.Fatalf("there is no version %s", name)
	return nil
}

// compareSchemas compares everything but descriptions of fields.
func compareSchemas(t *testing.T, crd, path string, ours, theirs any) {
	t.Helper()
	a, aok := ours.(map[string]any)
	b, bok := theirs.(map[string]any)
	if !aok || !bok {
		if text(t, ours) != text(t, theirs) {
			t.Errorf("%s %s is %s, upstream's %s", crd, path, text(t, ours), text(t, theirs))
		}
		return
	}
	for key := range merged(a, b) {
		if _, isText := a[key].(string); key == "description" && (isText || a[key] == nil) {
			continue
		}
		compareSchemas(t, crd, path+"/"+key, a[key], b[key])
	}
}

func merged(a, b map[string]any) map[string]bool {
	out := map[string]bool{}
	for _, m := range []map[string]any{a, b} {
		for key := range m {
			out[key] = true
		}
	}
	return out
}

// sizesOfNewNodes is why podfit reads the objects of cluster autoscalers.
const sizesOfNewNodes = "for the sizes of nodes that can be added; without the right podfit goes on"

// ownRights are rights that only podfit has.
var ownRights = map[string]string{
	"vpa-admission-controller secrets": "the Secret with the certificates, which upstream leaves to a script",
	"vpa-recommender capacityplans":    "podfit's own API", "vpa-recommender capacityplans/status": "podfit's own API",
	"vpa-recommender sizingprofiles": "podfit's own API", "vpa-recommender usagehistories": "podfit's own API",
	"vpa-updater verticalpodautoscalers/status": "for the condition OOMRescue; without the right podfit goes on", "vpa-updater poddisruptionbudgets": "to find out what they lack; without the right podfit goes on",
	"vpa-updater updatestates": "podfit's own API", "vpa-admission-controller updatestates": "podfit's own API",
	"vpa-recommender namespaces": "their annotations that are defaults of VPAs; without the right podfit goes on",
	"vpa-updater namespaces":     "their annotations that stop or delay changes", "vpa-updater configmaps": "the one that stops all changes",
	"vpa-updater resourcequotas": "to keep to them; without the right podfit goes on", "vpa-admission-controller resourcequotas": "as for the updater",
	"vpa-recommender horizontalpodautoscalers": "to leave requests alone by which they scale; without the right podfit goes on",
	"vpa-updater horizontalpodautoscalers":     "as for the recommender", "vpa-admission-controller horizontalpodautoscalers": "as for the recommender",
	"vpa-recommender nodepools": sizesOfNewNodes, "vpa-updater nodepools": sizesOfNewNodes, "vpa-admission-controller nodepools": sizesOfNewNodes,
	"vpa-recommender machinedeployments": sizesOfNewNodes, "vpa-updater machinedeployments": sizesOfNewNodes, "vpa-admission-controller machinedeployments": sizesOfNewNodes,
	"vpa-recommender sizingprofiles/status": "podfit's own API", "vpa-updater sizingprofiles": "for canaries; without the right podfit goes on", "vpa-admission-controller sizingprofiles": "podfit's own API",
}

// Podfit has no right that upstream does not have, except for its own objects.
func TestManifests_rights_areSubsetOfUpstream(t *testing.T) {
	upstream := rights(t, documents(t, upstreams(t, "*.yaml")))
	checked := 0
	for account, rules := range rights(t, documents(t, podfits+"/*.yaml")) {
		for _, r := range rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						checked++
						if ownRights[account+" "+resource] == "" && !slices.ContainsFunc(upstream[account], func(u rbacv1.PolicyRule) bool {
							return among(u.APIGroups, group) && (among(u.Resources, resource) || strings.HasSuffix(resource, "/scale") && among(u.Resources, "*/scale")) &&
								among(u.Verbs, verb)
						}) {
							t.Errorf("%s has the right to %s %s of group %q, upstream's has not", account, verb, resource, group)
						}
					}
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("found only %d rights", checked)
	}
}

func among(list []string, one string) bool {
	return slices.Contains(list, one) || slices.Contains(list, "*")
}

// rights returns the rules of each service account from all its roles.
func rights(t *testing.T, objects []map[string]any) map[string][]rbacv1.PolicyRule {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	out := map[string][]rbacv1.PolicyRule{}
	for _, o := range objects {
		var r rbacv1.Role // a ClusterRole has the same fields
		if kind, _ := o["kind"].(string); strings.HasSuffix(kind, "Role") {
			if err := json.Unmarshal([]byte(text(t, o)), &r); err != nil {
				t.Fatal(err)
			}
			rules[kind+" "+r.Name] = r.Rules
		}
	}
	for _, o := range objects {
		var b rbacv1.RoleBinding
		if kind, _ := o["kind"].(string); strings.HasSuffix(kind, "RoleBinding") {
			if err := json.Unmarshal([]byte(text(t, o)), &b); err != nil {
				t.Fatal(err)
			}
			for _, s := range b.Subjects {
				out[s.Name] = append(out[s.Name], rules[b.RoleRef.Kind+" "+b.RoleRef.Name]...)
			}
		}
	}
	return out
}
