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

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
