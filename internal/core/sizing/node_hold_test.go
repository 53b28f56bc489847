// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
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

// A process that continues with the stored texts holds the same node for the same time. Texts that others have written are ignored.
func TestRecall_heldNode_isHeldUntilTheSameTime(t *testing.T) {
	w := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	start := time.Date(2026, 3, 1, 0, 0, 0, 700, time.UTC)
	before := &State{}
	small, large := fleet.NodeSizes{Allocatable: 4000, Memory: 16 << 30, Copies: 3}, fleet.NodeSizes{Allocatable: 4000, Memory: 64 << 30, Copies: 1}
	before.hold(start, &small)
	before.Node = small
	for after, want := range map[time.Duration]int64{time.Hour: 16 << 30, 23 * time.Hour: 16 << 30, 24 * time.Hour: 64 << 30} {
		next := Workloads{}
		next.Recall(Workloads{w: before}.HeldNodes())
		to := large
		next[w].hold(start.Add(after), &to)
		if to.Memory != want || to.Copies != map[bool]int{true: 3, false: 1}[want == 16<<30] {
			t.Errorf("after %v: %+v, want %d bytes", after, to, want)
		}
	}
	for _, text := range []string{"", "x", "1", "-5 1 1", "0 1 1", "99999999999999999999 1 1"} {
		next := Workloads{}
		next.Recall(map[cluster.Workload]string{w: text})
		if len(next) > 0 {
			t.Errorf("%q is read as %+v", text, next[w].Node)
		}
	}
}
