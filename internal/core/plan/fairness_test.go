// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// addLarge adds a workload of two pods on node n1 whose replacements need 3 cores.
func (s *script) addLarge(t *testing.T, key string) {
	t.Helper()
	s.run(t, "pods "+key+" 2 app cpu=2 memory=1Gi", "pod "+key+"-0 node=n1", "pod "+key+"-1 node=n1",
		"autoscale "+key+" mode=Recreate", "advise "+key+" app cpu=3 memory=1Gi lower cpu=2500m")
}

// created returns the pods for which a pass asks for capacity.
func created(p *Pass) (pods []string) {
	for _, step := range p.CapacitySteps() {
		if step.Request == nil {
			pods = append(pods, step.Pod.Key.String())
		}
	}
	return pods
}

// A tenant knows the UIDs of its pods, and so the names of their placeholder pods.
func TestPlan_tenantCreatesTheRequestsOfItsPods_othersAskForCapacity(t *testing.T) {
	s := fullScene(t)
	s.run(t, "pods aaa/w 40 app cpu=100m memory=1Gi", "autoscale aaa/w mode=Recreate", "advise aaa/w app cpu=100m memory=1Gi")
	for _, p := range slices.Clone(s.pods) {
		if p.Namespace == "aaa" {
			s.pods = append(s.pods, &cluster.Pod{Key: cluster.PlaceholderOf(p), UID: "fake-" + p.UID, Phase: cluster.Pending, Placeholder: true, Created: s.now})
		}
	}
	if got := created(Begin(s.now, s.world(), s.budget)); !slices.Equal(got, []string{"shop/web-0"}) {
		t.Errorf("capacity is asked for for %q, want shop/web-0", got)
	}
}

// The stored state of a namespace may be changed by its users.
func TestPlan_storedStateHasManyRequestsOfANamespace_othersAskForCapacity(t *testing.T) {
	s := fullScene(t)
	for i := range 40 {
		s.run(t, fmt.Sprintf("pods aaa/w%d 1 app cpu=100m memory=1Gi", i))
		p := s.pods[len(s.pods)-1]
		s.ledger.Restore(s.now, []ledger.State{{Workload: p.Top, Capacity: &headroom.State{UID: p.UID, Pod: p.Name, Requested: s.now}}})
	}
	if got := created(Begin(s.now, s.world(), s.budget)); !slices.Equal(got, []string{"shop/web-0"}) {
		t.Errorf("capacity is asked for for %q, want shop/web-0", got)
	}
}

// The teams aaa, aab and aac use all requests for capacity, and none is provided. A turn is the time until a request has failed.
func TestPlan_manyWorkloadsGetNoCapacity_firstRequestOfAnotherTeamWaitsForOneTurn(t *testing.T) {
	for _, teams := range [][]string{{"aaa"}, {"aaa", "aab", "aac"}} {
		s := newScript()
		s.run(t, "provider placeholders", "node n1 cpu=4 memory=8Gi")
		for _, team := range teams {
			for i := range 50 {
				s.addLarge(t, fmt.Sprintf("%s/w%02d", team, i))
			}
		}
		s.run(t, "try")
		s.run(t, "after 30m", "try", "after 1m", "try")
		s.addLarge(t, "shop/web")
		since := s.now
		for !strings.Contains(s.run(t, "try"), "reserve shop/") {
			if s.run(t, "after 1m"); s.now.Sub(since) > 11*time.Minute {
				t.Fatalf("teams %v: no request for shop after %s", teams, s.now.Sub(since))
			}
		}
	}
}

// In a namespace, workloads for which capacity was never asked come first, also after a restart.
func TestPlan_requestsOfANamespaceFail_workloadsTakeTurns(t *testing.T) {
	s := newScript()
	s.run(t, "provider placeholders", "node n1 cpu=4 memory=8Gi")
	for i := range 20 {
		s.addLarge(t, fmt.Sprintf("aaa/w%02d", i))
	}
	asked := map[string]bool{}
	for turn := range 4 {
		for line := range strings.Lines(s.run(t, "try", "after 10m", "try", "after 1s")) {
			if pod, ok := strings.CutPrefix(line, "reserve aaa/placeholder-"); ok {
				asked[pod[:3]] = true
			}
		}
		if want := min(20, 5*(turn+1)); len(asked) < want {
			t.Errorf("turn %d: capacity was asked for for %d workloads, want %d", turn, len(asked), want)
		}
		s.ledger = restored(s.now, s.ledger, s.budget)
	}
}

// 101 workloads wait on a full node, each with a second pod that gets the budget of the first. shop/web has room for its second pod.
func TestPlan_manyWaitingWorkloads_podWithRoomGetsTheBudget(t *testing.T) {
	s := newScript()
	s.run(t, "provider placeholders", "node n1 cpu=4 memory=8Gi", "node n2 cpu=3 memory=8Gi")
	for i := range 101 {
		s.addLarge(t, fmt.Sprintf("aaa/w%03d", i))
	}
	s.addLarge(t, "shop/web")
	s.run(t, "pod shop/web-1 node=n2")
	if got := evictions(Begin(s.now, s.world(), s.budget)); len(got) != 1 || got[0].Pod.Name != "web-1" {
		t.Errorf("evictions %v, want that of shop/web-1", got)
	}
}

// A quota admits one more replacement. The pod that comes first has no room on any node, so a pod that has gets the quota: one of the same workload,
// or one of the same namespace.
func TestPlan_podWithoutRoomHasReservedTheQuota_podWithRoomIsEvicted(t *testing.T) {
	for name, commands := range map[string]struct {
		first []string
		want  string
	}{
		"of the same workload":  {[]string{"shop/web"}, "web-1"},
		"of the same namespace": {[]string{"shop/cart", "shop/web"}, "web-1"},
	} {
		s := newScript()
		s.run(t, "provider placeholders", "node n1 cpu=4 memory=8Gi", "node n2 cpu=3 memory=8Gi")
		for _, key := range append([]string{"other/full"}, commands.first...) {
			s.addLarge(t, key)
		}
		s.run(t, "pod shop/web-1 node=n2")
		w := s.world()
		left := cluster.PodResources{Requests: cluster.Amounts(3500, 0).Only(cluster.Of(cluster.CPU))}
		w.Limits = map[string]policy.Limits{"shop": {Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "team", Left: left}}}}}
		pass := Begin(s.now, w, s.budget)
		if got := evictions(pass); len(got) != 1 || got[0].Pod.Name != commands.want {
			t.Errorf("%s: evictions %v, want that of %s", name, got, commands.want)
		}
	}
}

// drawManyWorkloads draws 450 workloads of nine namespaces, of which many compete for the same room, budgets and requests for capacity.
func drawManyWorkloads(r *rand.Rand) World {
	w := World{Scales: map[cluster.Workload]cluster.Scale{}, Ledger: ledger.New(), Provider: headroom.PlaceholderPods | headroom.ProvisioningRequests}
	for n := range 40 {
		w.Nodes = append(w.Nodes, cluster.Node{Name: fmt.Sprint("n", n), Ready: true, Cordoned: n%13 == 0, Allocatable: cluster.Amounts(30_000+1000*int64(r.IntN(8)), 200<<30)})
	}
	var as []*cluster.Autoscaler
	for i := range 450 {
		top := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: string(rune('a' + i%9)), Name: fmt.Sprint("w", i/9)}
		has, target := int64(500+100*r.IntN(4)), int64(500+100*r.IntN(12))
		as = append(as, &cluster.Autoscaler{
			Key: cluster.Key{Namespace: top.Namespace, Name: top.Name}, Target: top, Mode: []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate}[r.IntN(2)],
			Created: noon.Add(-48 * time.Hour), Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
				Lower: cluster.Amounts(target*9/10, 1<<30), Target: cluster.Amounts(target, 1<<30), Upper: cluster.Amounts(target*11/10, 1<<30),
			}}},
		})
		replicas := 2 + r.IntN(4)
		w.Scales[top] = cluster.Scale{Known: true, Replicas: int32(replicas)}
		for j := range replicas {
			w.Pods = append(w.Pods, &cluster.Pod{
				Key: cluster.Key{Namespace: top.Namespace, Name: fmt.Sprintf("%s-%d", top.Name, j)}, UID: fmt.Sprint("uid", r.Uint64()), Controller: top, Top: top,
				Node: fmt.Sprint("n", r.IntN(40)), Phase: cluster.Running, Ready: true, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), QoS: cluster.Burstable,
				Tied: r.IntN(8) == 0, Priority: int32(r.IntN(2)), Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(has, 1<<30)}},
			})
		}
	}
	w.Governed = cluster.Gather(as, w.Pods, true)
	return w
}

// renamed returns a world in which the namespaces have other names, in another order.
func renamed(w World) World {
	name := func(namespace string) string { return string('z' - rune(namespace[0]-'a')) }
	out := w
	out.Pods, out.Scales = nil, map[cluster.Workload]cluster.Scale{}
	of := func(x cluster.Workload) cluster.Workload { x.Namespace = name(x.Namespace); return x }
	for x, scale := range w.Scales {
		out.Scales[of(x)] = scale
	}
	for _, p := range w.Pods {
		q := *p
		q.Namespace, q.Top, q.Controller = name(p.Namespace), of(p.Top), of(p.Controller)
		out.Pods = append(out.Pods, &q)
	}
	var as []*cluster.Autoscaler
	for _, g := range w.Governed {
		a := *g.Autoscaler
		a.Namespace, a.Target = name(a.Namespace), of(a.Target)
		as = append(as, &a)
	}
	out.Governed = cluster.Gather(as, out.Pods, true)
	return out
}

// planned returns what a pass does about each pod, by UID, and for which pods it asks for capacity.
func planned(w World, b Budget) map[string]string {
	out := map[string]string{}
	p := Begin(noon, w, b)
	for _, d := range p.Decisions() {
		out[d.Pod.UID] = fmt.Sprint(d.Do, " ", d.Reason.Code, " ", d.Reason.Until)
	}
	for _, step := range p.CapacitySteps() {
		out[step.Pod.UID] += " asks"
	}
	return out
}

// Neither the order of the input nor the names of namespaces decide who gets room, budget and capacity.
func TestPlan_450WorkloadsShuffledAndNamespacesRenamed_samePlan(t *testing.T) {
	counts := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		if rapid.IntRange(0, 9).Draw(t, "one of ten") > 0 {
			return // a world is large
		}
		seed := rapid.Uint64().Draw(t, "seed")
		w := drawManyWorkloads(rand.New(rand.NewPCG(3, seed)))
		b := DefaultBudget()
		b.MakeRoom = rapid.SampledFrom([]room.Allowed{room.Off, room.Split, room.Move}).Draw(t, "make room")
		want := planned(w, b)
		other := renamed(w)
		shuffle(rand.New(rand.NewPCG(4, seed)), &w)
		shuffle(rand.New(rand.NewPCG(5, seed)), &other)
		for name, x := range map[string]World{"shuffled": w, "with renamed namespaces": other} {
			if diff := gocmp.Diff(want, planned(x, b)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", name, diff)
			}
		}
		for _, what := range want {
			counts[strings.Fields(what)[0]+" "+strings.Fields(what)[1]]++
			if strings.HasSuffix(what, "asks") {
				counts["asks"]++
			}
		}
	})
	for _, what := range []string{"asks", "evict BelowRange", "leave AwaitingCapacity", "leave BudgetSpent", "resize BelowRange"} {
		if counts[what] == 0 {
			t.Errorf("no pod has %q: the test shows nothing; there are %v", what, slices.Sorted(maps.Keys(counts)))
		}
	}
}

// A pod that shrinks is evicted only if its replacement has room: on its own node, which the scheduler may see as full or not use, or on another.
func TestPlan_podShrinksAndReplacementHasNoRoom_isNotEvicted(t *testing.T) {
	const shrinking = `provider placeholders
node n1 cpu=4 memory=8Gi
pods shop/web 2 app cpu=2 memory=1Gi
pod shop/web-0 node=n1
pods shop/other 1 app cpu=2 memory=1Gi
pod shop/other-0 node=n1
autoscale shop/web mode=Recreate
advise shop/web app cpu=1 memory=1Gi upper cpu=1500m`
	for name, c := range map[string]struct {
		more  string
		evict bool
	}{
		"room on its node":        {"", true},
		"a resize waits there":    {"pod shop/other-0 asks=cpu=3500m,memory=1Gi runs=cpu=2,memory=1Gi resize=deferred/1m", false},
		"its node is cordoned":    {"node n1 cpu=4 memory=8Gi cordoned", false},
		"another node has room":   {"node n1 cpu=4 memory=8Gi cordoned\nnode n2 cpu=1 memory=1Gi", true},
		"the other one is full":   {"node n1 cpu=4 memory=8Gi cordoned\nnode n2 cpu=900m memory=1Gi", false},
		"capacity is not checked": {"node n1 cpu=4 memory=8Gi cordoned\nprovider off", true},
	} {
		t.Run(name, func(t *testing.T) {
			commands := shrinking
			if strings.HasPrefix(c.more, "node n1") { // instead of the first one
				commands = strings.Replace(shrinking, "node n1 cpu=4 memory=8Gi\n", "", 1)
			}
			s := play(t, strings.TrimSpace(commands+"\n"+c.more))
			p := Begin(s.now, s.world(), s.budget)
			d := entriesByName(p)["web-0"]
			if (d.Do == decision.Evict) != c.evict || !c.evict && d.Reason.Code != decision.NoFreeRoom {
				t.Errorf("%s %s", d.Do, d.Reason)
			}
			if len(p.CapacitySteps()) > 0 {
				t.Errorf("capacity is asked for for a pod that shrinks: %+v", p.CapacitySteps())
			}
		})
	}
}

// A resize of the same pass takes the room that an eviction would need, whether or not room is made for resizes.
func TestPlan_resizeOfThePassTakesTheRoom_evictionWaits(t *testing.T) {
	for _, makeRoom := range []string{"off", "shrink", "split", "move"} {
		for name, c := range map[string]struct {
			free string
			want decision.ReasonCode
		}{"room for one": {"5", decision.AwaitingCapacity}, "room for both": {"6", decision.BelowRange}} {
			s := play(t, `budget make-room=`+makeRoom+`
provider placeholders
node n1 cpu=`+c.free+` memory=8Gi
pods shop/a 2 app cpu=2 memory=1Gi
pods shop/b 2 app cpu=2 memory=1Gi
pod shop/a-0 node=n1
pod shop/b-0 node=n1
autoscale shop/a mode=InPlaceOrRecreate
advise shop/a app cpu=3 memory=1Gi lower cpu=2500m
autoscale shop/b mode=Recreate
advise shop/b app cpu=3 memory=1Gi lower cpu=2500m`)
			got := entriesByName(Begin(s.now, s.world(), s.budget))
			if got["a-0"].Do != decision.Resize || got["b-0"].Reason.Code != c.want {
				t.Errorf("make-room %s, %s: %s %s, %s %s", makeRoom, name, got["a-0"].Do, got["a-0"].Reason, got["b-0"].Do, got["b-0"].Reason)
			}
		}
	}
}

// Two placeholder pods have got node n2. Both replacements need a little more than they have now, and the node has that for one of them.
func TestPlan_twoProvidedRequestsOnOneNode_freeRoomCountsOnce(t *testing.T) {
	for free, want := range map[string]int{"6250m": 1, "6400m": 2} {
		s := newScript()
		s.run(t, "provider placeholders", "node n1 cpu=4 memory=8Gi")
		s.addLarge(t, "shop/a")
		s.addLarge(t, "shop/b")
		s.run(t, "try", "node n2 cpu="+free+" memory=8Gi")
		for _, p := range s.pods {
			if p.Placeholder {
				p.Node = "n2"
			}
		}
		s.run(t, "advise shop/a app cpu=3200m memory=1Gi lower cpu=2500m", "advise shop/b app cpu=3200m memory=1Gi lower cpu=2500m", "after 1m")
		if got := evictions(Begin(s.now, s.world(), s.budget)); len(got) != want {
			t.Errorf("%d evictions with %s, want %d", len(got), free, want)
		}
	}
}

// The node of a placeholder pod was cordoned since.
func TestPlan_nodeOfRequestIsCordoned_podIsNotEvicted(t *testing.T) {
	s := fullScene(t)
	s.run(t, "try", "node n2 cpu=4 memory=8Gi cordoned")
	for _, p := range s.pods {
		if p.Placeholder {
			p.Node = "n2"
		}
	}
	if got := evictions(Begin(s.now, s.world(), s.budget)); len(got) != 0 {
		t.Errorf("evictions %v, want none", got)
	}
}

// Whether another node takes the replacement of such a pod is not known, so only its own node and a request for capacity count.
func TestPlan_podWithConstraintsThatAreNotEvaluated_onlyOwnNodeOrRequestCounts(t *testing.T) {
	for name, constrain := range map[string]func(*script, *cluster.Pod){
		"anti-affinity, spread, volumes, devices or host ports": func(_ *script, p *cluster.Pod) { p.Tied = true },
		"an affinity that is not listed":                        func(_ *script, p *cluster.Pod) { p.Place = cluster.Somewhere },
		"a selector that is newer than the list":                func(_ *script, p *cluster.Pod) { p.Place = cluster.Selected + 7 },
		"tolerations that are not listed, of a tainted node": func(s *script, p *cluster.Pod) {
			p.Tolerance = cluster.Unlisted
			for i := range s.nodes {
				s.nodes[i].Taints = []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for where, c := range map[string]struct {
				commands []string
				want     decision.Act
			}{
				"another node":  {[]string{"node n2 cpu=9 memory=8Gi"}, decision.Leave},
				"the own node":  {[]string{"pod shop/web-1 node=n3", "node n3 cpu=3 memory=8Gi"}, decision.Evict},
				"a placeholder": {[]string{"try", "node n2 cpu=9 memory=8Gi", "scheduler", "after 1m"}, decision.Evict},
			} {
				s := fullScene(t)
				constrained := func() {
					for _, p := range s.pods {
						if !p.Placeholder {
							constrain(s, p)
						}
					}
				}
				constrained()
				s.run(t, c.commands...)
				if where == "a placeholder" {
					for _, p := range s.pods {
						if p.Placeholder {
							p.Node = "n2"
						}
					}
				}
				constrained()
				got := decision.Leave
				for _, d := range Plan(s.now, s.world(), s.budget) {
					if d.Do != decision.Leave {
						got = d.Do
					}
				}
				if got != c.want {
					t.Errorf("room on %s: %s, want %s", where, got, c.want)
				}
			}
		})
	}
}

// hardNode adds a full node with many small pods whose moves are hard to search, and pods that need room there.
func (s *script) hardNode(t *testing.T, node int, namespace string, needing int) {
	t.Helper()
	name, small := fmt.Sprintf("full%02d", node), 0
	for i := range 20 {
		key := fmt.Sprintf("%s/m%02d-%02d", namespace, node, i)
		cpu, memory := 100+i%7, 90+i%11
		small += cpu
		s.run(t, fmt.Sprintf("pods %s 2 app cpu=%dm memory=%dMi", key, cpu, memory), fmt.Sprintf("pod %s-0 node=%s starts=%ds", key, name, 1+i%13),
			"autoscale "+key+" mode=InPlaceOrRecreate", fmt.Sprintf("advise %s app cpu=%dm memory=%dMi", key, cpu, memory))
	}
	for i := range needing {
		key := fmt.Sprintf("%s/q%02d-%02d", namespace, node, i)
		s.run(t, "pods "+key+" 2 app cpu=100m memory=100Mi",
			fmt.Sprintf("pod %s-0 node=%s tied asks=cpu=1,memory=1Gi runs=cpu=100m,memory=100Mi resize=deferred/1m", key, name), fmt.Sprintf("pod %s-1 asks=cpu=1,memory=1Gi", key),
			"autoscale "+key+" mode=InPlaceOrRecreate", "advise "+key+" app cpu=1 memory=1Gi lower cpu=900m")
	}
	s.run(t, fmt.Sprintf("node %s cpu=%dm memory=8Gi", name, small+100*needing))
}

func TestPlan_manyFullNodes_searchOfAPassIsBoundedAndReachesAllInTurn(t *testing.T) {
	s := newScript()
	s.run(t, "budget make-room=move", "node spare cpu=90 memory=90Gi")
	const nodes = 16
	for n := range nodes {
		s.hardNode(t, n, "aaa", 1)
	}
	s.hardNode(t, 99, "shop", 1)
	searched := map[string]int{}
	for pass := range 4 {
		p := Begin(s.now, s.world(), s.budget)
		visits := 0
		for _, plan := range p.Rooms {
			visits += plan.Visits
			if plan.Visits > nodeVisits+1000 {
				t.Errorf("pass %d: %d sets on node %s", pass, plan.Visits, plan.Node)
			}
		}
		if most := passVisits + (nodesByTurn+1)*nodeVisits; visits > most {
			t.Errorf("pass %d looked at %d sets, want at most %d", pass, visits, most)
		}
		for _, pod := range p.searched {
			searched[pod.Name]++
		}
		if pass == 0 && (searched["q99-00-0"] == 0 || len(searched) == nodes+1) {
			t.Errorf("first pass: moves were searched for %v, want not all, but the only pod of shop", searched)
		}
		p.Learn()
		s.now = s.now.Add(time.Second)
	}
	if len(searched) != nodes+1 {
		t.Errorf("moves were searched for %d pods, want %d: %v", len(searched), nodes+1, searched)
	}
}

// An OOM-killed pod of another namespace leaves the free room to a pod with a higher priority, and takes it from one with the same.
func TestPlan_oomKilledPodOfOtherNamespace_takesRoomOnlyWithinItsPriority(t *testing.T) {
	for priority, first := range map[int]string{10: "a-0", 0: "b-0", -10: "b-0"} {
		s := play(t, fmt.Sprintf(`node n1 cpu=4 memory=3Gi
pods shop/a 2 app cpu=1 memory=1Gi
pods bank/b 2 app cpu=1 memory=1Gi
pod shop/a-0 node=n1 priority=%d
pod shop/a-1 asks=cpu=1,memory=2Gi
pod bank/b-0 node=n1 oom=5s/1m
pod bank/b-1 asks=cpu=1,memory=2Gi
autoscale shop/a mode=InPlaceOrRecreate
advise shop/a app cpu=1 memory=2Gi lower memory=1500Mi
autoscale bank/b mode=InPlaceOrRecreate
advise bank/b app cpu=1 memory=2Gi lower memory=1500Mi`, priority))
		got := entriesByName(Begin(s.now, s.world(), s.budget))
		for name, d := range map[string]*entry{"a-0": got["a-0"], "b-0": got["b-0"]} {
			if resizes := d.Do == decision.Resize; resizes != (name == first) || !resizes && d.Reason.Code != decision.RoomReserved {
				t.Errorf("priority %d: %s: %s %s", priority, name, d.Do, d.Reason)
			}
		}
	}
}
