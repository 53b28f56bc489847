// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func advice(container string, lower, target, upper int64) cluster.Advice {
	both := func(v int64) cluster.Resources { return cluster.Amounts(v, v<<20) }
	return cluster.Advice{Container: container, Estimate: cluster.Estimate{Lower: both(lower), Target: both(target), Upper: both(upper)}, Uncapped: both(target)}
}

func TestHold_neverDecreases(t *testing.T) {
	off := []cluster.ContainerPolicy{{Container: "app", Off: true}}
	capped := advice("app", 50, 100, 200)
	capped.Uncapped = cluster.Amounts(300, 300<<20)
	onlyCPU := advice("app", 10, 20, 30)
	onlyCPU.Lower, onlyCPU.Target, onlyCPU.Upper = cluster.Amounts(50, 10<<20), cluster.Amounts(100, 20<<20), cluster.Amounts(200, 30<<20)
	onlyCPU.Uncapped = onlyCPU.Target
	for name, x := range map[string]struct {
		status      []cluster.Advice
		policies    []cluster.ContainerPolicy
		recommended []cluster.Advice
		want        []cluster.Advice
	}{
		"lower recommendation": {
			status:      []cluster.Advice{advice("app", 50, 100, 200)},
			recommended: []cluster.Advice{advice("app", 10, 20, 30)},
			want:        []cluster.Advice{advice("app", 50, 100, 200)},
		},
		"higher recommendation": {
			status:      []cluster.Advice{advice("app", 50, 100, 200)},
			recommended: []cluster.Advice{advice("app", 60, 110, 210)},
			want:        []cluster.Advice{advice("app", 60, 110, 210)},
		},
		"target above the upper bound of the status": {
			status:      []cluster.Advice{advice("app", 50, 300, 200)},
			recommended: []cluster.Advice{advice("app", 10, 20, 30)},
			want:        []cluster.Advice{advice("app", 50, 300, 300)},
		},
		"status was capped, the uncapped target is held": {
			status:      []cluster.Advice{capped},
			recommended: []cluster.Advice{advice("app", 10, 20, 30)},
			want:        []cluster.Advice{advice("app", 50, 300, 300)},
		},
		"no recommendation yet": {
			status: []cluster.Advice{advice("app", 50, 100, 200)},
			want:   []cluster.Advice{advice("app", 50, 100, 200)},
		},
		"container no longer exists": {
			status: []cluster.Advice{advice("old", 50, 100, 200)},
		},
		"container is new": {
			recommended: []cluster.Advice{advice("app", 10, 20, 30)},
			want:        []cluster.Advice{advice("app", 10, 20, 30)},
		},
		"container is added in order": {
			status:      []cluster.Advice{advice("app", 50, 100, 200)},
			recommended: []cluster.Advice{advice("a", 1, 2, 3), advice("sidecar", 10, 20, 30)},
			want:        []cluster.Advice{advice("a", 1, 2, 3), advice("app", 50, 100, 200), advice("sidecar", 10, 20, 30)},
		},
		"mode Off": {
			status:   []cluster.Advice{advice("app", 50, 100, 200)},
			policies: off,
		},
		"only CPU is controlled": {
			status:      []cluster.Advice{advice("app", 50, 100, 200)},
			policies:    []cluster.ContainerPolicy{{Container: "app", ControlsSet: true, Controlled: cluster.Of(cluster.CPU)}},
			recommended: []cluster.Advice{advice("app", 10, 20, 30)},
			want:        []cluster.Advice{onlyCPU},
		},
		"status without amounts": {
			status:      []cluster.Advice{{Container: "app"}},
			recommended: []cluster.Advice{advice("app", 10, 20, 30)},
			want:        []cluster.Advice{advice("app", 10, 20, 30)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &cluster.Autoscaler{Advice: x.status, Policies: x.policies}
			input := slices.Clone(x.recommended)
			if got := Hold(a, []string{"a", "app", "sidecar"}, x.recommended); !slices.EqualFunc(got, x.want, cluster.Advice.Equal) {
				t.Errorf("got  %+v\nwant %+v", got, x.want)
			}
			if !slices.EqualFunc(x.recommended, input, cluster.Advice.Equal) {
				t.Errorf("the input was changed to %+v", x.recommended)
			}
		})
	}
}

func TestLimitCPU_recommendationIsHigher_isTheTargetOfTheStatus(t *testing.T) {
	estimate := func(lower, target, upper int64) cluster.Estimate {
		return cluster.Estimate{Lower: cluster.Amounts(lower, lower<<20), Target: cluster.Amounts(target, target<<20), Upper: cluster.Amounts(upper, upper<<20)}
	}
	a := &cluster.Autoscaler{Advice: []cluster.Advice{
		{Container: "app", Estimate: estimate(100, 1000, 4000)},
		{Container: "capped", Estimate: estimate(100, 200, 400), Uncapped: cluster.Amounts(1000, 1000<<20)},
	}}
	advice := func(container string, e cluster.Estimate) cluster.Advice {
		return cluster.Advice{Container: container, Estimate: e, Uncapped: e.Target}
	}
	higher := []cluster.Advice{advice("app", estimate(2000, 3000, 5000)), advice("capped", estimate(500, 600, 700)), advice("new", estimate(2000, 3000, 5000))}
	want := slices.Clone(higher)
	want[0].Lower.CPU, want[0].Target.CPU, want[0].Upper.CPU = 1000, 1000, 1000
	want[1].Lower.CPU, want[1].Target.CPU, want[1].Upper.CPU = 200, 200, 200
	got := LimitCPU(a, higher)
	if !slices.EqualFunc(got, want, cluster.Advice.Equal) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if higher[0].Target.CPU != 3000 {
		t.Error("the argument changed")
	}
}
