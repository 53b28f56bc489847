// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/fleet"
)

func TestProfileFor_declaredCriticality_isThatOfBusyHoursOnly(t *testing.T) {
	params := Busiest()
	params.PriorityClasses = []criticality.ClassFactor{{Class: "gold", Factor: 2}}
	profile := BusyHoursProfile("mine", "", params)
	gold := criticality.Factor{Factor: 2, Origin: derivation.FromPriorityClass, Class: "gold"}
	if got, ok := profile.For(criticality.Declared{Classes: []string{"gold"}}, fleet.NodeSizes{}).Criticality(); !ok || got != gold {
		t.Errorf("got %+v, want %+v", got, gold)
	}
	if got, ok := profile.For(criticality.Declared{}, fleet.NodeSizes{}).Criticality(); !ok || got != (criticality.Factor{Factor: 1.3}) {
		t.Errorf("without pods: got %+v, want 1.3", got)
	}
	if got, ok := AdaptiveProfile("balanced", "", Balanced()).For(criticality.Declared{Label: 3}, fleet.NodeSizes{}).Criticality(); ok {
		t.Errorf("balanced has the criticality %+v", got)
	}
}

// The percentile is multiplied by the criticality of the workload, and the step says where it is from.
func TestExplain_criticalityOfTheWorkload_isTheFactor(t *testing.T) {
	b := newBench(BusyHoursProfile("busy", "", Busiest()))
	b.use(day, always(1, 100*mib))
	target := func(d criticality.Declared) (int64, derivation.Evidence) {
		p := b.p.For(d, fleet.NodeSizes{})
		advice, records := Explain(p.Params, p.Estimator, b.book.All(cart), &cluster.Autoscaler{Target: cart}, b.now)
		i := slices.IndexFunc(records[0].CPU, func(s derivation.Step) bool { return s.Name == derivation.StepFactor })
		return advice[0].Target.CPU, records[0].CPU[i].Evidence
	}
	usual, _ := target(criticality.Declared{})
	for _, k := range []float64{1, 1.5, 2, 3} {
		got, evidence := target(criticality.Declared{Label: k})
		if want := float64(usual) / 1.3 * k; float64(got) < want-2 || float64(got) > want+2 || evidence.Origin != derivation.FromLabel {
			t.Errorf("criticality %v: target %dm by %+v, want %.0fm", k, got, evidence, want)
		}
	}
}
