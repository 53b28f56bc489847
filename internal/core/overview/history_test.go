// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"
	"testing"
	"time"
)

func TestFill_recordedPeaks_doNotReplaceStoredOnes(t *testing.T) {
	peaks := func(hours ...int) (out []Peak) {
		for _, hour := range hours {
			out = append(out, Peak{At: time.Unix(int64(hour%100)*3600, 0), Value: float64(1 + hour/100)})
		}
		return out
	}
	for _, tt := range []struct {
		stored, recorded, want []Peak
		filled                 int
	}{
		{peaks(2, 3, 6), peaks(101, 102, 104, 106, 107), peaks(101, 2, 3, 104, 6, 107), 3},
		{nil, peaks(101, 103), peaks(101, 103), 2},
		{peaks(1, 2), nil, peaks(1, 2), 0},
		{peaks(5), peaks(101), peaks(101, 5), 1},
	} {
		got, filled := Fill(tt.stored, tt.recorded)
		if !slices.Equal(got, tt.want) || filled != tt.filled {
			t.Errorf("got %v, %d; want %v, %d", got, filled, tt.want, tt.filled)
		}
	}
}
