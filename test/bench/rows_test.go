// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// Measured are 4 to 29 times less memory and 15 to 126 times less CPU time. A half is far from that, so that other processes do not matter.
func TestRows_measuredOnBothSides_podfitNeedsLessThanHalfOfUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	compared := map[unit]int{}
	for _, r := range rows(false) {
		if r.upstream == nil {
			continue
		}
		compared[r.unit]++
		if theirs, ours := r.upstream(), r.podfit(); ours >= theirs/2 {
			t.Errorf("%s: %s, upstream %s", r.what, r.unit.format(ours), r.unit.format(theirs))
		}
	}
	if compared[seconds] < 5 || compared[bytes] < 3 {
		t.Errorf("%d times and %d sizes were compared, want at least 5 and 3", compared[seconds], compared[bytes])
	}
}
