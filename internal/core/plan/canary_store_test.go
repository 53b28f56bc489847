// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
)

// Without UpdateStates, the webhook gives a replacement the size that was reverted. So no canary is evicted, and no size is reverted by an
// eviction.
func TestCanary_statesCannotBeStored_changesOnlyInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		mode          cluster.Mode
		kills         bool
		refuseFrom    int // minute from which resizes are refused
		pods, writes  int
		waitingReason decision.ReasonCode // of a pod at the end; Fits if none waits
	}{
		"only evictions are allowed":               {cluster.Recreate, true, 999, 0, 0, decision.NoWayBack},
		"only evictions are allowed, a good size":  {cluster.Recreate, false, 999, 0, 0, decision.NoWayBack},
		"resizes, a good size":                     {cluster.InPlaceOrRecreate, false, 999, 4, 4, decision.Fits},
		"resizes, a bad size":                      {cluster.InPlaceOrRecreate, true, 999, 0, 2, decision.Fits},
		"resizes are refused":                      {cluster.InPlaceOrRecreate, true, 0, 0, 0, decision.NoWayBack},
		"the resize back is refused":               {cluster.InPlaceOrRecreate, true, 1, 1, 1, decision.NoWayBack},
		"the others cannot be resized, a good one": {cluster.InPlaceOrRecreate, false, 5, 4, 4, decision.Fits}, // the webhook gives new pods the good size
	} {
		t.Run(name, func(t *testing.T) {
			sim := newCanaries(t, 4, c.mode)
			sim.w.NotStored, sim.kills = true, c.kills
			for minute := range 6 * 60 {
				sim.refuse = minute >= c.refuseFrom
				sim.pass(noCrash)
				sim.tick()
			}
			if sim.count() != c.pods || len(sim.writes) != c.writes {
				t.Errorf("%d pods have the new size, %q", sim.count(), sim.writes)
			}
			waits := map[decision.ReasonCode]int{}
			for _, d := range Plan(sim.now, sim.w, sim.b) {
				waits[d.Reason.Code]++
			}
			if c.waitingReason != decision.Fits && waits[c.waitingReason] == 0 {
				t.Errorf("reasons %v, want %v", waits, c.waitingReason)
			}
			if s := sim.w.Ledger.Canary(sim.a.Target); c.pods == 4 && s.Phase != rollout.Accepted {
				t.Errorf("state %+v", s)
			}
		})
	}
}
