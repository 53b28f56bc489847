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

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// as returns the configuration with a value of --compatibility and further flags.
func as(t *testing.T, mode compatibility.Mode, flags ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("updater", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse(append([]string{"--compatibility=" + string(mode)}, flags...)); err != nil {
		t.Fatal(err)
	}
	if err := c.Compatibility.Apply(fs); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// The situations of upstream's end-to-end cases in which the two behaviours differ, and others of the table of deviations. A pass runs each
// minute for a while. The webhook does not size replacements unless the situation says so.
func TestCompatibility_situations_haveTheOutcomeOfEachValue(t *testing.T) {
	type outcome struct{ podfit, upstream string } // of --compatibility
	huge := cluster.Estimate{Lower: cluster.Amounts(999000, 50<<20), Target: cluster.Amounts(999000, 50<<20), Upper: cluster.Amounts(999000, 50<<20)}
	for name, c := range map[string]struct {
		mode    cluster.Mode
		world   func(*hostileCluster)
		minutes int
		kind    string // of the actions that are counted
		want    outcome
		entry   string // the entry of the table of deviations that names the difference
	}{
		"no webhook sizes the replacements": {entry: "ineffective evictions", mode: cluster.Recreate, minutes: 20, kind: "evict", want: outcome{"1", "20"}},
		"no node can hold the target of a resize that is infeasible": {
			entry: "nodes for the replacement", mode: cluster.InPlaceOrRecreate, minutes: 3, kind: "evict", want: outcome{"0", "2"},
			world: func(y *hostileCluster) {
				y.autoscalers[0].Advice[0].Estimate = huge
				y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
					y.resizeLater(p, with, cluster.Resize{State: cluster.ResizeInfeasible})
					return nil, true
				}
			},
		},
		"a resize is deferred for more than five minutes": {
			entry: "full nodes", mode: cluster.InPlaceOrRecreate, minutes: 8, kind: "evict", want: outcome{"1", "2"},
			world: func(y *hostileCluster) {
				y.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(1000, 256<<30), Ready: true}}
				y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(200, 50<<20), Target: cluster.Amounts(1000, 50<<20), Upper: cluster.Amounts(1000, 50<<20)}
				y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
					y.resizeLater(p, with, cluster.Resize{State: cluster.ResizeDeferred})
					return nil, true
				}
			},
		},
		"the replacement fits on no node and stays pending": {
			entry: "full cluster", mode: cluster.Recreate, minutes: 20, kind: "evict", want: outcome{"0", "1"},
			world: func(y *hostileCluster) {
				y.autoscalers[0].Advice[0].Estimate = huge
				y.wanted = 3
				y.evict = func(p *cluster.Pod) (error, bool) {
					y.replace(p, func(q *cluster.Pod) {
						q.UID, q.Node, q.Phase, q.Ready, q.Created = "pending-"+q.UID, "", cluster.Pending, false, time.Now()
						q.Containers[0].Requests = huge.Target
					})
					return nil, true
				}
			},
		},
		"an evicted pod has no replacement for long": {
			entry: "missing replacements", mode: cluster.Recreate, minutes: 30, kind: "evict", want: outcome{"1", "5"},
			world: func(y *hostileCluster) {
				y.add(10)
				estimate := y.autoscalers[0].Advice[0].Estimate
				y.change(func(p *cluster.Pod) {
					if p.Name != y.pods[0].Name {
						p.Containers[0].Requests = estimate.Target
					}
				})
				y.step = func(minute int) {
					if minute == 10 { // until then, one pod is outside of its bounds; now all are
						a := *y.autoscalers[0]
						to := cluster.Amounts(2*estimate.Target.CPU, 2*estimate.Target.Memory)
						a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: to, Target: to, Upper: to}}}
						y.autoscalers = []*cluster.Autoscaler{&a}
					}
				}
				y.evict = func(p *cluster.Pod) (error, bool) {
					y.pods = slices.DeleteFunc(y.pods, func(q *cluster.Pod) bool { return q.UID == p.UID })
					return nil, true
				}
			},
		},
		"each eviction is refused": {
			entry: "refused actions", mode: cluster.Recreate, minutes: 20, kind: "evict tried", want: outcome{"few", "many"},
			world: func(y *hostileCluster) { y.evict = func(*cluster.Pod) (error, bool) { return kube.ErrForbidden, true } },
		},
		"each resize fails because the server is busy": {
			entry: "temporary resize failures", mode: cluster.InPlaceOrRecreate, minutes: 2, kind: "evict", want: outcome{"0", "2"},
			world: func(y *hostileCluster) {
				y.resize = func(*cluster.Pod, []policy.Fitted) (error, bool) { return kube.ErrBusy, true }
			},
		},
		"the VPA is young and the pods are within its bounds": {
			entry: "young autoscalers", mode: cluster.Recreate, minutes: 2, kind: "evict", want: outcome{"0", "2"},
			world: func(y *hostileCluster) {
				y.autoscalers[0].Created = time.Now()
				y.autoscalers[0].Advice[0].Lower = cluster.Amounts(10, 1<<20)
			},
		},
		"many pods of a workload change": {
			entry: "evictions at once", mode: cluster.Recreate, minutes: 1, kind: "evict", want: outcome{"2", "4"},
			world: func(y *hostileCluster) {
				y.add(8)
			},
		},
		"the pods are not ready": {
			entry: "pods that are not ready", mode: cluster.Recreate, minutes: 1, kind: "evict", want: outcome{"0", "1"},
			world: func(y *hostileCluster) {
				y.change(func(p *cluster.Pod) { p.Ready, p.ReadySince, p.Started = false, time.Now(), time.Now() })
			},
		},
	} {
		row := t.Name() + "/" + name
		if !slices.ContainsFunc(compatibility.Table, func(d compatibility.Deviation) bool { return d.Name == c.entry && d.Test == row }) {
			t.Errorf("%s: no entry %q of the table has this row as its test", name, c.entry)
		}
		if c.want.podfit == c.want.upstream {
			t.Errorf("%s: the outcome of both values is %s, so the row shows no difference", name, c.want.podfit)
		}
		for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := newHostileCluster(c.mode)
					y.config, y.admits = as(t, mode), false
					if c.world != nil {
						c.world(y)
					}
					reasons := y.during(t, time.Duration(c.minutes)*time.Minute)
					want, got := c.want.podfit, fmt.Sprint(y.actions["evict"])
					if mode == compatibility.Upstream {
						want = c.want.upstream
					}
					if c.kind == "evict tried" {
						got = "few"
						if y.tried["evict"] >= 3*c.minutes {
							got = "many"
						}
					}
					if got != want {
						t.Errorf("%s evictions, want %s; tried %v, last reasons %q", got, want, y.tried, reasons[max(0, len(reasons)-4):])
					}
				})
			})
		}
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

// One pass per interval: an OOM kill, a new recommendation or a deferred resize starts no early one.
func TestCompatibility_earlyPasses_onlyWithPodfit(t *testing.T) {
	for mode, want := range map[compatibility.Mode]bool{compatibility.Podfit: true, compatibility.Upstream: false} {
		c := as(t, mode)
		if got := c.passesEarly(); got != want {
			t.Errorf("%s: early passes %v, want %v", mode, got, want)
		}
	}
	c := as(t, compatibility.Podfit, "--updater-rules=upstream")
	if c.passesEarly() {
		t.Error("early passes without back-off could evict a pod every second")
	}
}

// Something changes every five seconds that may start an early pass.
func TestCompatibility_changesBetweenPasses_passesAreThoseOfEachValue(t *testing.T) {
	const interval, duration = time.Minute, 4*time.Minute + 30*time.Second
	for mode, want := range map[compatibility.Mode]string{compatibility.Podfit: "more", compatibility.Upstream: "one per interval"} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config = as(t, mode)
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
			var passes []time.Time
			u.loop(ctx, s, func(ctx context.Context, now time.Time) {
				passes = append(passes, now)
				u.pass(ctx, now)
			})
			got := "one per interval"
			if len(passes) != int(duration/interval)+1 {
				got = "more"
			}
			for i := 1; i < len(passes); i++ {
				if passes[i].Sub(passes[i-1]) != interval {
					got = "more"
				}
			}
			if got != want {
				t.Errorf("%s: %d passes in %v, want %s", mode, len(passes), duration, want)
			}
		})
	}
}

// The updater reports the progress of updates in a condition of the VPA. With the switch, it writes no condition, as upstream's updater.
func TestCompatibility_podsAreUpdated_conditionsAreThoseOfEachValue(t *testing.T) {
	for mode, want := range map[compatibility.Mode]string{compatibility.Podfit: "[web BudgetSpent web BudgetSpent web InProgress web UpToDate]", compatibility.Upstream: "[]"} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.Recreate)
			fake.config = as(t, mode)
			u := newTestUpdater(fake)
			to := &conditionLog{last: map[string]watcher.Condition{"": {Status: watcher.Removed}}}
			u.conditions, u.summaries = to, summary.NewWriter(to, fake.log)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go u.summaries.Run(ctx)
			for range 10 {
				u.pass(ctx, time.Now())
				time.Sleep(time.Minute)
			}
			if got := fmt.Sprint(to.all); got != want || fake.count("evict ") != 3 {
				t.Errorf("%s: conditions %s and %d evictions, want %s and 3", mode, got, fake.count("evict "), want)
			}
		})
	}
}

// With the switch, HorizontalPodAutoscalers are not watched, so a request by which one scales is changed, and only upstream's conditions are
// written. TestPlan_resourceScaledByHPA_leavesThePod shows what podfit does with those it watches.
func TestCompatibility_whatIsWatchedAndWritten_isThatOfEachValue(t *testing.T) {
	for mode, podfit := range map[compatibility.Mode]bool{compatibility.Podfit: true, compatibility.Upstream: false} {
		c := as(t, mode)
		if o := c.Watched(watcher.Options{}); o.HPAs != podfit || o.Plain == podfit || c.NodeFit.Options().Scale != podfit || c.UpdatingCondition != podfit {
			t.Errorf("%s: watches HPAs %v, only upstream's conditions %v, scales pods to nodes %v, condition Updating %v", mode, o.HPAs, o.Plain, c.NodeFit.Options().Scale, c.UpdatingCondition)
		}
	}
}

// A flag that is given explicitly has precedence over the switch.
func TestCompatibility_flagIsGiven_wins(t *testing.T) {
	c := as(t, compatibility.Upstream, "--updater-rules=podfit", "--oom-rescue=delete")
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
					fake.autoscalers[0].Warned = true // a condition of podfit's rollout would be due
					u := newTestUpdater(fake)
					u.profileNames = func() ([]string, bool) { return []string{"large-batch"}, true }
					to := &conditionLog{}
					u.conditions, u.summaries = to, summary.NewWriter(to, fake.log)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go u.summaries.Run(ctx)
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

// In podfit run, the recommender of the process decides which VPAs are its own.
func TestUpdater_recommenderOfTheProcess_decidesWhichAreServed(t *testing.T) {
	fake := newFakeCluster(cluster.Recreate)
	u := newTestUpdater(fake)
	u.config.Recommends = func(a *cluster.Autoscaler) bool { return strings.HasPrefix(a.Recommender, "team-") }
	for name, want := range map[string]bool{"": false, "cost": false, "team-a": true} {
		if got := u.recommended()(&cluster.Autoscaler{Recommender: name}); got != want {
			t.Errorf("%q is served: %v, want %v", name, got, want)
		}
	}
}
