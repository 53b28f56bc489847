// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/scalepoint"
)

func TestCapBounds_everyBound_isReportedWithItsEffect(t *testing.T) {
	a := &cluster.Autoscaler{
		Policies:   []cluster.ContainerPolicy{{Container: "app", MinAllowed: memory(500 * mi), MaxAllowed: cpu(800)}},
		IntegerCPU: []string{"app"},
	}
	raw := []cluster.Advice{advice("app", of(100, 100*mi), of(250, 300*mi), of(900, 900*mi))}
	got, bounds := CapBounds(a, raw, of(700, 400*mi), cluster.NodeShare{})
	want := []Bound{
		{cluster.CPU, WholeCores, 0, 250, 1000},
		{cluster.CPU, MinAllowed, 0, 1000, 1000},
		{cluster.CPU, MaxAllowed, 800, 1000, 800},
		{cluster.Memory, MinAllowed, 500 * mi, 300 * mi, 500 * mi},
		{cluster.Memory, GlobalMax, 400 * mi, 500 * mi, 400 * mi},
	}
	if diff := cmp.Diff([][]Bound{want}, bounds); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
	if got[0].Target != of(800, 400*mi) {
		t.Errorf("the target is %v", got[0].Target)
	}
}

func TestCapBounds_noContainers_returnsNothing(t *testing.T) {
	if got, bounds := CapBounds(&cluster.Autoscaler{}, nil, cluster.Resources{}, cluster.NodeShare{}); len(got) != 0 || len(bounds) != 0 {
		t.Errorf("%v, %v", got, bounds)
	}
}

// chained checks that the bounds of each resource lead from one amount to another without a gap.
func chained(t *rapid.T, bounds []Bound, from, to cluster.Resources) {
	t.Helper()
	for _, res := range cluster.All {
		v := from.Amount(res)
		for _, b := range bounds {
			if b.Resource != res {
				continue
			}
			if b.Before != v {
				t.Fatalf("%s: bound %s begins with %d, want %d: %+v", res, b.Kind, b.Before, v, bounds)
			}
			v = b.After
		}
		if v != to.Amount(res) {
			t.Fatalf("%s: the bounds lead to %d, want %d: %+v", res, v, to.Amount(res), bounds)
		}
	}
}

func drawAmounts(t *rapid.T, what string) cluster.Resources {
	r := cluster.Resources{CPU: rapid.Int64Range(0, 4000).Draw(t, what), Memory: rapid.Int64Range(0, 4000).Draw(t, what) * mi, Has: cluster.Both}
	return r.Only(cluster.Set(rapid.IntRange(0, 3).Draw(t, what)))
}

func TestBounds_randomObjects_leadFromTheEstimateToTheSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &cluster.Autoscaler{Policies: []cluster.ContainerPolicy{{
			Container: "*", MinAllowed: drawAmounts(t, "min"), MaxAllowed: drawAmounts(t, "max"), RequestsOnly: rapid.Bool().Draw(t, "requests only"),
		}}}
		if rapid.Bool().Draw(t, "whole cores") {
			a.IntegerCPU = []string{"app"}
		}
		var raw []cluster.Advice
		pod := &cluster.Pod{Phase: cluster.Running}
		for _, name := range []string{"app", "proxy"} {
			target := drawAmounts(t, "target")
			raw = append(raw, advice(name, target, target, target))
			pod.Containers = append(pod.Containers, cluster.Container{Name: name, Requests: drawAmounts(t, "requests"), Limits: drawAmounts(t, "limits")})
		}
		global := drawAmounts(t, "global")
		capped, bounds := CapBounds(a, raw, global, cluster.NodeShare{})
		if diff := cmp.Diff(Cap(a, raw, global, cluster.NodeShare{}), capped); diff != "" {
			t.Fatalf("Cap and CapBounds differ: %s", diff)
		}
		for i := range raw {
			chained(t, bounds[i], raw[i].Target, capped[i].Target)
		}
		a.Advice = capped
		limits := Limits{Range: cluster.LimitRange{
			Container: cluster.Range{Min: drawAmounts(t, "range min"), Max: drawAmounts(t, "range max"), Default: drawAmounts(t, "default")},
			Pod:       cluster.Range{Max: drawAmounts(t, "pod max")},
		}}
		if rapid.Bool().Draw(t, "nodes") {
			limits.Nodes = &fleet.Sizes{Largest: []cluster.Resources{of(2000, 2000*mi)}}
		}
		fits, looked := FitBounds(a, limits, pod)
		if diff := cmp.Diff(Fit(a, limits, pod), fits); diff != "" {
			t.Fatalf("Fit and FitBounds differ: %s", diff)
		}
		if len(looked) != len(fits) {
			t.Fatalf("bounds of %d containers, want %d", len(looked), len(fits))
		}
		for i := range fits {
			from := fits[i].Estimate.Target
			if advice := a.AdviceFor(fits[i].Container); !fits[i].Inserted {
				from = advice.Target
			} else if running, _ := pod.Container(fits[i].Container).Running(); fits[i].Inserted {
				from = running
			}
			chained(t, looked[i], from.Only(fits[i].Estimate.Target.Has), fits[i].Estimate.Target)
		}
	})
}

func TestFitBounds_scalePointAndQuota_areReported(t *testing.T) {
	metric := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80}
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 80}
	a := preserving(scaledBy(recommend(exactly("app", of(100_000, 900*mi))), metric), point)
	most := scalepoint.RequestsAt(&point).High
	p := podOf(container("app", of(500, 100*mi), cluster.Resources{}))
	l := Limits{
		Nodes:  &fleet.Sizes{Largest: []cluster.Resources{of(200_000, 2000*mi)}},
		Quotas: &cluster.Quotas{List: []cluster.Quota{{Hard: cluster.PodResources{Requests: memory(600 * mi)}}}},
	}
	a.Advice[0].Lower = of(100, 100*mi)
	fits, looked := FitBounds(a, l, p)
	effects := map[BoundKind]Bound{}
	for _, b := range looked[0] {
		if b.Changed() {
			effects[b.Kind] = b
		}
	}
	want := map[BoundKind]Bound{
		ScalePoint: {cluster.CPU, ScalePoint, 0, 100_000, most},
		Quota:      {cluster.Memory, Quota, 600 * mi, 900 * mi, 600 * mi},
	}
	if diff := cmp.Diff(want, effects); diff != "" {
		t.Errorf("bounds with an effect (-want +got):\n%s\nsizes %+v", diff, fits)
	}
}
