// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// The peaks of each profile that stores peaks can be read back from its stored state.
func TestStoredPeaks_builtinProfiles_peaksAreThoseObserved(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	hasPeaks := map[string][2]bool{"balanced": {true, true}, "cost": {true, true}, "critical": {true, true}, "busy-hours": {false, true}, "packed": {true, true}}
	for _, p := range Builtins() {
		if p.Extend == nil {
			continue
		}
		state := p.Extend()
		for hour := range 48 {
			state.Observe(usage.Sample{At: start.Add(time.Duration(hour) * time.Hour), CPU: 1 + float64(hour), Memory: 1e9 + 1e7*float64(hour), Has: cluster.Both}, cluster.Both)
		}
		data, err := state.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		cpu, memory, known, err := StoredPeaks(state.Form(), data)
		want := hasPeaks[p.Name]
		if err != nil || known != (want[0] || want[1]) || cpu.Empty() == want[0] || memory.Empty() == want[1] {
			t.Errorf("%s: known %v, CPU empty %v, memory empty %v, error %v", p.Name, known, cpu.Empty(), memory.Empty(), err)
			continue
		}
		hour := int(start.Unix()/3600) + 47
		if got := memory.At(hour).Amount(); want[1] && math.Abs(got/1.47e9-1) > 0.001 {
			t.Errorf("%s: memory peak %v", p.Name, got)
		}
		if got := cpu.At(hour).Amount(); want[0] && math.Abs(got/48-1) > 0.001 {
			t.Errorf("%s: CPU peak %v", p.Name, got)
		}
		if !known {
			continue
		}
		if _, _, _, err := StoredPeaks(state.Form(), data[:len(data)/2]); err == nil {
			t.Errorf("%s: truncated state is no error", p.Name)
		}
	}
}
