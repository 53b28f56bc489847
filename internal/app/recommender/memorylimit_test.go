// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
)

// A container that uses 200 MiB has a memory limit of 1,224 MiB, or a little more, by the annotation or the profile of its VPA, and none by default.
func TestRecommender_limitsByPeaks_statusHasTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bench, a *cluster.Autoscaler)
		want   bool
	}{
		"by an annotation": {func(_ *bench, a *cluster.Autoscaler) { a.MemoryLimits = cluster.LimitRule{Peaks: true, Set: true} }, true},
		"by a profile with peaks": {func(b *bench, a *cluster.Autoscaler) {
			b.profiles = map[string]string{"mine": `{"base": "balanced", "limits": {"memory": "peaks"}}`}
			a.Recommender = "mine"
		}, true},
		"by a profile, but not the annotation": {func(b *bench, a *cluster.Autoscaler) {
			b.profiles = map[string]string{"mine": `{"base": "balanced", "limits": {"memory": "peaks"}}`}
			a.Recommender, a.MemoryLimits = "mine", cluster.LimitRule{Set: true}
		}, false},
		"kept":       {func(_ *bench, a *cluster.Autoscaler) { a.MemoryLimits = cluster.LimitRule{Keep: true, Set: true} }, false},
		"by default": {func(*bench, *cluster.Autoscaler) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(100, 200<<20)
				c.change(b, b.autoscale("web", b.deployment("web", 1, "app")))
				b.run(time.Hour)
				got := b.advice("web", "app").MemoryLimit
				if isSet := got >= 1224<<20 && got < 1300<<20; isSet != c.want || !c.want && got != 0 {
					t.Errorf("the limit is %d MiB", got>>20)
				}
				b.run(2 * time.Minute) // a new process
				if again := b.advice("web", "app").MemoryLimit; again != got {
					t.Errorf("after a restart, the limit is %d MiB, want %d", again>>20, got>>20)
				}
			})
		})
	}
}

// Until two weeks of usage are known, the limit of a container is not lowered: what it needs once a week may still come.
func TestRecommender_limitsByPeaksOfYoungWorkload_limitDoesNotFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		own := *b.pods[0]
		own.Containers = slices.Clone(own.Containers)
		own.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, 8<<30)
		b.pods[0] = &own
		b.config.Interval = 10 * time.Minute
		b.run(24 * time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got != 8<<30 {
			t.Errorf("after a day, the limit is %d MiB, want that of the pod, 8192", got>>20)
		}
		b.run(14 * 24 * time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got < 1224<<20 || got > 1300<<20 {
			t.Errorf("after two weeks, the limit is %d MiB, want 1224", got>>20)
		}
	})
}

// The hourly peaks start anew with the profile, and the recommendation is held for a day only.
func TestRecommender_profileChanges_limitIsStillAboveThePeakOfTwoWeeks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 200<<20)
		a := b.autoscale("web", b.deployment("web", 1, "app"))
		a.MemoryLimits, a.Recommender = cluster.LimitRule{Peaks: true, Set: true}, "default"
		b.config.Interval = 10 * time.Minute
		b.run(14 * 24 * time.Hour)
		b.use["app"] = cluster.Amounts(100, 6000<<20)
		b.run(time.Hour)
		b.use["app"] = cluster.Amounts(100, 200<<20)
		b.run(25 * time.Hour)
		before := b.advice("web", "app").MemoryLimit
		b.rename("web", "balanced")
		b.run(48 * time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got < 12000<<20 {
			t.Errorf("the limit falls from %d to %d MiB", before>>20, got>>20)
		}
	})
}

// A value that somebody else has written to the status is gone with the next pass.
func TestRecommender_hostileLimitInStatus_isReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.run(time.Hour)
		b.change("web", func(a *cluster.Autoscaler) {
			a.Advice = slices.Clone(a.Advice)
			a.Advice[0].MemoryLimit, a.Advice[0].Target.Memory = 1<<50, 1<<50
		})
		b.run(time.Hour)
		got := b.advice("web", "app")
		if got.Target.Memory >= 1<<40 {
			t.Errorf("the target is %d GiB", got.Target.Memory>>30)
		}
		if got.MemoryLimit >= 1<<40 {
			t.Errorf("after an hour, the limit of a container that uses 200 MiB is %d GiB", got.MemoryLimit>>30)
		}
	})
}

// The limit is at most the largest node that may take the pods, and follows --container-recommendation-max-allowed-memory.
// The container uses 48 GiB. The largest node and what the user allows count more than usage, and podfit explain says that the limit is below it.
func TestRecommender_limitsByPeaks_areBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{
			{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: true}, {Name: "large", Allocatable: cluster.Amounts(4000, 64<<30), Ready: true},
		}
		b.use["app"] = cluster.Amounts(100, 48<<30)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.run(time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got != 64<<30 {
			t.Errorf("the limit is %d MiB, want that of the largest node", got>>20)
		}
		if err := b.config.MaxAllowedMemory.Set("10Gi"); err != nil {
			t.Fatal(err)
		}
		b.run(time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got != 20<<30 {
			t.Errorf("the limit is %d MiB, want twice the maximum of the target", got>>20)
		}
		b.change("web", func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Resources{}.Set(cluster.Memory, 512<<20)}}
		})
		b.run(time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got != 1536<<20 {
			t.Errorf("the limit is %d MiB, want 1 GiB above maxAllowed", got>>20)
		}
	})
}

// withLimit replaces a pod of the bench by one with a memory limit.
func (b *bench) withLimit(i int, limit int64) {
	own := *b.pods[i]
	own.Containers = slices.Clone(own.Containers)
	own.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, limit)
	b.pods[i] = &own
}

// A CronJob between its runs, or a Deployment that is scaled to zero, keeps the limit.
func TestRecommender_youngWorkloadHasNoLivePod_limitDoesNotFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.withLimit(0, 8<<30)
		b.config.Interval = 10 * time.Minute
		lowest := int64(1 << 60)
		b.during(24*time.Hour, func(since time.Duration) {
			if since == 12*time.Hour { // the run ends
				done := *b.pods[0]
				done.Phase = cluster.Succeeded
				b.pods[0] = &done
			}
			if since > time.Hour {
				lowest = min(lowest, b.advice("web", "app").MemoryLimit)
			}
		})
		if lowest < 8<<30 {
			t.Errorf("on the first day the limit falls to %d MiB, want 8192", lowest>>20)
		}
	})
}

// --container-recommendation-max-allowed-memory does not lower the limit of the first 14 days.
func TestRecommender_maximumOfAYoungWorkload_limitDoesNotFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.withLimit(0, 8<<30)
		if err := b.config.MaxAllowedMemory.Set("512Mi"); err != nil {
			t.Fatal(err)
		}
		b.run(2 * time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got < 8<<30 {
			t.Errorf("the limit falls from 8192 to %d MiB", got>>20)
		}
	})
}

// The nodes of all pods count.
func TestRecommender_daemonSetOnTwoSizesOfNodes_largestNodeBoundsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{
			{Name: "small", Allocatable: cluster.Amounts(4000, 4<<30), Ready: true}, {Name: "large", Allocatable: cluster.Amounts(64000, 256<<30), Ready: true},
		}
		b.useOf = map[string]cluster.Resources{"web-0": cluster.Amounts(100, 1<<30), "web-1": cluster.Amounts(100, 20<<30)}
		w := b.deployment("web", 2, "app")
		w.Kind = "DaemonSet"
		for i, p := range b.pods {
			p.Top, p.Controller, p.Node = w, w, []string{"small", "large"}[i]
		}
		b.autoscale("web", w).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.run(2 * time.Hour)
		first := b.advice("web", "app").MemoryLimit
		if first < 20<<30 {
			t.Errorf("a pod on the large node uses 20 GiB, and the limit is %d MiB", first>>20)
		}
		slices.Reverse(b.pods)
		b.run(2 * time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got != first {
			t.Errorf("with the pods in another order, the limit is %d MiB, and was %d", got>>20, first>>20)
		}
	})
}

// While a node pool is upgraded, the limit must not fall below the usage that is known.
func TestRecommender_largeNodeIsCordoned_limitIsNotBelowThePeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{
			{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: true}, {Name: "large", Allocatable: cluster.Amounts(4000, 64<<30), Ready: true},
		}
		b.use["app"] = cluster.Amounts(100, 24<<30)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.run(time.Hour)
		before := b.advice("web", "app").MemoryLimit
		b.nodes = slices.Clone(b.nodes)
		b.nodes[1].Cordoned = true
		b.run(time.Hour)
		if got := b.advice("web", "app").MemoryLimit; got < 24<<30 {
			t.Errorf("the pod uses 24 GiB, and the limit falls from %d to %d MiB (target %d MiB)", before>>20, got>>20, b.advice("web", "app").Target.Memory>>20)
		}
	})
}

// A limit that is close to the new one stays, also if bounds apply.
func TestRecommender_boundedLimit_isStable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: true}}
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.config.Interval = 10 * time.Minute
		seen, i := map[int64]int{}, 0
		b.during(24*time.Hour, func(since time.Duration) {
			i++
			b.use["app"] = cluster.Amounts(100, int64(6+i%3)<<30)
			if since > 12*time.Hour {
				seen[b.advice("web", "app").MemoryLimit]++
			}
		})
		if len(seen) > 2 {
			t.Errorf("limits %v", seen)
		}
	})
}

// The pods of a CronJob have ended: the limit is still at most the largest node.
func TestRecommender_limitsByPeaksWithoutLivePod_limitStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{{Name: "large", Allocatable: cluster.Amounts(4000, 64<<30), Ready: true}}
		b.use["app"] = cluster.Amounts(100, 48<<30)
		b.autoscale("web", b.deployment("web", 1, "app")).MemoryLimits = cluster.LimitRule{Peaks: true, Set: true}
		b.run(time.Hour)
		before := b.advice("web", "app").MemoryLimit
		ended := *b.pods[0]
		ended.Phase = cluster.Succeeded
		b.pods[0] = &ended
		b.run(10 * time.Minute)
		if got := b.advice("web", "app").MemoryLimit; got != before || before != 64<<30 {
			t.Errorf("without a live pod, the limit changes from %d to %d GiB, want 64", before>>30, got>>30)
		}
	})
}

func TestOOMLoops_limitIsKept_reasonIsTheLimit(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	target := cluster.Amounts(100, 1<<30)
	a := &cluster.Autoscaler{Mode: cluster.Recreate, MemoryLimits: cluster.LimitRule{Keep: true}}
	p := &cluster.Pod{Phase: cluster.Running, QoS: cluster.Burstable, Containers: []cluster.Container{{
		Name: "app", Restarts: 5, Requests: cluster.Amounts(100, 512<<20-4096), Limits: cluster.Resources{}.Set(cluster.Memory, 512<<20),
		Exit: &cluster.Exit{OOM: true, Started: now.Add(-time.Minute), Finished: now.Add(-50 * time.Second)},
	}}}
	loops := oomLoops(a, []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: target}, Uncapped: target}}, now, []*cluster.Pod{p})
	if len(loops) != 1 || loops[0].reason != v1alpha1.ReasonLimitFixed || !strings.Contains(loops[0].message(a, 3), "the rule keep") {
		t.Errorf("got %+v", loops)
	}
}
