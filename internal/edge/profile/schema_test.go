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

	"podfit.dev/podfit/internal/core/recommend"
)

// schema is what the test looks at in the schema of the resource definition.
type schema struct {
	Type        string
	Properties  map[string]schema
	Required    []string
	Enum        []string
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

// fields returns the schema of each field below a path that is a value, by its path.
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

// parse reads a profile with one field given, and what goes with it.
func parse(t *testing.T, path string, value any) error {
	t.Helper()
	spec := map[string]any{"base": baseOf[strings.Split(path, ".")[0]]}
	if path == "base" {
		delete(spec, "base")
	}
	set(spec, path, value)
	for with, v := range together[path] {
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
	"about": "cost", "histogram": "default", "memory": "cost", "cpu": "cost", "busyHours": "busy-hours", "ensemble": "autopilot",
}

// together are fields that others need.
var together = map[string]map[string]any{
	"busyHours.from":      {"busyHours.to": 12},
	"busyHours.to":        {"busyHours.from": 12},
	"busyHours.utcOffset": {"busyHours.from": 9, "busyHours.to": 17},
	"busyHours.timeZone":  {"busyHours.from": 9, "busyHours.to": 17},
}

var update = flag.Bool("update", false, "write zz_generated.bounds.go")

// TestBounds_generatedTable_matchesTheCRD holds that the reader has the bounds of the CRD. With -update it writes them.
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
		t.Errorf("%s is not up to date: run make generate (-want +got)\n%s", path, diff)
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
			fmt.Fprintf(&durations, "%q: {%d * time.Hour, %d * time.Hour},\n", path, least/time.Hour, most/time.Hour)
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

// numberBounds are the bounds of numbers, by path below spec.
var numberBounds = map[string]bounds[float64]{
%s}

// durationBounds are the bounds of durations.
var durationBounds = map[string]bounds[time.Duration]{
%s}

// lengthBounds are the most characters that a text may have.
var lengthBounds = map[string]int{
%s}
`, &numbers, &durations, &lengths)
	formatted, err := format.Source([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return formatted
}

// Whatever the API server accepts the reader accepts, and what the reader refuses the API server refuses: field by field,
// with the bounds that stand in the definition.
func TestTheReaderAndTheDefinitionHaveTheSameBounds(t *testing.T) {
	spec := definition(t).Properties["spec"]
	fields := spec.fields("", map[string]schema{})
	if len(fields) < 35 {
		t.Fatalf("only %d fields", len(fields))
	}
	accepts := func(path string, v any) {
		t.Helper()
		if err := parse(t, path, v); err != nil {
			t.Errorf("%s: %v is within the bounds, and refused: %v", path, v, err)
		}
	}
	refuses := func(path string, v any) {
		t.Helper()
		if err := parse(t, path, v); err == nil || !strings.Contains(err.Error(), "spec."+path) {
			t.Errorf("%s: %v is beyond the bounds: %v", path, v, err)
		}
	}
	for path, s := range fields {
		switch {
		case s.Type == "number" || s.Type == "integer":
			if s.Minimum == nil { // bounds that are no whole numbers: the API server would round them in what it says
				s.Minimum, s.Maximum = numberBoundsOf(t, path, s)
			}
			beyond := 1e-6
			if s.Type == "integer" {
				beyond = 1
				refuses(path, *s.Minimum+0.5)
			}
			accepts(path, *s.Minimum)
			accepts(path, *s.Maximum)
			refuses(path, *s.Minimum-beyond)
			refuses(path, *s.Maximum+beyond)
		case s.Type == "boolean":
			accepts(path, true)
			accepts(path, false)
		case s.Enum != nil:
			for _, v := range s.Enum {
				accepts(path, v)
			}
			refuses(path, "something")
		case strings.Contains(s.Pattern, "h|m|s"):
			least, most := durationBoundsOf(t, path, s)
			accepts(path, fmt.Sprintf("%ds", int(least.Seconds())))
			accepts(path, fmt.Sprintf("%gh", most.Hours()))
			refuses(path, fmt.Sprintf("%gh1s", most.Hours()))
			if least > 0 {
				refuses(path, fmt.Sprintf("%ds", int(least.Seconds())-1))
			}
			for _, bad := range []string{"soon", "-1h", "3d", "1h ", ".5h", "60000ms", "1h000000000000000000000000m"} {
				if ok, err := regexp.MatchString(s.Pattern, bad); err != nil || ok && len(bad) <= *s.MaxLength {
					t.Errorf("%s: the definition accepts %q", path, bad)
				}
				refuses(path, bad)
			}
		case path == "busyHours.timeZone":
			for _, zone := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "UTC", "EST5EDT"} {
				accepts(path, zone)
				if ok, err := regexp.MatchString(s.Pattern, zone); err != nil || !ok {
					t.Errorf("the definition refuses the time zone %s", zone)
				}
			}
			for _, zone := range []string{"../../etc/passwd", "/etc/localtime", "Europe/Berlin/", "+01:00", "Berlin Time"} {
				refuses(path, zone)
				if ok, err := regexp.MatchString(s.Pattern, zone); err != nil || ok {
					t.Errorf("the definition accepts the time zone %s", zone)
				}
			}
		case path == "about":
			accepts(path, strings.Repeat("ü", *s.MaxLength))
			refuses(path, strings.Repeat("ü", *s.MaxLength+1))
		default:
			t.Errorf("%s: %+v is not looked at", path, s)
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
		t.Errorf("%s: says %q, means %q", path, s.Validations[0].Message, want)
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

func TestTheDefinitionKnowsTheBuiltInProfiles(t *testing.T) {
	d := definition(t)
	var names, quoted []string
	for _, b := range recommend.Builtins() {
		names, quoted = append(names, b.Name), append(quoted, "'"+b.Name+"'")
	}
	base := d.Properties["spec"].Properties["base"]
	if enum := slices.Clone(base.Enum); !slices.Equal(slices.Sorted(slices.Values(enum)), slices.Sorted(slices.Values(names))) || base.Default != "balanced" {
		t.Errorf("spec.base is one of %v, %v when not given; built in are %v", base.Enum, base.Default, names)
	}
	if len(d.Validations) != 1 || !strings.Contains(d.Validations[0].Rule, "in ["+strings.Join(quoted, ", ")+"])") {
		t.Errorf("names that are taken: %+v, want %v", d.Validations, quoted)
	}
}

// Each rule of a spec says to which bases a part belongs, as the reader does.
func TestTheReaderAndTheDefinitionHaveTheSameParts(t *testing.T) {
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
		if name == "base" || name == "about" {
			continue
		}
		for _, b := range recommend.Builtins() {
			_, err := Parse([]byte(head + "spec: {base: " + b.Name + ", " + name + ": {}}"))
			if (err == nil) != slices.Contains(allowed[name], b.Name) {
				t.Errorf("%s with base %s: the definition allows %v, the reader says %v", name, b.Name, allowed[name], err)
			}
		}
	}
}
