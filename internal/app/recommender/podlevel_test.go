// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/kubetest"
	"podfit.dev/podfit/test/rowtest"
)

// takingTurns returns a bench with a workload of two pods with pod-level resources and a VPA. Their containers take turns: at any time one of them uses
// 400 millicores and 400 MiB, the other one 100 of each.
func takingTurns(t *testing.T) *bench {
	b := newBench(t)
	b.config.Sizing.FloorMegabytes, b.config.Sizing.FloorMillicores = 10, 10
	b.autoscale("web", b.deployment("web", 2, "app", "cache"))
	b.change("web", func(a *cluster.Autoscaler) { a.Mode = cluster.InPlaceOrRecreate })
	for _, p := range b.pods {
		p.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(2000, 2<<30)}
	}
	return b
}

// turn lets the other container do the work after each hour. It is a callback of during.
func (b *bench) turn(after time.Duration) {
	busy, idle := "app", "cache"
	if int(after.Hours())%2 == 1 {
		busy, idle = idle, busy
	}
	b.use[busy], b.use[idle] = cluster.Amounts(400, 400<<20), cluster.Amounts(100, 100<<20)
}

// whole returns what the first pod needs as a whole, and the sum of the targets of its containers.
func (b *bench) whole() (whole, sum cluster.Resources) {
	for _, a := range b.autoscalers {
		whole, sum = a.Shares(b.pods[0])
	}
	return whole, sum
}

func TestPodLevel_containersTakeTurns_podNeedsLessThanTheSumOfTheirTargets(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		t.Run("profile "+profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := takingTurns(t)
				b.change("web", func(a *cluster.Autoscaler) { a.Recommender = profile })
				b.during(26*time.Hour, func(after time.Duration) {
					b.turn(after)
					if whole, _ := b.whole(); after == 23*time.Hour && !whole.Has.Empty() {
						t.Errorf("%v after 23 hours", whole)
					}
				})
				whole, sum := b.whole()
				if whole.Has != cluster.Both || whole.CPU < 500 || whole.Memory < 500<<20 || whole.CPU > sum.CPU*4/5 || whole.Memory > sum.Memory*4/5 ||
					profile == "" && (!enough(whole.CPU, 500) || !enough(whole.Memory, 500<<20)) {
					t.Errorf("the pod as a whole %v, the sum %v", whole, sum)
				}
				// Each process continues with what the last one has stored.
				for range 2 {
					b.during(30*time.Minute, func(after time.Duration) {
						b.turn(after)
						if got, _ := b.whole(); after == 2*time.Minute && !closeTo(got, whole) {
							t.Errorf("after a restart: %v, before %v", got, whole)
						}
					})
				}
			})
		})
	}
}

// The parts are in the status that is written, from the pass on in which the pods have been measured for a day. A restarted recommender has them from the
// stored history, also if the status was lost.
func TestPodLevel_aDayOfSamples_statusHasThePartsAlsoAfterARestart(t *testing.T) {
	for flag, want := range map[string]string{"--role-history=24h": "24h0m0s", "--role-history=36h": "36h0m0s", "--role-history=0s": "never"} {
		t.Run(flag, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := takingTurns(t)
				b.config = given(t, flag, "--recommender-interval=4m", "--pod-recommendation-min-cpu-millicores=10", "--pod-recommendation-min-memory-mb=10")
				first := "never"
				b.write("web", func() {
					b.during(37*time.Hour, func(after time.Duration) {
						b.turn(after)
						if has := b.hasParts("web"); has && first == "never" {
							first = (after - b.config.Interval).String() // the pass before has written them
						} else if !has && first != "never" {
							t.Fatalf("the status has no parts after %v, and had them after %s", after, first)
						}
					})
				})
				if first != want {
					t.Errorf("the status has the parts after %s, want %s", first, want)
				}
				b.change("web", func(a *cluster.Autoscaler) { a.Advice = nil })
				b.write("web", func() { b.during(10*time.Minute, b.turn) })
				if has := b.hasParts("web"); has != (want != "never") {
					t.Errorf("the status has the parts after a restart: %t", has)
				}
				b.config.Sizing.RoleHistory = 0
				b.write("web", func() { b.during(10*time.Minute, b.turn) })
				if b.hasParts("web") {
					t.Error("the status has the parts after a restart with --role-history=0s")
				}
			})
		})
	}
}

// hasParts reports whether the status in the API server has the parts of both containers.
func (b *bench) hasParts(name string) bool {
	text, err := json.Marshal(b.api.Object(kubetest.AutoscalersPath, "shop/"+name)["status"])
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Count(string(text), `"podfit.dev/shared-cpu":`) == 2 && strings.Count(string(text), `"podfit.dev/shared-memory":`) == 2
}

func TestPodLevel_wholeIsNotKnown_podGetsTheSumOfTheTargets(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"no pod-level resources": func(b *bench) {
			for _, p := range b.pods {
				p.PodLevel = nil
			}
		},
		"a container without usage": func(b *bench) {
			for _, p := range b.pods {
				p.Containers = append(p.Containers, cluster.Container{Name: "unmeasured"})
			}
		},
		"flag": func(b *bench) { b.config.Sizing.RoleHistory = 0 },
		"limit of steps": func(b *bench) {
			b.change("web", func(a *cluster.Autoscaler) { a.Rules.MaxStep.Value.Percent = 10 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := takingTurns(t)
				change(b)
				b.during(26*time.Hour, b.turn)
				for _, container := range []string{"app", "cache"} {
					if got := b.advice("web", container); !got.Shared.Has.Empty() || got.Target.CPU == 0 {
						t.Errorf("%+v", got)
					}
				}
			})
		})
	}
}

// What is known is kept until it can have been learnt again, and not forever.
func TestPodLevel_nothingIsStored_partsOfTheStatusStayMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := takingTurns(t)
		b.during(26*time.Hour, b.turn)
		before, _ := b.whole()
		b.remembered = newBenchHistories()
		b.during(50*time.Hour, func(after time.Duration) {
			b.turn(after)
			if got, _ := b.whole(); after > time.Minute && !closeTo(got, before) {
				t.Fatalf("after %v: %v, before %v", after, got, before)
			}
		})
		b.remembered = newBenchHistories()
		for _, p := range b.pods {
			p.Containers = append(p.Containers, cluster.Container{Name: "unmeasured"})
		}
		b.during(50*time.Hour, b.turn)
		if got := b.advice("web", "app").Shared; !got.Has.Empty() {
			t.Errorf("%v without measurements for two days", got)
		}
	})
}

// The sums of the time before do not contain what a new container needs.
func TestPodLevel_podsGetAnotherContainer_wholeIsLearntAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := takingTurns(t)
		b.use["new"] = cluster.Amounts(1000, 1<<30)
		b.during(54*time.Hour, func(after time.Duration) {
			b.turn(after)
			switch whole, sum := b.whole(); after {
			case 26 * time.Hour:
				if whole.Has != cluster.Both {
					t.Errorf("%v before: the test shows nothing", whole)
				}
				for _, p := range b.pods {
					p.Containers = append(p.Containers, cluster.Container{Name: "new"})
				}
			case 27 * time.Hour, 48 * time.Hour:
				if !whole.Has.Empty() {
					t.Errorf("%v of %v after %v", whole, sum, after)
				}
			}
		})
		if whole, _ := b.whole(); whole.CPU < 1500 || whole.CPU > 1750 {
			t.Errorf("%v a day after the change", whole)
		}
	})
}

// A kill raises the pod by at least as much as the target of the container. The memory is shared again some days later.
func TestPodLevel_containerIsKilled_memoryIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := takingTurns(t)
		b.config.Interval = 4 * time.Minute
		b.during(26*time.Hour, b.turn)
		before, _ := b.whole()
		target := b.advice("web", "app").Target.Memory
		b.during(12*time.Minute, func(after time.Duration) {
			b.turn(after)
			if after == 4*time.Minute {
				b.pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-time.Hour), Finished: time.Now()}
			}
		})
		app, cache := b.advice("web", "app"), b.advice("web", "cache")
		if whole, _ := b.whole(); whole.Has != cluster.Of(cluster.CPU) || !app.Shared.Has.Has(cluster.CPU) ||
			app.Target.Memory <= target || app.Target.Memory+cache.Target.Memory-before.Memory < app.Target.Memory-target {
			t.Errorf("the pod as a whole %v, before %v; targets %v and %v", whole, before, app.Target, cache.Target)
		}
		b.during(9*24*time.Hour, b.turn)
		if whole, _ := b.whole(); whole.Has != cluster.Both {
			t.Errorf("%v nine days after the kill", whole)
		}
	})
}

func TestPodLevel_podIsEvictedForLackOfMemory_memoryIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := takingTurns(t)
		b.during(26*time.Hour, b.turn)
		b.evictions = []usage.OOM{{Pod: b.pods[0].Key, Container: "app", At: time.Now(), Memory: 500 << 20}}
		b.during(4*time.Minute, b.turn)
		if whole, _ := b.whole(); whole.Has != cluster.Of(cluster.CPU) {
			t.Errorf("%v", whole)
		}
	})
}

func TestCompatibility_podsHavePodLevelResources_theirSizeIsThatOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "a pod gets less than the sum: true", Upstream: "a pod gets less than the sum: false"}
	rowtest.Both(t, "headroom of pod-level resources", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			b := takingTurns(t)
			b.config = given(t, args...)
			b.during(26*time.Hour, b.turn)
			whole, sum := b.whole()
			got = fmt.Sprintf("a pod gets less than the sum: %t", whole.CPU < sum.CPU)
		})
		return got
	})
}
