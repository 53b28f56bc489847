// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

// The example in docs/algorithm.md.
func TestPacked_exampleOfTheDocs_isCorrect(t *testing.T) {
	for node, want := range map[float64]int64{16 << 30: 3000, 8 << 30: 3260} { // MiB
		p := &packed{adaptive: adaptive{Balanced()}, PackedParams: Packed(), nodes: fleet.NodeSizes{Memory: int64(node)}}
		state := p.Extend()
		end := noon.Add(14 * 24 * time.Hour)
		for at := noon; at.Before(end); at = at.Add(5 * time.Minute) {
			cores, bytes := 0.5, 2550.0*mib
			if at.Hour() == 3 && at.Day() == 3 { // on the second of 14 days
				cores, bytes = 2, 4000*mib
			}
			state.Observe(usage.Sample{At: at, CPU: cores, Memory: bytes}, cluster.Both)
		}
		for r, want := range map[cluster.Resource]int64{cluster.CPU: 500, cluster.Memory: want} {
			var steps derivation.Steps
			got := p.Amount(state, r, end, steps.Begin(cluster.Pick(r, 1000.0, 1)))
			if !steptest.LeadTo(got, steps) || p.Amount(state, r, end, nil) != got {
				t.Errorf("the steps do not lead to %d: %+v", got, steps)
			}
			if got /= cluster.Pick(r, int64(1), mib); got < want || got > want+want/200 {
				t.Errorf("nodes of %.0f GiB: %v is %d, want %d", node/(1<<30), r, got, want)
			}
		}
		if got := p.Amount(p.Extend(), cluster.CPU, end, nil) + p.Amount(nil, cluster.Memory, end, nil); got != 0 {
			t.Errorf("without usage the request is %d", got)
		}
	}
	example(t, "3000 MiB on nodes of 16 GiB", "3260 MiB")
}

// packs returns a history of days of usage for the profile packed, and the profile for nodes.
func packs(days int, nodes fleet.NodeSizes) (Profile, *usage.Store, time.Time) {
	profile, _ := Builtin("packed")
	store, w := usage.NewStore(usage.DefaultConfig()), cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	pod := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, Top: w, Containers: []cluster.Container{{Name: "web"}}}
	store.Configure(w, nil)
	store.Extend(w, profile.Extend)
	store.Track(pod)
	end := noon.Add(time.Duration(days) * 24 * time.Hour)
	for at := noon; at.Before(end); at = at.Add(5 * time.Minute) {
		cores, bytes := 0.5, 2000.0*mib
		if at.Hour() == 3 {
			cores, bytes = 2, 4000*mib
		}
		store.Observe(usage.Sample{Pod: pod.Key, Container: "web", At: at, CPU: cores, Memory: bytes, Has: cluster.Both})
	}
	return profile.For(criticality.Declared{}, nodes), store, end
}

// Each parameter has the effect that the formula says. Usage is 2 cores and 4000 MiB for an hour of each day, and else 0.5 cores and 2000 MiB; on the second of
// 14 days it was 5400 MiB.
func TestPacked_parameters_changeTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*PackedParams)
		cores, memory float64 // MiB
	}{
		"the default":        {func(*PackedParams) {}, 0.5, (2000 + 0.2*2000) / 0.85},
		"memory percentile":  {func(p *PackedParams) { p.Memory = 0.99 }, 0.5, 4000 / 0.85},
		"CPU percentile":     {func(p *PackedParams) { p.CPU = 0.99 }, 2, (2000 + 0.2*2000) / 0.85},
		"peak":               {func(p *PackedParams) { p.Peak = 0.5 }, 0.5, 3000 / 0.85},
		"reserve":            {func(p *PackedParams) { p.Reserve = 0.4 }, 0.5, (2000 + 0.2*2000) / 0.6},
		"days":               {func(p *PackedParams) { p.Days = 3; p.Memory = 1 }, 0.5, (5400 - 0.15*20480) / 0.85},
		"long days":          {func(p *PackedParams) { p.Peak = 0 }, 0.5, (5400 - 0.15*20480) / 0.85},
		"long days, a week":  {func(p *PackedParams) { p.LongDays = 7; p.Peak = 0 }, 0.5, 2000 / 0.85},
		"days and long days": {func(p *PackedParams) { p.Days, p.LongDays, p.Peak = 3, 7, 1 }, 0.5, 2000 / 0.85},
	} {
		params := Packed()
		c.change(&params)
		p := &packed{adaptive: adaptive{Balanced()}, PackedParams: params, nodes: fleet.NodeSizes{Memory: 20 << 30}}
		state := p.Extend()
		end := noon.Add(14 * 24 * time.Hour)
		for at := noon; at.Before(end); at = at.Add(5 * time.Minute) {
			cores, bytes := 0.5, 2000.0*mib
			switch day := int(at.Sub(noon).Hours()) / 24; {
			case day == 1 && at.Hour() == 13:
				bytes = 5400 * mib
			case day < 11 && at.Hour() == 13:
				cores, bytes = 2, 4000*mib
			}
			state.Observe(usage.Sample{At: at, CPU: cores, Memory: bytes}, cluster.Both)
		}
		for r, want := range map[cluster.Resource]float64{cluster.CPU: 1000 * c.cores, cluster.Memory: c.memory * mib} {
			if got := float64(p.Amount(state, r, end, nil)); got < want || got > 1.005*want {
				t.Errorf("%s: %v is %.0f, want %.0f", name, r, got, want)
			}
		}
	}
}

// Where packed cannot size a container, the request is exactly that of balanced.
func TestPacked_isNotPossible_requestIsThatOfBalanced(t *testing.T) {
	for name, c := range map[string]struct {
		days   int
		nodes  fleet.NodeSizes
		want   PackingProblem
		differ bool
	}{
		"nodes are not known":           {10, fleet.NodeSizes{}, NodesNotKnown, false},
		"only their CPU is known":       {10, fleet.NodeSizes{Allocatable: 4000}, NodesNotKnown, false},
		"two days of usage":             {2, fleet.NodeSizes{Memory: 64 << 30}, TooYoung, false},
		"more than half of a node":      {10, fleet.NodeSizes{Memory: 7 << 30}, LargerThanHalf, false},
		"possible":                      {10, fleet.NodeSizes{Memory: 64 << 30}, NoPackingProblem, true},
		"possible, with 20 copies each": {10, fleet.NodeSizes{Memory: 64 << 30, Copies: 20}, NoPackingProblem, true},
	} {
		p, store, now := packs(c.days, c.nodes)
		history := store.All(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"})[0]
		got := p.Estimate(history, cluster.Resources{}, now, nil)
		if problem := p.PackingProblem(history); problem != c.want {
			t.Errorf("%s: problem %q, want %q", name, problem, c.want)
		}
		balanced, _ := Builtin("balanced")
		next, err := usage.Extension(nil), error(nil)
		if data, e := history.Extension().AppendBinary(nil); e == nil {
			next = balanced.Extend()
			err = next.UnmarshalBinary(data)
		}
		if err != nil || next == nil || next.Form() != history.Extension().Form() {
			t.Fatalf("%s: balanced cannot read the model state of packed: %v", name, err)
		}
		for _, r := range cluster.All {
			want := balanced.Estimator.(byModelState).Amount(next, r, now, nil)
			if differs := got.Target.Amount(r) != want; differs != c.differ {
				t.Errorf("%s: %v is %d, balanced recommends %d", name, r, got.Target.Amount(r), want)
			}
		}
	}
}

// A request changes if the target rises by 10 % or falls by 20 %. Smaller changes of the target, which happen each hour, have no effect.
func TestPacked_bounds_areWiderThanThoseOfDecidedRequests(t *testing.T) {
	p, store, now := packs(10, fleet.NodeSizes{Memory: 64 << 30})
	e := p.Estimate(store.All(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"})[0], cluster.Resources{}, now, nil)
	for _, r := range cluster.All {
		target := float64(e.Target.Amount(r))
		if lower, upper := float64(e.Lower.Amount(r))/target, float64(e.Upper.Amount(r))/target; lower < 0.89 || lower > 0.9 || upper < 1.24 || upper > 1.25 {
			t.Errorf("%v: bounds %.3f and %.3f of the target, want 0.9 and 1.25", r, lower, upper)
		}
	}
}

// The reserve of a node is for one container. Pods of a workload that share a node share it, because they peak together.
func TestPacked_morePodsThanNodes_reserveIsShared(t *testing.T) {
	memory := func(copies int) int64 {
		p, store, now := packs(10, fleet.NodeSizes{Memory: 10000 * mib, Copies: copies})
		return p.Estimate(store.All(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"})[0], cluster.Resources{}, now, nil).Target.Memory / mib
	}
	for copies, want := range map[int]int64{0: 2941, 1: 2941, 2: 3824} { // (4000 − 1500) / 0.85, and (4000 − 750) / 0.85
		if got := memory(copies); got < want || got > want+want/200 {
			t.Errorf("%d pods on a node: %d MiB, want %d", copies, got, want)
		}
	}
}

// A CPU limit follows the request, so a request below the peaks would throttle the container.
func TestPacked_containerWithCPULimitOrCriticalPod_hasTheCPURequestOfBalanced(t *testing.T) {
	w, nodes := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}, fleet.NodeSizes{Memory: 64 << 30}
	p, store, now := packs(10, nodes)
	history := store.All(w)[0]
	balanced := (&adaptive{Balanced()}).Amount(history.Extension(), cluster.CPU, now, nil)
	for name, c := range map[string]struct {
		declared criticality.Declared
		same     bool
	}{
		"nothing":                       {criticality.Declared{}, false},
		"a limit of another container":  {criticality.Declared{Limited: []string{"proxy"}}, false},
		"a limit":                       {criticality.Declared{Limited: []string{"proxy", "web"}}, true},
		"the least criticality":         {criticality.Declared{Label: 1}, false},
		"a higher criticality":          {criticality.Declared{Label: 1.5}, true},
		"a PriorityClass without label": {criticality.Declared{Classes: []string{"gold"}}, false},
		"a JVM":                         {criticality.Declared{Runtimes: []string{"web"}}, true},
	} {
		e := p.For(c.declared, nodes).Estimate(history, cluster.Resources{}, now, nil)
		if got := e.Target.CPU == balanced; got != c.same {
			t.Errorf("%s: %dm, balanced recommends %dm", name, e.Target.CPU, balanced)
		}
		memory := p.Estimate(history, cluster.Resources{}, now, nil).Target.Memory
		problem := NoPackingProblem
		if name == "a JVM" { // its memory limit follows the request, too
			memory, problem = (&adaptive{Balanced()}).Amount(history.Extension(), cluster.Memory, now, nil), LimitByRequest
		}
		if got := p.For(c.declared, nodes).PackingProblem(history); e.Target.Memory != memory || got != problem {
			t.Errorf("%s: memory %d, want %d; problem %q, want %q", name, e.Target.Memory, memory, got, problem)
		}
	}
}

// The model state of balanced has 3 days of CPU and 14 of memory, which is enough to begin with.
func TestPacked_afterBalanced_sizesAtOnce(t *testing.T) {
	p, _, now := packs(1, fleet.NodeSizes{Memory: 64 << 30})
	balanced, _ := Builtin("balanced")
	before := balanced.Extend()
	for end := now.Add(14 * 24 * time.Hour); now.Before(end); now = now.Add(5 * time.Minute) {
		cores := 0.5
		if now.Hour() == 3 {
			cores = 2
		}
		before.Observe(usage.Sample{At: now, CPU: cores, Memory: 2000 * mib}, cluster.Both)
	}
	data, err := before.AppendBinary(nil)
	state := p.Extend()
	if err != nil || state.UnmarshalBinary(data) != nil {
		t.Fatal("packed cannot read the model state of balanced")
	}
	sized := p.Estimator.(byModelState).algorithm.(*packed)
	if cpu := sized.Amount(state, cluster.CPU, now, nil); cpu < 500 || cpu > 505 {
		t.Errorf("CPU is %dm, want 500", cpu)
	}
	if memory := sized.Amount(state, cluster.Memory, now, nil) / mib; memory < 2353 || memory > 2360 {
		t.Errorf("memory is %d MiB, want 2353", memory)
	}
}

// Usage rises and falls around half of a node. The highest usage of 14 days decides, which changes rarely.
func TestPacked_usageAroundHalfOfANode_sizesStay(t *testing.T) {
	p, store, now := packs(14, fleet.NodeSizes{Memory: 8 << 30})
	history := store.All(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"})[0]
	changes := 0
	before := p.PackingProblem(history)
	for hour := range 40 * 24 {
		bytes := 3250.0 * mib * (1 + 0.02*float64(hour%7-3)/3)
		if hour%24 == 3 {
			bytes = 4150 * mib * (1 + 0.001*float64(hour%5-2))
		}
		store.Observe(usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: "web-1"}, Container: "web", At: now.Add(time.Duration(hour) * time.Hour), CPU: 0.5, Memory: bytes, Has: cluster.Both})
		if got := p.PackingProblem(history); got != before {
			changes++
			before = got
		}
	}
	if changes > 1 {
		t.Errorf("the container is packed or not, changed %d times in 40 days", changes)
	}
}

// A kill at a limit that is apart from the request shows that the limit is too low.
func TestMemoryLimit_killedAtALimitApartFromTheRequest_doublesAndStays(t *testing.T) {
	p, store, now := packs(20, fleet.NodeSizes{Memory: 64 << 30})
	w := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	history := store.Series(w, "web")
	request := p.Estimate(history, cluster.Resources{}, now, nil).Target.Memory
	limit := MemoryLimit(history, 0, 0, 0, 0, now)
	for range 3 {
		now = now.Add(time.Minute)
		store.Tick(now)
		store.ObserveOOM(usage.OOM{Pod: cluster.Key{Namespace: "shop", Name: "web-1"}, Container: "web", At: now, Memory: request, Limit: limit})
		next := MemoryLimit(history, limit, 0, 0, 0, now)
		if next < 2*limit-mib {
			t.Errorf("killed at %d MiB, the next limit is %d MiB, want twice as much", limit/mib, next/mib)
		}
		limit = next
	}
	if got := MemoryLimit(history, limit, 0, 0, 0, now.Add(13*24*time.Hour)); got < limit {
		t.Errorf("13 days later the limit is %d MiB, want %d", got/mib, limit/mib)
	}
}

// Whatever the last limit and minAllowed are, only a maximum or the node keeps the limit below 1.25 × what the container uses.
func TestMemoryLimit_withoutAMaximum_isAtLeastAQuarterAboveUsage(t *testing.T) {
	_, store, now := packs(20, fleet.NodeSizes{Memory: 64 << 30})
	history := store.Series(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}, "web")
	key := cluster.Key{Namespace: "shop", Name: "web-1"}
	for _, used := range []int64{100 * mib, 3000 * mib, 5000 * mib, 40000 * mib} {
		now = now.Add(time.Minute)
		store.Tick(now)
		store.Observe(usage.Sample{Pod: key, Container: "web", At: now, CPU: 1, Memory: float64(used), Has: cluster.Both})
		least := used * 5 / 4
		for _, before := range []int64{0, used, 2*used - used/10, 2 * used, 100 * used} {
			for _, bound := range []int64{0, used / 2} {
				if got := MemoryLimit(history, before, bound, 0, 0, now); got < least {
					t.Errorf("uses %d MiB, last limit %d MiB, minAllowed %d MiB: the limit is %d MiB", used/mib, before/mib, bound/mib, got/mib)
				}
			}
		}
		if got := MemoryLimit(history, 0, 0, used/8, 0, now); used > 8<<30 && got >= used {
			t.Errorf("uses %d MiB, maxAllowed an eighth of it: the limit is %d MiB, want what the user allows", used/mib, got/mib)
		}
	}
}

// A workload that starts after a long pause is not sized by its first minutes.
func TestPacked_startAfterAPauseOfTheWholeWindow_isNotTheSize(t *testing.T) {
	for days, gap := range map[int]time.Duration{7: 7*24*time.Hour + 2*time.Hour, 3: 3*24*time.Hour + 2*time.Hour} {
		params := Packed()
		params.Days = days
		profile := PackedProfile("x", "", params)
		store, w := usage.NewStore(usage.DefaultConfig()), cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
		pod := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, Top: w, Containers: []cluster.Container{{Name: "web"}}}
		store.Configure(w, nil)
		store.Extend(w, profile.Extend)
		store.Track(pod)
		observe := func(at time.Time, cores, bytes float64) {
			store.Observe(usage.Sample{Pod: pod.Key, Container: "web", At: at, CPU: cores, Memory: bytes, Has: cluster.Both})
		}
		at := noon
		for ; at.Before(noon.Add(10 * 24 * time.Hour)); at = at.Add(5 * time.Minute) {
			observe(at, 2, 4000*mib)
		}
		at = at.Add(gap)
		for i := range 6 {
			observe(at.Add(time.Duration(i)*5*time.Minute), 0.1, 100*mib)
		}
		now := at.Add(30 * time.Minute)
		history := store.All(w)[0]
		got := profile.For(criticality.Declared{}, fleet.NodeSizes{Memory: 32 << 30}).Estimate(history, cluster.Resources{}, now, nil)
		balanced := profile.For(criticality.Declared{}, fleet.NodeSizes{}).Estimate(history, cluster.Resources{}, now, nil)
		if got != balanced {
			t.Errorf("days %d, paused %v: %+v, want what balanced recommends: %+v", days, gap, got, balanced)
		}
	}
}
