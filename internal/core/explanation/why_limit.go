// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"slices"

	"podfit.dev/podfit/internal/core/policy"
)

// limitLine is the line about the CPU limit of new pods, if the profile or an annotation of the VPA removes it.
func (w *Why) limitLine() Line {
	if slices.Contains(w.CPULimits.Removed, w.Container) {
		return Line{What: "new pods get no CPU limit; this pod keeps its limit until it is replaced", Note: "limits.cpu of the profile, or podfit.dev/cpu-limits"}
	}
	i := slices.IndexFunc(w.CPULimits.Kept, func(k policy.KeptCPULimit) bool { return k.Container == w.Container })
	if i < 0 {
		return Line{}
	}
	return Line{What: "new pods keep the CPU limit: " + w.CPULimits.Kept[i].Why(), Note: "limits.cpu of the profile, or podfit.dev/cpu-limits"}
}
