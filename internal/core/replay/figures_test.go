// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

// The Metrics API reader rounds CPU up to millicores; a replay has to see the same.
func TestRun_fractionOfAMillicore_isRoundedUp(t *testing.T) {
	for _, p := range recommend.BacktestProfiles() {
		var got [2][]Change
		for i, cores := range []float64{0.0201, 0.021} {
			w := steady(3, cores, 300*mib)
			got[i] = Run(w, p, RulesFor(p))
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: 20.1m is sized as %v, 21m as %v", p.Name, got[0], got[1])
		}
	}
	for cores, want := range map[float64]float64{0: 0, 0.0001: 0.001, 0.02: 0.02, 0.0201: 0.021, 16.1: 16.1, 1.001: 1.001, 2.007: 2.007} {
		if got := wholeMillicores(cores); got != want {
			t.Errorf("%g cores are rounded to %g, want %g", cores, got, want)
		}
	}
}

func TestSlack_requestFarBelowUsage_isBounded(t *testing.T) {
	for d, want := range map[Day]float64{
		{Mean: 2, P95: 1}: 0.5, {Mean: 1, P95: 1}: 0, {Mean: 1, P95: 2}: -0.5, {Mean: 0.1, P95: 10}: -0.99, {P95: 1}: -1, {Mean: 1}: 1, {}: 0,
	} {
		if got := d.Slack(); math.Abs(got-want) > 1e-12 {
			t.Errorf("slack of %g requested and %g used is %g, want %g", d.Mean, d.P95, got, want)
		}
	}
	// One container with next to no request does not decide the mean of twenty.
	scores := []Score{{Days: []Day{{Mean: 0.01, P95: 1, Samples: 1}}}}
	for range 19 {
		scores = append(scores, Score{Days: []Day{{Mean: 2, P95: 1, Samples: 1}}})
	}
	if s := Summarize(scores); s.MeanSlack < 0.42 || s.MedianSlack != 0.5 {
		t.Errorf("mean slack %g, median %g", s.MeanSlack, s.MedianSlack)
	}
}

func TestMeasure_lastDayIsCutOff_isNotCounted(t *testing.T) {
	for hours, want := range map[int]int{8 * 24: 0, 9*24 - 2: 0, 9 * 24: 1, 9*24 + 12: 1, 10 * 24: 2, 10*24 + 23: 2} {
		w := steady(11, 0.1, 300*mib)
		w.Samples = w.Samples[:hours*12]
		w.Samples[len(w.Samples)-1].Memory = 9000 * mib
		changes := []Change{{At: start, Resource: cluster.Memory, Request: 400 * mib}, {At: start, Resource: cluster.CPU, Request: 200}}
		for _, s := range Prepare(w).Measure(changes) {
			if len(s.Days) != want {
				t.Errorf("of %d hours %d days of %s are measured, want %d", hours, len(s.Days), s.Resource, want)
			}
		}
	}
}

// replicas is a workload of several pods. Pod i has samples on the days that has says.
func replicas(days, pods int, has func(pod, day int) bool) *Workload {
	w := steady(0, 0, 0)
	w.Pods = nil
	for p := range pods {
		w.Pods = append(w.Pods, fmt.Sprint("cart-", p))
		for i := range days * 288 {
			if has(p, i/288) {
				w.Samples = append(w.Samples, Sample{At: start + int64(i)*300, CPU: 0.5, Memory: 300 * mib, Pod: int32(p), Has: cluster.Both})
			}
		}
	}
	w.Sort()
	return w
}

func TestMoney_severalPods_countsEach(t *testing.T) {
	changes := []Change{{At: start, Resource: cluster.CPU, Request: 1000}, {At: start, Resource: cluster.Memory, Request: 1 << 30}}
	for name, tt := range map[string]struct {
		pods int
		has  func(pod, day int) bool
		want float64 // mean number of pods
	}{
		"one":                                {1, func(int, int) bool { return true }, 1},
		"three":                              {3, func(int, int) bool { return true }, 3},
		"three, one of them for 1 of 4 days": {3, func(pod, day int) bool { return pod < 2 || day == 9 }, 2.25},
		"replaced by others":                 {6, func(pod, day int) bool { return pod < 3 == (day < 10) }, 3},
		"none for a day":                     {1, func(_, day int) bool { return day != 9 }, 1},
	} {
		w := replicas(12, tt.pods, tt.has)
		scores := Prepare(w).Measure(changes)
		o := OutcomeOf(scores, Prices{Core: 1, GiB: 1})
		if name == "none for a day" && o.CPU.Days != 3 || name != "none for a day" && o.CPU.Days != 4 {
			t.Errorf("%s: %d days", name, o.CPU.Days)
		}
		if math.Abs(o.CPU.Footprint-tt.want) > 0.01 || math.Abs(o.CPU.Pods-tt.want) > 0.01 || math.Abs(o.Money-2*PerMonth*tt.want) > 0.01*2*PerMonth {
			t.Errorf("%s: %g cores of %g pods for %g, want %g pods", name, o.CPU.Footprint, o.CPU.Pods, o.Money, tt.want)
		}
		for _, s := range scores {
			for _, d := range s.Days {
				if s.Resource == cluster.CPU && d.Mean != 1 {
					t.Errorf("%s: a pod requests %g cores", name, d.Mean)
				}
			}
		}
	}
}

func TestDefaultTolerance_isTheLargestPromise(t *testing.T) {
	of := func(names ...string) (ps []recommend.Profile) {
		for _, n := range names {
			p, _ := recommend.BacktestProfile(n)
			ps = append(ps, p)
		}
		return ps
	}
	for name, tt := range map[string]struct {
		of   []recommend.Profile
		want float64
	}{
		"cost among others": {of("default", "critical", "cost"), recommend.Cost().Memory.Budget},
		"critical":          {of("critical", "window-max"), recommend.Critical().Memory.Budget},
		"busy-hours":        {of("busy-hours"), recommend.Balanced().Memory.Budget},
		"no promise":        {of("default", "autopilot"), recommend.Balanced().Memory.Budget},
	} {
		if got := DefaultTolerance(tt.of).DaysAbove; got != tt.want {
			t.Errorf("%s: %g, want %g", name, got, tt.want)
		}
	}
}
