// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

var stepNow = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// stepping is an autoscaler with a limit, and pods that are old enough for the drift rule of the updater.
func stepping(limit cluster.MaxStep, requests ...cluster.Resources) (*cluster.Autoscaler, *Running) {
	a := &cluster.Autoscaler{Mode: cluster.Recreate, Created: stepNow.Add(-48 * time.Hour)}
	a.Rules.MaxStep = cluster.Setting[cluster.MaxStep]{Value: limit, Set: true}
	r := &Running{Now: stepNow}
	for _, q := range requests {
		r.Pods = append(r.Pods, &cluster.Pod{Phase: cluster.Running, Started: stepNow.Add(-24 * time.Hour), Containers: []cluster.Container{{Name: "app", Requests: q}}})
	}
	return a, r
}

func TestRunningStep_situation_targetIsWithinAStepOfThePods(t *testing.T) {
	half := cluster.MaxStep{Percent: 50}
	gi := int64(1 << 30)
	for name, tt := range map[string]struct {
		limit  cluster.MaxStep
		pods   []cluster.Resources
		change func(*cluster.Autoscaler, *Running)
		want   cluster.Resources // of a target of 4 cores and 4Gi
	}{
		"up by a percentage":              {half, []cluster.Resources{cluster.Amounts(1000, gi)}, nil, cluster.Amounts(1500, gi*3/2)},
		"down by a percentage":            {half, []cluster.Resources{cluster.Amounts(10000, 16*gi)}, nil, cluster.Amounts(5000, 8*gi)},
		"the smaller of several limits":   {cluster.MaxStep{Percent: 50, Amount: cluster.Amounts(100, 8*gi)}, []cluster.Resources{cluster.Amounts(1000, gi)}, nil, cluster.Amounts(1100, gi*3/2)},
		"one resource is limited":         {cluster.MaxStep{Amount: cluster.Resources{}.Set(cluster.CPU, 500)}, []cluster.Resources{cluster.Amounts(1000, gi)}, nil, cluster.Amounts(1500, 4*gi)},
		"from the least pod":              {half, []cluster.Resources{cluster.Amounts(1000, gi), cluster.Amounts(1400, gi)}, nil, cluster.Amounts(1500, gi*3/2)},
		"no amount is a step of all pods": {half, []cluster.Resources{cluster.Amounts(100, gi), cluster.Amounts(1000, 9*gi)}, nil, cluster.Amounts(1000, 4*gi)},
		"the target is close":             {half, []cluster.Resources{cluster.Amounts(3000, 5*gi)}, nil, cluster.Amounts(4000, 4*gi)},
		"no pods":                         {half, nil, nil, cluster.Amounts(4000, 4*gi)},
		"a pod without a CPU request":     {half, []cluster.Resources{cluster.Amounts(1000, gi), cluster.Resources{}.Set(cluster.Memory, gi)}, nil, cluster.Amounts(4000, gi*3/2)},
		"mode Off":                        {half, []cluster.Resources{cluster.Amounts(1000, gi)}, func(a *cluster.Autoscaler, _ *Running) { a.Mode = cluster.Off }, cluster.Amounts(4000, 4*gi)},
		"mode Initial":                    {half, []cluster.Resources{cluster.Amounts(1000, gi)}, func(a *cluster.Autoscaler, _ *Running) { a.Mode = cluster.Initial }, cluster.Amounts(4000, 4*gi)},
		"memory after an OOM kill": {half, []cluster.Resources{cluster.Amounts(1000, gi)}, func(_ *cluster.Autoscaler, r *Running) {
			r.Pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Finished: stepNow.Add(-time.Hour)}
		}, cluster.Amounts(1500, 4*gi)},
		"memory down after an OOM kill": {half, []cluster.Resources{cluster.Amounts(4000, 16*gi)}, func(_ *cluster.Autoscaler, r *Running) {
			r.Pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Finished: stepNow.Add(-time.Hour)}
		}, cluster.Amounts(4000, 8*gi)},
		"minAllowed wins": {half, []cluster.Resources{cluster.Amounts(1000, gi)}, func(a *cluster.Autoscaler, _ *Running) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MinAllowed: cluster.Amounts(2000, gi)}}
		}, cluster.Amounts(2000, gi*3/2)},
		"maxAllowed wins": {half, []cluster.Resources{cluster.Amounts(10000, 16*gi)}, func(a *cluster.Autoscaler, _ *Running) {
			a.Policies = []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cluster.Amounts(4500, 16*gi)}}
		}, cluster.Amounts(4500, 8*gi)},
		"whole cores":                    {cluster.MaxStep{Amount: cluster.Amounts(500, gi)}, []cluster.Resources{cluster.Amounts(2000, gi)}, func(a *cluster.Autoscaler, _ *Running) { a.IntegerCPU = []string{"app"} }, cluster.Amounts(4000, 2*gi)},
		"a pod that ends does not count": {half, []cluster.Resources{cluster.Amounts(100, gi), cluster.Amounts(1000, gi)}, func(_ *cluster.Autoscaler, r *Running) { r.Pods[0].Deleting = true }, cluster.Amounts(1500, gi*3/2)},
		"a step up that waits for room": {half, []cluster.Resources{cluster.Amounts(1500, gi*3/2)}, func(_ *cluster.Autoscaler, r *Running) {
			r.Pods[0].Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(1000, gi)}
		}, cluster.Amounts(1500, gi*3/2)},
		"a step down that is not done": {half, []cluster.Resources{cluster.Amounts(5000, 8*gi)}, func(_ *cluster.Autoscaler, r *Running) {
			r.Pods[0].Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(10000, 16*gi)}
		}, cluster.Amounts(5000, 8*gi)},

		"a startup boost does not count": {half, []cluster.Resources{cluster.Amounts(8000, gi)}, func(_ *cluster.Autoscaler, r *Running) {
			r.Pods[0].Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(1000, gi)}
		}, cluster.Amounts(1500, gi*3/2)},
		"another container of the pods":     {half, []cluster.Resources{cluster.Amounts(1000, gi)}, func(_ *cluster.Autoscaler, r *Running) { r.Pods[0].Containers[0].Name = "other" }, cluster.Amounts(4000, 4*gi)},
		"percentages above the largest int": {cluster.MaxStep{Percent: 1000}, []cluster.Resources{cluster.Amounts(math.MaxInt64, math.MaxInt64)}, nil, cluster.Amounts(4000, 4*gi)},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := stepping(tt.limit, tt.pods...)
			if tt.change != nil {
				tt.change(a, r)
			}
			target := cluster.Amounts(4000, 4*gi)
			advice := []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}, Uncapped: target}}
			bounds := make([][]Bound, 1)
			r.Step(a, cluster.Resources{}, advice, bounds)
			if got := advice[0].Target; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if advice[0].Uncapped != target {
				t.Errorf("uncapped target is %v", advice[0].Uncapped)
			}
			for _, b := range bounds[0] {
				if b.Kind != MaxStep || b.Before != target.Amount(b.Resource) || b.After != tt.want.Amount(b.Resource) {
					t.Errorf("bound %+v", b)
				}
			}
			for _, res := range cluster.All {
				if e := advice[0].Estimate; e.Lower.Amount(res) > e.Target.Amount(res) || e.Target.Amount(res) > e.Upper.Amount(res) {
					t.Errorf("%v: not ordered: %+v", res, e)
				}
			}
		})
	}
}

// A pod is changed if it is outside of the bounds, or old and different enough, as in core/need. Each pass changes one pod, in any order. Without
// the limit, the pods end where the updater leaves them; with it, they must end at least as close, however small a step is.
func TestRunningStep_anyPodsAndTarget_stepsEndWhereTheUpdaterChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) cluster.Resources {
			return cluster.Amounts(rapid.Int64Range(1, 20000).Draw(t, name+" CPU"), rapid.Int64Range(1, 64).Draw(t, name+" memory")<<28)
		}
		limit := cluster.MaxStep{Percent: rapid.Int64Range(1, 300).Draw(t, "percent")}
		if rapid.Bool().Draw(t, "absolute") {
			limit.Amount = cluster.Amounts(rapid.Int64Range(20, 4000).Draw(t, "CPU step"), rapid.Int64Range(1, 64).Draw(t, "memory step")<<26)
		}
		containers := rapid.IntRange(1, 2).Draw(t, "containers")
		var raw []cluster.Advice
		for i := range containers {
			target := amount("target")
			e := cluster.Estimate{Target: target}
			for _, res := range cluster.All {
				e.Lower = e.Lower.Set(res, target.Amount(res)*rapid.Int64Range(10, 100).Draw(t, "lower")/100)
				e.Upper = e.Upper.Set(res, target.Amount(res)*rapid.Int64Range(100, 400).Draw(t, "upper")/100)
			}
			raw = append(raw, cluster.Advice{Container: fmt.Sprint(i), Estimate: e, Uncapped: target})
		}
		a, r := stepping(limit)
		for range rapid.IntRange(1, 4).Draw(t, "pods") {
			p := &cluster.Pod{Phase: cluster.Running, Started: stepNow.Add(-24 * time.Hour)}
			for i := range containers {
				p.Containers = append(p.Containers, cluster.Container{Name: fmt.Sprint(i), Requests: amount("request")})
			}
			r.Pods = append(r.Pods, p)
		}
		for pass := 0; ; pass++ {
			if pass > 100_000 {
				t.Fatalf("the steps do not end: limit %+v, raw %+v", limit, raw)
			}
			advice := append([]cluster.Advice(nil), raw...)
			r.Step(a, cluster.Resources{}, advice, nil)
			for i := range advice {
				if e := advice[i].Estimate; e != ordered(e) {
					t.Fatalf("not ordered: %+v", e)
				}
			}
			i := firstToChange(r.Pods, advice)
			if i < 0 {
				break
			}
			for j := range advice {
				r.Pods[i].Containers[j].Requests = advice[j].Target
			}
		}
		if i := firstToChange(r.Pods, raw); i >= 0 {
			t.Fatalf("pod %d stays at %v, but would be changed without the limit %+v, raw %+v", i, r.Pods[i].Containers, limit, raw)
		}
	})
}

// firstToChange returns the index of the first pod that the updater would change, or -1.
func firstToChange(pods []*cluster.Pod, advice []cluster.Advice) int {
	for n, p := range pods {
		outside, same, diff := false, true, 0.0
		for _, res := range cluster.All {
			var from, to int64
			for i := range advice {
				v, e := p.Containers[i].Requests.Amount(res), advice[i].Estimate
				outside = outside || v < e.Lower.Amount(res) || v > e.Upper.Amount(res)
				same = same && v == e.Target.Amount(res)
				from, to = from+v, to+e.Target.Amount(res)
			}
			diff += math.Abs(float64(from-to)) / float64(from)
		}
		if !same && (outside || diff >= 0.1) {
			return n
		}
	}
	return -1
}

func TestCap_memoryPerCPU_isKeptByRaisingInProportion(t *testing.T) {
	gi := int64(1 << 30)
	for name, tt := range map[string]struct {
		ratio  cluster.MemoryPerCPU
		change func(*cluster.Autoscaler, []cluster.Advice)
		want   [2]cluster.Resources // of 1 core and 1Gi, and of 3 cores and 3Gi
	}{
		"within":           {cluster.MemoryPerCPU{Least: gi, Most: gi}, nil, [2]cluster.Resources{cluster.Amounts(1000, gi), cluster.Amounts(3000, 3*gi)}},
		"memory is raised": {cluster.MemoryPerCPU{Least: 2 * gi, Most: 8 * gi}, nil, [2]cluster.Resources{cluster.Amounts(1000, 2*gi), cluster.Amounts(3000, 6*gi)}},
		"CPU is raised":    {cluster.MemoryPerCPU{Most: gi / 2}, nil, [2]cluster.Resources{cluster.Amounts(2000, gi), cluster.Amounts(6000, 3*gi)}},
		"maxAllowed wins": {cluster.MemoryPerCPU{Least: 2 * gi}, func(a *cluster.Autoscaler, _ []cluster.Advice) {
			a.Policies = []cluster.ContainerPolicy{{Container: "b", MaxAllowed: cluster.Amounts(9000, 4*gi)}}
		}, [2]cluster.Resources{cluster.Amounts(1000, 2*gi), cluster.Amounts(3000, 4*gi)}},
		"minAllowed counts": {cluster.MemoryPerCPU{Least: 2 * gi}, func(a *cluster.Autoscaler, _ []cluster.Advice) {
			a.Policies = []cluster.ContainerPolicy{{Container: "b", MinAllowed: cluster.Amounts(1, 7*gi)}}
		}, [2]cluster.Resources{cluster.Amounts(1000, gi), cluster.Amounts(3000, 7*gi)}},
		"one resource is controlled": {cluster.MemoryPerCPU{Least: 2 * gi}, func(_ *cluster.Autoscaler, advice []cluster.Advice) {
			advice[1].Target = advice[1].Target.Only(cluster.Of(cluster.CPU))
		}, [2]cluster.Resources{cluster.Amounts(1000, 2*gi), cluster.Resources{}.Set(cluster.CPU, 3000)}},
		"whole cores": {cluster.MemoryPerCPU{Most: gi * 2 / 3}, func(a *cluster.Autoscaler, _ []cluster.Advice) {
			a.IntegerCPU = []string{"a"}
		}, [2]cluster.Resources{cluster.Amounts(1000, gi), cluster.Amounts(4501, 3*gi)}},
		"no memory": {cluster.MemoryPerCPU{Least: gi}, func(_ *cluster.Autoscaler, advice []cluster.Advice) {
			advice[0].Target = cluster.Amounts(0, 0)
			advice[1].Target = cluster.Amounts(3000, 0)
		}, [2]cluster.Resources{cluster.Amounts(0, 0), cluster.Amounts(3000, 0)}},
		"the largest amounts": {cluster.MemoryPerCPU{Least: 1e14}, func(_ *cluster.Autoscaler, advice []cluster.Advice) {
			advice[1].Target = cluster.Amounts(math.MaxInt64, math.MaxInt64)
		}, [2]cluster.Resources{cluster.Amounts(1000, gi), cluster.Amounts(math.MaxInt64, math.MaxInt64)}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &cluster.Autoscaler{}
			a.Rules.MemoryPerCPU = cluster.Setting[cluster.MemoryPerCPU]{Value: tt.ratio, Set: true}
			var advice []cluster.Advice
			for i, c := range []string{"a", "b"} {
				target := cluster.Amounts([]int64{1000, 3000}[i], []int64{gi, 3 * gi}[i])
				advice = append(advice, cluster.Advice{Container: c, Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}, Uncapped: target})
			}
			if tt.change != nil {
				tt.change(a, advice)
			}
			got, bounds := CapBounds(a, advice, cluster.Resources{}, cluster.NodeShare{})
			for i := range got {
				if got[i].Target != tt.want[i] || got[i].Uncapped != advice[i].Uncapped || got[i].Estimate != ordered(got[i].Estimate) {
					t.Errorf("container %d: %+v, want %v", i, got[i], tt.want[i])
				}
			}
			if !slices.ContainsFunc(slices.Concat(bounds...), func(b Bound) bool { return b.Kind == MemoryPerCPU }) {
				t.Errorf("the setting is no bound: %+v", bounds)
			}
		})
	}
}

// Without a bound, the sums keep the range but for the rounding up of each container, and nothing is lowered.
func TestCap_memoryPerCPUOfAnyAmounts_sumsKeepTheRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratio := cluster.MemoryPerCPU{Least: rapid.Int64Range(0, 16).Draw(t, "least") << 28}
		ratio.Most = ratio.Least + rapid.Int64Range(1, 16).Draw(t, "most")<<28
		a := &cluster.Autoscaler{}
		a.Rules.MemoryPerCPU.Value = ratio
		var raw []cluster.Advice
		for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
			v := cluster.Amounts(rapid.Int64Range(1, 20000).Draw(t, "CPU"), rapid.Int64Range(1, 1<<38).Draw(t, "memory"))
			raw = append(raw, cluster.Advice{Container: fmt.Sprint(i), Estimate: cluster.Estimate{Lower: v, Target: v, Upper: v}})
		}
		var cpu, memory int64
		for i, c := range Cap(a, raw, cluster.Resources{}, cluster.NodeShare{}) {
			cpu += c.Target.CPU
			memory += c.Target.Memory
			if c.Target.CPU < raw[i].Target.CPU || c.Target.Memory < raw[i].Target.Memory || c.Estimate != ordered(c.Estimate) {
				t.Fatalf("%+v became %+v", raw[i], c)
			}
		}
		least := float64(cpu-int64(len(raw))) / 1000 * float64(ratio.Least)
		most := float64(cpu) / 1000 * float64(ratio.Most)
		if float64(memory) < least-1 || float64(memory) > most+float64(len(raw)) {
			t.Fatalf("%d millicores and %d bytes, want %.0f to %.0f", cpu, memory, least, most)
		}
	})
}

// A pass over many pods looks at each of them, and allocates nothing for one.
func TestRunningStep_manyPods_allocatesNothingForAPod(t *testing.T) {
	allocations := func(pods int) float64 {
		a, r := stepping(cluster.MaxStep{Percent: 50}, slices.Repeat([]cluster.Resources{cluster.Amounts(1000, 1<<30)}, pods)...)
		target := cluster.Amounts(4000, 4<<30)
		advice := []cluster.Advice{{Container: "app"}}
		return testing.AllocsPerRun(10, func() {
			advice[0].Estimate = cluster.Estimate{Lower: target, Target: target, Upper: target}
			r.Step(a, cluster.Resources{}, advice, nil)
		})
	}
	if few, many := allocations(1), allocations(10_000); few != many {
		t.Errorf("%v allocations for 1 pod, %v for 10,000", few, many)
	}
}

func TestCap_memoryPerCPUAboveTheShareOfANode_cpuIsRaisedToTheShare(t *testing.T) {
	a := &cluster.Autoscaler{}
	a.Rules.MemoryPerCPU.Value.Most = 1 << 30
	target := cluster.Amounts(1000, 4<<30)
	raw := []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}}}
	share := cluster.NodeShare{Millicores: 4000, Share: 0.5}
	if got := Cap(a, raw, cluster.Resources{}, share)[0].Target; got != cluster.Amounts(2000, 4<<30) {
		t.Errorf("got %v, want half of a node of 4 cores", got)
	}
}

// The updater changes no pod within its bounds whose recommendation, or which itself, is younger than 12 hours, or that differs little. A limit does not either.
func TestRunningStep_podsWithinTheirBounds_boundMovesOnlyIfTheyWouldChange(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*cluster.Autoscaler, *cluster.Pod)
		moves  bool
	}{
		"old":         {func(*cluster.Autoscaler, *cluster.Pod) {}, true},
		"VPA young":   {func(a *cluster.Autoscaler, _ *cluster.Pod) { a.Created = stepNow.Add(-time.Hour) }, false},
		"pod young":   {func(_ *cluster.Autoscaler, p *cluster.Pod) { p.Started = stepNow.Add(-time.Hour) }, false},
		"not started": {func(_ *cluster.Autoscaler, p *cluster.Pod) { p.Started = time.Time{} }, false},
		"min-change": {func(a *cluster.Autoscaler, _ *cluster.Pod) {
			a.Rules.MinChange = cluster.Setting[float64]{Value: 5, Set: true}
		}, false},
	} {
		a, r := stepping(cluster.MaxStep{Percent: 5}, cluster.Amounts(1000, 1<<30))
		tt.change(a, r.Pods[0])
		lower := cluster.Amounts(500, 1<<29)
		advice := []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: lower, Target: cluster.Amounts(2000, 2<<30), Upper: cluster.Amounts(9000, 9<<30)}}}
		r.Step(a, cluster.Resources{}, advice, nil)
		if e := advice[0].Estimate; e.Target.CPU != 1050 || (e.Lower != lower) != tt.moves || tt.moves && e.Lower != e.Target {
			t.Errorf("%s: %+v, want a moved bound: %t", name, e, tt.moves)
		}
	}
}
