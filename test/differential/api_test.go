// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/differential/cases"
)

// filler fills objects with random values that survive a round trip through JSON.
func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(0, 3).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			amounts := []int64{0, 1, 999, 1024, 1 << 40, math.MaxInt64, -1}
			formats := []resource.Format{resource.DecimalSI, resource.BinarySI, resource.DecimalExponent}
			scales := []resource.Scale{resource.Nano, resource.Milli, 0, resource.Mega}
			*q = *resource.NewScaledQuantity(amounts[c.Intn(len(amounts))], scales[c.Intn(len(scales))])
			q.Format = formats[c.Intn(len(formats))]
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(4e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) { *t = metav1.NewMicroTime(time.Unix(c.Int63n(4e9), 0)) },
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(fmt.Sprintf(`{"f:a":{"n":%d}}`, c.Intn(9)))
		},
		func(f *float64, c randfill.Continue) { *f = math.Round(c.NormFloat64()*1e6) / 1e3 },
	)
}

// settled returns an object after one round trip through JSON, which rounds quantities.
func settled(t *rapid.T, o any) any {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("%T: %v", o, err)
	}
	out := reflect.New(reflect.TypeOf(o).Elem()).Interface()
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%T cannot decode its own encoding: %v", o, err)
	}
	return out
}

// roundTrip encodes an object, decodes it strictly as the other type, encodes that, and compares.
func roundTrip(t *rapid.T, from, to any) {
	t.Helper()
	before, err := json.Marshal(from)
	if err != nil {
		t.Fatalf("%T: %v", from, err)
	}
	d := json.NewDecoder(bytes.NewReader(before))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%T cannot decode the encoding of %T: %v\n%s", to, from, err, before)
	}
	after, err := json.Marshal(to)
	if err != nil {
		t.Fatalf("%T: %v", to, err)
	}
	if same := canonical(t, before) == canonical(t, after); !same {
		t.Fatalf("%T is encoded as\n%s\n%T as\n%s", from, before, to, after)
	}
}

// canonical returns JSON with sorted keys. Numbers keep their notation.
func canonical(t *rapid.T, text []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Every value of upstream's types round-trips through podfit's types, and the reverse.
func TestTypes_upstreamObjects_roundTrip(t *testing.T) {
	for _, x := range []struct{ upstream, podfit any }{
		{vpa.VerticalPodAutoscaler{}, v1.VerticalPodAutoscaler{}},
		{vpa.VerticalPodAutoscalerList{}, v1.VerticalPodAutoscalerList{}},
		{vpa.VerticalPodAutoscalerCheckpoint{}, v1.VerticalPodAutoscalerCheckpoint{}},
		{vpa.VerticalPodAutoscalerCheckpointList{}, v1.VerticalPodAutoscalerCheckpointList{}},
	} {
		theirs, ours := reflect.TypeOf(x.upstream), reflect.TypeOf(x.podfit)
		t.Run(theirs.String(), func(t *testing.T) {
			longest := 0
			cases.Check(t, 500, func(t *rapid.T) {
				seed := rapid.Int64().Draw(t, "seed")
				for _, way := range [][2]reflect.Type{{theirs, ours}, {ours, theirs}} {
					from := reflect.New(way[0]).Interface()
					filler(seed).Fill(from)
					from = settled(t, from)
					roundTrip(t, from, reflect.New(way[1]).Interface())
					if b, err := json.Marshal(from); err == nil {
						longest = max(longest, len(b))
					}
				}
			})
			if longest < 1000 {
				t.Errorf("the longest object has only %d bytes", longest)
			}
		})
	}
}

// Both types have the same fields, by JSON name and kind of value.
func TestTypes_fields_equalUpstream(t *testing.T) {
	for _, x := range []struct{ upstream, podfit any }{
		{vpa.VerticalPodAutoscaler{}, v1.VerticalPodAutoscaler{}},
		{vpa.VerticalPodAutoscalerCheckpoint{}, v1.VerticalPodAutoscalerCheckpoint{}},
	} {
		theirs, ours := map[string]string{}, map[string]string{}
		fields(theirs, "", reflect.TypeOf(x.upstream))
		fields(ours, "", reflect.TypeOf(x.podfit))
		if len(theirs) < 15 {
			t.Errorf("%T has %d fields", x.upstream, len(theirs))
		}
		for name, kind := range theirs {
			if ours[name] != kind {
				t.Errorf("%T: %s is %s, upstream's %s", x.podfit, name, ours[name], kind)
			}
			delete(ours, name)
		}
		for name, kind := range ours {
			t.Errorf("%T: upstream has no field %s of kind %s", x.podfit, name, kind)
		}
	}
}

// fields collects the JSON tags of a type and of the types in it. Types of Kubernetes itself are the same in both.
func fields(to map[string]string, path string, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		path += map[reflect.Kind]string{reflect.Pointer: "?", reflect.Slice: "[]"}[t.Kind()]
		t = t.Elem()
	}
	shared := strings.HasPrefix(t.PkgPath(), "k8s.io/api/") || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/")
	if t.Kind() != reflect.Struct || shared {
		to[path] = t.Kind().String()
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		fields(to, path+"."+f.Tag.Get("json"), f.Type)
	}
}
