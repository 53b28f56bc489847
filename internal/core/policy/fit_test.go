// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

func container(name string, requests, limits cluster.Resources) cluster.Container {
	return cluster.Container{Name: name, Requests: requests, Limits: limits}
}

func podOf(cs ...cluster.Container) *cluster.Pod {
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, Containers: cs}
	for i := range p.Containers {
		p.Containers[i].Index = uint8(i)
	}
	return p
}

func recommend(as ...cluster.Advice) *cluster.Autoscaler {
	return &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Advice: as}
}

func exactly(name string, r cluster.Resources) cluster.Advice { return advice(name, r, r, r) }

// The sizes and notes of one container, for each rule.
func TestFit_oneContainer_appliesEachRule(t *testing.T) {
	type policy = cluster.ContainerPolicy
	none := cluster.Resources{}
	cases := map[string]struct {
		requests, limits, advice cluster.Resources
		policy                   policy
		limit                    cluster.Range
		wantRequests, wantLimits cluster.Resources
		notes                    []string
	}{
		"limits keep their proportion": {
			requests: of(100, 100*mi), limits: of(300, 150*mi), advice: of(250, 300*mi),
			wantRequests: of(250, 300*mi), wantLimits: of(750, 450*mi),
		},
		"a proportional limit is rounded down": {
			requests: of(300, 3), limits: of(1000, 10), advice: of(101, 4),
			wantRequests: of(101, 4), wantLimits: of(336, 13),
		},
		"without limit none is set, and none is noted": {
			requests: of(100, 100*mi), advice: of(250, 300*mi), wantRequests: of(250, 300*mi),
		},
		"one limit of two is noted": {
			requests: of(100, 100*mi), limits: cpu(200), advice: of(250, 300*mi),
			wantRequests: of(250, 300*mi), wantLimits: cpu(500),
			notes: []string{"memory: limit NOT set since originalLimit is nil or 0"},
		},
		"what is not recommended is not limited": {
			requests: of(100, 100*mi), limits: of(200, 200*mi), advice: cpu(250),
			wantRequests: cpu(250), wantLimits: cpu(500),
			notes: []string{"memory: limit NOT set since recommendedRequest is nil or 0"},
		},
		"a limit alone is the request too": {
			limits: of(200, 200*mi), advice: of(250, 300*mi), wantRequests: of(250, 300*mi), wantLimits: of(250, 300*mi),
		},
		"a limit that is the request stays so": {
			requests: of(200, 200*mi), limits: of(200, 200*mi), advice: of(250, 300*mi),
			wantRequests: of(250, 300*mi), wantLimits: of(250, 300*mi),
		},
		"the namespace's default limit counts where there is none": {
			requests: cpu(100), advice: cpu(300), limit: cluster.Range{Default: cpu(200)},
			wantRequests: cpu(300), wantLimits: cpu(600),
			notes: []string{"memory: limit NOT set since originalLimit is nil or 0"},
		},
		"a limit that fits no number is the largest": {
			requests: cpu(1), limits: cpu(1 << 62), advice: cpu(300),
			wantRequests: cpu(300), wantLimits: cpu(1<<63 - 1),
			notes: []string{
				"cpu: failed to keep limit to request ratio; capping limit to int64",
				"memory: limit NOT set since originalLimit is nil or 0",
			},
		},
		"minAllowed and maxAllowed": {
			requests: of(100, 100*mi), advice: of(250, 300*mi),
			policy:       policy{MinAllowed: cpu(400), MaxAllowed: memory(200 * mi)},
			wantRequests: of(400, 200*mi), notes: []string{"cpu capped to minAllowed", "memory capped to maxAllowed"},
		},
		"a minimum above the maximum yields, and both are noted": {
			requests: cpu(100), advice: cpu(250), policy: policy{MinAllowed: cpu(400), MaxAllowed: cpu(300)},
			wantRequests: cpu(300), notes: []string{"cpu capped to minAllowed", "cpu capped to maxAllowed"},
		},
		"requests alone stay below the limit": {
			requests: of(100, 100*mi), limits: of(200, 500*mi), advice: of(250, 300*mi), policy: policy{RequestsOnly: true},
			wantRequests: of(200, 300*mi), notes: []string{"cpu capped to container limit"},
		},
		"the LimitRange's Max bounds the limit, so the request in proportion": {
			requests: cpu(100), limits: cpu(200), advice: cpu(300), limit: cluster.Range{Max: cpu(400)},
			wantRequests: cpu(200), wantLimits: cpu(400),
			notes: []string{"cpu capped to fit Max in container LimitRange", "memory: limit NOT set since originalLimit is nil or 0"},
		},
		"the LimitRange's Max means nothing without a limit": {
			requests: cpu(100), advice: cpu(300), limit: cluster.Range{Max: cpu(200)}, wantRequests: cpu(300),
		},
		"the LimitRange's Min bounds the request itself": {
			requests: cpu(100), limits: cpu(200), advice: cpu(30), limit: cluster.Range{Min: cpu(50)},
			wantRequests: cpu(50), wantLimits: cpu(100),
			notes: []string{"cpu capped to fit Min in container LimitRange", "memory: limit NOT set since originalLimit is nil or 0"},
		},
		"the LimitRange comes before the policy, but the limit stays below its Max": {
			requests: cpu(100), limits: cpu(200), advice: cpu(300), limit: cluster.Range{Max: cpu(400)},
			policy:       policy{MinAllowed: cpu(250)},
			wantRequests: cpu(250), wantLimits: cpu(400),
			notes: []string{
				"cpu capped to fit Max in container LimitRange", "cpu capped to minAllowed",
				"memory: limit NOT set since originalLimit is nil or 0", "cpu capped to what the API server admits",
			},
		},
		"controlled resources alone": {
			requests: of(100, 100*mi), limits: none, advice: of(250, 300*mi),
			policy:       policy{ControlsSet: true, Controlled: cluster.Of(cluster.Memory)},
			wantRequests: memory(300 * mi),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := recommend(exactly("app", c.advice))
			c.policy.Container = "app"
			a.Policies = []policy{c.policy}
			got := Fit(a, Limits{Range: cluster.LimitRange{Container: c.limit}}, podOf(container("app", c.requests, c.limits)))
			if len(got) != 1 {
				t.Fatalf("Fit returned %d containers", len(got))
			}
			if got[0].Requests != c.wantRequests || got[0].Limits != c.wantLimits {
				t.Errorf("requests %v limits %v, want %v and %v", got[0].Requests, got[0].Limits, c.wantRequests, c.wantLimits)
			}
			var notes []string
			for _, n := range got[0].Notes {
				notes = append(notes, n.String())
			}
			if diff := cmp.Diff(c.notes, notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFit_runningLimitDiffersFromSpec_keepsRunningProportion(t *testing.T) {
	c := container("app", cpu(1000), cpu(1000))
	c.Applied = &cluster.Applied{Requests: cpu(100), Limits: cpu(300)}
	got := Fit(recommend(exactly("app", cpu(200))), Limits{}, podOf(c))
	if got[0].Limits != cpu(600) {
		t.Errorf("limit = %v, want 600m: three times the request, as in the running container", got[0].Limits)
	}
}

func TestFit_containerNotControlled_isLeftAlone(t *testing.T) {
	one := container("app", cpu(100), cluster.Resources{})
	sidecar := one
	sidecar.Role = cluster.FixedSidecar
	initial := one
	initial.Role = cluster.Init
	off := recommend(exactly("app", cpu(200)))
	off.Policies = []cluster.ContainerPolicy{{Container: "*", Off: true}}
	nothing := recommend(exactly("app", cpu(200)))
	nothing.Policies = []cluster.ContainerPolicy{{Container: "app", ControlsSet: true}}
	for name, c := range map[string]struct {
		a *cluster.Autoscaler
		p *cluster.Pod
	}{
		"a pod without recommendation":             {recommend(), podOf(one)},
		"a container without recommendation":       {recommend(exactly("gone", cpu(1))), podOf(one)},
		"a container whose policy is off":          {off, podOf(one)},
		"a container that controls nothing":        {nothing, podOf(one)},
		"a sidecar that is not sized":              {recommend(exactly("app", cpu(200))), podOf(sidecar)},
		"an init container":                        {recommend(exactly("app", cpu(200))), podOf(initial)},
		"a pod without containers":                 {recommend(exactly("app", cpu(200))), podOf()},
		"a recommendation that recommends nothing": {recommend(exactly("app", cluster.Resources{})), podOf(one)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Fit(c.a, Limits{}, c.p); len(got) != 0 {
				t.Errorf("Fit = %+v, want none", got)
			}
			narrow := Limits{Range: cluster.LimitRange{Pod: cluster.Range{Min: of(1000, 100), Max: of(2000, 200)}}}
			if got := Fit(c.a, narrow, c.p); len(got) != 0 {
				t.Errorf("Fit with a pod LimitRange = %+v, want none", got)
			}
		})
	}
}

// A pod LimitRange also bounds a sidecar with a recommendation. One without a recommendation keeps its request, as an init container does.
func TestFit_sidecar_isSizedByItsRecommendation(t *testing.T) {
	mesh := container("mesh", cpu(100), cpu(200))
	mesh.Role = cluster.Sidecar
	p := podOf(container("app", cpu(100), cluster.Resources{}), mesh)
	got := Fit(recommend(exactly("app", cpu(300)), exactly("mesh", cpu(400))), Limits{}, p)
	if len(got) != 2 || !got[1].Sidecar || got[1].Requests != cpu(400) || got[1].Limits != cpu(800) {
		t.Errorf("Fit = %+v, want 400m for the sidecar, and twice that as its limit", got)
	}
	narrow := Limits{Range: cluster.LimitRange{Pod: cluster.Range{Max: cpu(350)}}}
	if got := Fit(recommend(exactly("app", cpu(300)), exactly("mesh", cpu(400))), narrow, p); len(got) != 2 || got[0].Requests.CPU+got[1].Requests.CPU > 350 {
		t.Errorf("Fit with a pod LimitRange = %+v, want 350m in all", got)
	}
	if got := Fit(recommend(exactly("app", cpu(300))), narrow, p); len(got) != 1 {
		t.Errorf("Fit without a recommendation for the sidecar = %+v, want one container", got)
	}
}

// The sums over a pod are scaled into the pod LimitRange.
func TestFit_podLimitRange_scalesSums(t *testing.T) {
	cases := map[string]struct {
		r            cluster.Range
		a, b         cluster.Container
		advA, advB   cluster.Resources
		wantA, wantB cluster.Resources
	}{
		"within": {
			r: cluster.Range{Min: cpu(10), Max: cpu(10000)},
			a: container("a", cpu(100), cpu(100)), b: container("b", cpu(100), cpu(100)),
			advA: cpu(300), advB: cpu(500), wantA: cpu(300), wantB: cpu(500),
		},
		"the limits above Max": {
			r: cluster.Range{Max: cpu(1000)},
			a: container("a", cpu(100), cpu(200)), b: container("b", cpu(100), cpu(100)),
			advA: cpu(500), advB: cpu(333), wantA: cpu(375), wantB: cpu(249), // limits 1000 and 333: times 1000/1333
		},
		"the requests below Min: CPU is rounded up": {
			r: cluster.Range{Min: cpu(1000)},
			a: container("a", cpu(100), cpu(200)), b: container("b", cpu(100), cpu(200)),
			advA: cpu(100), advB: cpu(201), wantA: cpu(333), wantB: cpu(668),
		},
		"the requests below Min: memory is rounded down, but the sum reaches Min": {
			r: cluster.Range{Min: memory(1000)},
			a: container("a", memory(100), memory(200)), b: container("b", memory(100), memory(200)),
			advA: memory(100), advB: memory(201), wantA: memory(333), wantB: memory(667),
		},
		"nothing has a limit: the requests reach Min": {
			r: cluster.Range{Min: cpu(1000), Max: cpu(2000)},
			a: container("a", cpu(100), cluster.Resources{}), b: container("b", cpu(100), cluster.Resources{}),
			advA: cpu(100), advB: cpu(201), wantA: cpu(333), wantB: cpu(667),
		},
		"a container without recommendation counts, and is scaled with the others": {
			r: cluster.Range{Max: cpu(1000)},
			a: container("a", cpu(100), cpu(100)), b: container("b", cpu(500), cpu(500)),
			advA: cpu(1500), wantA: cpu(750), wantB: cpu(250),
		},
		"a container without requests neither counts nor is touched (W-11)": {
			r: cluster.Range{Max: cpu(1000)},
			a: container("a", cpu(100), cpu(100)), b: container("b", cluster.Resources{}, cluster.Resources{}),
			advA: cpu(1500), wantA: cpu(1000),
		},
		"a resource that is not recommended counts as it is, and is not written": {
			r: cluster.Range{Max: memory(1000)},
			a: container("a", of(100, 400), of(100, 400)), b: container("b", memory(100), memory(100)),
			advA: cpu(300), advB: memory(1600), wantA: cpu(300), wantB: memory(600),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := recommend()
			for _, adv := range []cluster.Advice{exactly("a", c.advA), exactly("b", c.advB)} {
				if !adv.Target.Has.Empty() {
					a.Advice = append(a.Advice, adv)
				}
			}
			got := map[string]cluster.Resources{}
			for _, f := range Fit(a, Limits{Range: cluster.LimitRange{Pod: c.r}}, podOf(c.a, c.b)) {
				got[f.Container] = f.Requests
			}
			if got["a"] != c.wantA || got["b"] != c.wantB {
				t.Errorf("got %v and %v, want %v and %v", got["a"], got["b"], c.wantA, c.wantB)
			}
		})
	}
}

// Each bound is scaled into the pod LimitRange separately. This could move the lower bound above the target or the upper bound below
// it, and then a pod with the target would be replaced every minute (kubernetes/autoscaler#8776).
func TestFit_podLimitRange_keepsTargetBetweenBounds(t *testing.T) {
	a := recommend(
		advice("a", cpu(10), cpu(100), cpu(5000)),
		advice("b", cpu(900), cpu(1000), cpu(1100)),
	)
	p := podOf(container("a", cpu(100), cpu(100)), container("b", cpu(100), cpu(100)))
	for _, f := range Fit(a, Limits{Range: cluster.LimitRange{Pod: cluster.Range{Min: cpu(950), Max: cpu(1000)}}}, p) {
		e := f.Estimate
		if e.Lower.CPU > e.Target.CPU || e.Upper.CPU < e.Target.CPU {
			t.Errorf("%s: %d ≤ %d ≤ %d does not hold", f.Container, e.Lower.CPU, e.Target.CPU, e.Upper.CPU)
		}
	}
}

func drawPod(t *rapid.T, names []string) *cluster.Pod {
	var cs []cluster.Container
	for _, n := range names {
		c := container(n, drawResources(t, "request"), drawResources(t, "limit"))
		c.Role = cluster.ContainerRole(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "role"))
		if rapid.Bool().Draw(t, "applied") {
			c.Applied = &cluster.Applied{Requests: drawResources(t, "running"), Limits: drawResources(t, "running limit")}
		}
		cs = append(cs, c)
	}
	return podOf(cs...)
}

func drawRange(t *rapid.T, what string) cluster.Range {
	if rapid.Bool().Draw(t, "no "+what) {
		return cluster.Range{}
	}
	return cluster.Range{
		Min: drawResources(t, what+" min"), Max: drawResources(t, what+" max"), Default: drawResources(t, what+" default"),
	}
}

// For any pod, policies and LimitRanges: no panic, the order of bounds is kept, and only recommended or inserted amounts are set
// (W-11, W-12).
func TestFit_anyInput_givesValidResult(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		a := drawAutoscaler(t, names)
		p := drawPod(t, names)
		l := Limits{Range: cluster.LimitRange{Pod: drawRange(t, "pod range"), Container: drawRange(t, "container range")}}
		before := fmt.Sprintf("%+v %+v", a, p)
		fits := Fit(a, l, p)
		last := -1
		for _, f := range fits {
			checkOrder(t, f.Estimate)
			if f.Index <= last {
				t.Fatalf("container %d comes after %d", f.Index, last)
			}
			last = f.Index
			if f.Requests != f.Estimate.Target {
				t.Fatalf("requests %v are not the target %v", f.Requests, f.Estimate.Target)
			}
			if adv := a.AdviceFor(f.Container); !f.Inserted && f.Requests.Has != adv.Target.Has&a.Policy(f.Container).Controls() {
				t.Fatalf("sets %v of %+v", f.Requests, adv)
			}
			if cp := a.Policy(f.Container); cp != nil && cp.RequestsOnly && !f.Limits.Has.Empty() {
				t.Fatalf("sets limits although the policy keeps them: %v", f.Limits)
			}
		}
		b := boostBy(a, p, fits, amount().Draw(t, "most"), wholeBoost)
		boosted, originals := b.Fits, b.Originals
		if len(boosted) < len(fits) || len(originals) > len(boosted) {
			t.Fatalf("boostBy returned %d containers for %d, with %d originals", len(boosted), len(fits), len(originals))
		}
		Annotation(a, boosted)
		if after := fmt.Sprintf("%+v %+v", a, p); after != before {
			t.Fatal("Fit or Boost changed its input")
		}
	})
}

// A pod that was created with the result of Fit is within the range that Fit returns for the running pod, except for rounding.
// Otherwise it would be replaced again and again.
func TestFit_podCreatedWithFit_isWithinItsRange(t *testing.T) {
	usual := func(name string, low, high int64) *rapid.Generator[cluster.Resources] {
		return rapid.Custom(func(t *rapid.T) cluster.Resources {
			return of(rapid.Int64Range(low, high).Draw(t, name+" cpu"), rapid.Int64Range(low, high).Draw(t, name+" memory")*mi)
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		a := recommend()
		var cs []cluster.Container
		for _, n := range []string{"a", "b"} {
			r := usual("request", 50, 5000).Draw(t, n)
			c := container(n, r, cluster.Resources{})
			if rapid.Bool().Draw(t, "limited") {
				factor := rapid.Int64Range(1, 5).Draw(t, "factor")
				c.Limits = of(r.CPU*factor, r.Memory*factor)
			}
			cs = append(cs, c)
			target := usual("target", 50, 5000).Draw(t, n)
			a.Advice = append(a.Advice, advice(n, of(target.CPU/2, target.Memory/2), target, of(target.CPU*2, target.Memory*2)))
		}
		l := Limits{Range: cluster.LimitRange{
			Pod:       cluster.Range{Max: usual("pod max", 500, 20000).Draw(t, "pod")},
			Container: cluster.Range{Min: usual("min", 1, 50).Draw(t, "container"), Max: usual("max", 500, 10000).Draw(t, "container")},
		}}
		p := podOf(cs...)
		for _, f := range Fit(a, l, p) {
			c := p.Container(f.Container)
			c.Requests, c.Limits = f.Requests, f.Limits.Or(c.Limits)
		}
		for _, f := range Fit(a, l, p) {
			c := p.Container(f.Container)
			for _, res := range cluster.All {
				slack := int64(2)
				if res == cluster.Memory {
					slack = 4096
				}
				low, high := f.Estimate.Lower.Amount(res), f.Estimate.Upper.Amount(res)
				if v := c.Requests.Amount(res); v < low-slack || v > high+slack {
					t.Fatalf("%s %s: created with %d, now outside [%d, %d]", f.Container, res, v, low, high)
				}
			}
		}
	})
}
