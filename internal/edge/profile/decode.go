// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/recommend"
)

// decode returns the one SizingProfile in a text: it may stand among other objects. Nothing in it is left unread.
func decode(data []byte) (v1alpha1.SizingProfile, error) {
	var o v1alpha1.SizingProfile
	text, err := document(data)
	if err != nil {
		return o, err
	}
	strange, err := kjson.UnmarshalStrict(text, &o, kjson.DisallowUnknownFields)
	if err != nil {
		return o, unreadable(err)
	}
	version := v1alpha1.GroupVersion().String()
	if o.APIVersion != version || o.Kind != v1alpha1.KindSizingProfile {
		return o, fmt.Errorf("apiVersion %q and kind %q are not %s and %s", o.APIVersion, o.Kind, version, v1alpha1.KindSizingProfile)
	}
	if len(strange) == 0 {
		return o, nil
	}
	var problems []string
	base := string(o.Spec.Base)
	if _, known := recommend.Builtin(base); !known && base != "" {
		problems = append(problems, unknownBase(base)) // the fields may belong to it
	}
	for _, e := range strange {
		path := e.Error()
		if f := kjson.FieldError(nil); errors.As(e, &f) {
			path = f.FieldPath()
		}
		problems = append(problems, unknown(path))
	}
	return o, errors.New(strings.Join(problems, "; "))
}

// document returns the object to read, as JSON.
func document(data []byte) ([]byte, error) {
	var all, profiles [][]byte
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		text, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		object, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("not YAML: %s", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
		}
		if string(object) == "null" {
			continue // nothing but comments
		}
		all = append(all, object)
		var is struct{ Kind string }
		if json.Unmarshal(object, &is) == nil && is.Kind == v1alpha1.KindSizingProfile {
			profiles = append(profiles, object)
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("it is empty; it should have a SizingProfile, which begins with apiVersion: %s", v1alpha1.GroupVersion())
	case len(all) == 1:
		return all[0], nil
	case len(profiles) == 1:
		return profiles[0], nil
	}
	return nil, fmt.Errorf("it has %d objects, of which %d are SizingProfiles; it should have one", len(all), len(profiles))
}

// unreadable says what cannot be decoded in the words of the one who wrote it.
func unreadable(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return errors.New("not a SizingProfile, which begins with apiVersion: " + v1alpha1.GroupVersion().String())
	}
	value, isNumber := strings.CutPrefix(wrong.Value, "number ")
	want := "something else"
	switch wrong.Type.Kind() {
	case reflect.Int32, reflect.Int64:
		want = "a whole number"
		if isNumber {
			return fmt.Errorf("%s is %s; it must be a whole number", wrong.Field, value)
		}
	case reflect.Float64:
		want = "a number"
	case reflect.String:
		want = "text"
	case reflect.Bool:
		want = "true or false"
	case reflect.Struct, reflect.Map:
		want = "a part with fields of its own"
	}
	if isNumber {
		value = "number"
	}
	return fmt.Errorf("%s is a %s; it must be %s", wrong.Field, value, want)
}

// unknown says what may be meant by a field that there is not.
func unknown(path string) string {
	parent, field := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, field = path[:i], path[i+1:]
	}
	said := fmt.Sprintf("unknown field %q", field)
	if parent != "" {
		said += " in " + parent
	}
	var near, same []string
	for _, known := range paths(reflect.TypeFor[v1alpha1.SizingProfileSpec](), "spec", []string{"apiVersion", "kind", "metadata", "spec"}) {
		at, name := "", known
		if i := strings.LastIndexByte(known, '.'); i >= 0 {
			at, name = known[:i], known[i+1:]
		}
		switch {
		case at == parent:
			near = append(near, name)
		case strings.EqualFold(name, field):
			same = append(same, known)
		}
	}
	switch name := Nearest(field, near); {
	case name != "":
		said += " (did you mean " + name + "?)"
	case len(same) > 0:
		said += " (it belongs to " + strings.Join(same, " or ") + ")"
	}
	return said
}

// paths adds the paths of the fields of a type, in their order.
func paths(t reflect.Type, prefix string, to []string) []string {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if name == "" { // its fields are the outer type's
			to = paths(inner, prefix, to)
			continue
		}
		path := prefix + "." + name
		to = append(to, path)
		if inner.Kind() == reflect.Struct {
			to = paths(inner, path, to)
		}
	}
	return to
}

// Nearest returns which of some names is meant by one that is mistyped, "" when none is like it.
func Nearest(name string, among []string) string {
	best, least := "", (len(name)+2)/3+1
	for _, other := range among {
		if d := distance(strings.ToLower(name), strings.ToLower(other)); d < least {
			best, least = other, d
		}
	}
	return best
}

// longestWord is the length of the longest name in Kubernetes.
const longestWord = 253

// distance is how many letters have to be put in, left out or replaced to turn one word into another (Levenshtein 1966).
// Its time is the product of their lengths, so words that are longer than names can be are taken for entirely different.
func distance(a, b string) int {
	if max(len(a), len(b)) > longestWord {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			other := 1
			if a[i] == b[j] {
				other = 0
			}
			row[j+1] = min(before[j]+other, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// share says what a number that should be a share would be if it were meant in percent.
func share(v, least, most float64) string {
	if of := math.Round(v*1e6) / 1e8; most <= 1 && v >= 1 && of >= least && of <= most {
		return fmt.Sprintf("; %g %% is %g", v, of)
	}
	return ""
}
