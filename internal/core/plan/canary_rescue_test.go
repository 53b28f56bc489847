// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/rollout"
)

// needsMemory makes a pod OOM-killed, and raises the recommendation above its memory.
func (c *canaries) needsMemory(i int) {
	raised := *c.a
	raised.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
		Lower: cluster.Amounts(50, 3<<30), Target: cluster.Amounts(100, 4<<30), Upper: cluster.Amounts(200, 5<<30),
	}}}
	c.a, c.w.Governed[0].Autoscaler = &raised, &raised
	pods := c.w.Governed[0].Pods
	killed := *pods[i]
	killed.Ready, killed.Containers = false, []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30), Restarts: 4,
		Exit: &cluster.Exit{OOM: true, Kills: 4, Now: true, Started: c.now.Add(-time.Minute), Finished: c.now.Add(-10 * time.Second)}}}
	pods[i] = &killed
}

// A canary is being resized or watched when a container of another pod is OOM-killed. The rescue of that pod does not wait, and the canary is
// watched on.
func TestCanary_anotherPodIsRescued_canaryAndItsRecordAreKept(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for _, waits := range []bool{false, true} {
			if waits && mode == cluster.Recreate {
				continue // an eviction does not wait for room
			}
			t.Run(fmt.Sprintf("%s resize waits %t", mode, waits), func(t *testing.T) {
				c := newCanaries(t, 4, mode)
				c.b.Rescue = rescue.ByDeletion
				c.defers = waits
				for range 2 {
					c.pass(noCrash)
					c.tick()
				}
				c.defers = false
				before := c.w.Ledger.Canary(c.a.Target)
				want := rollout.Watching
				if waits {
					want = rollout.Starting
				}
				if before.Phase != want || len(c.writes) != 1 {
					t.Fatalf("state %+v after %q", before, c.writes)
				}
				c.needsMemory(3)
				c.pass(noCrash)
				got := c.w.Ledger.Canary(c.a.Target)
				if got.UID != before.UID || got.Phase != want || got.Since != before.Since || fmt.Sprint(got.After) != fmt.Sprint(before.After) {
					t.Errorf("canary %+v, want %+v", got, before)
				}
				if len(c.writes) != 2 {
					t.Errorf("the OOM-killed pod is not changed: %q", c.writes)
				}
			})
		}
	}
}
