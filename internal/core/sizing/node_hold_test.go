// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/fleet"
)

// A smaller node counts at once, and for a day after it is gone.
func TestHold_smallNodeComesAndGoes_sizesChangeOnce(t *testing.T) {
	const gib = 1 << 30
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var s State
	for _, c := range []struct {
		after     time.Duration
		memory    int64
		copies    int
		memoryIs  int64
		copiesAre int
		what      string
	}{
		{after: 0, memory: 64, copies: 1, memoryIs: 64, copiesAre: 1, what: "at first"},
		{after: time.Hour, memory: 16, copies: 1, memoryIs: 16, copiesAre: 1, what: "a small node was added"},
		{after: 2 * time.Hour, memory: 64, copies: 1, memoryIs: 16, copiesAre: 1, what: "it was removed"},
		{after: 20 * time.Hour, memory: 16, copies: 1, memoryIs: 16, copiesAre: 1, what: "it is back"},
		{after: 43 * time.Hour, memory: 64, copies: 1, memoryIs: 16, copiesAre: 1, what: "removed again"},
		{after: 44 * time.Hour, memory: 64, copies: 1, memoryIs: 64, copiesAre: 1, what: "a day after it was last there"},
		{after: 45 * time.Hour, memory: 64, copies: 3, memoryIs: 64, copiesAre: 3, what: "an HPA adds replicas"},
		{after: 46 * time.Hour, memory: 64, copies: 2, memoryIs: 64, copiesAre: 3, what: "it removes some"},
		{after: 40 * time.Hour, memory: 64, copies: 2, memoryIs: 64, copiesAre: 2, what: "the clock was set back"},
	} {
		sizes := fleet.NodeSizes{Allocatable: 4000, Memory: c.memory * gib, Copies: c.copies}
		s.hold(start.Add(c.after), &sizes)
		s.Node = sizes
		if sizes.Memory != c.memoryIs*gib || sizes.Copies != c.copiesAre {
			t.Errorf("%s: %d GiB and %d pods, want %d and %d", c.what, sizes.Memory/gib, sizes.Copies, c.memoryIs, c.copiesAre)
		}
	}
}
