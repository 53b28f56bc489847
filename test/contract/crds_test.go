// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/deploy"
)

// A definition contains the fields of a CustomResourceDefinition that the tests compare.
type definition struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Group, Scope string
		Names        struct {
			Kind, ListKind, Plural, Singular string
			ShortNames                       []string
		}
		Versions []version
	}
}

type version struct {
	Name, DeprecationWarning    string
	Served, Storage, Deprecated bool
	AdditionalPrinterColumns    []column
	Subresources                map[string]any
	Schema                      struct{ OpenAPIV3Schema map[string]any }
}

type column struct {
	Name, Type, JSONPath string
	Priority             int
}

func definitions(t *testing.T) map[string]definition {
	t.Helper()
	out := map[string]definition{}
	for doc := range strings.SplitSeq(string(deploy.CRDs()), "---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		var d definition
		if err := yaml.Unmarshal([]byte(doc), &d); err != nil {
			t.Fatal(err)
		}
		out[d.Metadata.Name] = d
	}
	return out
}

// upstreams returns the CRDs of upstream's API group.
func upstreams(t *testing.T) map[string]definition {
	ds := definitions(t)
	maps.DeleteFunc(ds, func(_ string, d definition) bool { return d.Spec.Group != v1.GroupName })
	return ds
}

const (
	autoscalers = "verticalpodautoscalers.autoscaling.k8s.io"
	checkpoints = "verticalpodautoscalercheckpoints.autoscaling.k8s.io"
)

func TestCRDs_namesVersionsColumnsAndSubresources_matchUpstream(t *testing.T) {
	ds := upstreams(t)
	if names := slices.Sorted(maps.Keys(ds)); !slices.Equal(names, []string{checkpoints, autoscalers}) {
		t.Fatalf("CRDs: %v", names)
	}
	want := map[string]struct {
		kind, short  string
		columns      []column
		subresources []string
	}{
		autoscalers: {
			kind: "VerticalPodAutoscaler", short: "vpa",
			columns: []column{
				{"Mode", "string", ".spec.updatePolicy.updateMode", 0},
				{"CPU", "string", ".status.recommendation.containerRecommendations[0].target.cpu", 0},
				{"Mem", "string", ".status.recommendation.containerRecommendations[0].target.memory", 0},
				{"Provided", "string", ".status.conditions[?(@.type=='RecommendationProvided')].status", 0},
				{"Age", "date", ".metadata.creationTimestamp", 0},
				{"MinReplicas", "integer", ".spec.updatePolicy.minReplicas", 1},
				{"OOMSeconds", "integer", ".spec.updatePolicy.evictAfterOOMSeconds", 1},
			},
			subresources: []string{"status"},
		},
		checkpoints: {kind: "VerticalPodAutoscalerCheckpoint", short: "vpacheckpoint"},
	}
	for name, w := range want {
		d := ds[name]
		plural, _, _ := strings.Cut(name, ".")
		if got, want := d.Metadata.Annotations["api-approved.kubernetes.io"],
			"https://github.com/kubernetes/kubernetes/pull/63797"; got != want {
			t.Errorf("%s: approved by %q, want %q", name, got, want)
		}
		if d.Spec.Group != v1.GroupName || d.Spec.Scope != "Namespaced" {
			t.Errorf("%s: group %q, scope %q", name, d.Spec.Group, d.Spec.Scope)
		}
		n := d.Spec.Names
		if n.Kind != w.kind || n.ListKind != w.kind+"List" || n.Plural != plural || n.Singular != strings.TrimSuffix(plural, "s") ||
			!slices.Equal(n.ShortNames, []string{w.short}) {
			t.Errorf("%s: names %+v", name, n)
		}
		if len(d.Spec.Versions) != 2 {
			t.Fatalf("%s: %d versions, want v1 and v1beta2", name, len(d.Spec.Versions))
		}
		now, old := d.Spec.Versions[0], d.Spec.Versions[1]
		if now.Name != "v1" || !now.Served || !now.Storage || now.Deprecated {
			t.Errorf("%s: %s served=%t storage=%t deprecated=%t", name, now.Name, now.Served, now.Storage, now.Deprecated)
		}
		if diff := cmp.Diff(w.columns, now.AdditionalPrinterColumns); diff != "" {
			t.Errorf("%s: columns (-want +got)\n%s", name, diff)
		}
		if got := slices.Sorted(maps.Keys(now.Subresources)); !slices.Equal(got, w.subresources) {
			t.Errorf("%s: subresources %v, want %v", name, got, w.subresources)
		}
		if old.Name != "v1beta2" || old.Served || old.Storage || !old.Deprecated ||
			old.DeprecationWarning != "autoscaling.k8s.io/v1beta2 API is deprecated" {
			t.Errorf("%s: %s served=%t storage=%t deprecated=%t %q", name, old.Name, old.Served, old.Storage, old.Deprecated,
				old.DeprecationWarning)
		}
		if old.Schema.OpenAPIV3Schema["x-kubernetes-preserve-unknown-fields"] != true {
			t.Errorf("%s: objects stored as v1beta2 would lose their content", name)
		}
	}
}

const (
	quantity = `anyOf=[{"type":"integer"},{"type":"string"}] ` +
		`pattern=^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$ ` +
		`x-kubernetes-int-or-string=true`
	boost = `required=["type"] type=object x-kubernetes-validations=[` +
		`{"message":"factor is required when type is Factor and forbidden otherwise",` +
		`"rule":"(self.type == 'Factor') == has(self.factor)"},` +
		`{"message":"quantity is required when type is Quantity and forbidden otherwise",` +
		`"rule":"(self.type == 'Quantity') == has(self.quantity)"}]`
)

// The golden file lists every property of every field except descriptions, so that each change of the schema is visible.
var schemas = map[string]map[string]string{
	autoscalers: {
		"":           `required=["spec"] type=object`,
		"apiVersion": "type=string",
		"kind":       "type=string",
		"metadata":   "type=object",
		"spec":       `required=["targetRef"] type=object`,

		"spec.targetRef":            `required=["kind","name"] type=object x-kubernetes-map-type=atomic`,
		"spec.targetRef.apiVersion": "type=string",
		"spec.targetRef.kind":       "type=string",
		"spec.targetRef.name":       "type=string",

		"spec.updatePolicy":                                          "type=object",
		"spec.updatePolicy.updateMode":                               `enum=["Off","Initial","Recreate","InPlaceOrRecreate","InPlace","Auto"] type=string`,
		"spec.updatePolicy.minReplicas":                              "format=int32 type=integer",
		"spec.updatePolicy.evictionRequirements":                     "type=array",
		"spec.updatePolicy.evictionRequirements[]":                   `required=["changeRequirement","resources"] type=object`,
		"spec.updatePolicy.evictionRequirements[].resources":         "type=array",
		"spec.updatePolicy.evictionRequirements[].resources[]":       "type=string",
		"spec.updatePolicy.evictionRequirements[].changeRequirement": `enum=["TargetHigherThanRequests","TargetLowerThanRequests"] type=string`,
		"spec.updatePolicy.evictAfterOOMSeconds":                     "format=int32 minimum=1 type=integer",

		"spec.resourcePolicy":                                                      "type=object",
		"spec.resourcePolicy.containerPolicies":                                    "type=array",
		"spec.resourcePolicy.containerPolicies[]":                                  "type=object",
		"spec.resourcePolicy.containerPolicies[].containerName":                    "type=string",
		"spec.resourcePolicy.containerPolicies[].mode":                             `enum=["Auto","Off"] type=string`,
		"spec.resourcePolicy.containerPolicies[].minAllowed":                       "type=object",
		"spec.resourcePolicy.containerPolicies[].minAllowed{}":                     quantity,
		"spec.resourcePolicy.containerPolicies[].maxAllowed":                       "type=object",
		"spec.resourcePolicy.containerPolicies[].maxAllowed{}":                     quantity,
		"spec.resourcePolicy.containerPolicies[].controlledResources":              "type=array",
		"spec.resourcePolicy.containerPolicies[].controlledResources[]":            "type=string",
		"spec.resourcePolicy.containerPolicies[].controlledValues":                 `enum=["RequestsAndLimits","RequestsOnly"] type=string`,
		"spec.resourcePolicy.containerPolicies[].oomBumpUpRatio":                   quantity,
		"spec.resourcePolicy.containerPolicies[].oomMinBumpUp":                     quantity,
		"spec.resourcePolicy.containerPolicies[].memoryAggregationIntervalSeconds": "format=int32 minimum=1 type=integer",
		"spec.resourcePolicy.containerPolicies[].memoryAggregationIntervalCount":   "format=int64 minimum=1 type=integer",
		"spec.resourcePolicy.containerPolicies[].startupBoost":                     "type=object",
		"spec.resourcePolicy.containerPolicies[].startupBoost.cpu":                 boost,
		"spec.resourcePolicy.containerPolicies[].startupBoost.cpu.type":            `enum=["Factor","Quantity"] type=string`,
		"spec.resourcePolicy.containerPolicies[].startupBoost.cpu.factor":          "format=int32 type=integer",
		"spec.resourcePolicy.containerPolicies[].startupBoost.cpu.quantity":        quantity,
		"spec.resourcePolicy.containerPolicies[].startupBoost.cpu.durationSeconds": "format=int32 type=integer",

		"spec.recommenders":        "type=array",
		"spec.recommenders[]":      `required=["name"] type=object`,
		"spec.recommenders[].name": "type=string",

		"spec.startupBoost":                     "type=object",
		"spec.startupBoost.cpu":                 boost,
		"spec.startupBoost.cpu.type":            `enum=["Factor","Quantity"] type=string`,
		"spec.startupBoost.cpu.factor":          "format=int32 type=integer",
		"spec.startupBoost.cpu.quantity":        quantity,
		"spec.startupBoost.cpu.durationSeconds": "format=int32 type=integer",

		"status":                    "type=object",
		"status.observedGeneration": "format=int64 minimum=0 type=integer",
		"status.recommendation":     "type=object",
		"status.recommendation.containerRecommendations":                    "type=array",
		"status.recommendation.containerRecommendations[]":                  `required=["target"] type=object`,
		"status.recommendation.containerRecommendations[].containerName":    "type=string",
		"status.recommendation.containerRecommendations[].target":           "type=object",
		"status.recommendation.containerRecommendations[].target{}":         quantity,
		"status.recommendation.containerRecommendations[].lowerBound":       "type=object",
		"status.recommendation.containerRecommendations[].lowerBound{}":     quantity,
		"status.recommendation.containerRecommendations[].upperBound":       "type=object",
		"status.recommendation.containerRecommendations[].upperBound{}":     quantity,
		"status.recommendation.containerRecommendations[].uncappedTarget":   "type=object",
		"status.recommendation.containerRecommendations[].uncappedTarget{}": quantity,
		"status.conditions":                      "type=array",
		"status.conditions[]":                    `required=["status","type"] type=object`,
		"status.conditions[].type":               "type=string",
		"status.conditions[].status":             "type=string",
		"status.conditions[].lastTransitionTime": "format=date-time type=string",
		"status.conditions[].reason":             "type=string",
		"status.conditions[].message":            "type=string",
		"status.conditions[].observedGeneration": "format=int64 minimum=0 type=integer",
	},
	checkpoints: {
		"":                                       "type=object",
		"apiVersion":                             "type=string",
		"kind":                                   "type=string",
		"metadata":                               "type=object",
		"spec":                                   "type=object",
		"spec.vpaObjectName":                     "type=string",
		"spec.containerName":                     "type=string",
		"status":                                 "type=object",
		"status.lastUpdateTime":                  "format=date-time nullable=true type=string",
		"status.version":                         "type=string",
		"status.cpuHistogram":                    "type=object",
		"status.cpuHistogram.referenceTimestamp": "format=date-time nullable=true type=string",
		"status.cpuHistogram.bucketWeights":      "type=object x-kubernetes-preserve-unknown-fields=true",
		"status.cpuHistogram.totalWeight":        "type=number",
		"status.memoryHistogram":                 "type=object",
		"status.memoryHistogram.referenceTimestamp": "format=date-time nullable=true type=string",
		"status.memoryHistogram.bucketWeights":      "type=object x-kubernetes-preserve-unknown-fields=true",
		"status.memoryHistogram.totalWeight":        "type=number",
		"status.firstSampleStart":                   "format=date-time nullable=true type=string",
		"status.lastSampleStart":                    "format=date-time nullable=true type=string",
		"status.totalSamplesCount":                  "type=integer",
	},
}

func TestCRDs_schemas_matchUpstream(t *testing.T) {
	for name, d := range upstreams(t) {
		got := map[string]string{}
		describe(got, "", d.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if diff := cmp.Diff(schemas[name], got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// describe writes the properties of each field of a schema to out, except descriptions. In paths, [] stands for items and {} for values.
func describe(out map[string]string, path string, schema map[string]any) {
	var facts []string
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		switch value := schema[key].(type) {
		case map[string]any:
			switch key {
			case "properties":
				for name, property := range value {
					describe(out, strings.TrimPrefix(path+"."+name, "."), property.(map[string]any))
				}
			case "items":
				describe(out, path+"[]", value)
			case "additionalProperties":
				describe(out, path+"{}", value)
			default:
				facts = append(facts, key+"=?")
			}
		case []any:
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(value); err != nil {
				panic(err) // it was decoded from JSON
			}
			facts = append(facts, key+"="+strings.TrimSpace(b.String()))
		default:
			if key != "description" {
				facts = append(facts, fmt.Sprintf("%s=%v", key, value))
			}
		}
	}
	out[path] = strings.Join(facts, " ")
}

func TestGoTypes_everySchemaField_roundTrips(t *testing.T) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1.GroupVersion(), &v1.VerticalPodAutoscaler{}, &v1.VerticalPodAutoscalerCheckpoint{})
	for name, files := range map[string][]string{autoscalers: {"autoscaler.yaml", "boosts.yaml"}, checkpoints: {"checkpoint.yaml"}} {
		seen := map[string]bool{}
		for _, file := range files {
			in, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			var read, written map[string]any
			if err := yaml.Unmarshal(in, &read); err != nil {
				t.Fatal(err)
			}
			visit(seen, "", read)

			o, err := scheme.New(v1.GroupVersion().WithKind(definitions(t)[name].Spec.Names.Kind))
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(in, o); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			out, err := yaml.Marshal(o.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(out, &written); err != nil {
				t.Fatal(err)
			}
			if _, ok := read["status"]; !ok {
				read["status"] = map[string]any{} // upstream writes it even if it is empty
			}
			if diff := cmp.Diff(read, written); diff != "" {
				t.Errorf("%s read and written (-read +written)\n%s", file, diff)
			}
		}
		for path := range schemas[name] {
			if !strings.HasSuffix(path, "{}") && !seen[path] {
				t.Errorf("no sample has %s, so that nothing is known about it", path)
			}
		}
	}
}

// visit marks the paths of an object as describe names them.
func visit(seen map[string]bool, path string, value any) {
	seen[path] = true
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			visit(seen, strings.TrimPrefix(path+"."+name, "."), field)
		}
	case []any:
		for _, item := range value {
			visit(seen, path+"[]", item)
		}
	}
}

func TestStrategicMergePatch_lists_mergeByUpstreamKeys(t *testing.T) {
	for _, c := range []struct {
		in         any
		field, key string
	}{
		{v1.PodResourcePolicy{}, "ContainerPolicies", "containerName"},
		{v1.VerticalPodAutoscalerStatus{}, "Conditions", "type"},
		{v1.ContainerResourcePolicy{}, "ControlledResources", ""},
	} {
		f, ok := reflect.TypeOf(c.in).FieldByName(c.field)
		if !ok || f.Tag.Get("patchStrategy") != "merge" || f.Tag.Get("patchMergeKey") != c.key {
			t.Errorf("%T.%s: tag %s", c.in, c.field, f.Tag)
		}
	}
}

func TestCRDFile_flatFile_matchesGeneratedCRDs(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/*.yaml")
	if err != nil || len(files) != len(definitions(t)) {
		t.Fatalf("generated CRDs: %v, %v", files, err)
	}
	var want []byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, b...)
	}
	if !bytes.Equal(want, deploy.CRDs()) {
		t.Error("deploy/00-crds.yaml and deploy/crds differ: make generate")
	}
}
