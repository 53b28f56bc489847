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

// A sidecar gets a recommendation like a regular container, and half of the minimum size of the pod. With --size-sidecars=false it gets neither,
// as with upstream. An init container never does.
func TestRecommender_sidecarsAndInitContainers_onlySidecarsThatAreSizedCount(t *testing.T) {
	for role, want := range map[cluster.ContainerRole]struct {
		app   cluster.Resources
		sized int
	}{
		cluster.Sidecar:      {cluster.Amounts(12, 125<<20), 2},
		cluster.FixedSidecar: {cluster.Amounts(25, 250<<20), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			w := b.deployment("web", 2, "app", "setup", "mesh")
			for _, p := range b.pods {
				p.Containers[1].Role, p.Containers[2].Role = cluster.Init, role
			}
			b.use["app"] = cluster.Amounts(1, 1<<20)
			b.use["setup"], b.use["mesh"] = cluster.Amounts(900, 900<<20), cluster.Amounts(900, 900<<20)
			b.autoscale("web", w)
			b.run(10 * time.Minute)
			if got := b.advice("web", "app").Target; got != want.app {
				t.Errorf("role %d: target %v, want %v", role, got, want.app)
			}
			if n := len(b.autoscalers[0].Advice); n != want.sized {
				t.Errorf("role %d: %d recommendations, want %d", role, n, want.sized)
			}
			if want.sized == 2 {
				if got := b.advice("web", "mesh").Target; got.CPU < 900 || got.Memory < 900<<20 {
					t.Errorf("target %v of the sidecar, want more than it uses", got)
				}
			}
		})
	}
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
		if after := *b.advice("web", "app"); !after.Equal(before) {
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
