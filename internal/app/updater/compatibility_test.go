// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/rowtest"
)

// The rows of the table of deviations that evictions or resizes show. A pass runs each minute for a while. The webhook does not size
// replacements unless the situation says so.
func TestCompatibility_situations_haveTheOutcomeOfEachValue(t *testing.T) {
	evictions := func(y *hostileCluster) string { return fmt.Sprint(y.actions["evict"]) }
	resizes := func(y *hostileCluster) string { return fmt.Sprint(y.actions["resize"], " resizes") }
	for row, c := range map[string]struct {
		situation string
		mode      cluster.Mode
		world     func(*hostileCluster)
		minutes   int
		outcome   func(*hostileCluster) string // nil: the number of evictions
		want      rowtest.Outcomes
	}{
		"ineffective evictions": {
			situation: "no webhook sizes the replacements", mode: cluster.Recreate, minutes: 20, want: rowtest.Outcomes{Podfit: "1", Upstream: "20"},
		},
		"nodes for the replacement": {
			situation: "no node can hold the target of a resize that is infeasible", mode: cluster.InPlaceOrRecreate, minutes: 3,
			want: rowtest.Outcomes{Podfit: "0", Upstream: "1"},
			world: func(y *hostileCluster) {
				y.admits, y.autoscalers[0].Advice[0].Estimate = true, estimate(999_000, 50)
				y.pendingResizes(cluster.Resize{State: cluster.ResizeInfeasible})
			},
		},
		"eviction requirements for resizes": {
			situation: "a VPA allows evictions only for more CPU, and its pods can be resized to less", mode: cluster.InPlaceOrRecreate, minutes: 5,
			want: rowtest.Outcomes{Podfit: "3 resizes", Upstream: "0 resizes"},
			world: func(y *hostileCluster) {
				y.autoscalers[0].Advice[0].Estimate = estimate(50, 25)
				y.autoscalers[0].Requirements = []cluster.EvictionRequirement{{Resources: cluster.Set(0).With(cluster.CPU), Higher: true}}
			},
			outcome: resizes,
		},
		"eviction requirements for missing requests": {
			situation: "a VPA allows evictions only for more memory, and its pods have no CPU request and need less memory", mode: cluster.Recreate, minutes: 3,
			want: rowtest.Outcomes{Podfit: "0", Upstream: "3"},
			world: func(y *hostileCluster) {
				y.admits, y.autoscalers[0].Advice[0].Estimate = true, estimate(50, 25)
				y.autoscalers[0].Requirements = []cluster.EvictionRequirement{{Resources: cluster.Set(0).With(cluster.Memory), Higher: true}}
				y.change(func(p *cluster.Pod) { p.Containers[0].Requests = cluster.Resources{}.Set(cluster.Memory, 50<<20) })
			},
		},
		"full nodes": {
			situation: "a pod has no room, and another pod on the node requests more than its target", mode: cluster.InPlaceOrRecreate, minutes: 1,
			want: rowtest.Outcomes{Podfit: "2 resizes", Upstream: "1 resizes"},
			world: func(y *hostileCluster) {
				full := fullNode()
				y.pods, y.autoscalers, y.nodes = full.pods, full.autoscalers, full.nodes
			},
			outcome: resizes,
		},
		"budget of decreases": {
			situation: "all pods shrink in place", mode: cluster.InPlaceOrRecreate, minutes: 1, want: rowtest.Outcomes{Podfit: "3 resizes", Upstream: "1 resizes"},
			world:   func(y *hostileCluster) { y.autoscalers[0].Advice[0].Estimate = estimate(50, 25) },
			outcome: resizes,
		},
		"missing replacements": {
			situation: "an evicted pod has no replacement for long", mode: cluster.Recreate, minutes: 30, want: rowtest.Outcomes{Podfit: "1", Upstream: "5"},
			world: func(y *hostileCluster) {
				y.add(10)
				before := y.autoscalers[0].Advice[0].Target
				y.change(func(p *cluster.Pod) {
					if p.Name != y.pods[0].Name {
						p.Containers[0].Requests = before
					}
				})
				y.step = func(minute int) {
					if minute == 10 { // until then, one pod is outside of its bounds; now all are
						y.advise(estimate(2*before.CPU, 2*before.Memory>>20))
					}
				}
				y.evict = func(p *cluster.Pod) (error, bool) {
					y.pods = slices.DeleteFunc(y.pods, func(q *cluster.Pod) bool { return q.UID == p.UID })
					return nil, true
				}
			},
		},
		"refused actions": {
			situation: "each eviction is refused", mode: cluster.Recreate, minutes: 20, want: rowtest.Outcomes{Podfit: "few attempts", Upstream: "many attempts"},
			world: func(y *hostileCluster) { y.evict = func(*cluster.Pod) (error, bool) { return kube.ErrForbidden, true } },
			outcome: func(y *hostileCluster) string {
				if y.tried["evict"] >= 60 {
					return "many attempts"
				}
				return "few attempts"
			},
		},
		"temporary resize failures": {
			situation: "each resize fails because the server is busy", mode: cluster.InPlaceOrRecreate, minutes: 2, want: rowtest.Outcomes{Podfit: "0", Upstream: "2"},
			world: func(y *hostileCluster) {
				y.resize = func(*cluster.Pod, []policy.Fitted) (error, bool) { return kube.ErrBusy, true }
			},
		},
		"memory limit below usage": {
			situation: "resizes fail because the usage is above the new limit", mode: cluster.InPlaceOrRecreate, minutes: 10, want: rowtest.Outcomes{Podfit: "0", Upstream: "3"},
			world: func(y *hostileCluster) {
				y.admits, y.autoscalers[0].Advice[0].Estimate = true, estimate(100, 25)
				y.pendingResizes(cluster.Resize{State: cluster.ResizeError, Problem: cluster.MemoryInUse})
			},
		},
		"young autoscalers": {
			situation: "the VPA is young and the pods are within its bounds", mode: cluster.Recreate, minutes: 2, want: rowtest.Outcomes{Podfit: "0", Upstream: "2"},
			world: func(y *hostileCluster) {
				y.autoscalers[0].Created = time.Now()
				y.autoscalers[0].Advice[0].Lower = cluster.Amounts(10, 1<<20)
			},
		},
		"evictions at once": {
			situation: "many pods of a workload change", mode: cluster.Recreate, minutes: 1, want: rowtest.Outcomes{Podfit: "2", Upstream: "4"},
			world: func(y *hostileCluster) { y.add(8) },
		},
		"pods that are not ready": {
			situation: "no pod is ready", mode: cluster.Recreate, minutes: 1, want: rowtest.Outcomes{Podfit: "0", Upstream: "1"},
			world: func(y *hostileCluster) {
				y.change(func(p *cluster.Pod) { p.Ready, p.ReadySince, p.Started = false, time.Now(), time.Now() })
			},
		},
		"pods that a scale-down removes": {
			situation: "the watch shows six pods, and the controller wants three", mode: cluster.Recreate, minutes: 1, want: rowtest.Outcomes{Podfit: "1", Upstream: "4"},
			world: func(y *hostileCluster) { y.add(6); y.wanted = 3 },
		},
		"pending pods": {
			situation: "the pods have no node and would request less", mode: cluster.Recreate, minutes: 1, want: rowtest.Outcomes{Podfit: "2", Upstream: "0"},
			world: func(y *hostileCluster) {
				y.autoscalers[0].Advice[0].Estimate = estimate(50, 25)
				y.change(func(p *cluster.Pod) {
					p.Node, p.Phase, p.Ready, p.Started = "", cluster.Pending, false, time.Time{}
				})
			},
		},
		"unchanged size": {
			situation: "requests are below the bounds by a byte", mode: cluster.Recreate, minutes: 2, want: rowtest.Outcomes{Podfit: "0", Upstream: "2"},
			world: func(y *hostileCluster) {
				to := cluster.Amounts(100, 50<<20+1)
				y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Lower: to, Target: to, Upper: to}
			},
		},
		"evictions under a quota": {
			situation: "the quota is full", mode: cluster.Recreate, minutes: 1, want: rowtest.Outcomes{Podfit: "0", Upstream: "1"},
			world: func(y *hostileCluster) {
				y.quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Requests: cluster.Amounts(0, 0)}}}}
			},
		},
		"rejected replacements": {
			situation: "LimitRanges contradict each other", mode: cluster.Recreate, minutes: 1, want: rowtest.Outcomes{Podfit: "0", Upstream: "1"},
			world: func(y *hostileCluster) {
				y.limits.Container.Min, y.limits.Container.Max = cluster.Amounts(900, 900<<20), cluster.Amounts(500, 500<<20)
			},
		},
		"recommendations that keep changing": {
			situation: "the recommendation moves up and down each minute", mode: cluster.Recreate, minutes: 30, want: rowtest.Outcomes{Podfit: "6", Upstream: "30"},
			world: func(y *hostileCluster) { y.admits, y.step = true, y.oscillate },
		},
		"pods that must not be disrupted": {
			situation: "all pods but one have an annotation", mode: cluster.Recreate, minutes: 5, want: rowtest.Outcomes{Podfit: "1", Upstream: "5"},
			world: func(y *hostileCluster) {
				y.change(func(p *cluster.Pod) {
					if p.Name != y.pods[0].Name {
						p.Marks = &cluster.Marks{Protection: "karpenter.sh/do-not-disrupt: true"}
					}
				})
			},
		},
		"pause between pods": {
			situation: "the replacement in a StatefulSet became ready five seconds ago", mode: cluster.Recreate, minutes: 2, want: rowtest.Outcomes{Podfit: "1", Upstream: "2"},
			world: func(y *hostileCluster) {
				y.admits = true
				set := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "web"}
				y.autoscalers[0].Target = set
				y.change(func(p *cluster.Pod) { p.Controller, p.Top = set, set })
				y.step = func(int) {
					y.change(func(p *cluster.Pod) {
						if strings.HasPrefix(p.UID, "replacement-") {
							p.ReadySince = time.Now().Add(-5 * time.Second)
						}
					})
				}
			},
		},
	} {
		rowtest.Both(t, row, c.want, func(t *testing.T, args ...string) (got string) {
			synctest.Test(t, func(t *testing.T) {
				y := newHostileCluster(c.mode)
				y.config, y.admits = given(t, args...), false
				if c.world != nil {
					c.world(y)
				}
				reasons := y.during(t, time.Duration(c.minutes)*time.Minute)
				outcome := c.outcome
				if outcome == nil {
					outcome = evictions
				}
				got = outcome(y)
				t.Logf("%s: %s; tried %v, last reasons %q", c.situation, got, y.tried, reasons[max(0, len(reasons)-4):])
			})
			return got
		})
	}
}

// estimate returns an estimate whose bounds are its target, in millicores and MiB.
func estimate(cpu, memory int64) cluster.Estimate {
	to := cluster.Amounts(cpu, memory<<20)
	return cluster.Estimate{Lower: to, Target: to, Upper: to}
}

// advise changes the recommendation.
func (y *hostileCluster) advise(e cluster.Estimate) {
	a := *y.autoscalers[0]
	a.Advice = []cluster.Advice{{Container: "app", Estimate: e}}
	y.autoscalers = []*cluster.Autoscaler{&a}
}

// pendingResizes gives each pod that is resized a state in which the resize stays.
func (y *hostileCluster) pendingResizes(state cluster.Resize) {
	y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
		y.resizeLater(p, with, state)
		return nil, true
	}
}

// add adds pods until there are as many as the controller wants.
func (y *hostileCluster) add(wanted int) {
	for i := len(y.pods); i < wanted; i++ {
		q := *y.pods[0]
		q.Containers = slices.Clone(q.Containers)
		q.Name, q.UID = fmt.Sprint("more-", i), fmt.Sprint("more-", i)
		y.pods = append(y.pods, &q)
	}
	y.wanted = int32(wanted)
}

// Upstream's rules have no back-off, so early passes could evict a pod every second.
func TestCompatibility_rulesOfUpstream_passesAreNotEarly(t *testing.T) {
	for _, args := range [][]string{{"--updater-rules=upstream"}, {"--compatibility=upstream"}, {"--compatibility=upstream", "--early-passes"}} {
		if c := given(t, args...); c.passesEarly() {
			t.Errorf("%q: there are early passes", args)
		}
	}
	if c := given(t); !c.passesEarly() {
		t.Error("there are no early passes by default")
	}
}

// Something changes every five seconds that may start an early pass.
func TestCompatibility_changesBetweenPasses_passesAreThoseOfEachValue(t *testing.T) {
	const interval, duration = time.Minute, 4*time.Minute + 30*time.Second
	want := rowtest.Outcomes{Podfit: "more passes", Upstream: "one pass per interval"}
	rowtest.Both(t, "early passes", want, func(t *testing.T, args ...string) string {
		var passes []time.Time
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config = given(t, args...)
			s := &signals{fakeCluster: fake, early: make(chan struct{}, 1)}
			u := updaterOf(fake, fake)
			ctx, cancel := context.WithTimeout(t.Context(), duration)
			defer cancel()
			go process.Every(ctx, 5*time.Second, func(context.Context, time.Time) {
				select {
				case s.early <- struct{}{}:
				default:
				}
			})
			u.loop(ctx, s, func(ctx context.Context, now time.Time) {
				passes = append(passes, now)
				u.pass(ctx, now)
			})
		})
		if len(passes) != int(duration/interval)+1 {
			return want.Podfit
		}
		for i := 1; i < len(passes); i++ {
			if passes[i].Sub(passes[i-1]) != interval {
				return want.Podfit
			}
		}
		return want.Upstream
	})
}

// The updater reports the progress of updates in a condition of the VPA, and upstream's updater writes no condition.
func TestCompatibility_podsAreUpdated_conditionsAreThoseOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "[web BudgetSpent web BudgetSpent web InProgress web UpToDate], 3 evictions", Upstream: "[], 3 evictions"}
	rowtest.Both(t, "progress of updates", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config = given(t, args...)
			u := newTestUpdater(fake)
			to := &conditionLog{last: map[string]watcher.Condition{"": {Status: watcher.Removed}}}
			u.conditions.writer, u.conditions.summaries = to, summary.NewWriter(to, nil, fake.log)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go u.conditions.summaries.Run(ctx)
			for range 10 {
				u.pass(ctx, time.Now())
				time.Sleep(time.Minute)
			}
			got = fmt.Sprintf("%v, %d evictions", to.all, fake.count("evict "))
		})
		return got
	})
}

// The pod is the only one, fewer than --min-replicas.
func TestCompatibility_podIsOOMKilledAgainAndAgain_rescueIsThatOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "1 evictions, 1 ready", Upstream: "0 evictions, 0 ready"}
	rowtest.Both(t, "OOM rescue", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			y := newCrashCluster(t, cluster.Recreate, 1)
			y.config, y.desired = given(t, args...), 0
			y.during(time.Hour)
			got = fmt.Sprintf("%d evictions, %d ready", y.removed["evict"], y.ready())
		})
		return got
	})
}

// The API server refuses each resize. Evicted pods are not replaced, because the same refuses the larger replacement.
func TestCompatibility_resizesAreRefused_evictionsAreThoseOfEachValue(t *testing.T) {
	for row, c := range map[string]struct {
		answer func() (int, string)
		want   rowtest.Outcomes
	}{
		"resizes over quota":              {overQuota, rowtest.Outcomes{Podfit: "0", Upstream: "5"}},
		"refused resizes of several pods": {denied, rowtest.Outcomes{Podfit: "1", Upstream: "5"}},
	} {
		rowtest.Both(t, row, c.want, func(t *testing.T, args ...string) (got string) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(cluster.InPlaceOrRecreate, 10)
				server.config, server.barren = given(t, args...), true
				server.answer = func(verb string, _ *cluster.Pod) (int, string) {
					if verb == "resize" {
						return c.answer()
					}
					return 0, ""
				}
				server.work(t, 24*time.Hour)
				got = fmt.Sprint(server.count("evict "))
			})
			return got
		})
	}
}

// A HorizontalPodAutoscaler scales the pods by their CPU requests, which are too low. The watches and the clients are those of podfit.
func TestCompatibility_HPAOnTheRequest_evictionsAreThoseOfEachValue(t *testing.T) {
	rowtest.Both(t, "HPA on the same request", rowtest.Outcomes{Podfit: "0", Upstream: "2"}, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			f := newCountingAPI(t, 1)
			for i := range 2 {
				f.applyPod("web-000", fmt.Sprintf("web-000-%d", i), "100m", "256Mi")
			}
			f.Apply("/apis/autoscaling/v2/horizontalpodautoscalers", `{"metadata":{"namespace":"shop","name":"web","uid":"h"},"spec":{"maxReplicas":9,
				"scaleTargetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-000"},
				"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}`)
			f.update(t, 5*time.Minute, args...)
			got = fmt.Sprint(f.evicted)
		})
		return got
	})
}

// Other pods fill the node, and no node is added.
func TestCompatibility_replacementHasNoRoomNow_evictionsAreThoseOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "0 evictions, capacity is requested: true", Upstream: "1 evictions, capacity is requested: false"}
	rowtest.Both(t, "full cluster", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			y := newFullCluster()
			y.config, y.addsNodes = given(t, args...), false
			y.runFor(t, 20*time.Minute)
			got = fmt.Sprintf("%d evictions, capacity is requested: %t", len(y.evicted), len(y.created) > 0)
		})
		return got
	})
}

// A pod moves to make room for another one. It belongs to a Deployment.
func TestCompatibility_podMovesForRoom_moverIsThatOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "0 evictions, surge true", Upstream: "1 evictions, surge false"}
	rowtest.Both(t, "surges", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			y, full := newSurgeCluster(t, 2), nodeWithMovablePod("")
			y.pods, y.autoscalers, y.nodes = full.pods, full.autoscalers, full.nodes
			y.config = given(t, append(args, "--make-room=move", "--scheduler-resize-preemption=off")...)
			y.deployment.Workload = y.autoscalers[1].Target
			c := &y.pods[0].Containers[0]
			c.Applied = &cluster.Applied{Requests: c.Requests}
			c.Requests = y.autoscalers[0].Advice[0].Target
			y.pods[0].Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: time.Now().Add(-time.Minute)}
			y.start().pass(t.Context(), time.Now())
			got = fmt.Sprintf("%d evictions, surge %t", y.count("evict "), y.deployment.Surge != nil)
		})
		return got
	})
}

// A flag that is given explicitly has precedence over the switch.
func TestCompatibility_flagIsGiven_wins(t *testing.T) {
	c := given(t, "--compatibility=upstream", "--updater-rules=podfit", "--oom-rescue=delete")
	if c.budget().UpstreamRules || c.OOMRescue != rescueDelete || c.EarlyPasses || c.MakeRoom != "off" {
		t.Errorf("given flags are overwritten, or others are not set: %+v", c)
	}
}

// A VPA that names a recommender that podfit does not run gets no condition, also while the updater is paused. Its pods are updated.
func TestUpdater_autoscalerOfAnotherRecommender_getsNoWrite(t *testing.T) {
	for recommender, ours := range map[string]bool{"": true, "default": true, "cost": true, "large-batch": true, "vendor": false} {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q paused %v", recommender, paused), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := newFakeCluster(cluster.Recreate)
					fake.autoscalers[0].Recommender, fake.stale = recommender, paused
					u := newTestUpdater(fake)
					u.conditions.profileNames = func() ([]string, bool) { return []string{"large-batch"}, true }
					to := &conditionLog{}
					u.conditions.writer, u.conditions.summaries = to, summary.NewWriter(to, nil, fake.log)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go u.conditions.summaries.Run(ctx)
					for range 10 {
						u.pass(ctx, time.Now())
						time.Sleep(time.Minute)
					}
					if got := to.written() > 0; got != ours {
						t.Errorf("conditions were written: %v (%v), want %v", got, to.all, ours)
					}
					if evicted := fake.count("evict ") > 0; evicted == paused {
						t.Errorf("pods were evicted: %v", evicted)
					}
				})
			})
		}
	}
}

// The same for a rescue of its pods.
func TestUpdater_podOfAnotherRecommenderIsOOMKilled_getsNoWrite(t *testing.T) {
	for recommender, ours := range map[string]bool{"": true, "vendor": false} {
		synctest.Test(t, func(t *testing.T) {
			y := newCrashCluster(t, cluster.Recreate, 3)
			y.autoscalers[0].Recommender = recommender
			y.during(10 * time.Minute)
			if got := len(y.conditions) > 0; got != ours || y.removed["evict"]+y.removed["delete"] == 0 {
				t.Errorf("recommender %q: conditions %v; changed %v", recommender, y.conditions, y.removed)
			}
		})
	}
}

// In podfit run, the recommender of the process decides which VPAs are its own.
func TestUpdater_recommenderOfTheProcess_decidesWhichAreServed(t *testing.T) {
	fake := newFakeCluster(cluster.Recreate)
	u := newTestUpdater(fake)
	u.config.Recommends = func(a *cluster.Autoscaler) bool { return strings.HasPrefix(a.Recommender, "team-") }
	for name, want := range map[string]bool{"": false, "cost": false, "team-a": true} {
		if got := u.conditions.recommended()(&cluster.Autoscaler{Recommender: name}); got != want {
			t.Errorf("%q is served: %v, want %v", name, got, want)
		}
	}
}
