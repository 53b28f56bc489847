// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package change

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// running returns a pod that requests 100 millicores and 100 MiB, with limits of twice as much.
func running() *cluster.Pod {
	return &cluster.Pod{Containers: []cluster.Container{
		{Name: "app", Requests: cluster.Amounts(100, 100<<20), Limits: cluster.Amounts(200, 200<<20)},
	}}
}

// sized returns the requests and limits for a container.
func sized(requests, limits cluster.Resources) []policy.Fitted {
	return []policy.Fitted{{Container: "app", Requests: requests, Limits: limits}}
}

func TestComparisons_newSize_directionIsFound(t *testing.T) {
	none := cluster.Resources{}
	for name, tt := range map[string]struct {
		fits                         []policy.Fitted
		same, grows, shrinks, limits bool
	}{
		"the same":                {sized(cluster.Amounts(100, 100<<20), cluster.Amounts(200, 200<<20)), true, false, false, false},
		"within rounding":         {sized(cluster.Amounts(101, 100<<20+4096), none), true, false, false, false},
		"more CPU":                {sized(cluster.Amounts(150, 100<<20), none), false, true, false, false},
		"less memory":             {sized(cluster.Amounts(100, 90<<20), none), false, false, true, false},
		"more CPU, less memory":   {sized(cluster.Amounts(150, 90<<20), none), false, true, false, false},
		"a larger memory limit":   {sized(cluster.Amounts(100, 100<<20), cluster.Amounts(200, 300<<20)), false, false, false, true},
		"of an unknown container": {[]policy.Fitted{{Container: "other", Requests: cluster.Amounts(1, 1)}}, true, false, false, false},
	} {
		p := running()
		if got := SameSize(p, tt.fits); got != tt.same {
			t.Errorf("%s: the same: %t", name, got)
		}
		if got := IsAsked(p, tt.fits); got != tt.same {
			t.Errorf("%s: asked for: %t", name, got)
		}
		if got := Grows(p, tt.fits); got != tt.grows {
			t.Errorf("%s: grows: %t", name, got)
		}
		if got := Shrinks(p, tt.fits); got != tt.shrinks {
			t.Errorf("%s: shrinks: %t", name, got)
		}
		if got := RaisesMemoryLimit(p, tt.fits); got != tt.limits {
			t.Errorf("%s: raises the memory limit: %t", name, got)
		}
	}
}

// The kubelet has not applied the spec yet: the pod runs with other requests than it asks for.
func TestComparisons_resizeInProgress_specAndRunningDiffer(t *testing.T) {
	p := running()
	p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(50, 100<<20)}
	fits := sized(cluster.Amounts(100, 100<<20), cluster.Resources{})
	if !IsAsked(p, fits) || SameSize(p, fits) || !Grows(p, fits) {
		t.Errorf("asked for: %t, the same: %t, grows: %t", IsAsked(p, fits), SameSize(p, fits), Grows(p, fits))
	}
}

func TestAsks_fraction_isTheLeastChange(t *testing.T) {
	none := cluster.Resources{}
	for name, tt := range map[string]struct {
		fits        []policy.Fitted
		part        float64
		less, other bool
	}{
		"a tenth less":        {sized(cluster.Amounts(90, 100<<20), none), 0.1, true, true},
		"a little less":       {sized(cluster.Amounts(95, 100<<20), none), 0.1, false, false},
		"a tenth more":        {sized(cluster.Amounts(110, 100<<20), none), 0.1, false, true},
		"a little more":       {sized(cluster.Amounts(105, 100<<20), none), 0.1, false, false},
		"a much lower limit":  {sized(cluster.Amounts(100, 100<<20), cluster.Amounts(20, 20<<20)), 0.1, false, false},
		"a fifth less memory": {sized(cluster.Amounts(100, 80<<20), none), 0.1, true, true},
	} {
		p := running()
		if got := AsksLess(p, tt.fits, tt.part); got != tt.less {
			t.Errorf("%s: less: %t", name, got)
		}
		if got := AsksOther(p, tt.fits, tt.part); got != tt.other {
			t.Errorf("%s: another size: %t", name, got)
		}
		if got := AsksLessThan(tt.fits, sized(cluster.Amounts(100, 100<<20), none), tt.part); got != tt.less {
			t.Errorf("%s: less than before: %t", name, got)
		}
	}
	without := running()
	without.Containers[0].Requests = none
	if !AsksOther(without, sized(cluster.Amounts(1, 1), none), 0.5) {
		t.Error("a first request does not count as a change of the size")
	}
	if AsksLessThan(sized(cluster.Amounts(1, 1), none), []policy.Fitted{{Container: "other", Requests: cluster.Amounts(9, 9)}}, 0) {
		t.Error("the requests of another container are compared")
	}
}

func TestRestarts_resizePolicy_decides(t *testing.T) {
	p := running()
	p.Containers[0].Restart = cluster.Resources{}.Set(cluster.Memory, 1).Has
	if Restarts(p, sized(cluster.Amounts(300, 100<<20), cluster.Resources{})) {
		t.Error("a change of the CPU request restarts the container")
	}
	if !Restarts(p, sized(cluster.Amounts(100, 101<<20), cluster.Resources{})) {
		t.Error("a change of the memory request restarts no container")
	}
}

func TestPairs_callerStops_endsEarly(t *testing.T) {
	fits := sized(cluster.Amounts(1, 1), cluster.Amounts(2, 2))
	for stop := 1; stop <= 4; stop++ {
		n := 0
		for x := range Pairs(running(), fits, true) {
			if x.Container.Name != "app" || !x.Had {
				t.Errorf("pair %+v", x)
			}
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("%d pairs, want %d", n, stop)
		}
	}
}
