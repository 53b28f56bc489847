// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/rowtest"
)

var (
	leaderUses   = cluster.Amounts(93, 620<<20)
	followerUses = cluster.Amounts(30, 300<<20)
)

// etcd returns a bench with a StatefulSet of three pods, of which the first is the leader, and a VPA with the annotation podfit.dev/role-label: role.
func etcd(t *testing.T) *bench {
	b := newBench(t)
	b.config.Sizing.FloorMegabytes, b.config.Sizing.FloorMillicores = 10, 10
	w := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "etcd"}
	for i := range 3 {
		b.pods = append(b.pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "etcd-" + strconv.Itoa(i)}, UID: strconv.Itoa(i), Controller: w, Top: w,
			Phase: cluster.Running, Created: time.Now(), Containers: []cluster.Container{{Name: "etcd"}}})
	}
	b.lead(0)
	b.autoscale("etcd", w)
	b.change("etcd", func(a *cluster.Autoscaler) { a.Rules.RoleLabel, a.Mode = "role", cluster.InPlaceOrRecreate })
	return b
}

// lead makes a pod the leader.
func (b *bench) lead(leader int) {
	b.useOf = map[string]cluster.Resources{}
	pods := b.pods
	b.pods = nil
	for i, p := range pods {
		next := *p
		next.Marks = &cluster.Marks{Labels: "app=etcd,role=follower"}
		b.useOf[p.Name] = followerUses
		if i == leader {
			next.Marks = &cluster.Marks{Labels: "app=etcd,role=leader"}
			b.useOf[p.Name] = leaderUses
		}
		b.pods = append(b.pods, &next)
	}
}

// addFollowers makes 20 pods of the three, with one leader.
func (b *bench) addFollowers() {
	for i := 3; i < 20; i++ {
		p := *b.pods[1]
		p.Name, p.UID = "etcd-"+strconv.Itoa(i), strconv.Itoa(i)
		b.pods = append(b.pods, &p)
	}
	b.lead(0)
}

// sizeOf returns the target of a pod.
func (b *bench) sizeOf(pod int) cluster.Resources {
	for _, a := range b.autoscalers {
		if own := a.For(b.pods[pod]).AdviceFor("etcd"); own != nil {
			return own.Target
		}
	}
	return cluster.Resources{}
}

func enough(got, uses int64) bool {
	return float64(got) >= 1.1*float64(uses) && float64(got) <= 1.3*float64(uses)
}

func closeTo(got, want cluster.Resources) bool {
	return got.CPU > want.CPU*9/10 && got.CPU < want.CPU*11/10 && got.Memory > want.Memory*9/10 && got.Memory < want.Memory*11/10
}

func TestGroups_leaderAndFollowers_eachPodGetsItsSize(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		for _, followers := range []string{"", "own"} {
			t.Run(fmt.Sprintf("profile %q, followers %q", profile, followers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := etcd(t)
					b.change("etcd", func(a *cluster.Autoscaler) { a.Recommender, a.Rules.Followers = profile, followers })
					b.during(26*time.Hour, func(after time.Duration) {
						if after == 23*time.Hour && b.sizeOf(1) != b.sizeOf(0) {
							t.Errorf("a follower has a size of its own after 23 hours: %v", b.sizeOf(1))
						}
					})
					leader, follower := b.sizeOf(0), b.sizeOf(1)
					if b.advice("etcd", "etcd").Target != leader {
						t.Errorf("the status has %v, want the size of the leader, %v", b.advice("etcd", "etcd").Target, leader)
					}
					if leader.CPU < leaderUses.CPU || leader.Memory < leaderUses.Memory || follower.CPU < followerUses.CPU || follower.CPU > leader.CPU/2 ||
						profile == "" && (!enough(leader.CPU, leaderUses.CPU) || !enough(follower.CPU, followerUses.CPU)) {
						t.Errorf("leader %v, follower %v", leader, follower)
					}
					if own := follower.Memory < leaderUses.Memory; own != (followers == "own") || follower.Memory < followerUses.Memory {
						t.Errorf("memory of a follower: %v", follower)
					}
					// The leader changes. The sizes of the groups stay, so each pod has its size as soon as its label is seen.
					b.lead(2)
					if b.sizeOf(2) != leader || b.sizeOf(0) != follower {
						t.Errorf("after a change of the leader: %v, %v", b.sizeOf(2), b.sizeOf(0))
					}
					// Each process continues with what the last one has stored.
					for range 2 {
						b.during(30*time.Minute, func(after time.Duration) {
							if after == 2*time.Minute && (!closeTo(b.sizeOf(0), follower) || !closeTo(b.sizeOf(2), leader)) {
								t.Errorf("after a restart: %v, %v", b.sizeOf(2), b.sizeOf(0))
							}
						})
					}
				})
			})
		}
	}
}

// The percentile of all pods does not show the usage of one leader of 20 pods.
func TestGroups_oneLeaderOfTwenty_targetIsThatOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := etcd(t)
		b.addFollowers()
		b.during(26*time.Hour, func(after time.Duration) {
			if after == 20*time.Hour && b.sizeOf(0).CPU > leaderUses.CPU {
				t.Errorf("%v before the groups have sizes: the test shows nothing", b.sizeOf(0))
			}
		})
		if got := b.advice("etcd", "etcd").Target; got != b.sizeOf(0) || !enough(got.CPU, leaderUses.CPU) || got.Memory < leaderUses.Memory {
			t.Errorf("target %v", got)
		}
		if got := b.sizeOf(7); !enough(got.CPU, followerUses.CPU) {
			t.Errorf("follower %v", got)
		}
	})
}

func TestGroups_podsAreAlikeOrHaveNoRole_thereAreNone(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"alike": func(b *bench) {
			for pod := range b.useOf {
				b.useOf[pod] = cluster.Amounts(60, 300<<20)
			}
		},
		"no annotation": func(b *bench) { b.change("etcd", func(a *cluster.Autoscaler) { a.Rules.RoleLabel = "" }) },
		"other label":   func(b *bench) { b.change("etcd", func(a *cluster.Autoscaler) { a.Rules.RoleLabel = "none" }) },
		"flag":          func(b *bench) { b.config.Sizing.RoleHistory = 0 },
		"one role": func(b *bench) {
			for _, p := range b.pods {
				p.Marks.Labels = "role=x"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := etcd(t)
				change(b)
				b.run(26 * time.Hour)
				if got := b.advice("etcd", "etcd"); len(got.Groups) != 0 || got.Target.CPU == 0 {
					t.Errorf("%v", got)
				}
			})
		})
	}
}

// The Metrics API shows the usage of the time before the role moved for up to a minute.
func TestGroups_rolesMoveOften_lateUsageDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := etcd(t)
		leader := 0
		b.during(30*time.Hour, func(after time.Duration) {
			switch after % (20 * time.Minute) {
			case 10 * time.Minute:
				leader = (leader + 1) % 3
				before := b.useOf
				b.lead(leader)
				b.useOf = before
			case 11 * time.Minute:
				b.lead(leader)
			}
		})
		if got := b.sizeOf((leader + 1) % 3); !enough(got.CPU, followerUses.CPU) {
			t.Errorf("a follower has %v", got)
		}
		if got := b.sizeOf(leader); !enough(got.CPU, leaderUses.CPU) {
			t.Errorf("the leader has %v", got)
		}
	})
}

// Nothing of the groups is stored, or a container is new: their sizes stay until they are known again.
func TestGroups_sizeIsNotKnownAnyMore_thatOfTheStatusStays(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"nothing is stored": func(b *bench) { b.remembered = newBenchHistories() },
		"a new container": func(b *bench) {
			for _, p := range b.pods {
				p.Containers = append(p.Containers, cluster.Container{Name: "proxy"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := etcd(t)
				b.addFollowers()
				b.run(26 * time.Hour)
				leader, follower := b.sizeOf(0), b.sizeOf(1)
				change(b)
				b.during(2*time.Hour, func(after time.Duration) {
					if after > time.Minute && (!closeTo(b.sizeOf(0), leader) || !closeTo(b.sizeOf(1), follower)) {
						t.Fatalf("after %v: leader %v, follower %v; before %v, %v", after, b.sizeOf(0), b.sizeOf(1), leader, follower)
					}
				})
			})
		})
	}
}

// The role moves right after the OOM kill of the leader, which counts for the leader.
func TestGroups_leaderIsKilledAndRoleMoves_nextLeaderGetsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := etcd(t)
		b.change("etcd", func(a *cluster.Autoscaler) { a.Rules.Followers = "own" })
		b.run(26 * time.Hour)
		b.during(10*time.Minute, func(after time.Duration) {
			if after == 2*time.Minute {
				for _, p := range b.pods {
					p.Containers = append(p.Containers, cluster.Container{Name: "init", Role: cluster.Init, Exit: &cluster.Exit{Finished: time.Now().Add(-20 * time.Hour)}})
				}
				c := &b.pods[0].Containers[0]
				c.Requests = cluster.Amounts(100, 2<<30)
				c.Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-time.Hour), Finished: time.Now()}
				b.lead(1)
			}
		})
		if leader, follower := b.sizeOf(1), b.sizeOf(0); leader.Memory < 2<<30 || follower.Memory > 1<<30 {
			t.Errorf("leader %v, follower %v", leader, follower)
		}
	})
}

// A role that no pod has any more does not count after a day.
func TestGroups_roleVanishes_itsSizeDoesNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := etcd(t)
		b.run(26 * time.Hour)
		b.lead(-1)
		b.during(4*24*time.Hour, func(time.Duration) {})
		if got := b.advice("etcd", "etcd").Target; !enough(got.CPU, followerUses.CPU) {
			t.Errorf("target %v", got)
		}
	})
}

// In other modes, and beside features that depend on pods of one size, the recommendation is that of all pods.
func TestGroups_rolesHaveNoEffect_recommendationIsThatOfAllPods(t *testing.T) {
	for name, change := range map[string]func(a *cluster.Autoscaler){
		"Recreate": func(a *cluster.Autoscaler) { a.Mode = cluster.Recreate },
		"canaries": func(a *cluster.Autoscaler) { a.Canary.On = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				targets := map[string]cluster.Resources{}
				for _, label := range []string{"", "role"} {
					b := etcd(t)
					b.change("etcd", func(a *cluster.Autoscaler) {
						change(a)
						a.Rules.RoleLabel = label
					})
					b.run(26 * time.Hour)
					targets[label] = b.advice("etcd", "etcd").Target
				}
				if targets[""] != targets["role"] {
					t.Errorf("%v", targets)
				}
			})
		})
	}
}

func TestGroups_manyRoles_atMostEight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := etcd(t)
		for i := range 30 {
			p := *b.pods[0]
			p.Name, p.UID, p.Marks = "x-"+strconv.Itoa(i), "x"+strconv.Itoa(i), &cluster.Marks{Labels: "role=r" + strconv.Itoa(i)}
			b.pods = append(b.pods, &p)
		}
		r := b.run(time.Hour)
		if _, histories := r.groups.Store.Size(); histories != cluster.MaxGroups {
			t.Errorf("%d histories", histories)
		}
	})
}

func TestCompatibility_podsHaveRoles_sizesAreThoseOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "a follower has a size of its own: true", Upstream: "a follower has a size of its own: false"}
	rowtest.Both(t, "roles of pods", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			b := etcd(t)
			b.config = given(t, args...)
			b.run(26 * time.Hour)
			got = fmt.Sprintf("a follower has a size of its own: %t", b.sizeOf(1) != b.sizeOf(0))
		})
		return got
	})
}

// The pods of a DaemonSet have the size of their node, without an annotation. Memory is their own, too, because the node of a pod does not change.
func TestGroups_daemonSetOnTwoSizesOfNodes_eachPodHasTheSizeOfItsNode(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		t.Run("profile "+profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := etcd(t)
				w := b.pods[0].Top
				w.Kind = "DaemonSet"
				for i, p := range b.pods {
					p.Top, p.Controller, p.Node = w, w, "n"+strconv.Itoa(i)
				}
				b.change("etcd", func(a *cluster.Autoscaler) {
					a.Target, a.Mode, a.Recommender, a.Rules.RoleLabel = w, cluster.Off, profile, ""
					a.NodeSizes = map[string]string{"n0": "64cpu-256Gi", "n1": "4cpu-16Gi", "n2": "4cpu-16Gi"}
				})
				b.during(74*time.Hour, func(after time.Duration) {
					if own := b.sizeOf(1); after == 26*time.Hour && (own.CPU > leaderUses.CPU || own.Memory < leaderUses.Memory) {
						t.Errorf("on a small node after a day: %v, want only CPU to differ", own)
					}
				})
				large, small := b.sizeOf(0), b.sizeOf(1)
				if b.advice("etcd", "etcd").Target != large || large.CPU < leaderUses.CPU || large.Memory < leaderUses.Memory ||
					small.CPU < followerUses.CPU || small.CPU > large.CPU/2 || small.Memory < followerUses.Memory || small.Memory > leaderUses.Memory {
					t.Errorf("large node %v, small node %v", large, small)
				}
				// A restart continues with what is stored.
				b.during(30*time.Minute, func(after time.Duration) {
					if after == 2*time.Minute && !closeTo(b.sizeOf(1), small) {
						t.Errorf("after a restart: %v", b.sizeOf(1))
					}
				})
			})
		})
	}
}

// With podfit.dev/usage-level, pods need no label: three days show which of them use much, and a day more their sizes.
func TestGroups_usageDiffersWithoutLabel_eachPodGetsItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := etcd(t)
		b.change("etcd", func(a *cluster.Autoscaler) { a.Rules.RoleLabel = cluster.UsageLevel })
		b.during(4*24*time.Hour+13*time.Hour, func(after time.Duration) {
			if after == 3*24*time.Hour && b.sizeOf(1) != b.sizeOf(0) {
				t.Errorf("a follower has a size of its own after three days: %v", b.sizeOf(1))
			}
		})
		leader, follower := b.sizeOf(0), b.sizeOf(1)
		if !enough(leader.CPU, leaderUses.CPU) || !enough(follower.CPU, followerUses.CPU) || follower.Memory != leader.Memory {
			t.Errorf("leader %v, follower %v", leader, follower)
		}
		// After a restart the sizes stay. A new leader gets its size in the second pass.
		b.during(20*time.Minute, func(after time.Duration) {
			switch after {
			case 5 * time.Minute:
				if !closeTo(b.sizeOf(0), leader) || !closeTo(b.sizeOf(1), follower) {
					t.Errorf("after a restart: %v, %v", b.sizeOf(0), b.sizeOf(1))
				}
				b.lead(2)
			case 7 * time.Minute:
				if !closeTo(b.sizeOf(2), leader) || !closeTo(b.sizeOf(1), follower) {
					t.Errorf("two passes after the change of the leader: %v, %v", b.sizeOf(2), b.sizeOf(1))
				}
			}
		})
		if b.config.Sizing.RoleHistory = 0; true {
			b.run(10 * time.Minute)
		}
		if b.sizeOf(1) != b.sizeOf(0) {
			t.Errorf("without --role-history: %v, %v", b.sizeOf(0), b.sizeOf(1))
		}
	})
}
