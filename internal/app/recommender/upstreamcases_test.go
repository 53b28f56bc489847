// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// An upstreamCase is the situation of one of upstream's end-to-end cases about the recommender. A restart of the recommender is another one, and has a
// test of its own. With both values of --compatibility, the outcome of all of them is upstream's. test/contract has the list of all cases of upstream.
type upstreamCase struct {
	name  string
	flags []string
	world func(*bench)
	step  func(b *bench, after time.Duration) // what happens before each pass
	check func(*testing.T, *bench)
}

// idle returns a world with a Deployment of one pod with these containers and a VPA that the function changes.
func idle(change func(*cluster.Autoscaler), containers ...string) func(*bench) {
	return func(b *bench) {
		for _, c := range containers {
			b.use[c] = cluster.Amounts(20, 10<<20)
		}
		a := b.autoscale("web", b.deployment("web", 1, containers...))
		if change != nil {
			change(a)
		}
	}
}

// withPolicy gives the container app a policy.
func withPolicy(p cluster.ContainerPolicy) func(*cluster.Autoscaler) {
	p.Container = "app"
	return func(a *cluster.Autoscaler) { a.Policies = []cluster.ContainerPolicy{p} }
}

// recommends requires recommendations for exactly these containers, and no writes to other VPAs than shop/web.
func recommends(want ...string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		t.Helper()
		var got []string
		for _, a := range b.autoscalers {
			if a.Namespace != "shop" && (len(a.Advice) > 0 || b.written[a.Key] != nil) {
				t.Errorf("VPA %s has the recommendation %+v and the conditions %+v, want none", a.Key, a.Advice, b.written[a.Key])
			}
			for i := range a.Advice {
				got = append(got, a.Advice[i].Container)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("recommendations for %q, want %q", got, want)
		}
	}
}

// twoNamespaces is a world with the same workload in the namespaces shop and ignored. One of its two containers has the mode Off.
func twoNamespaces(b *bench) {
	idle(withPolicy(cluster.ContainerPolicy{Off: true}), "app", "second")(b)
	a, p := *b.autoscalers[0], *b.pods[0]
	a.Namespace, p.Namespace, p.UID = "ignored", "ignored", "ignored"
	a.Target.Namespace, p.Top.Namespace, p.Controller.Namespace = "ignored", "ignored", "ignored"
	b.autoscalers, b.pods = append(b.autoscalers, &a), append(b.pods, &p)
}

func upstreamCases() []upstreamCase {
	none := checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "none"}, Container: "app"}
	return []upstreamCase{
		{name: "checkpoint of a VPA that does not exist",
			world: func(b *bench) { b.stored[none] = usage.Checkpoint{Version: "v3"} },
			check: func(t *testing.T, b *bench) {
				if len(b.stored) > 0 {
					t.Errorf("%d checkpoints remain, want none", len(b.stored))
				}
			}},
		{name: "CronJob", world: cronJob, step: startJob, check: recommends("app")},
		{name: "Deployment", world: idle(nil, "app"), check: recommends("app")},
		{name: "minAllowed above the usage", world: idle(withPolicy(cluster.ContainerPolicy{MinAllowed: cluster.Resources{}.Set(cluster.CPU, 10_000_000)}), "app"),
			check: func(t *testing.T, b *bench) {
				if a := b.advice("web", "app"); a.Target.CPU < 10_000_000 || a.Uncapped.CPU >= 10_000_000 {
					t.Errorf("target %dm, uncapped %dm; want 10,000 cores, and less uncapped", a.Target.CPU, a.Uncapped.CPU)
				}
			}},
		{name: "maxAllowed below the usage", world: idle(withPolicy(cluster.ContainerPolicy{MaxAllowed: cluster.Resources{}.Set(cluster.CPU, 1)}), "app"),
			check: func(t *testing.T, b *bench) {
				if a := b.advice("web", "app"); a.Target.CPU > 1 || a.Uncapped.CPU <= 1 {
					t.Errorf("target %dm, uncapped %dm; want 1m, and more uncapped", a.Target.CPU, a.Uncapped.CPU)
				}
			}},
		{name: "two containers", world: idle(nil, "app", "second"), check: recommends("app", "second")},
		{name: "two containers, one with mode Off", world: idle(withPolicy(cluster.ContainerPolicy{Off: true}), "app", "second"), check: recommends("second")},
		{name: "OOM kill, oomBumpUpRatio 3", flags: []string{"--feature-gates=PerVPAConfig=true"},
			world: func(b *bench) {
				idle(withPolicy(cluster.ContainerPolicy{OOMBumpRatio: 3}), "app")(b)
				b.pods[0].Containers[0].Requests, b.pods[0].Containers[0].Limits = memory(1<<30), memory(1<<30)
			},
			step: func(b *bench, after time.Duration) {
				if after == 2*time.Minute {
					b.kill(b.pods...)
				}
			},
			check: func(t *testing.T, b *bench) {
				if to := b.advice("web", "app").Target.Memory; to < 3<<30 {
					t.Errorf("target %d bytes, want at least three times 1 GiB", to)
				}
			}},
		{name: "--pod-recommendation-min-memory-mb above the usage", flags: []string{"--pod-recommendation-min-memory-mb=500"}, world: idle(nil, "app"),
			check: func(t *testing.T, b *bench) {
				if to := b.advice("web", "app").Target.Memory; to < 500<<20 {
					t.Errorf("target %d bytes, want at least 500 MiB", to)
				}
			}},
		{name: "--vpa-object-namespace", flags: []string{"--vpa-object-namespace=shop"}, world: twoNamespaces, check: recommends("second")},
		{name: "--ignored-vpa-object-namespaces", flags: []string{"--ignored-vpa-object-namespaces=ignored"}, world: twoNamespaces, check: recommends("second")},
	}
}

// cronJob is a CronJob with a VPA. startJob starts a pod every five minutes, and ends the one before.
func cronJob(b *bench) {
	b.use["app"] = cluster.Amounts(20, 10<<20)
	b.autoscale("web", cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "web"})
}

func startJob(b *bench, after time.Duration) {
	if after%(5*time.Minute) != 0 {
		return
	}
	b.pods = nil
	b.deployment(fmt.Sprint("web-", after), 1, "app")
	b.pods[0].Top = b.autoscalers[0].Target
	b.pods[0].Controller.Group, b.pods[0].Controller.Kind = "batch", "Job"
}

func TestCompatibility_casesOfUpstream_haveTheirOutcomeWithBothValues(t *testing.T) {
	for _, c := range upstreamCases() {
		for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					b.config = given(t, append([]string{"--compatibility=" + string(mode)}, c.flags...)...)
					c.world(b)
					b.during(15*time.Minute, func(after time.Duration) {
						if c.step != nil {
							c.step(b, after)
						}
					})
					c.check(t, b)
				})
			})
		}
	}
}

// Within five minutes after a restart of the recommender, the recommendation is never missing, the lower bound does not decrease, the upper bound
// does not increase, and both change.
func TestCompatibility_recommenderRestarts_boundsDoNotWidenWithBothValues(t *testing.T) {
	for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.config = given(t, "--compatibility="+string(mode))
				b.use["app"] = cluster.Amounts(1000, 100<<20)
				b.autoscale("web", b.deployment("web", 1, "app"))
				b.run(10 * time.Minute)
				first := *b.advice("web", "app")
				before := first
				b.during(5*time.Minute, func(time.Duration) {
					now := *b.advice("web", "app")
					if now.Lower.CPU < before.Lower.CPU || now.Upper.CPU > before.Upper.CPU {
						t.Errorf("bounds %v to %v, before %v to %v", now.Lower, now.Upper, before.Lower, before.Upper)
					}
					before = now
				})
				if before.Lower.CPU == first.Lower.CPU || before.Upper.CPU == first.Upper.CPU {
					t.Errorf("bounds %v to %v are unchanged", before.Lower, before.Upper)
				}
			})
		})
	}
}
