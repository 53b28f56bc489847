// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// As with upstream, init containers and sidecars get no recommendation and no share of the minimum size of a pod.
func TestRecommender_sidecarsAndInitContainers_getNoRecommendation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.deployment("web", 2, "app", "setup", "mesh")
		for _, p := range b.pods {
			p.Containers[1].Role, p.Containers[2].Role = cluster.Init, cluster.Sidecar
		}
		b.use["app"] = cluster.Amounts(1, 1<<20)
		b.use["setup"], b.use["mesh"] = cluster.Amounts(900, 900<<20), cluster.Amounts(900, 900<<20)
		a := b.autoscale("web", w)
		b.run(10 * time.Minute)
		if got, want := b.advice("web", "app").Target, cluster.Amounts(25, 250<<20); got != want {
			t.Errorf("target %v, want %v", got, want)
		}
		for _, o := range b.autoscalers {
			if o.Key == a.Key && len(o.Advice) != 1 {
				t.Errorf("recommendations %+v, want one", o.Advice)
			}
		}
	})
}

// A VPA that cannot be read has no target. Its last recommendation stays, and a condition gives the reason.
func TestRecommender_vpaCannotBeRead_keepsItsRecommendation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		w := b.deployment("web", 1, "app")
		b.autoscale("web", w)
		b.run(time.Hour)
		before := *b.advice("web", "app")
		broken := *b.autoscalers[0]
		broken.Target, broken.Mode = cluster.Workload{}, cluster.Off
		b.autoscalers[0], b.problem = &broken, "Cannot read targetRef. Reason: quantities must match the regular expression"
		b.run(time.Hour)
		if after := *b.advice("web", "app"); after != before {
			t.Errorf("the recommendation is %+v, before %+v", after, before)
		}
		if c := b.condition("web", v1.ConfigUnsupported); c.Status != watcher.True || c.Message != b.problem {
			t.Errorf("condition %+v", c)
		}
		corrected := broken
		corrected.Target = w
		b.autoscalers[0], b.problem = &corrected, ""
		b.run(2 * time.Minute)
		if after := b.advice("web", "app"); after.Target != before.Target {
			t.Errorf("after the correction the recommendation is %+v, before %+v", after, before)
		}
	})
}
