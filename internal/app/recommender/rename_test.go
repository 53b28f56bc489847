// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// renamed returns a bench whose workload large was replaced by small, which uses much less. The VPA of small has the annotation
// podfit.dev/continues. It is the VPA of large, or a new one.
func renamed(t *testing.T, profile string, sameVPA bool) (b *bench, large, small cluster.Workload) {
	b, large, small, retarget := retargeted(t, profile)
	b.scales = map[cluster.Workload]cluster.Scale{large: {Gone: true}}
	b.deploySmall()
	retarget(small)
	b.change("web", func(a *cluster.Autoscaler) { a.Rules.Continues = "large" })
	if !sameVPA {
		old := *b.autoscalers[0]
		old.Target = large
		old.Rules.Continues = ""
		b.autoscalers = append([]*cluster.Autoscaler{&old}, b.autoscalers...)
		b.autoscalers[1].Name, b.autoscalers[1].UID, b.autoscalers[1].Advice, b.autoscalers[1].Created = "new", "new", nil, time.Now()
	}
	return b, large, small
}

// Each run is a new process, which reads what the last one has stored.
func TestContinues_workloadWasRenamed_historyIsAddedOnce(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		for _, sameVPA := range []bool{true, false} {
			t.Run(fmt.Sprintf("profile %q, same VPA %v", profile, sameVPA), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, _, small := renamed(t, profile, sameVPA)
					vpa := b.autoscalers[len(b.autoscalers)-1].Name
					var counts []int
					for range 3 {
						r := b.during(20*time.Minute, func(after time.Duration) {
							if after == time.Minute && b.advice(vpa, "app").Target.CPU < 3000 {
								t.Error("the first recommendation is by the usage of a minute")
							}
						})
						counts = append(counts, r.usageStore.Series(small, "app").Seen(cluster.CPU).Count)
						if got := b.advice(vpa, "app").Target; got.CPU < 3000 || got.Memory < 8<<30 {
							t.Errorf("target %v, want one by the usage of the former workload", got)
						}
					}
					const former = 2 * 26 * 60 // samples of its two pods
					if counts[0] < former || counts[0] > former+60 || counts[2] < former || counts[2] > former+3*60 {
						t.Errorf("%v samples in the history after each run, want those of the former workload once", counts)
					}
					if b.run(2*time.Second).usageStore.Series(small, "app").Changes() == nil {
						t.Error("the changes of the recommendation are lost")
					}
				})
			})
		}
	}
}

func TestContinues_formerWorkloadExistsOrHasNoHistory_nothingIsAdded(t *testing.T) {
	for name, change := range map[string]func(*bench, cluster.Workload){
		"exists":        func(b *bench, large cluster.Workload) { b.scales[large] = cluster.Scale{Known: true} },
		"not read yet":  func(b *bench, large cluster.Workload) { delete(b.scales, large) },
		"other name":    func(b *bench, _ cluster.Workload) { b.autoscalers[0].Rules.Continues = "unknown" },
		"its own name":  func(b *bench, _ cluster.Workload) { b.autoscalers[0].Rules.Continues = "small" },
		"no annotation": func(b *bench, _ cluster.Workload) { b.autoscalers[0].Rules.Continues = "" },
		"not same names": func(b *bench, _ cluster.Workload) {
			b.pods = nil
			b.use["web"] = cluster.Amounts(100, 50<<20)
			b.deployment("small", 2, "web")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, large, small := renamed(t, "", true)
				b.scales[cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "unknown"}] = cluster.Scale{Gone: true}
				change(b, large)
				r := b.run(10 * time.Minute)
				for _, s := range r.usageStore.All(small) {
					if n := s.Seen(cluster.CPU).Count; n > 25 {
						t.Errorf("%d samples of %s after ten minutes", n, s.Container())
					}
				}
			})
		})
	}
}

// The former workload is deleted while the recommender runs, minutes after its successor was created.
func TestContinues_formerWorkloadIsDeletedLater_historyIsAddedThen(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		synctest.Test(t, func(t *testing.T) {
			b, large, small := renamed(t, profile, false) // with VPA web of the former workload
			b.scales[large] = cluster.Scale{Known: true, Replicas: 2}
			r := b.during(30*time.Minute, func(after time.Duration) {
				if after == 15*time.Minute {
					b.autoscalers = slices.DeleteFunc(b.autoscalers, func(a *cluster.Autoscaler) bool { return a.Name == "web" })
					b.scales[large] = cluster.Scale{Gone: true}
				}
			})
			if n := r.usageStore.Series(small, "app").Seen(cluster.CPU).Count; n < 2*26*60 {
				t.Errorf("profile %q: %d samples", profile, n)
			}
			if got := b.advice("new", "app").Target; got.Memory < 8<<30 {
				t.Errorf("profile %q: target %v, want one by the usage of the former workload", profile, got)
			}
		})
	}
}

// Model state is of one workload. That which covers more time is used.
func TestContinues_successorIsOlderThanItsPredecessorWas_keepsItsModelState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, small := renamed(t, "balanced", false)
		b.change("new", func(a *cluster.Autoscaler) { a.Rules.Continues = "" })
		b.run(72 * time.Hour)
		b.change("new", func(a *cluster.Autoscaler) { a.Rules.Continues = "large" })
		before := b.advice("new", "app").Target
		r := b.run(10 * time.Minute)
		if n := r.usageStore.Series(small, "app").Seen(cluster.CPU).Count; n < 2*(72+26)*60-60 {
			t.Errorf("%d samples, want those of both", n)
		}
		if got := b.advice("new", "app").Target; got.Memory > 2*before.Memory {
			t.Errorf("target %v, before %v", got, before)
		}
	})
}
