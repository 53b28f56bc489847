// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"time"

	"podfit.dev/podfit/internal/core/trend"
	"podfit.dev/podfit/internal/core/usage"
)

// LeakOf reports whether the memory of a container looked like it leaks at the last check, which is once a day, and when it
// will reach a bound in bytes (0: none). Only profiles that size memory by Adaptive check for leaks.
func LeakOf(s *usage.ContainerHistory, bound float64, now time.Time) (trend.Suspicion, bool) {
	if m := memoOf(s.Extension()); m != nil {
		return m.leak.Suspicion(bound, now)
	}
	return trend.Suspicion{}, false
}
