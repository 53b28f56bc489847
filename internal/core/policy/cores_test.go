// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// amount returns random amounts of all magnitudes, including the extremes.
func amount() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, 999, 1000, 1001, math.MaxInt32, math.MaxInt64 - 1, math.MaxInt64}),
		rapid.Int64Range(0, 5000),
		rapid.Int64Range(0, 1<<40),
		rapid.Int64(),
	)
}

func TestWholeCores_fraction_isRoundedUp(t *testing.T) {
	for milli, want := range map[int64]int64{
		-1: 0, 0: 0, 1: 1000, 999: 1000, 1000: 1000, 1001: 2000,
		math.MaxInt64: math.MaxInt64 / 1000 * 1000,
	} {
		if got := wholeCores(milli); got != want {
			t.Errorf("wholeCores(%d) = %d, want %d", milli, got, want)
		}
	}
}
