// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
)

func TestAutoscaler_annotationCPULimits_overridesTheProfileUnlessInvalid(t *testing.T) {
	const mistake = `annotation podfit.dev/cpu-limits must be keep or remove, got "drop"; it has no effect`
	remove := cluster.LimitRule{Remove: true}
	for text, want := range map[string]struct {
		rule         cluster.LimitRule
		underRemoval bool
	}{
		"":         {cluster.LimitRule{}, true},
		"keep":     {cluster.LimitRule{Set: true}, false},
		"remove\n": {cluster.LimitRule{Set: true, Remove: true}, true},
		"drop":     {cluster.LimitRule{Problem: mistake}, true},
	} {
		o := &v1.VerticalPodAutoscaler{}
		o.Annotations = map[string]string{v1alpha1.AnnotationCPULimits: text}
		got := Autoscaler(o).CPULimits
		if got != want.rule {
			t.Errorf("%q: %+v, want %+v", text, got, want.rule)
		}
		under := got.Under(remove)
		if under.Remove != want.underRemoval || under.Problem != want.rule.Problem {
			t.Errorf("%q under a profile that removes limits: %+v", text, under)
		}
	}
}

func TestProfileOf_limits_validAndInvalidSpecs_neverFail(t *testing.T) {
	for spec, want := range map[string]cluster.LimitRule{
		`{}`:                          {},
		`{"limits":null}`:             {},
		`{"limits":{"cpu":"keep"}}`:   {},
		`{"limits":{"cpu":"remove"}}`: {Remove: true},
		`{"limits":{"cpu":"Remove"}}`: {Problem: `a field of SizingProfile bare is invalid: limits.cpu must be keep or remove, got "Remove"; it has no effect`},
		`{"limits":{"cpu":7}}`:        {},
		`{"limits":"remove"}`:         {},
		`{`:                           {},
	} {
		if got := ProfileOf("bare", []byte(spec)).CPULimits; got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
	if got := ProfileOf("balanced", []byte(`{"limits":{"cpu":"remove"}}`)).CPULimits; got != (cluster.LimitRule{}) {
		t.Errorf("a SizingProfile with the name of a built-in profile: %+v", got)
	}
	long := ProfileOf("bare", []byte(`{"limits":{"cpu":"`+strings.Repeat(`x\n`, 1<<16)+`"}}`)).CPULimits
	if len(long.Problem) > 1000 || strings.Contains(long.Problem, "\n") {
		t.Errorf("a long value gives a problem of %d bytes", len(long.Problem))
	}
}

func TestAutoscaler_annotationMemoryLimits_overridesTheProfileUnlessInvalid(t *testing.T) {
	const mistake = `annotation podfit.dev/memory-limits must be proportional, keep or peaks, got "remove"; it has no effect`
	peaks := cluster.LimitRule{Peaks: true}
	for text, want := range map[string]struct{ rule, under cluster.LimitRule }{
		"":             {cluster.LimitRule{}, peaks},
		"proportional": {cluster.LimitRule{Set: true}, cluster.LimitRule{Set: true}},
		"keep":         {cluster.LimitRule{Set: true, Keep: true}, cluster.LimitRule{Set: true, Keep: true}},
		"peaks\n":      {cluster.LimitRule{Set: true, Peaks: true}, cluster.LimitRule{Set: true, Peaks: true}},
		"remove":       {cluster.LimitRule{Problem: mistake}, cluster.LimitRule{Peaks: true, Problem: mistake}},
	} {
		o := &v1.VerticalPodAutoscaler{}
		o.Annotations = map[string]string{v1alpha1.AnnotationMemoryLimits: text}
		if got := Autoscaler(o).MemoryLimits; got != want.rule || got.Under(peaks) != want.under {
			t.Errorf("%q: %+v, under a profile with peaks %+v", text, got, got.Under(peaks))
		}
	}
	for spec, want := range map[string]cluster.LimitRule{
		`{"limits":{"cpu":"remove"}}`:                  {},
		`{"limits":{"memory":"peaks","cpu":"remove"}}`: peaks,
		`{"limits":{"memory":"keep"}}`:                 {Keep: true},
		`{"limits":{"memory":"double"}}`:               {Problem: `a field of SizingProfile bare is invalid: limits.memory must be proportional, keep or peaks, got "double"; it has no effect`},
		`{"limits":{"memory":["peaks"]}}`:              {},
	} {
		if got := ProfileOf("bare", []byte(spec)).Limits; got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
}

// Others can change the status: amounts that are not positive are no limit.
func TestMemoryLimit_inStatus_isReadAsItWasWritten(t *testing.T) {
	for _, limit := range []int64{0, 1, 1536 << 20, 100e12} {
		if got := memoryOf(WithMemory(nil, v1alpha1.MemoryLimit, limit), v1alpha1.MemoryLimit); got != limit {
			t.Errorf("%d is read as %d", limit, got)
		}
	}
	for text, want := range map[string]int64{"-1": 0, "0": 0, "1Gi": 1 << 30, "1500m": 2} {
		list := corev1.ResourceList{v1alpha1.MemoryLimit: resource.MustParse(text)}
		if got := memoryOf(list, v1alpha1.MemoryLimit); got != want {
			t.Errorf("%s is read as %d, want %d", text, got, want)
		}
	}
}
