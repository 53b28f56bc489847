// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

// cpuAdvice returns a recommendation with a range of ± 10 % and the floor of a tenth of that.
func cpuAdvice(container string, target int64) cluster.Advice {
	return cluster.Advice{
		Container: container, Uncapped: of(target, mi),
		Estimate: cluster.Estimate{Lower: of(target*9/10, mi), Target: of(target, mi), Upper: of(target*11/10, mi)},
	}
}

func quarterOf(millicores int64) cluster.NodeShare {
	return cluster.NodeShare{Millicores: millicores, Share: 0.25, Floor: 10}
}

func TestCap_nodeShare_containersAreLoweredInProportion(t *testing.T) {
	const app, proxy = 8000, 2000
	limit := func(low, high int64) []cluster.ContainerPolicy {
		p := cluster.ContainerPolicy{Container: "app"}
		if low > 0 {
			p.MinAllowed = cluster.Resources{}.Set(cluster.CPU, low)
		}
		if high > 0 {
			p.MaxAllowed = cluster.Resources{}.Set(cluster.CPU, high)
		}
		return []cluster.ContainerPolicy{p}
	}
	for name, tt := range map[string]struct {
		node       cluster.NodeShare
		a          cluster.Autoscaler
		global     int64
		app, proxy int64
	}{
		"no node is known":               {cluster.NodeShare{Share: 0.25}, cluster.Autoscaler{}, 0, app, proxy},
		"the node is large":              {quarterOf(40000), cluster.Autoscaler{}, 0, app, proxy},
		"half of what they need":         {quarterOf(20000), cluster.Autoscaler{}, 0, app / 2, proxy / 2},
		"not a whole number":             {quarterOf(4004), cluster.Autoscaler{}, 0, 800, 200},
		"one container has maxAllowed":   {quarterOf(16000), cluster.Autoscaler{Policies: limit(0, 2000)}, 0, 2000, 2000},
		"maxAllowed is still too much":   {quarterOf(8000), cluster.Autoscaler{Policies: limit(0, 2000)}, 0, 1000, 1000},
		"a global maximum":               {quarterOf(8000), cluster.Autoscaler{}, 2000, 1000, 1000},
		"one container keeps minAllowed": {quarterOf(8000), cluster.Autoscaler{Policies: limit(1900, 0)}, 0, 1900, 100},
		"minAllowed is above the share":  {quarterOf(8000), cluster.Autoscaler{Policies: limit(3000, 0)}, 0, 3000, 5},
		"minAllowed is above the need":   {quarterOf(44000), cluster.Autoscaler{Policies: limit(10000, 0)}, 0, 10000, 1000},
		"whole cores":                    {quarterOf(20000), cluster.Autoscaler{IntegerCPU: []string{"app"}}, 0, 4000, 1000},
		"whole cores are rounded down":   {quarterOf(18000), cluster.Autoscaler{IntegerCPU: []string{"app"}}, 0, 3000, 900},
		"one core remains":               {quarterOf(4040), cluster.Autoscaler{IntegerCPU: []string{"app"}}, 0, 1000, 10},
	} {
		global := cluster.Resources{}
		if tt.global > 0 {
			global = global.Set(cluster.CPU, tt.global)
		}
		got := Cap(&tt.a, []cluster.Advice{cpuAdvice("app", app), cpuAdvice("proxy", proxy)}, global, tt.node)
		if got[0].Target.CPU != tt.app || got[1].Target.CPU != tt.proxy {
			t.Errorf("%s: %dm and %dm, want %dm and %dm", name, got[0].Target.CPU, got[1].Target.CPU, tt.app, tt.proxy)
		}
		if got[0].Uncapped.CPU != app || got[1].Uncapped.CPU != proxy || got[0].Target.Memory != mi {
			t.Errorf("%s: the uncapped targets or memory changed: %+v", name, got)
		}
	}
}

// The range of a single container ends at the share, as its target does, and begins in proportion below it.
func TestCap_nodeShareOfOneContainer_rangeIsScaledWithIt(t *testing.T) {
	got := Cap(&cluster.Autoscaler{}, []cluster.Advice{cpuAdvice("app", 8000)}, cluster.Resources{}, quarterOf(8000))[0]
	if got.Lower.CPU != 1800 || got.Target.CPU != 2000 || got.Upper.CPU != 2000 {
		t.Errorf("got %+v", got)
	}
	near := Cap(&cluster.Autoscaler{}, []cluster.Advice{cpuAdvice("app", 1950)}, cluster.Resources{}, quarterOf(8000))[0]
	if near.Lower.CPU != 1755 || near.Target.CPU != 1950 || near.Upper.CPU != 2000 {
		t.Errorf("below the share: got %+v", near)
	}
}

func TestCapBounds_nodeShare_isTheShareOfThePod(t *testing.T) {
	_, bounds := CapBounds(&cluster.Autoscaler{}, []cluster.Advice{cpuAdvice("app", 8000)}, cluster.Resources{}, quarterOf(8000))
	if want := (Bound{Resource: cluster.CPU, Kind: NodeShare, Amount: 2000, Before: 8000, After: 2000}); bounds[0][0] != want {
		t.Errorf("got %+v, want %+v", bounds[0], want)
	}
}

func TestCPUWish_maximaAndFloor_areRespected(t *testing.T) {
	advice := []cluster.Advice{cpuAdvice("app", 8000), cpuAdvice("proxy", 2000)}
	a := &cluster.Autoscaler{Policies: []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cluster.Resources{}.Set(cluster.CPU, 1000)}}}
	for name, got := range map[string][2]int64{
		"no maximum":       {CPUWish(&cluster.Autoscaler{}, advice, cluster.Resources{}, quarterOf(8000)), 10000},
		"maxAllowed":       {CPUWish(a, advice, cluster.Resources{}, quarterOf(8000)), 3000},
		"global maximum":   {CPUWish(a, advice, of(500, mi), quarterOf(8000)), 1500},
		"only the floor":   {CPUWish(a, advice, cluster.Resources{}, cluster.NodeShare{Floor: 3000}), 0},
		"the largest sums": {CPUWish(&cluster.Autoscaler{}, []cluster.Advice{cpuAdvice("a", math.MaxInt64/20), cpuAdvice("b", math.MaxInt64/20)}, cluster.Resources{}, quarterOf(1)), math.MaxInt64 / 20 * 2},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %d, want %d", name, got[0], got[1])
		}
	}
}

// For any containers, policies and nodes: the sum is at most the share unless floors prevent it, each container is at least at its floor, the
// range is in order, nothing is raised, and containers above their floors keep their proportion.
func TestCap_nodeShareOfAnyContainers_sumIsAtMostTheShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a cluster.Autoscaler
		var raw []cluster.Advice
		floor := rapid.Int64Range(0, 2000).Draw(t, "floor")
		n := rapid.IntRange(1, 6).Draw(t, "containers")
		for i := range n {
			c := fmt.Sprint(i)
			target := max(rapid.OneOf(rapid.Int64Range(0, 20000), rapid.Int64Range(0, 1e14)).Draw(t, "target"), floor/int64(n))
			lower := rapid.Int64Range(min(floor/int64(n), target), target).Draw(t, "lower")
			upper := rapid.Int64Range(target, 2*target).Draw(t, "upper")
			raw = append(raw, cluster.Advice{Container: c, Uncapped: of(target, mi), Estimate: cluster.Estimate{Lower: of(lower, mi), Target: of(target, mi), Upper: of(upper, mi)}})
			if rapid.Bool().Draw(t, "minAllowed") {
				a.Policies = append(a.Policies, cluster.ContainerPolicy{Container: c, MinAllowed: of(rapid.Int64Range(0, 3000).Draw(t, "least"), 0)})
			}
		}
		node := cluster.NodeShare{Millicores: rapid.Int64Range(1, 100000).Draw(t, "node"), Share: rapid.Float64Range(0.05, 1).Draw(t, "share"), Floor: floor}
		checkShared(t, &a, raw, Cap(&a, raw, cluster.Resources{}, node), node)
	})
}

func checkShared(t *rapid.T, a *cluster.Autoscaler, raw, got []cluster.Advice, node cluster.NodeShare) {
	sum, floors, wanted := int64(0), int64(0), int64(0)
	low := func(i int) int64 {
		least := node.Floor / int64(len(raw))
		if p := a.Policy(raw[i].Container); p != nil {
			least = max(least, p.MinAllowed.CPU)
		}
		return least
	}
	for i := range got {
		g, r := &got[i], &raw[i]
		least := low(i)
		sum += g.Target.CPU
		floors += least
		wanted += max(r.Target.CPU, least)
		switch {
		case g.Lower.CPU > g.Target.CPU || g.Target.CPU > g.Upper.CPU:
			t.Fatalf("the range of %+v is not in order", g)
		case g.Target.CPU < least || g.Lower.CPU < min(node.Floor/int64(len(raw)), r.Lower.CPU):
			t.Fatalf("%+v is below its floor of %d", g, least)
		case g.Target.CPU > max(r.Target.CPU, least):
			t.Fatalf("%+v was raised from %+v", g, r)
		case g.Uncapped != r.Uncapped || g.Target.Memory != r.Target.Memory:
			t.Fatalf("%+v changed in more than its CPU from %+v", g, r)
		}
	}
	most := node.Most()
	if sum > max(most, floors) {
		t.Fatalf("the sum is %d, more than %d and the floors %d", sum, most, floors)
	}
	if floors <= most && wanted > most && sum < most-int64(len(got)) {
		t.Fatalf("the sum is %d, less than the share %d without need", sum, most)
	}
	for i := range got {
		for j := range got {
			if got[i].Target.CPU <= low(i) || got[j].Target.CPU <= low(j) || wanted <= most {
				continue
			}
			// Both have raw × factor, rounded down.
			x := float64(got[i].Target.CPU) / float64(raw[i].Target.CPU)
			y := float64(got[j].Target.CPU) / float64(raw[j].Target.CPU)
			if math.Abs(x-y) > 1/float64(raw[i].Target.CPU)+1/float64(raw[j].Target.CPU)+1e-9 {
				t.Fatalf("%d of %d and %d of %d are other proportions", got[i].Target.CPU, raw[i].Target.CPU, got[j].Target.CPU, raw[j].Target.CPU)
			}
		}
	}
}

func TestNodeShare_exampleOfTheDocs_isCorrect(t *testing.T) {
	node := cluster.NodeShare{Millicores: 64000, Share: 0.25, Floor: 10}
	raw := []cluster.Advice{cpuAdvice("app", 18000), cpuAdvice("proxy", 2000)}
	got := Cap(&cluster.Autoscaler{}, raw, cluster.Resources{}, node)
	if got[0].Target.CPU != 14400 || got[1].Target.CPU != 1600 {
		t.Errorf("got %+v, want 14.4 and 1.6 cores", got)
	}
	if wanted := CPUWish(&cluster.Autoscaler{}, got, cluster.Resources{}, node); wanted != 20000 || node.Replicas(4, wanted) != 5 {
		t.Errorf("wanted %dm, %d replicas, want 20 cores and 5", wanted, node.Replicas(4, wanted))
	}
}
