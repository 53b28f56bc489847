// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The ranges in which a JVM reads "all cores", by enumeration of the conversions.
func TestBands_everyMillicore_areThoseThatReadAsAllCores(t *testing.T) {
	for _, c := range []struct {
		name string
		by   Conversion
		want []Range
	}{
		{"cgroup v1", SharesV1, []Range{{1000, 1000}}},
		{"cgroup v2, linear", WeightOld, []Range{{2538, 2562}}},
		{"cgroup v2, quadratic", WeightNew, []Range{{989, 1000}}},
	} {
		var got []Range
		for m := int64(1); m <= 64_000; m++ {
			if c.by.JVMProcessors(m) != 0 {
				continue
			}
			if n := len(got); n > 0 && got[n-1].To == m-1 {
				got[n-1].To = m
			} else {
				got = append(got, Range{m, m})
			}
			if _, in := Band(m); !in {
				t.Errorf("%s: %dm reads as all cores, but is in no band", c.name, m)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestBand_besideARange_isNone(t *testing.T) {
	for _, b := range Bands() {
		for _, m := range []int64{b.From - 1, b.To + 1} {
			if got, in := Band(m); in {
				t.Errorf("Band(%d) = %v", m, got)
			}
		}
	}
}

func TestJVMProcessors_request_isWhatOpenJDKComputes(t *testing.T) {
	for _, c := range []struct {
		by         Conversion
		millicores int64
		want       int64
	}{
		{SharesV1, 500, 1}, {SharesV1, 998, 1}, {SharesV1, 1000, 0}, {SharesV1, 1001, 2}, {SharesV1, 2000, 2}, {SharesV1, 2001, 3},
		{WeightOld, 500, 1}, {WeightOld, 1000, 1}, {WeightOld, 2000, 2}, {WeightOld, 2550, 0}, {WeightOld, 4000, 4},
		{WeightNew, 500, 2}, {WeightNew, 1001, 3}, {WeightNew, 2000, 4}, {WeightNew, 4000, 8},
	} {
		if got := c.by.JVMProcessors(c.millicores); got != c.want {
			t.Errorf("conversion %d: JVMProcessors(%d) = %d, want %d", c.by, c.millicores, got, c.want)
		}
	}
}

func TestSeen_anyRequest_risesAndIsWithinTheBoundsOfTheKernel(t *testing.T) {
	for _, by := range []Conversion{SharesV1, WeightOld, WeightNew} {
		before := int64(0)
		for _, m := range []int64{math.MinInt64, -1, 0, 1, 2, 3, 10, 988, 989, 1000, 1001, 64_000, 255_999, 256_000, 256_001, math.MaxInt64} {
			got := by.Seen(m)
			if got < before || got < 1 || got > maxShares || by != SharesV1 && got > maxWeight {
				t.Errorf("conversion %d: Seen(%d) = %d after %d", by, m, got, before)
			}
			before = got
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
