// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/app/recommender/standby"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A leader is killed long after its last write. The next one knows what it knew, as if it had been the leader all the time: no sample is missing, and none counts
// twice. Without what it read in the meantime, it does not.
func TestStandby_leaderIsKilled_nextOneKnowsTheSame(t *testing.T) {
	known := func(read bool) (usage.Checkpoint, []cluster.Resources) {
		var last usage.Checkpoint
		var targets []cluster.Resources
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.autoscale("web", b.deployment("web", 2, "app", "proxy")).Recommender = "balanced"
			b.use["proxy"] = cluster.Amounts(50, 60<<20)
			waiting := standby.Of(b.Samples, slog.New(slog.DiscardHandler))
			now := func(after time.Duration) {
				minute := int64(after / time.Minute)
				b.use["app"] = cluster.Amounts(100+minute, 100<<20+minute<<20) // each minute is higher than all before
			}
			const killed = 5*time.Hour + 8*time.Minute
			if !read {
				waiting = nil
			}
			b.during(killed, func(after time.Duration) {
				now(after)
				if waiting != nil {
					waiting.Add(t.Context(), time.Now())
				}
			})
			now(killed)
			d := b.dependencies()
			d.waiting = waiting
			next := newRecommender(b.config, d)
			if err := next.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			next.pass(t.Context(), time.Now())
			web := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
			var ok bool
			if last, ok = next.usageStore.Checkpoint(web, "app", time.Now()); !ok {
				t.Fatal("no usage of the container is known")
			}
			targets = append(targets, b.advice("web", "app").Target, b.advice("web", "proxy").Target)
			for range waiting.Take() {
				t.Error("the readings are kept after they were used")
			}
		})
		return last, targets
	}
	uninterrupted := func() (last usage.Checkpoint, targets []cluster.Resources) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			web := b.deployment("web", 2, "app", "proxy")
			b.autoscale("web", web).Recommender = "balanced"
			b.use["proxy"] = cluster.Amounts(50, 60<<20)
			r := b.during(5*time.Hour+9*time.Minute, func(after time.Duration) {
				minute := int64(after / time.Minute)
				b.use["app"] = cluster.Amounts(100+minute, 100<<20+minute<<20)
			})
			last, _ = r.usageStore.Checkpoint(web, "app", time.Now().Add(-time.Minute))
			targets = append(targets, b.advice("web", "app").Target, b.advice("web", "proxy").Target)
		})
		return last, targets
	}
	want, targets := uninterrupted()
	got, gotTargets := known(true)
	if got.Samples != want.Samples || !got.LastSample.Equal(want.LastSample) {
		t.Errorf("%d samples until %v, want %d until %v", got.Samples, got.LastSample, want.Samples, want.LastSample)
	}
	if diff := cmp.Diff([]any{want.CPU, want.Memory}, []any{got.CPU, got.Memory}); diff != "" {
		t.Errorf("histograms of CPU and memory (-without a change of the leader, +with one)\n%s", diff)
	}
	if diff := cmp.Diff(targets, gotTargets); diff != "" {
		t.Errorf("targets (-without a change of the leader, +with one)\n%s", diff)
	}
	if without, _ := known(false); without.Samples >= want.Samples {
		t.Errorf("%d samples without a standby, %d with one: the test shows nothing", without.Samples, want.Samples)
	}
}
