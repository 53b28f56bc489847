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

// The reader of the Metrics API rounds CPU up to millicores, so a replay must do the same.
func TestRun_fractionOfAMillicore_isRoundedUp(t *testing.T) {
	for _, p := range recommend.BacktestProfiles() {
		var got [2][]Change
		for i, cores := range []float64{0.0201, 0.021} {
			w := steady(3, cores, 300*mib)
			got[i] = Run(w, p)
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: for 20.1m the changes are %v, for 21m %v", p.Name, got[0], got[1])
		}
	}
	for cores, want := range map[float64]float64{0: 0, 0.0001: 0.001, 0.02: 0.02, 0.0201: 0.021, 16.1: 16.1, 1.001: 1.001, 2.007: 2.007} {
		if got := wholeMillicores(cores); got != want {
			t.Errorf("%g cores: got %g, want %g", cores, got, want)
		}
	}
}

func TestSlack_requestFarBelowUsage_isBounded(t *testing.T) {
	for d, want := range map[Day]float64{
		{Mean: 2, P95: 1}: 0.5, {Mean: 1, P95: 1}: 0, {Mean: 1, P95: 2}: -0.5, {Mean: 0.1, P95: 10}: -0.99, {P95: 1}: -1, {Mean: 1}: 1, {}: 0,
	} {
		if got := d.Slack(); math.Abs(got-want) > 1e-12 {
			t.Errorf("slack of request %g and usage %g: got %g, want %g", d.Mean, d.P95, got, want)
		}
	}
	// One container with almost no request does not dominate the mean of twenty.
	scores := []Score{{Days: []Day{{Mean: 0.01, P95: 1, Samples: 1}}}}
	for range 19 {
		scores = append(scores, Score{Days: []Day{{Mean: 2, P95: 1, Samples: 1}}})
	}
	if s := summarize(scores, scores[0].Resource); s.MeanSlack < 0.42 || s.MedianSlack != 0.5 {
		t.Errorf("mean slack is %g, want at least 0.42; median is %g, want 0.5", s.MeanSlack, s.MedianSlack)
	}
}

func TestMeasure_incompleteLastDay_isNotCounted(t *testing.T) {
	for hours, want := range map[int]int{8 * 24: 0, 9*24 - 2: 0, 9 * 24: 1, 9*24 + 12: 1, 10 * 24: 2, 10*24 + 23: 2} {
		w := steady(11, 0.1, 300*mib)
		w.Samples = w.Samples[:hours*12]
		w.Samples[len(w.Samples)-1].Memory = 9000 * mib
		changes := []Change{{At: start, Resource: cluster.Memory, Request: 400 * mib}, {At: start, Resource: cluster.CPU, Request: 200}}
		for _, s := range Prepare(w, DefaultLearning).Measure(changes) {
			if len(s.Days) != want {
				t.Errorf("%d hours of %s: got %d measured days, want %d", hours, s.Resource, len(s.Days), want)
			}
		}
	}
}

// replicas returns a workload with several pods. A pod has samples on the days for which has returns true.
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

func TestOutcomeOf_severalPods_costCountsEachPod(t *testing.T) {
	changes := []Change{{At: start, Resource: cluster.CPU, Request: 1000}, {At: start, Resource: cluster.Memory, Request: 1 << 30}}
	for name, tt := range map[string]struct {
		pods int
		has  func(pod, day int) bool
		want float64 // mean number of pods
	}{
		"one":                               {1, func(int, int) bool { return true }, 1},
		"three":                             {3, func(int, int) bool { return true }, 3},
		"three, one of them on 1 of 4 days": {3, func(pod, day int) bool { return pod < 2 || day == 9 }, 2.25},
		"all replaced":                      {6, func(pod, day int) bool { return pod < 3 == (day < 10) }, 3},
		"none on one day":                   {1, func(_, day int) bool { return day != 9 }, 1},
	} {
		w := replicas(12, tt.pods, tt.has)
		scores := Prepare(w, DefaultLearning).Measure(changes)
		o := OutcomeOf(scores, Prices{Core: 1, GiB: 1})
		wantDays := 4
		if name == "none on one day" {
			wantDays = 3
		}
		if o.CPU.Days != wantDays {
			t.Errorf("%s: got %d days, want %d", name, o.CPU.Days, wantDays)
		}
		if math.Abs(o.CPU.Footprint-tt.want) > 0.01 || math.Abs(o.CPU.Pods-tt.want) > 0.01 || math.Abs(o.Money-2*PerMonth*tt.want) > 0.01*2*PerMonth {
			t.Errorf("%s: got %g cores of %g pods for %g, want %g pods", name, o.CPU.Footprint, o.CPU.Pods, o.Money, tt.want)
		}
		for _, s := range scores {
			for _, d := range s.Days {
				if s.Resource == cluster.CPU && d.Mean != 1 {
					t.Errorf("%s: mean request of a pod is %g cores, want 1", name, d.Mean)
				}
			}
		}
	}
}

// The figures of a workload with equal pods are those of one pod, times the number of pods where they are sums over pods.
func TestMeasure_samePodsThreeTimes_sumsAreThreeTimesAsHigh(t *testing.T) {
	var outcomes []Outcome
	for _, pods := range []int{1, 3} {
		w := replicas(12, pods, func(int, int) bool { return true })
		for i := range w.Samples {
			if s := &w.Samples[i]; (s.At-start)/3600%24 == 7 {
				s.Memory = 600 * mib // one hour of each day above the request
			}
		}
		changes := []Change{{At: start, Resource: cluster.CPU, Request: 1000}, {At: start, Resource: cluster.Memory, Request: 400 * mib}}
		outcomes = append(outcomes, OutcomeOf(Prepare(w, DefaultLearning).Measure(changes), Prices{Core: 1, GiB: 1}))
	}
	one, three := outcomes[0], outcomes[1]
	for name, got := range map[string][2]float64{
		"money":            {one.Money, three.Money},
		"CPU footprint":    {one.CPU.Footprint, three.CPU.Footprint},
		"memory footprint": {one.Memory.Footprint, three.Memory.Footprint},
		"usage":            {one.Memory.UsedMean, three.Memory.UsedMean},
		"samples above":    {one.Memory.Above, three.Memory.Above},
		"OOM kills":        {one.Memory.Events, three.Memory.Events},
	} {
		if got[0] == 0 || math.Abs(got[1]-3*got[0]) > 1e-9*got[1] {
			t.Errorf("%s: %g for one pod and %g for three, want three times as much", name, got[0], got[1])
		}
	}
	for name, got := range map[string][2]float64{
		"slack": {one.Memory.MeanSlack, three.Memory.MeanSlack}, "aggregate slack": {one.Memory.AggregateSlack, three.Memory.AggregateSlack},
		"days": {one.Memory.FreeDays, three.Memory.FreeDays}, "usage above": {one.Memory.Shortfall, three.Memory.Shortfall},
	} {
		if math.Abs(got[1]-got[0]) > 1e-9 {
			t.Errorf("%s: %g for one pod and %g for three, want the same", name, got[0], got[1])
		}
	}
}

// Over all workloads, the cost of a workload with many pods has more weight, so it decides which recommender is the cheapest.
func TestBest_workloadWithManyPods_decidesTheTotal(t *testing.T) {
	var all [2][]Score
	for i, pods := range []int{1, 10} { // the first recommender requests less for the single pod, the second for each of the ten
		w := replicas(12, pods, func(int, int) bool { return true })
		for k := range all {
			request := int64(1000)
			if i == k {
				request = 600
			}
			all[k] = append(all[k], Prepare(w, DefaultLearning).Measure([]Change{{At: start, Resource: cluster.CPU, Request: request}})...)
		}
	}
	var totals []Outcome
	for _, scores := range all {
		cpu := slices.DeleteFunc(scores, func(s Score) bool { return s.Resource != cluster.CPU })
		totals = append(totals, OutcomeOf(cpu, Prices{Core: 1}))
	}
	if best := Best(totals, Tolerance{Shortfall: 0.01}); !slices.Equal(best, []int{1}) {
		t.Errorf("recommender %v wins at %g and %g, want the second", best, totals[0].Money, totals[1].Money)
	}
}

func TestMeasure_onePodAboveAnotherBelow_isOneKill(t *testing.T) {
	w := replicas(9, 2, func(int, int) bool { return true })
	for i := range w.Samples {
		if s := &w.Samples[i]; s.Pod == 0 {
			s.Memory = 600 * mib
		}
	}
	for _, s := range Prepare(w, DefaultLearning).Measure([]Change{{At: start, Resource: cluster.Memory, Request: 400 * mib}}) {
		if s.Resource == cluster.Memory && (len(s.Days) != 1 || s.Days[0].Events != 1) {
			t.Errorf("got %+v, want one kill on one day", s.Days)
		}
	}
}

// Row 15 of docs/decisions/0007: a short trace can be measured.
func TestMeasure_shorterLearning_measuresEarlierDays(t *testing.T) {
	for learning, want := range map[int]int{0: 4, 1: 3, 2: 2, 4: 0, DefaultLearning: 0} {
		w := steady(4, 0.1, 300*mib)
		usage := Prepare(w, learning)
		if usage.FullDays() != 4 {
			t.Errorf("got %d full days, want 4", usage.FullDays())
		}
		for _, s := range usage.Measure([]Change{{At: start, Resource: cluster.CPU, Request: 1000}}) {
			if len(s.Days) != want {
				t.Errorf("%d days of learning: got %d measured days of %s, want %d", learning, len(s.Days), s.Resource, want)
			}
		}
	}
}
