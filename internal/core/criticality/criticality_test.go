// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package criticality

import (
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
)

func TestParse_hostileLabels_areRefused(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "3": 3, "1.5": 1.5, "2.250": 2.25, "01.5": 1.5, "3.0": 3,
		"": 0, "high": 0, "NaN": 0, "nan": 0, "Inf": 0, "0": 0, "99": 0, "0.99": 0, "3.01": 0, "-1": 0, "+2": 0, " 2": 0, "2 ": 0, "1e0": 0, "0x1p1": 0, "1_5": 0,
		"1.": 0, ".5": 0, "1.5.2": 0, "1,5": 0, "２": 0, "2\x00": 0,
		strings.Repeat("0", 62) + "2": 2, strings.Repeat("0", 63) + "2": 0, "1." + strings.Repeat("5", 61): 1.5555555555555556,
		strings.Repeat("9", 63): 0, "2." + strings.Repeat("5", 1<<16): 0,
	} {
		if got, ok := Parse(text); got != want && ok || ok != (want > 0) {
			t.Errorf("%.70q: got %v, %v, want %v", text, got, ok, want)
		}
	}
}

// label is a pod with a label, and without a PriorityClass.
func label(value string) *cluster.Pod {
	return criticalPod(&cluster.Criticality{Labelled: true, Label: value})
}

func criticalPod(c *cluster.Criticality) *cluster.Pod {
	p := &cluster.Pod{Phase: cluster.Running}
	if c != nil {
		p.Marks = &cluster.Marks{Criticality: *c}
	}
	return p
}

func TestOf_labelPriorityClassAndProfile_theStrongestOfEachPodAndTheHighestOfAll(t *testing.T) {
	class := func(name string) *cluster.Pod { return criticalPod(&cluster.Criticality{PriorityClass: name}) }
	both := func(value, name string) *cluster.Pod {
		return criticalPod(&cluster.Criticality{Labelled: true, Label: value, PriorityClass: name})
	}
	plain := criticalPod(nil)
	ended := label("3")
	ended.Phase = cluster.Succeeded
	classes := []ClassFactor{{"gold", 2}, {"silver", 1.5}, {"also-gold", 2}, {"usual", 1.3}, {"batch", 1}}
	for name, tt := range map[string]struct {
		pods []*cluster.Pod
		want Factor
	}{
		"no pod":                                {nil, Factor{1.3, derivation.FromProfile, ""}},
		"only ended pods":                       {[]*cluster.Pod{ended}, Factor{1.3, derivation.FromProfile, ""}},
		"neither label nor class":               {[]*cluster.Pod{plain}, Factor{1.3, derivation.FromProfile, ""}},
		"an unknown class":                      {[]*cluster.Pod{class("bronze")}, Factor{1.3, derivation.FromProfile, ""}},
		"a class":                               {[]*cluster.Pod{class("gold")}, Factor{2, derivation.FromPriorityClass, "gold"}},
		"a class below the profile":             {[]*cluster.Pod{class("batch")}, Factor{1, derivation.FromPriorityClass, "batch"}},
		"a label":                               {[]*cluster.Pod{label("1.1")}, Factor{1.1, derivation.FromLabel, ""}},
		"a label before the class":              {[]*cluster.Pod{both("1", "gold")}, Factor{1, derivation.FromLabel, ""}},
		"an invalid label, a class":             {[]*cluster.Pod{both("99", "silver")}, Factor{1.5, derivation.FromPriorityClass, "silver"}},
		"an invalid label":                      {[]*cluster.Pod{label("high")}, Factor{1.3, derivation.FromProfile, ""}},
		"a rollout to a higher label":           {[]*cluster.Pod{label("1"), label("2.5")}, Factor{2.5, derivation.FromLabel, ""}},
		"a rollout to a lower label":            {[]*cluster.Pod{label("1"), plain}, Factor{1.3, derivation.FromProfile, ""}},
		"a rollout from a higher class":         {[]*cluster.Pod{label("1.7"), class("gold")}, Factor{2, derivation.FromPriorityClass, "gold"}},
		"as high by a label, a class":           {[]*cluster.Pod{label("2"), class("gold")}, Factor{2, derivation.FromLabel, ""}},
		"as high by two classes":                {[]*cluster.Pod{class("gold"), class("also-gold")}, Factor{2, derivation.FromPriorityClass, "also-gold"}},
		"as high by a class and by the profile": {[]*cluster.Pod{plain, class("usual")}, Factor{1.3, derivation.FromPriorityClass, "usual"}},
	} {
		for range 2 { // the order of the pods has no effect
			declared, _ := DeclaredBy(tt.pods)
			if got := declared.Of(1.3, classes); got != tt.want {
				t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
			}
			slices.Reverse(tt.pods)
		}
	}
}

func TestDeclaredBy_invalidLabels_theFirstIsReported(t *testing.T) {
	for range 2 {
		pods := []*cluster.Pod{label("text"), label("NaN"), label("2"), label("")}
		got, ok := DeclaredBy(pods)
		if !ok || !got.HasInvalid || got.Invalid != "" || got.Label != 2 {
			t.Errorf("got %+v", got)
		}
		slices.Reverse(pods)
	}
	if got, _ := DeclaredBy([]*cluster.Pod{label("2")}); got.HasInvalid {
		t.Errorf("a valid label is reported: %+v", got)
	}
}
