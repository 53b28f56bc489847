// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/standby"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
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

// takeover lets a recommender lead until it is killed or stopped, and another one, which has read usage all the time or not, make its first pass after a change.
func takeover(t *testing.T, b *bench, read, stopped bool, led time.Duration, before func(time.Duration), change func()) *recommender {
	t.Helper()
	waiting := standby.Of(b.Samples, slog.New(slog.DiscardHandler))
	r := b.during(led, func(after time.Duration) {
		before(after)
		waiting.Add(t.Context(), time.Now())
	})
	if stopped {
		r.end(t.Context())
	}
	change()
	d := b.dependencies()
	if read {
		d.waiting = waiting
	}
	next := newRecommender(b.config, d)
	if err := next.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.pass(t.Context(), time.Now())
	return next
}

// What a leader stored when it was stopped is all that there is, so a standby adds nothing: not if a pod has the name of another one since, upstream wrote the
// checkpoint, most pods have no window in it, or the VPA is known only from the second pass on.
func TestStandby_leaderIsStopped_nothingCountsTwice(t *testing.T) {
	for name, c := range map[string]struct {
		pods   int
		change func(b *bench) (after func())
	}{
		"nothing else": {2, func(*bench) func() { return func() {} }},
		"pod is replaced": {1, func(b *bench) func() {
			p := *b.pods[0]
			p.UID, p.Created, p.Started = "new", time.Now(), time.Now()
			b.pods[0] = &p
			b.use["app"] = cluster.Amounts(100, 100<<20)
			return func() {}
		}},
		"upstream wrote": {1, func(b *bench) func() {
			for k, c := range b.stored {
				c.Updated = c.Updated.Add(time.Second)
				b.stored[k] = c
			}
			return func() {}
		}},
		"many pods": {1000, func(*bench) func() { return func() {} }},
		"VPA is known later": {1, func(b *bench) func() {
			all := b.autoscalers
			b.autoscalers, b.stale = nil, []string{watcher.AutoscalersFeed}
			return func() { b.autoscalers = all }
		}},
	} {
		var got [2]usage.Checkpoint
		for i, read := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				web := b.deployment("web", c.pods, "app")
				b.autoscale("web", web)
				after := func() {}
				r := takeover(t, b, read, true, 30*time.Minute, func(time.Duration) { b.use["app"] = cluster.Amounts(100, 900<<20) }, func() {
					after = c.change(b)
					time.Sleep(30 * time.Second)
				})
				after()
				time.Sleep(time.Minute)
				r.pass(t.Context(), time.Now())
				got[i], _ = r.usageStore.Checkpoint(web, "app", time.Now())
			})
		}
		if got[0].Samples != got[1].Samples || got[0].Samples == 0 || !cmp.Equal(got[0].Memory, got[1].Memory) {
			t.Errorf("%s: %d samples with a standby, %d without; memory %s", name, got[1].Samples, got[0].Samples, cmp.Diff(got[0].Memory, got[1].Memory))
		}
	}
}

// A container uses much for some minutes, and then the leader and the pod are killed. The kill shows that more than this usage is needed.
func TestStandby_podIsKilledToo_usageBeforeTheKillCounts(t *testing.T) {
	for _, read := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			web := b.deployment("web", 1, "app")
			b.autoscale("web", web)
			const led = 5*time.Hour + 8*time.Minute
			r := takeover(t, b, read, false, led, func(after time.Duration) {
				b.use["app"] = cluster.Amounts(100, 40<<20)
				if after > led-4*time.Minute {
					b.use["app"] = cluster.Amounts(100, 900<<20)
				}
			}, func() {
				b.kill(b.pods...)
				b.use["app"] = cluster.Amounts(100, 40<<20)
				time.Sleep(20 * time.Second)
			})
			if _, needed, _ := r.usageStore.Series(web, "app").LastOOM(); (needed > 900<<20) != read {
				t.Errorf("with a standby %v, the kill shows that %d MiB are needed", read, needed>>20)
			}
		})
	}
}

// Only a replica that may wait for the lease keeps readings, and only where the leader does not store history in each pass.
func TestStandby_flags_keepReadingsOnlyWhereTheyAreNeeded(t *testing.T) {
	clients, err := kube.ClientsFor(kubetest.LocalConfig(kubetest.NewLocalAPI(t)))
	if err != nil {
		t.Fatal(err)
	}
	p := process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	for flags, want := range map[string]bool{
		"--leader-elect": true, "": false, "--leader-elect --compatibility=upstream": false, "--leader-elect --storage=prometheus": false,
		"--leader-elect --use-external-metrics --external-metrics-cpu-metric=c": false,
	} {
		c := given(t, strings.Fields(flags)...)
		got, err := c.Standby(&c.Election, p, clients)
		if err != nil || (got != nil) != want {
			t.Errorf("%q: readings are kept: %v, error %v", flags, got != nil, err)
		}
	}
}
