// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// The pods of the test get the target of each pass at once, as after a resize in place.
func TestRecommender_maxStep_podsFollowInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(1000, 400<<20)
		a := b.autoscale("web", b.deployment("web", 2, "app"))
		a.Mode = cluster.InPlaceOrRecreate
		a.Rules.MaxStep = cluster.Setting[cluster.MaxStep]{Value: cluster.MaxStep{Percent: 50, Amount: cluster.Resources{}.Set(cluster.Memory, 100<<20)}, Set: true}
		at := cluster.Amounts(100, 50<<20)
		steps := 0
		b.during(3*time.Hour, func(time.Duration) {
			adv := b.autoscalers[0].AdviceFor("app")
			if adv == nil || adv.Target == at {
				return
			}
			if most := cluster.Amounts(at.CPU*3/2+1, min(at.Memory*3/2+1, at.Memory+100<<20)); adv.Target.CPU > most.CPU || adv.Target.Memory > most.Memory {
				t.Errorf("the target is %v, pods have %v", adv.Target, at)
			}
			at = adv.Target
			steps++
			for i, p := range b.pods {
				next := *p
				next.Containers = []cluster.Container{{Name: "app", Requests: at}}
				b.pods[i] = &next
			}
		})
		adv := b.advice("web", "app")
		if steps < 5 || adv.Target != adv.Uncapped || adv.Target.CPU < 1000 {
			t.Errorf("after %d steps: %+v", steps, adv)
		}
	})
}

func TestRecommender_memoryPerCPU_memoryIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(1000, 400<<20)
		a := b.autoscale("web", b.deployment("web", 2, "app"))
		a.Mode = cluster.Recreate
		a.Rules.MemoryPerCPU = cluster.Setting[cluster.MemoryPerCPU]{Value: cluster.MemoryPerCPU{Least: 4 << 30}, Set: true}
		b.run(3 * time.Hour)
		adv := b.advice("web", "app")
		if adv.Target.CPU != adv.Uncapped.CPU || adv.Target.Memory < adv.Target.CPU*(4<<30)/1000 || adv.Uncapped.Memory > 1<<30 {
			t.Errorf("%+v, want 4Gi for each core", adv)
		}
	})
}
