// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
)

// Each event below changes the recommendation once: its cause is in the log of the container, and stays there after the process was killed.
func TestChanges_eachEvent_isLoggedWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 500<<20)
		w := b.deployment("web", 1, "app")
		b.pods[0].Containers[0].Limits = cluster.Amounts(0, 900<<20)
		b.autoscale("web", w)
		var seen int
		steps := []struct {
			name  string
			do    func()
			want  changelog.Cause
			of    cluster.Resource
			lasts time.Duration
		}{
			{"first", func() {}, changelog.First, cluster.CPU, 2 * time.Hour},
			{"higher usage", func() { b.use["app"] = cluster.Amounts(400, 500<<20) }, changelog.Usage, cluster.CPU, 2 * time.Hour},
			{"OOM kill", func() { b.kill(b.pods[0]) }, changelog.Kill, cluster.Memory, 2 * time.Hour},
			{"maxAllowed", func() {
				b.change("web", func(a *cluster.Autoscaler) {
					a.Policies = []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cluster.Resources{}.Set(cluster.Memory, 300<<20)}}
				})
			}, changelog.Bounds, cluster.Memory, 2 * time.Hour},
			{"other flags", func() { b.config.Sizing.Margin = 0.5 }, changelog.Settings, cluster.CPU, 2 * time.Hour},
			{"lower usage", func() { b.use["app"] = cluster.Amounts(20, 100<<20) }, changelog.Decay, cluster.CPU, 5 * 24 * time.Hour},
		}
		for _, s := range steps {
			s.do()
			r := b.run(s.lasts)
			log := r.usageStore.Series(w, "app").Changes()
			if log == nil || seen > len(log.Changes) {
				t.Fatalf("%s: changes %v, and %d before", s.name, log, seen)
			}
			found := slices.ContainsFunc(log.Changes[seen:], func(c changelog.Change) bool { return c.Cause == s.want && c.Resource == s.of })
			if !found {
				t.Errorf("%s: new changes %+v, want %q of %v", s.name, log.Changes[seen:], s.want, s.of)
			}
			for _, res := range cluster.All {
				if last := log.Last(res); last.To != b.advice("web", "app").Target.Amount(res) {
					t.Errorf("%s: the last change of %v is to %d, and the target is %d", s.name, res, last.To, b.advice("web", "app").Target.Amount(res))
				}
			}
			seen = len(log.Changes)
		}
	})
}

// A workload with many containers keeps fewer changes of each.
func TestChanges_manyContainers_areBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var names []string
		for i := range 27 {
			names = append(names, "c"+string(rune('a'+i%26))+string(rune('a'+i/26)))
		}
		w := b.deployment("web", 1, names...)
		b.autoscale("web", w)
		usage := int64(10)
		r := b.during(30*time.Hour, func(time.Duration) {
			usage += 3
			for _, name := range names {
				b.use[name] = cluster.Amounts(usage, usage<<20)
			}
		})
		total := 0
		for _, name := range names {
			log := r.usageStore.Series(w, name).Changes()
			if n := len(log.Changes); n > 10 || n < 5 {
				t.Fatalf("container %s has %d changes, want up to 10", name, n)
			}
			total += len(log.Encode())
		}
		if total > 4096 {
			t.Errorf("%d bytes, want at most 4 KiB", total)
		}
	})
}
