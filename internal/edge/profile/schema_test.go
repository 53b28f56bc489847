// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/recommend"
)

// schema has the parts of the schema of the custom resource definition that the tests read.
type schema struct {
	Type        string
	Properties  map[string]schema
	Required    []string
	Enum        []string
	Items       *schema
	MaxItems    *int
	Minimum     *float64
	Maximum     *float64
	MaxLength   *int
	Pattern     string
	Default     any
	Validations []struct{ Rule, Message string } `json:"x-kubernetes-validations"`
}

func definition(t *testing.T) schema {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/crds/podfit.dev_sizingprofiles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// fields adds the schema of each field that is not an object to out, by path.
func (s schema) fields(path string, out map[string]schema) map[string]schema {
	if s.Type == "object" {
		for name, p := range s.Properties {
			p.fields(strings.TrimPrefix(path+"."+name, "."), out)
		}
		return out
	}
	out[path] = s
	return out
}

// parse parses a profile with one field and the fields that it requires.
func parse(t *testing.T, path string, value any) error {
	t.Helper()
	spec := map[string]any{"base": baseOf[strings.Split(path, ".")[0]]}
	if path == "base" {
		delete(spec, "base")
	}
	set(spec, path, value)
	for with, v := range required[path] {
		set(spec, with, v)
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "podfit.dev/v1alpha1", "kind": "SizingProfile", "metadata": map[string]any{"name": "mine"}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(data)
	return err
}

func set(to map[string]any, path string, value any) {
	first, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		to[first] = value
		return
	}
	if to[first] == nil {
		to[first] = map[string]any{}
	}
	set(to[first].(map[string]any), rest, value)
}

var baseOf = map[string]string{
	"about": "cost", "histogram": "default", "memory": "cost", "cpu": "cost", "busyHours": "busy-hours", "ensemble": "autopilot", "packed": "packed",
}

// required has the fields that other fields require.
var required = map[string]map[string]any{
	"busyHours.from":      {"busyHours.to": 12},
	"busyHours.to":        {"busyHours.from": 12},
	"busyHours.utcOffset": {"busyHours.from": 9, "busyHours.to": 17},
	"busyHours.timeZone":  {"busyHours.from": 9, "busyHours.to": 17},
}

var update = flag.Bool("update", false, "write zz_generated.bounds.go")

// The generated bounds must be those of the CRD. With -update the test writes them.
func TestBounds_generatedTable_matchesTheCRD(t *testing.T) {
	const path = "zz_generated.bounds.go"
	want := boundsSource(t, definition(t).Properties["spec"])
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is outdated, run make generate (-want +got)\n%s", path, diff)
	}
}

// boundsSource returns the source of the tables of bounds.
func boundsSource(t *testing.T, spec schema) []byte {
	t.Helper()
	fields := spec.fields("", map[string]schema{})
	var numbers, durations, lengths strings.Builder
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		s := fields[path]
		switch {
		case s.Type == "number" || s.Type == "integer":
			if s.Minimum == nil {
				s.Minimum, s.Maximum = numberBoundsOf(t, path, s)
			}
			fmt.Fprintf(&numbers, "%q: {%v, %v},\n", path, *s.Minimum, *s.Maximum)
		case strings.Contains(s.Pattern, "h|m|s"):
			least, most := durationBoundsOf(t, path, s)
			fmt.Fprintf(&durations, "%q: {%s, %s},\n", path, durationSource(least), durationSource(most))
		}
		if s.MaxLength != nil {
			fmt.Fprintf(&lengths, "%q: %d,\n", path, *s.MaxLength)
		}
	}
	source := fmt.Sprintf(`// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from the CRD of SizingProfiles. DO NOT EDIT.

package profile

import "time"

// numberBounds contains the bounds of numbers, by path below spec.
var numberBounds = map[string]bounds[float64]{
%s}

// durationBounds contains the bounds of durations, by path below spec.
var durationBounds = map[string]bounds[time.Duration]{
%s}

// lengthBounds contains the maximum lengths of strings in characters, by path below spec.
var lengthBounds = map[string]int{
%s}
`, &numbers, &durations, &lengths)
	formatted, err := format.Source([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return formatted
}

// durationSource returns the Go expression of a duration of whole hours or minutes.
func durationSource(d time.Duration) string {
	if d%time.Hour != 0 {
		return fmt.Sprintf("%d * time.Minute", d/time.Minute)
	}
	return fmt.Sprintf("%d * time.Hour", d/time.Hour)
}

// For each field, Parse and the API server must accept and reject the same values.
func TestParse_boundsOfEachField_equalThoseOfTheCRD(t *testing.T) {
	spec := definition(t).Properties["spec"]
	fields := spec.fields("", map[string]schema{})
	if len(fields) < 35 {
		t.Fatalf("got %d fields, want at least 35", len(fields))
	}
	accept := func(path string, v any) {
		t.Helper()
		if err := parse(t, path, v); err != nil {
			t.Errorf("%s: %v is within bounds but rejected: %v", path, v, err)
		}
	}
	reject := func(path string, v any) {
		t.Helper()
		if err := parse(t, path, v); err == nil || !strings.Contains(err.Error(), "spec."+path) {
			t.Errorf("%s: %v is out of bounds, got error %v", path, v, err)
		}
	}
	for path, s := range fields {
		switch {
		case s.Type == "number" || s.Type == "integer":
			if s.Minimum == nil { // the bounds are in a CEL rule, because the API server rounds fractional bounds in its messages
				s.Minimum, s.Maximum = numberBoundsOf(t, path, s)
			}
			beyond := 1e-6
			if s.Type == "integer" {
				beyond = 1
				reject(path, *s.Minimum+0.5)
			}
			accept(path, *s.Minimum)
			accept(path, *s.Maximum)
			reject(path, *s.Minimum-beyond)
			reject(path, *s.Maximum+beyond)
		case s.Type == "boolean":
			accept(path, true)
			accept(path, false)
		case path == "busyHours.priorityClasses":
			k := s.Items.Properties["criticality"]
			if *s.MaxItems != maxPriorityClasses || *s.Items.Properties["name"].MaxLength != maxClassName || *k.Minimum != criticality.Min || *k.Maximum != criticality.Max {
				t.Errorf("the CRD has %+v, which differs from the constants of the code", s)
			}
			class := func(name string, criticality float64) []map[string]any {
				return []map[string]any{{"name": name, "criticality": criticality}}
			}
			accept(path, class("gold", 1))
			accept(path, class(strings.Repeat("g", maxClassName), 3))
			reject(path, class("gold", 3.01))
			reject(path, class("gold", 0.99))
			reject(path, class("", 2))
			reject(path, class(strings.Repeat("g", maxClassName+1), 2))
			reject(path, append(class("gold", 2), class("gold", 3)...))
		case s.Items != nil && s.Items.Enum != nil:
			if s.MaxItems == nil || *s.MaxItems < len(s.Items.Enum) {
				t.Errorf("%s: the CRD does not allow all values", path)
			}
			accept(path, s.Items.Enum)
			accept(path, []string{})
			reject(path, []string{s.Items.Enum[0], "something"})
			reject(path, []string{s.Items.Enum[0], s.Items.Enum[0]}) // list type set
		case s.Enum != nil:
			for _, v := range s.Enum {
				accept(path, v)
			}
			reject(path, "something")
		case strings.Contains(s.Pattern, "h|m|s"):
			least, most := durationBoundsOf(t, path, s)
			accept(path, fmt.Sprintf("%ds", int(least.Seconds())))
			accept(path, fmt.Sprintf("%gh", most.Hours()))
			reject(path, fmt.Sprintf("%gh1s", most.Hours()))
			if least > 0 {
				reject(path, fmt.Sprintf("%ds", int(least.Seconds())-1))
			}
			for _, bad := range []string{"soon", "-1h", "3d", "1h ", ".5h", "60000ms", "1h000000000000000000000000m"} {
				if ok, err := regexp.MatchString(s.Pattern, bad); err != nil || ok && len(bad) <= *s.MaxLength {
					t.Errorf("%s: the CRD accepts %q", path, bad)
				}
				reject(path, bad)
			}
		case path == "busyHours.timeZone":
			for _, zone := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "UTC", "EST5EDT"} {
				accept(path, zone)
				if ok, err := regexp.MatchString(s.Pattern, zone); err != nil || !ok {
					t.Errorf("the CRD rejects the time zone %s", zone)
				}
			}
			for _, zone := range []string{"../../etc/passwd", "/etc/localtime", "Europe/Berlin/", "+01:00", "Berlin Time"} {
				reject(path, zone)
				if ok, err := regexp.MatchString(s.Pattern, zone); err != nil || ok {
					t.Errorf("the CRD accepts the time zone %s", zone)
				}
			}
		case path == "about":
			accept(path, strings.Repeat("ü", *s.MaxLength))
			reject(path, strings.Repeat("ü", *s.MaxLength+1))
		default:
			t.Errorf("%s: no check for schema %+v", path, s)
		}
	}
}

var boundsRule = regexp.MustCompile(`^self >= (\S+) && self <= (\S+)$`)

func numberBoundsOf(t *testing.T, path string, s schema) (least, most *float64) {
	t.Helper()
	if len(s.Validations) != 1 {
		t.Fatalf("%s has no bounds", path)
	}
	m := boundsRule.FindStringSubmatch(s.Validations[0].Rule)
	if m == nil {
		t.Fatalf("%s: rule %q", path, s.Validations[0].Rule)
	}
	var bounds [2]float64
	for i := range bounds {
		v, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		bounds[i] = v
	}
	if want := fmt.Sprintf("must be between %v and %v", bounds[0], bounds[1]); s.Validations[0].Message != want {
		t.Errorf("%s: got message %q, want %q", path, s.Validations[0].Message, want)
	}
	return &bounds[0], &bounds[1]
}

var durationRule = regexp.MustCompile(`^(?:duration\(self\) >= duration\('(\w+)'\) && )?duration\(self\) <= duration\('(\w+)'\)$`)

func durationBoundsOf(t *testing.T, path string, s schema) (least, most time.Duration) {
	t.Helper()
	if len(s.Validations) != 1 {
		t.Fatalf("%s: rules %v", path, s.Validations)
	}
	m := durationRule.FindStringSubmatch(s.Validations[0].Rule)
	if m == nil {
		t.Fatalf("%s: rule %q", path, s.Validations[0].Rule)
	}
	least, _ = time.ParseDuration("0" + m[1])
	most, err := time.ParseDuration(m[2])
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return least, most
}

func TestCRD_builtInProfiles_areListed(t *testing.T) {
	d := definition(t)
	var names, quoted []string
	for _, b := range recommend.Builtins() {
		names = append(names, b.Name)
		quoted = append(quoted, "'"+b.Name+"'")
	}
	base := d.Properties["spec"].Properties["base"]
	if enum := slices.Clone(base.Enum); !slices.Equal(slices.Sorted(slices.Values(enum)), slices.Sorted(slices.Values(names))) || base.Default != "balanced" {
		t.Errorf("spec.base allows %v with default %v, want the built-in profiles %v", base.Enum, base.Default, names)
	}
	if len(d.Validations) != 1 || !strings.Contains(d.Validations[0].Rule, "in ["+strings.Join(quoted, ", ")+"])") {
		t.Errorf("reserved names: got %+v, want %v", d.Validations, quoted)
	}
}

// Each rule of a spec has the bases with which a part is allowed.
func TestParse_partsOfEachBase_equalThoseOfTheCRD(t *testing.T) {
	d := definition(t).Properties["spec"]
	allowed := map[string][]string{} // by part
	part := regexp.MustCompile(`^!has\(self\.(\w+)\) \|\| self\.base (.*)$`)
	for _, v := range d.Validations {
		m := part.FindStringSubmatch(v.Rule)
		if m == nil {
			t.Fatalf("rule %q", v.Rule)
		}
		for _, name := range regexp.MustCompile(`'([a-z-]+)'`).FindAllStringSubmatch(m[2], -1) {
			allowed[m[1]] = append(allowed[m[1]], name[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Properties)) {
		if slices.Contains([]string{"base", "about", "rollout", "canaryDuration", "runtimeGuards", "limits", "startupBoost"}, name) {
			continue
		}
		for _, b := range recommend.Builtins() {
			_, err := Parse([]byte(head + "spec: {base: " + b.Name + ", " + name + ": {}}"))
			if (err == nil) != slices.Contains(allowed[name], b.Name) {
				t.Errorf("%s with base %s: the CRD allows the bases %v, Parse returned %v", name, b.Name, allowed[name], err)
			}
		}
	}
}
