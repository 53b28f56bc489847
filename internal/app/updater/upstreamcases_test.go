// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/rowtest"
)

// An upstreamCase is the situation of one of upstream's end-to-end cases about the updater and the actuation in which both values of --compatibility
// have the same outcome, in a simulated cluster of three pods with 100m and 50Mi. The cases in which the outcomes differ are a row of
// TestCompatibility_situations_haveTheOutcomeOfEachValue and two tests of their own. What the webhook does with new pods in the cases of the modes
// Off, Initial and InPlaceOrRecreate is in test/admission, and test/contract has the list of all cases of upstream.
type upstreamCase struct {
	name    string
	mode    cluster.Mode
	flags   string
	world   func(*hostileCluster)
	evicts  int // pods that are evicted in 20 minutes
	resizes int
	quiet   int // minutes in which no pod is evicted
}

// below makes the pods request more than the recommendation.
func below(y *hostileCluster) {
	y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(50, 25<<20), Target: cluster.Amounts(50, 25<<20), Upper: cluster.Amounts(50, 25<<20)}
}

// killed is a world with young pods that are within their bounds, and that were OOM-killed five seconds after their start.
func killed(bound time.Duration) func(*hostileCluster) {
	return func(y *hostileCluster) {
		y.autoscalers[0].EvictAfterOOM = bound
		y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(10, 25<<20), Target: cluster.Amounts(100, 100<<20), Upper: cluster.Amounts(1000, 150<<20)}
		y.change(func(p *cluster.Pod) {
			p.Created, p.Started = time.Now().Add(-10*time.Second), time.Now().Add(-10*time.Second)
			p.Containers[0].Restarts = 1
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 1, Started: time.Now().Add(-8 * time.Second), Finished: time.Now().Add(-3 * time.Second)}
		})
	}
}

// boosted is a world with pods that are ready and have twice their recommended CPU.
func boosted(y *hostileCluster) {
	y.autoscalers[0].Boost = &cluster.Boost{Factor: 2, Duration: time.Second}
	y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Target: small}
	y.change(func(p *cluster.Pod) {
		p.Containers[0].Requests, p.Containers[0].Boosted = cluster.Amounts(200, 50<<20), &cluster.Applied{Requests: small}
	})
	y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
		y.replace(p, func(q *cluster.Pod) {
			y.size(q, with)
			q.Containers[0].Boosted = nil // the annotation of the boost is removed
		})
		return nil, true
	}
}

// withinBounds is a world with new pods that are within their bounds.
func withinBounds(y *hostileCluster) {
	y.autoscalers[0].Created = time.Now()
	y.autoscalers[0].Advice[0].Lower = cluster.Amounts(50, 25<<20)
	y.change(func(p *cluster.Pod) { p.Created, p.Started = time.Now(), time.Now() })
}

// otherCases are the cases about features that need flags, and about several containers and changes.
func otherCases() []upstreamCase {
	return []upstreamCase{
		{name: "OOM kills later than evictAfterOOMSeconds", mode: cluster.Recreate, world: killed(time.Second)},
		{name: "OOM kills within evictAfterOOMSeconds", mode: cluster.Recreate, world: killed(10 * time.Minute), evicts: 3},
		{name: "boosted pods are ready", mode: cluster.Auto, world: boosted, resizes: 3},
		{name: "mode InPlace, the recommendation changes again", mode: cluster.InPlace, resizes: 6, world: func(y *hostileCluster) {
			y.step = func(minute int) {
				if minute == 10 {
					a := *y.autoscalers[0]
					to := cluster.Amounts(500, 300<<20)
					a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: to, Target: to, Upper: to}}}
					y.autoscalers = []*cluster.Autoscaler{&a}
				}
			}
		}},
		{name: "two containers grow in place", mode: cluster.InPlaceOrRecreate, resizes: 3, world: func(y *hostileCluster) {
			advice := &y.autoscalers[0].Advice
			*advice = append(*advice, cluster.Advice{Container: "second", Estimate: (*advice)[0].Estimate})
			y.change(func(p *cluster.Pod) {
				p.Containers = append(p.Containers, cluster.Container{Name: "second", Index: 1, Requests: small})
			})
			y.resize = func(_ *cluster.Pod, with []policy.Fitted) (error, bool) { return kube.ErrForbidden, len(with) != 2 }
		}},
		{name: "one pod of a Deployment with --min-replicas=1", mode: cluster.Recreate, flags: "--min-replicas=1", evicts: 1,
			world: func(y *hostileCluster) { y.pods = y.pods[:1] }},
		{name: "pods within their bounds for longer than the flag says", mode: cluster.Recreate, flags: "--in-recommendation-bounds-eviction-lifetime-threshold=1m",
			evicts: 3, world: withinBounds},
	}
}

func upstreamCases() []upstreamCase {
	out := append(otherCases(), []upstreamCase{
		{name: "the lease is valid, pods grow", mode: cluster.Recreate, evicts: 3},
		{name: "the lease is valid, pods shrink", mode: cluster.Recreate, world: below, evicts: 3},
		{name: "an eviction requirement prevents that pods shrink", mode: cluster.Recreate, world: func(y *hostileCluster) {
			below(y)
			y.autoscalers[0].Requirements = []cluster.EvictionRequirement{{Resources: cluster.Set(0).With(cluster.CPU), Higher: true}}
		}},
		{name: "the lease is not valid", mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) { y.stale = true }},
		{name: "pods grow in place", mode: cluster.InPlaceOrRecreate, resizes: 3},
		{name: "pods shrink in place", mode: cluster.InPlaceOrRecreate, world: below, resizes: 3},
		{name: "resizes are deferred for more than five minutes", mode: cluster.InPlaceOrRecreate, evicts: 3, resizes: 3, quiet: 5,
			world: func(y *hostileCluster) { y.pendingResizes(cluster.Resize{State: cluster.ResizeDeferred}) }},
		{name: "mode InPlace, pods grow", mode: cluster.InPlace, resizes: 3},
		{name: "mode InPlace, pods shrink", mode: cluster.InPlace, world: below, resizes: 3},
		{name: "mode Off", mode: cluster.Off},
		{name: "mode Initial", mode: cluster.Initial},
		{name: "a LimitRange holds containers at their maximum", mode: cluster.Recreate, world: func(y *hostileCluster) { y.limits.Container.Max = cluster.Amounts(1000, 1<<30) }},
		{name: "a LimitRange holds containers at their minimum", mode: cluster.Recreate, world: func(y *hostileCluster) {
			below(y)
			y.limits.Container.Min = cluster.Amounts(100, 50<<20)
		}},
		{name: "a LimitRange holds pods at their maximum", mode: cluster.Recreate, world: func(y *hostileCluster) { y.limits.Pod.Max = cluster.Amounts(1000, 1<<30) }},
		{name: "a LimitRange holds pods at their minimum", mode: cluster.Recreate, world: func(y *hostileCluster) {
			below(y)
			y.limits.Pod.Min = cluster.Amounts(100, 50<<20)
		}},
		{name: "a disruption budget refuses each eviction", mode: cluster.Recreate, world: func(y *hostileCluster) {
			y.evict = func(*cluster.Pod) (error, bool) { return kube.ErrBudget, true }
		}},
		{name: "a container was injected after the webhook", mode: cluster.Recreate, world: func(y *hostileCluster) {
			observed := "other"
			y.change(func(p *cluster.Pod) { p.Marks = &cluster.Marks{Observed: &observed} })
		}},
	}...)
	for _, kind := range []cluster.Workload{
		{Group: "apps", Kind: "Deployment"}, {Kind: "ReplicationController"}, {Group: "batch", Kind: "Job"}, {Group: "batch", Kind: "CronJob"},
		{Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "StatefulSet"},
	} {
		of := func(replicas int, least int32) func(*hostileCluster) {
			return func(y *hostileCluster) {
				top := y.pods[0].Top
				top.Group, top.Kind = kind.Group, kind.Kind
				y.pods = y.pods[:replicas]
				for _, p := range y.pods {
					p.Top = top
					if kind.Kind != "Deployment" && kind.Kind != "CronJob" {
						p.Controller = top
					}
				}
				y.autoscalers[0].Target, y.autoscalers[0].MinReplicas = top, least
			}
		}
		out = append(out,
			upstreamCase{name: "three pods of a " + kind.Kind, mode: cluster.Recreate, world: of(3, 0), evicts: 3},
			upstreamCase{name: "one pod of a " + kind.Kind, mode: cluster.Recreate, world: of(1, 0)},
			upstreamCase{name: "one pod of a " + kind.Kind + " with minReplicas 1", mode: cluster.Recreate, world: of(1, 1), evicts: 1})
	}
	return out
}

func TestCompatibility_casesOfUpstream_haveTheirOutcomeWithBothValues(t *testing.T) {
	for _, c := range upstreamCases() {
		for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := newHostileCluster(c.mode)
					flags := append(strings.Fields(c.flags), "--feature-gates=InPlace=true,PerVPAConfig=true,CPUStartupBoost=true")
					y.config = given(t, append([]string{"--compatibility=" + string(mode)}, flags...)...)
					if c.world != nil {
						c.world(y)
					}
					if c.quiet > 0 {
						y.evict = func(p *cluster.Pod) (error, bool) {
							if y.minute < c.quiet {
								t.Errorf("%s is evicted in minute %d, want none before minute %d", p.Name, y.minute, c.quiet)
							}
							return nil, false
						}
					}
					reasons := y.during(t, 20*time.Minute)
					if got, want := fmt.Sprint(y.actions["evict"], y.actions["resize"]), fmt.Sprint(c.evicts, c.resizes); got != want {
						t.Errorf("evictions and resizes %s, want %s; last reasons %q", got, want, reasons)
					}
				})
			})
		}
	}
}

// Ten pods: while a disruption budget refuses, none is evicted. When it allows seven, upstream evicts that many within three passes. podfit does not try
// refused evictions again that soon, which the table of deviations names.
func TestCompatibility_disruptionBudgetAllowsSeven_areEvictedWithinThreePasses(t *testing.T) {
	for mode, c := range map[compatibility.Mode]struct {
		least, most int    // evictions
		entry       string // the entry of the table of deviations that names the difference from upstream; "" if there is none
	}{
		compatibility.Upstream: {7, 10, ""},
		compatibility.Podfit:   {0, 6, "refused actions"},
	} {
		if c.entry != "" && !slices.ContainsFunc(rowtest.Table, func(d rowtest.Deviation) bool { return d.Name == c.entry }) {
			t.Errorf("%s: no entry %q in the table", mode, c.entry)
		}
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHostileCluster(cluster.Recreate)
				y.config = given(t, "--compatibility="+string(mode))
				for len(y.pods) < 10 {
					p := *y.pods[0]
					p.UID = fmt.Sprint(len(y.pods))
					p.Name = "web-" + p.UID
					y.pods = append(y.pods, &p)
				}
				y.evict = func(*cluster.Pod) (error, bool) { return kube.ErrBudget, y.minute < 10 }
				y.during(t, 13*time.Minute)
				if n := y.actions["evict"]; n < c.least || n > c.most {
					t.Errorf("%d pods were evicted in three passes, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// The target fits on no node, so the replacement of an evicted pod stays pending. Upstream then evicts no other pod. podfit evicts none, which the
// table of deviations names.
func TestCompatibility_targetFitsOnNoNode_atMostOnePodIsPending(t *testing.T) {
	for mode, c := range map[compatibility.Mode]struct {
		pending int
		entry   string // the entry of the table of deviations that names the difference from upstream; "" if there is none
	}{
		compatibility.Upstream: {1, ""},
		compatibility.Podfit:   {0, "nodes for the replacement"},
	} {
		if c.entry != "" && !slices.ContainsFunc(rowtest.Table, func(d rowtest.Deviation) bool { return d.Name == c.entry }) {
			t.Errorf("%s: no entry %q in the table", mode, c.entry)
		}
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newFullCluster()
				y.config, y.addsNodes = given(t, "--compatibility="+string(mode)), false
				y.autoscalers[0].Advice[0].Estimate = estimate(9_999_000, 50)
				for minute := range 15 {
					y.runFor(t, time.Minute)
					pending := 0
					for _, p := range y.pods {
						if p.Phase == cluster.Pending {
							pending++
						}
					}
					if pending != c.pending {
						t.Errorf("minute %d: %d pods are pending, want %d", minute, pending, c.pending)
					}
				}
			})
		})
	}
}
