// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/usage"
)

// A changed profile, or another one with the same algorithm, keeps model state. Another algorithm starts without.
func TestReplace_sameAlgorithm_keepsModelState(t *testing.T) {
	longer := Balanced()
	longer.Memory.Days, longer.Memory.Long = 10, 21
	for name, tt := range map[string]struct {
		to   Profile
		anew bool
	}{
		"longer":     {AdaptiveProfile("longer", "", longer), false},
		"critical":   {AdaptiveProfile("critical", "", Critical()), false},
		"busy hours": {BusyHoursProfile("busy", "", Busiest()), true},
		"packed":     {PackedProfile("mine", "", PackedParams{Memory: 0.9, CPU: 0.9, Reserve: 0.3, Days: 3, LongDays: 7}), false},
		"ensemble":   {EnsembleProfile("autopilot", "", Autopilot()), true},
	} {
		b := newBench(balanced())
		b.use(3*day, always(0.1, 900*mib))
		b.use(3*day, always(0.1, 300*mib))
		anew := b.book.Replace(cart, tt.to.Extend)
		b.p = tt.to
		if slices.Equal(anew, []string{"app"}) != tt.anew {
			t.Errorf("%s: %v began anew, want %v", name, anew, tt.anew)
		}
		if tt.anew {
			if e := b.estimate(); !e.Target.Has.Empty() {
				t.Errorf("%s: knows nothing, and gives %+v", name, e)
			}
			continue
		}
		b.use(day/12, always(0.1, 300*mib))
		if got := b.memory(); got < 900 {
			t.Errorf("%s: 900 MiB a few days ago are forgotten: %.0f MiB", name, got)
		}
	}
}

func TestReplace_afterAProfileWithoutModelState_beginsAnew(t *testing.T) {
	b := newBench(balanced())
	b.use(day, always(0.1, 300*mib))
	b.book.Extend(cart, nil)
	if anew := b.book.Replace(cart, func() usage.Extension { return balanced().Extend() }); !slices.Equal(anew, []string{"app"}) {
		t.Errorf("%v began anew", anew)
	}
}
