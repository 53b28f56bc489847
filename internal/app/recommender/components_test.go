// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// A sidecar gets a recommendation like a regular container, and half of the minimum size of the pod. With --size-sidecars=false it gets neither,
// as with upstream. An ordinary init container that has not ended does not, and has no share of the minimum.
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

// The minimum size of the pod is that of its only regular container.
func TestRecommender_initContainersOfThreePodsHaveEnded_areSizedByRun(t *testing.T) {
	for flag, want := range map[string]int{"--size-by-run=true": 2, "--size-by-run=false": 1, "--size-sidecars=false": 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			w := b.deployment("web", 3, "app", "setup")
			start := time.Now()
			for _, p := range b.pods {
				p.Containers[1].Role = cluster.Init
			}
			b.use["app"], b.use["setup"] = cluster.Amounts(1, 1<<20), cluster.Amounts(900, 900<<20)
			b.autoscale("web", w)
			b.run(3 * time.Minute)
			delete(b.use, "setup")
			for i, p := range b.pods {
				p = new(*p)
				p.Containers = slices.Clone(p.Containers)
				p.Containers[1].Exit = &cluster.Exit{Started: start, Finished: time.Now(), Now: true}
				b.pods[i] = p
			}
			b.run(2 * time.Minute)
			if got := b.advice("web", "app").Target; got != cluster.Amounts(25, 250<<20) {
				t.Errorf("%s: target %v of the regular container, want the whole minimum", flag, got)
			}
			if n := len(b.autoscalers[0].Advice); n != want {
				t.Fatalf("%s: %d recommendations, want %d", flag, n, want)
			}
			if want == 2 {
				if got := b.advice("web", "setup").Target; got != cluster.Amounts(1035, 900<<20*115/100) {
					t.Errorf("%s: target %v of the init container, want the highest usage and the margin", flag, got)
				}
			}
		})
	}
}
