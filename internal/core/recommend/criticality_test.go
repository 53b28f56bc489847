// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestParseCriticality_hostileLabels_areRefused(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "3": 3, "1.5": 1.5, "2.250": 2.25, "01.5": 1.5, "3.0": 3,
		"": 0, "high": 0, "NaN": 0, "nan": 0, "Inf": 0, "0": 0, "99": 0, "0.99": 0, "3.01": 0, "-1": 0, "+2": 0, " 2": 0, "2 ": 0, "1e0": 0, "0x1p1": 0, "1_5": 0,
		"1.": 0, ".5": 0, "1.5.2": 0, "1,5": 0, "２": 0, "2\x00": 0,
		strings.Repeat("0", 62) + "2": 2, strings.Repeat("0", 63) + "2": 0, "1." + strings.Repeat("5", 61): 1.5555555555555556,
		strings.Repeat("9", 63): 0, "2." + strings.Repeat("5", 1<<16): 0,
	} {
		if got, ok := ParseCriticality(text); got != want && ok || ok != (want > 0) {
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

func TestProfileFor_labelPriorityClassAndProfile_theStrongestOfEachPodAndTheHighestOfAll(t *testing.T) {
	class := func(name string) *cluster.Pod { return criticalPod(&cluster.Criticality{PriorityClass: name}) }
	both := func(value, name string) *cluster.Pod {
		return criticalPod(&cluster.Criticality{Labelled: true, Label: value, PriorityClass: name})
	}
	plain := criticalPod(nil)
	ended := label("3")
	ended.Phase = cluster.Succeeded
	params := Busiest()
	params.PriorityClasses = []PriorityFactor{{"gold", 2}, {"silver", 1.5}, {"also-gold", 2}, {"usual", 1.3}, {"batch", 1}}
	profile := BusyHoursProfile("mine", "", params)
	for name, tt := range map[string]struct {
		pods []*cluster.Pod
		want Criticality
	}{
		"no pod":                                {nil, Criticality{1.3, FromProfile, ""}},
		"only ended pods":                       {[]*cluster.Pod{ended}, Criticality{1.3, FromProfile, ""}},
		"neither label nor class":               {[]*cluster.Pod{plain}, Criticality{1.3, FromProfile, ""}},
		"an unknown class":                      {[]*cluster.Pod{class("bronze")}, Criticality{1.3, FromProfile, ""}},
		"a class":                               {[]*cluster.Pod{class("gold")}, Criticality{2, FromPriorityClass, "gold"}},
		"a class below the profile":             {[]*cluster.Pod{class("batch")}, Criticality{1, FromPriorityClass, "batch"}},
		"a label":                               {[]*cluster.Pod{label("1.1")}, Criticality{1.1, FromLabel, ""}},
		"a label before the class":              {[]*cluster.Pod{both("1", "gold")}, Criticality{1, FromLabel, ""}},
		"an invalid label, a class":             {[]*cluster.Pod{both("99", "silver")}, Criticality{1.5, FromPriorityClass, "silver"}},
		"an invalid label":                      {[]*cluster.Pod{label("high")}, Criticality{1.3, FromProfile, ""}},
		"a rollout to a higher label":           {[]*cluster.Pod{label("1"), label("2.5")}, Criticality{2.5, FromLabel, ""}},
		"a rollout to a lower label":            {[]*cluster.Pod{label("1"), plain}, Criticality{1.3, FromProfile, ""}},
		"a rollout from a higher class":         {[]*cluster.Pod{label("1.7"), class("gold")}, Criticality{2, FromPriorityClass, "gold"}},
		"as high by a label, a class":           {[]*cluster.Pod{label("2"), class("gold")}, Criticality{2, FromLabel, ""}},
		"as high by two classes":                {[]*cluster.Pod{class("gold"), class("also-gold")}, Criticality{2, FromPriorityClass, "also-gold"}},
		"as high by a class and by the profile": {[]*cluster.Pod{plain, class("usual")}, Criticality{1.3, FromPriorityClass, "usual"}},
	} {
		for range 2 { // the order of the pods has no effect
			declared, _ := DeclaredBy(tt.pods)
			if got, ok := profile.For(declared, NodeSizes{}).Criticality(); !ok || got != tt.want {
				t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
			}
			slices.Reverse(tt.pods)
		}
	}
	if got, ok := AdaptiveProfile("balanced", "", Balanced()).For(Declared{Label: 3}, NodeSizes{}).Criticality(); ok {
		t.Errorf("balanced has the criticality %+v", got)
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

// The percentile is multiplied by the criticality of the workload, and the step says where it is from.
func TestExplain_criticalityOfTheWorkload_isTheFactor(t *testing.T) {
	b := newBench(BusyHoursProfile("busy", "", Busiest()))
	b.use(day, always(1, 100*mib))
	target := func(d Declared) (int64, Evidence) {
		p := b.p.For(d, NodeSizes{})
		advice, records := Explain(p.Params, p.Estimator, b.book.All(cart), &cluster.Autoscaler{Target: cart}, b.now)
		i := slices.IndexFunc(records[0].CPU.Target, func(s Step) bool { return s.Name == StepFactor })
		return advice[0].Target.CPU, records[0].CPU.Target[i].Evidence
	}
	usual, _ := target(Declared{})
	for _, k := range []float64{1, 1.5, 2, 3} {
		got, evidence := target(Declared{Label: k})
		if want := float64(usual) / 1.3 * k; float64(got) < want-2 || float64(got) > want+2 || evidence.Origin != FromLabel {
			t.Errorf("criticality %v: target %dm by %+v, want %.0fm", k, got, evidence, want)
		}
	}
}
