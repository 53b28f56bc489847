// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/recommend"
)

// storedAs has the golden files of what podfit stores, by the resource that its accounts may create, patch or update. Without golden files, there is a reason.
var storedAs = map[string]string{
	"admissionregistration.k8s.io/mutatingwebhookconfigurations": "webhook/registration: webhook-configuration.json",
	"apps/deployments": "kube/actuation: surge.json",
	"autoscaling.k8s.io/verticalpodautoscalercheckpoints": "kube/checkpoint: checkpoint.json",
	"autoscaling.k8s.io/verticalpodautoscalers":           "kube/enrollment: vpa.json vpa-ended.json",
	"autoscaling.k8s.io/verticalpodautoscalers/status":    "kube/watcher: vpa-status.json",
	"autoscaling.x-k8s.io/provisioningrequests":           "kube/capacity: provisioningrequest.json",
	"autoscaling/horizontalpodautoscalers":                "kube/projection: scale-point.json",
	"coordination.k8s.io/leases":                          "kube: lease-created.json lease-renewed.json", // and those of client-go for leaders
	"core/pods":                                           "kube/capacity: placeholder.json",             // and upstream's annotation vpaInPlaceUpdated=true
	"core/podtemplates":                                   "kube/capacity: podtemplate.json",
	"podfit.dev/capacityplans":                            "kube/capacityplan: capacityplan.json capacityplan.first.json",
	"podfit.dev/capacityplans/status":                     "kube/capacityplan: capacityplan.json",
	"podfit.dev/updatestates":                             "kube/checkpoint: updatestate.json updatestate.first.json updatestate.unshown.json updatestate.acting.json",
	"podfit.dev/usagehistories":                           "kube/checkpoint: usagehistory.json",

	"core/events":        "the API server keeps events for an hour; event_test.go reads what is written",
	"core/pods/eviction": "a request, which is not stored",
	"core/pods/resize":   "fields of the spec of a pod",
	"core/secrets":       "certificates and keys in PEM; certificate_test.go reads upstream's",
}

// namesOfPeople are names that people set, and podfit only reads.
var namesOfPeople = strings.Fields(`autoscale canary-duration canary-query change-window continues cpu-limits criticality eviction-tolerance followers freeze hpa
	ignore-do-not-disrupt initial-delay inject-cpu-count inject-heap-percent learn-startup-boost make-room max-allowed- max-step memory-limits memory-per-cpu
	min-allowed- min-change mover profile role-label rollout runtime runtime-guards`)

// otherNames are names that neither people nor podfit store, or that need no golden file.
var otherNames = map[string]string{
	"change": "of events", "reason": "of events", "reason-text": "of events", "vpa": "of events", "workload": "of events",
	"flags": "of commands", "no-effect": "of flags",
	"node-name": "of roles, in memory", "node-size": "of roles, in memory", "usage-level": "of roles, in memory",
}

// golden returns the text of all golden files, and checks that those of storedAs exist.
func golden(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for resource, files := range storedAs {
		folder, names, isStored := strings.Cut(files, ": ")
		if !isStored {
			continue
		}
		for name := range strings.FieldsSeq(names) {
			data, err := os.ReadFile("../../internal/edge/" + folder + "/testdata/stored/" + name)
			if err != nil {
				t.Errorf("%s: %v", resource, err)
			}
			text.Write(data)
		}
	}
	return text.String()
}

func TestStored_everyKindThatMayBeWritten_hasAGoldenFile(t *testing.T) {
	right := regexp.MustCompile(`^\S+ ([^[\s]+)(?:\[.*\])?: (.*)$`)
	written := map[string]bool{}
	for _, list := range slices.Concat(slices.Collect(maps.Values(rights)), slices.Collect(maps.Values(componentRights))) {
		for _, text := range list {
			m := right.FindStringSubmatch(text)
			if len(m) == 3 && slices.ContainsFunc(strings.Fields(m[2]), func(verb string) bool { return slices.Contains([]string{"create", "patch", "update"}, verb) }) {
				written[m[1]] = true
			}
		}
	}
	for resource := range written {
		if storedAs[resource] == "" {
			t.Errorf("podfit may write %s, which has no golden file and no reason in storedAs", resource)
		}
	}
	for resource := range storedAs {
		if !written[resource] {
			t.Errorf("podfit may not write %s", resource)
		}
	}
	golden(t)
}

// Names of annotations, labels and amounts are constants of the product.
func TestStored_everyNameOfPodfit_isInAGoldenFileOrOfPeople(t *testing.T) {
	all := golden(t)
	found := map[string]bool{}
	for _, root := range []string{"../../internal", "../../api"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			imports := map[*ast.BasicLit]bool{}
			for _, i := range file.Imports {
				imports[i.Path] = true
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || imports[lit] {
					return true
				}
				text, _ := strconv.Unquote(lit.Value)
				if name, isName := strings.CutPrefix(text, "podfit.dev/"); isName && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(name) {
					found[name] = true
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range found {
		quoted := "podfit.dev/" + name
		if !strings.HasSuffix(name, "-") { // else the name of a resource follows
			quoted += `"`
		}
		stored := strings.Contains(all, quoted) || name == "scale-point" || name == "surge" // their files have the value of the annotation
		if known := slices.Contains(namesOfPeople, name) || otherNames[name] != ""; stored == known {
			t.Errorf("podfit.dev/%s is in a golden file: %t; in namesOfPeople or otherNames: %t", name, stored, known)
		}
	}
	for _, name := range slices.Concat(namesOfPeople, slices.Collect(maps.Keys(otherNames))) {
		if !found[name] {
			t.Errorf("no constant is podfit.dev/%s", name)
		}
	}
	if !strings.Contains(all, ".role.podfit.dev/") || len(found) < 50 {
		t.Errorf("%d names were found", len(found))
	}
}

// A new field of a status needs a value in the golden file. The status of an UpdateState has no schema: package checkpoint checks its fields.
func TestStored_everyFieldOfAStatus_isInItsGoldenFile(t *testing.T) {
	for crd, file := range map[string]string{
		"podfit.dev_capacityplans":                            "kube/capacityplan/testdata/stored/capacityplan.json",
		"podfit.dev_usagehistories":                           "kube/checkpoint/testdata/stored/usagehistory.json",
		"autoscaling.k8s.io_verticalpodautoscalercheckpoints": "kube/checkpoint/testdata/stored/checkpoint.json",
	} {
		data, err := os.ReadFile("../../deploy/crds/" + crd + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct {
				Versions []struct {
					Storage bool
					Schema  struct{ OpenAPIV3Schema fieldSchema }
				}
			}
		}
		if err := yaml.Unmarshal(data, &definition); err != nil {
			t.Fatal(err)
		}
		stored, err := os.ReadFile("../../internal/edge/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(stored, &object); err != nil {
			t.Fatal(err)
		}
		for _, version := range definition.Spec.Versions {
			if version.Storage {
				status := version.Schema.OpenAPIV3Schema.Properties["status"]
				missingFields(t, crd+" status", &status, []any{object["status"]})
			}
		}
	}
}

// neverStored are fields of the schema that podfit leaves out.
var neverStored = []string{
	"podfit.dev_capacityplans status.conditions[].observedGeneration",
	"podfit.dev_capacityplans status.pools[].changes[].workload.pods",
}

// A fieldSchema is the part of a schema of a CRD that names fields.
type fieldSchema struct {
	Properties map[string]fieldSchema
	Items      *fieldSchema
}

// missingFields reports fields of a schema that none of the values has.
func missingFields(t *testing.T, path string, schema *fieldSchema, values []any) {
	t.Helper()
	var items []any
	fields := map[string][]any{}
	for _, v := range values {
		switch v := v.(type) {
		case []any:
			items = append(items, v...)
		case map[string]any:
			for name, field := range v {
				fields[name] = append(fields[name], field)
			}
		}
	}
	if schema.Items != nil {
		missingFields(t, path+"[]", schema.Items, items)
	}
	for name := range schema.Properties {
		property := schema.Properties[name]
		if len(fields[name]) == 0 && !slices.Contains(neverStored, path+"."+name) {
			t.Errorf("%s.%s is not in the golden file", path, name)
		}
		missingFields(t, path+"."+name, &property, fields[name])
	}
}

func TestStored_everyFormOfModelState_hasAGoldenFile(t *testing.T) {
	forms := 0
	for _, p := range recommend.Builtins() {
		if p.Extend == nil {
			continue
		}
		form := p.Extend().Form()
		files, err := filepath.Glob("../../internal/core/*/testdata/stored/" + strings.ReplaceAll(form, "/", "-") + ".hex")
		if form != "" && (err != nil || len(files) != 1) {
			t.Errorf("profile %s: model state %s has the golden files %q, want one", p.Name, form, files)
		}
		forms++
	}
	if forms == 0 {
		t.Error("no profile has model state")
	}
}
