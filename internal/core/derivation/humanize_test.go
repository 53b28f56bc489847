// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package derivation

import "testing"

func TestHumanized_memory_hasTwoDecimals(t *testing.T) {
	for bytes, want := range map[int64]int64{
		0: 0, 1023: 1023, 1024: 1024, 1030: 1035, // 1.01Ki
		262144000:     262144000, // 250.00Mi
		262149000:     262144000, // 250.00Mi
		274877907:     274873713, // 262.14Mi, and 0.64 of a byte
		1 << 30:       1 << 30,
		1234803098:    1234803098, // 1.15Gi
		1 << 40:       1 << 40,
		3 * (1 << 39): 3 * (1 << 39),
	} {
		if got := humanized(bytes); got != want {
			t.Errorf("%d becomes %d, want %d", bytes, got, want)
		}
	}
}
