// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

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

func TestProfileCPULimits_validAndInvalidSpecs_neverFail(t *testing.T) {
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
		if got := ProfileCPULimits("bare", []byte(spec)); got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
	if got := ProfileCPULimits("balanced", []byte(`{"limits":{"cpu":"remove"}}`)); got != (cluster.LimitRule{}) {
		t.Errorf("a SizingProfile with the name of a built-in profile: %+v", got)
	}
	long := ProfileCPULimits("bare", []byte(`{"limits":{"cpu":"`+strings.Repeat(`x\n`, 1<<16)+`"}}`))
	if len(long.Problem) > 1000 || strings.Contains(long.Problem, "\n") {
		t.Errorf("a long value gives a problem of %d bytes", len(long.Problem))
	}
}
