// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/spelling"
)

// decode returns the SizingProfile in a text, which may have other objects. Unknown fields are errors.
func decode(data []byte) (v1alpha1.SizingProfile, error) {
	var o v1alpha1.SizingProfile
	text, err := document(data)
	if err != nil {
		return o, err
	}
	unknownFields, err := kjson.UnmarshalStrict(text, &o, kjson.DisallowUnknownFields)
	if err != nil {
		return o, typeError(err)
	}
	version := v1alpha1.GroupVersion().String()
	if o.APIVersion != version || o.Kind != v1alpha1.KindSizingProfile {
		return o, fmt.Errorf("apiVersion and kind must be %s and %s, got %q and %q", version, v1alpha1.KindSizingProfile, o.APIVersion, o.Kind)
	}
	if len(unknownFields) == 0 {
		return o, nil
	}
	var problems []string
	base := string(o.Spec.Base)
	_, known := recommend.Builtin(base)
	if !known && base != "" {
		problems = append(problems, unknownBase(base)) // the unknown fields may belong to this base
	}
	for _, e := range unknownFields {
		if field, ok := errors.AsType[kjson.FieldError](e); ok {
			problems = append(problems, unknownField(field.FieldPath()))
		} else {
			problems = append(problems, e.Error())
		}
	}
	return o, errors.New(strings.Join(problems, "; "))
}

// document returns the SizingProfile as JSON: the only object of the text, or the only one of its kind.
func document(data []byte) ([]byte, error) {
	var all, profiles [][]byte
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("parse YAML: %w", err)
		}
		object, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("parse YAML: %s", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
		}
		if string(object) == "null" {
			continue // only comments
		}
		all = append(all, object)
		var header struct{ Kind string }
		if json.Unmarshal(object, &header) == nil && header.Kind == v1alpha1.KindSizingProfile {
			profiles = append(profiles, object)
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("the profile is empty; expected a SizingProfile with apiVersion: %s", v1alpha1.GroupVersion())
	case len(all) == 1:
		return all[0], nil
	case len(profiles) == 1:
		return profiles[0], nil
	}
	return nil, fmt.Errorf("expected one SizingProfile, got %d in %d objects", len(profiles), len(all))
}

// typeError returns an error about a field of the wrong type, in terms of YAML and not of Go.
func typeError(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) || mismatch.Field == "" {
		return errors.New("expected a SizingProfile with apiVersion: " + v1alpha1.GroupVersion().String())
	}
	want := cmp.Or(typeNames[mismatch.Type.Kind()], "of another type")
	value, isNumber := strings.CutPrefix(mismatch.Value, "number ")
	switch {
	case isNumber && want == typeNames[reflect.Int32]:
		return fmt.Errorf("%s must be %s, got %s", mismatch.Field, want, value)
	case isNumber:
		value = "number"
	}
	return fmt.Errorf("%s must be %s, got a %s", mismatch.Field, want, value)
}

// typeNames are the types of fields in terms of YAML.
var typeNames = map[reflect.Kind]string{
	reflect.Int32: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number", reflect.String: "a string",
	reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
}

// unknownField describes an unknown field, with a suggestion if a known field has a similar name.
func unknownField(path string) string {
	parent, field := splitPath(path)
	message := fmt.Sprintf("unknown field %q", field)
	if parent != "" {
		message += " in " + parent
	}
	var siblings, elsewhere []string
	for _, known := range paths(reflect.TypeFor[v1alpha1.SizingProfileSpec](), "spec", []string{"apiVersion", "kind", "metadata", "spec"}) {
		at, name := splitPath(known)
		switch {
		case at == elements.ReplaceAllString(parent, "[]"):
			siblings = append(siblings, name)
		case strings.EqualFold(name, field) && !strings.Contains(at, "[]"):
			elsewhere = append(elsewhere, known)
		}
	}
	hint := spelling.Hint(field, siblings)
	if hint == "" && len(elsewhere) > 0 {
		hint = " (did you mean " + strings.Join(elsewhere, " or ") + "?)"
	}
	return message + hint
}

// elements matches the indices of lists in a path.
var elements = regexp.MustCompile(`\[\d+\]`)

// splitPath splits a path into the path of the parent and the name of the field.
func splitPath(path string) (parent, field string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// paths appends the paths of the fields of a type, in their order. Those of the elements of a list have [] after its name.
func paths(t reflect.Type, prefix string, to []string) []string {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if name == "" { // embedded
			to = paths(inner, prefix, to)
			continue
		}
		path := prefix + "." + name
		to = append(to, path)
		if inner.Kind() == reflect.Struct {
			if f.Type.Kind() == reflect.Slice {
				path += "[]"
			}
			to = paths(inner, path, to)
		}
	}
	return to
}

// percentHint returns a hint if a ratio was probably written as a percentage.
func percentHint(v, least, most float64) string {
	ratio := math.Round(v*1e6) / 1e8
	if most <= 1 && v >= 1 && ratio >= least && ratio <= most {
		return fmt.Sprintf("; %g %% is %g", v, ratio)
	}
	return ""
}

// bounds are the minimum and the maximum of a field. Their only source are the markers in api/podfit/v1alpha1: the CRD is
// generated from the markers, and zz_generated.bounds.go from the CRD.
//
//go:generate go test . -run TestBounds -update
type bounds[T cmp.Ordered] struct{ least, most T }

// boundsOf returns the bounds of the field at a path below spec. It panics if the field has no bounds.
func boundsOf[B any](table map[string]B, path string) B {
	b, ok := table[path]
	if !ok {
		panic(fmt.Sprintf("field %s has no bounds in the CRD", path))
	}
	return b
}
