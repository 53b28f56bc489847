// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import (
	"math"
	"testing"
)

func TestBand_besideARange_isNone(t *testing.T) {
	for _, b := range bands {
		for _, m := range []int64{b.From - 1, b.To + 1} {
			if got, in := Band(m); in {
				t.Errorf("Band(%d) = %v", m, got)
			}
		}
	}
}

func TestProcessors_request_isRoundedUpToWholeCores(t *testing.T) {
	for m, want := range map[int64]int64{math.MinInt64: 1, -5: 1, 0: 1, 1: 1, 1000: 1, 1001: 2, 2000: 2, 16_001: 17, math.MaxInt64: math.MaxInt64/1000 + 1} {
		if got := Processors(m); got != want {
			t.Errorf("Processors(%d) = %d, want %d", m, got, want)
		}
	}
}
