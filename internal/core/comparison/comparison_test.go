// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

const mib = 1 << 20

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// nightly is the usage of a container that runs a job from 3 to 4 o'clock.
func nightly(at time.Time) (cores, bytes float64) {
	return 0.1 + 0.9*b2f(at.Hour() == 3), 200*mib + 800*mib*b2f(at.Hour() == 3)
}

func TestAmount_nightlyPeak_eachAlgorithm(t *testing.T) {
	type algorithm interface {
		Extend() usage.Extension
		Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64
	}
	tests := map[string]struct {
		algorithm
		night, noon [2]int64 // millicores and MiB with the margin of 15 %
	}{
		"window-max": {WindowMax{}, [2]int64{1150, 1150}, [2]int64{1150, 1150}},
	}
	for name, tt := range tests {
		state := tt.Extend()
		if got := tt.Amount(state, cluster.CPU, start, nil); got != 0 {
			t.Errorf("%s: without usage the request is %dm", name, got)
		}
		end := start.Add(14 * 24 * time.Hour)
		for at := start; at.Before(end); at = at.Add(5 * time.Minute) {
			cores, bytes := nightly(at)
			state.Observe(usage.Sample{At: at, CPU: cores, Memory: bytes}, cluster.Both)
		}
		for hour, want := range map[int][2]int64{3: tt.night, 12: tt.noon} {
			now := end.Add(time.Duration(hour) * time.Hour)
			for i, r := range cluster.All {
				var steps derivation.Steps
				got := tt.Amount(state, r, now, steps.Begin([...]float64{1000, 1}[i]))
				if !steptest.LeadTo(got, steps) || tt.Amount(state, r, now, nil) != got {
					t.Errorf("%s at %d h: the steps do not lead to %d: %+v", name, hour, got, steps)
				}
				if got /= [...]int64{1, mib}[i]; got < want[i] || got > want[i]+want[i]/50 {
					t.Errorf("%s at %d h: %v is %d, want %d", name, hour, r, got, want[i])
				}
			}
		}
		state.ObserveOOM(usage.OOM{At: end}, 4000*mib)
		if got := tt.Amount(state, cluster.Memory, end, nil) / mib; got < 4600 || got > 4610 {
			t.Errorf("%s: after an OOM kill the request is %d MiB, want 4600", name, got)
		}
		if got := tt.Amount(usage.Extension(nil), cluster.CPU, end, nil); got != 0 {
			t.Errorf("%s: with other model state the request is %dm", name, got)
		}
	}
}

// The example in docs/backtest.md.
func TestPacked_exampleOfTheDocs_isCorrect(t *testing.T) {
	for node, want := range map[float64]int64{16 << 30: 3000, 2 << 30: 4345} { // MiB
		p := Packed{Memory: node}
		state := p.Extend()
		end := start.Add(14 * 24 * time.Hour)
		for at := start; at.Before(end); at = at.Add(5 * time.Minute) {
			cores, bytes := 0.5, 2550.0*mib
			if at.Hour() == 3 && at.Day() == 3 { // on the second of 14 days
				cores, bytes = 2, 4000*mib
			}
			state.Observe(usage.Sample{At: at, CPU: cores, Memory: bytes}, cluster.Both)
		}
		state.ObserveOOM(usage.OOM{At: end}, 9000*mib) // a replay takes usage above the request for a kill
		for r, want := range map[cluster.Resource]int64{cluster.CPU: 500, cluster.Memory: want} {
			var steps derivation.Steps
			got := p.Amount(state, r, end, steps.Begin(cluster.Pick(r, 1000.0, 1)))
			if !steptest.LeadTo(got, steps) || p.Amount(state, r, end, nil) != got {
				t.Errorf("the steps do not lead to %d: %+v", got, steps)
			}
			if got /= cluster.Pick(r, int64(1), mib); got < want || got > want+want/200 {
				t.Errorf("nodes of %.0f GiB: %v is %d, want %d", node/(1<<30), r, got, want)
			}
		}
		if got := p.Amount(p.Extend(), cluster.CPU, end, nil) + p.Amount(nil, cluster.Memory, end, nil); got != 0 {
			t.Errorf("without usage the request is %d", got)
		}
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
