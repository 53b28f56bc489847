// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package autopilot

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

// cpuWeights are those of the profile autopilot.
var cpuWeights = Weights{Overrun: 10, Underrun: 1, Change: 0.05, Switch: 0.02, Forget: 72 * time.Hour, Bump: 1.05, Hold: 2 * time.Hour}

func TestEnsemble_exampleOfTheDocs_isCorrect(t *testing.T) {
	bound := func(overrun float64) float64 {
		var x mixture
		x.base = bucketOf(1)
		low, high := 0, 5
		x.weights[0][low], x.weights[0][high] = 0.99, 0.01
		k := x.best(0, &Weights{Overrun: overrun, Underrun: 1}, true)
		return boundOf(k) / boundOf(x.base)
	}
	// At the low bound the tail costs w_o × 0.01, at the high one what is unused costs 0.99 × (1 − 1/1.15⁵) = 0.50.
	if got := bound(30); got > 1.01 {
		t.Errorf("with w_o = 30 the limit is ×%.2f, want the low bound", got)
	}
	if got := bound(100); got < 1.9 {
		t.Errorf("with w_o = 100 the limit is ×%.2f, want the high bound", got)
	}
	example(t, fmt.Sprintf("with w_o = 30 the limit is %.0f GiB, with w_o = 100 it is %.0f GiB", bound(30), bound(100)))
}

// example checks that the example of a test in docs/algorithm.md has a figure. A test of package recommend finds the calls.
func example(t *testing.T, figure string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/algorithm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "`"+t.Name()+"`)")
	paragraph, _, _ := strings.Cut(after, "\n\n")
	if !found || !strings.Contains(strings.Join(strings.Fields(paragraph), " "), figure) {
		t.Errorf("docs/algorithm.md does not say %q, but: %s", figure, paragraph)
	}
}

func TestEnsemble_thousandsOfPods_doNotOverflowAnHour(t *testing.T) {
	w := cpuWeights
	var x mixture
	for range math.MaxUint16 {
		x.observe(3600, 0.1, &w, false)
	}
	x.observe(3600, 0.12, &w, false)
	x.observe(3600, 100, &w, false) // the range moves up: what was in several buckets is in the lowest now
	if x.samples[0] != math.MaxUint16 {
		t.Errorf("of all samples %d are left", x.samples[0])
	}
}

func TestEnsemble_hourWithoutSamples_changesNothing(t *testing.T) {
	w := cpuWeights
	var x mixture
	x.observe(3600, 0.1, &w, false)
	x.samples = [buckets]uint16{} // as a broken store may have it
	x.observe(2*3600, 0.1, &w, false)
	x.observe(3*3600, 0.1, &w, false)
	for _, v := range x.numbers() {
		if math.IsNaN(float64(*v)) {
			t.Fatalf("it ends in %v", x.weights)
		}
	}
	if got := x.at(3*3600, nil); !(got >= 0.1) {
		t.Errorf("given are %v cores", got)
	}
}

func TestAmount_steadyUsage_foldsAndKeepsAboveUsage(t *testing.T) {
	weights := cpuWeights
	algorithm := &Ensemble{Params{CPU: weights, Memory: weights}}
	state := algorithm.Extend()
	start := time.Unix(sampleHour*3600, 0).UTC()
	if got := algorithm.Amount(state, cluster.CPU, start, nil); got != 0 {
		t.Errorf("without usage the request is %dm", got)
	}
	for minute := range 3 * 24 * 60 {
		at := start.Add(time.Duration(minute) * time.Minute)
		state.Observe(usage.Sample{At: at, CPU: 0.5, Memory: 800 << 20}, cluster.Both)
		if minute > 90 && minute%60 != 59 {
			continue
		}
		for i, r := range cluster.All {
			var steps derivation.Steps
			got := algorithm.Amount(state, r, at, steps.Begin([...]float64{1000, 1}[i]))
			if used := [...]int64{500, 800 << 20}[i]; got < used || got > 2*used || !steptest.LeadTo(got, steps) {
				t.Fatalf("after %d minutes %v is %d, and its steps are %+v", minute, r, got, steps)
			}
		}
	}
	end := start.Add(72 * time.Hour)
	state.ObserveOOM(usage.OOM{At: end}, 4<<30)
	if got := algorithm.Amount(state, cluster.Memory, end, nil); got != 4<<30 {
		t.Errorf("after an OOM kill the request is %d bytes", got)
	}
	if since := state.Since(); !since.Equal(start) || state.Latest().Before(since) || state.CPUWeight(4) != usage.SampleWeight {
		t.Errorf("the state is from %v to %v", since, state.Latest())
	}
}
