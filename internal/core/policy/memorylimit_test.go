// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// byPeaks returns an autoscaler that recommends 100m and 300 MiB, and a memory limit of 1,536 MiB for app, whose highest usage is 512 MiB.
func byPeaks() *cluster.Autoscaler {
	target := cluster.Amounts(100, 300<<20)
	return &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, Mode: cluster.InPlaceOrRecreate, MemoryLimits: cluster.LimitRule{Peaks: true},
		Advice: []cluster.Advice{{
			Container: "app", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}, MemoryLimit: 1536 << 20, MemoryPeak: 512 << 20,
		}},
	}
}

// burstable returns a pod with a request of 200 MiB and a limit of 400 MiB.
func burstable() *cluster.Pod {
	return &cluster.Pod{QoS: cluster.Burstable, Containers: []cluster.Container{{
		Name: "app", Requests: cluster.Amounts(100, 200<<20), Limits: cluster.Resources{}.Set(cluster.Memory, 400<<20),
	}}}
}

func TestFit_memoryLimitRule_isAppliedOrTheLimitKeepsItsRatio(t *testing.T) {
	memory := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, v) }
	const unset, mib = -1, 1 << 20
	const least = 615 * mib // a fifth above the highest usage, for which the recommended limit is
	for name, c := range map[string]struct {
		change         func(*cluster.Autoscaler, *Limits, *cluster.Pod)
		kind           MemoryLimitKind
		request, limit int64 // bytes
	}{
		"peaks":      {nil, LimitByPeaks, 300 * mib, 1536 * mib},
		"by default": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.MemoryLimits = cluster.LimitRule{} }, LimitInProportion, 300 * mib, 600 * mib},
		"keep":       {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.MemoryLimits = cluster.LimitRule{Keep: true} }, LimitUnchanged, 300 * mib, unset},
		"not known": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) {
			a.Advice[0].MemoryLimit, a.Advice[0].MemoryPeak = 0, 0
		}, LimitPeaksUnknown, 300 * mib, 600 * mib},
		"below target": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.Advice[0].MemoryLimit = 100 << 20 }, LimitByPeaks, 300 * mib, 300*mib + page},
		"keep bounds the request": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) {
			a.MemoryLimits = cluster.LimitRule{Keep: true}
			a.Advice[0].Target.Memory = 900 << 20
		}, LimitUnchanged, 400*mib - page, unset},
		"RequestsOnly": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", RequestsOnly: true}}
		}, LimitOfPolicy, 300 * mib, unset},
		"no limit of its own": {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Limits = cluster.Resources{} }, LimitInProportion, 300 * mib, unset},
		"Guaranteed": {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
			p.Containers[0].Requests, p.QoS = cluster.Amounts(100, 400<<20), cluster.Guaranteed
			p.Containers[0].Limits = p.Containers[0].Requests
		}, LimitOfGuaranteed, least, least},
		"Guaranteed, keep": {func(a *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
			a.MemoryLimits = cluster.LimitRule{Keep: true}
			p.Containers[0].Requests, p.QoS = cluster.Amounts(100, 400<<20), cluster.Guaranteed
			p.Containers[0].Limits = p.Containers[0].Requests
		}, LimitOfGuaranteed, 300 * mib, 300 * mib},
		"a JVM": {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Runtimes = java(cluster.Runtime{}) }, LimitOfRuntime, 300 * mib, 600 * mib},
		"quotas are not known": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.QuotasUnknown = true }, LimitQuotasUnknown, least / 2, least / 2 * 2,
		},
		"a quota bounds memory limits": {func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
			l.Quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "all", Hard: cluster.PodResources{Limits: memory(100 << 30)}}}}
		}, LimitOfQuota, least / 2, least / 2 * 2},
		"a quota bounds memory requests": {func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
			l.Quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "all", Hard: cluster.PodResources{Requests: memory(100 << 30)}}}}
		}, LimitByPeaks, 300 * mib, 1536 * mib},
		"a LimitRange bounds the limit, not the request in proportion": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.Range.Container.Max = memory(500 << 20) }, LimitByPeaks, 300 * mib, 500 * mib,
		},
		"a LimitRange bounds the ratio": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.Range.ContainerRatio = memory(2000) }, LimitByPeaks, least / 2, least / 2 * 2,
		},
		"a LimitRange bounds the memory of pods, keep": {func(a *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
			a.MemoryLimits = cluster.LimitRule{Keep: true}
			l.Range.Pod.Max = memory(4 << 30)
		}, LimitOfPodRange, 300 * mib, 600 * mib},
		"pod-level memory, keep": {func(a *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
			a.MemoryLimits = cluster.LimitRule{Keep: true}
			p.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(200, 400<<20), Limits: memory(800 << 20)}
		}, LimitOfPodLevel, 300 * mib, 600 * mib},
	} {
		a, l, p := byPeaks(), Limits{}, burstable()
		if c.change != nil {
			c.change(a, &l, p)
		}
		if !a.MemoryLimits.Peaks { // then the recommendation has none
			a.Advice[0].MemoryPeak = 0
		}
		if kind := MemoryLimitOf(a, l, p, &p.Containers[0]); kind != c.kind {
			t.Errorf("%s: the limit %q, want %q", name, kind, c.kind)
		}
		fits := Fit(a, l, p)
		if len(fits) != 1 {
			t.Fatalf("%s: %+v", name, fits)
		}
		limit, set := fits[0].Limits.Get(cluster.Memory)
		if !set {
			limit = unset
		}
		if got := fits[0].Requests.Memory; got != c.request || limit != c.limit {
			t.Errorf("%s: request %d, limit %d, want %d and %d bytes", name, got, limit, c.request, c.limit)
		}
	}
}

// Whatever the recommendation and the LimitRange are: the API server admits the size, the limit is not below the request, and a pod that was
// created with the size gets the same one again, so that no pod is changed for ever.
func TestFit_memoryLimitRule_sizeIsAdmittedAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) int64 { return int64(rapid.IntRange(1, 4096).Draw(t, name)) << 20 }
		a, l, p := byPeaks(), Limits{}, burstable()
		a.MemoryLimits = rapid.SampledFrom([]cluster.LimitRule{{Peaks: true}, {Keep: true}}).Draw(t, "rule")
		c := &p.Containers[0]
		c.Requests.Memory = amount("request")
		c.Limits.Memory = max(c.Requests.Memory, amount("limit"))
		a.Advice[0].Target.Memory, a.Advice[0].MemoryLimit = amount("target"), amount("limit by peaks")
		if rapid.Bool().Draw(t, "a maximum") {
			l.Range.Container.Max = cluster.Resources{}.Set(cluster.Memory, max(c.Limits.Memory, amount("maximum")))
		}
		if rapid.Bool().Draw(t, "a minimum") {
			l.Range.Container.Min = cluster.Resources{}.Set(cluster.Memory, min(c.Requests.Memory, amount("minimum")))
		}
		fits := Fit(a, l, p)
		if r := admissible.Refused(l, p, fits); r.Refused() {
			t.Fatalf("refused: %s", r)
		}
		before := *c
		c.Requests, c.Limits = fits[0].Requests.Or(c.Requests), fits[0].Limits.Or(c.Limits)
		if c.Limits.Memory < c.Requests.Memory {
			t.Fatalf("request %d, limit %d", c.Requests.Memory, c.Limits.Memory)
		}
		if a.MemoryLimits.Keep && c.Limits.Memory != before.Limits.Memory {
			t.Fatalf("the limit changed from %d to %d", before.Limits.Memory, c.Limits.Memory)
		}
		again := Fit(a, l, p)
		if again[0].Requests != fits[0].Requests || again[0].Limits != fits[0].Limits {
			t.Fatalf("the pod has %v and limits %v, and then should get %v and limits %v", fits[0].Requests, fits[0].Limits, again[0].Requests, again[0].Limits)
		}
	})
}

// almostGuaranteed is a pod whose CPU limit is its request, with a memory request of 200 MiB and a limit of 400 MiB.
func almostGuaranteed() *cluster.Pod {
	p := burstable()
	p.Containers[0].Limits = p.Containers[0].Limits.Set(cluster.CPU, 100)
	return p
}

// admit returns the pod that the admission controller makes of a template, with the class that the API server gives it.
func admit(a *cluster.Autoscaler, l Limits, template *cluster.Pod) *cluster.Pod {
	p := *template
	p.Containers = []cluster.Container{template.Containers[0]}
	fits := Fit(a, l, &p)
	c := &p.Containers[0]
	c.Requests, c.Limits = fits[0].Requests.Or(c.Requests), fits[0].Limits.Or(c.Limits)
	p.QoS = admissible.QoSOf(l, &p, nil)
	return &p
}

// The request of a new pod is bounded by the limit that is kept. Both must not be equal: for a Guaranteed pod another rule applies, so that the updater would
// change the pod again and again.
func TestFit_limitIsKept_newPodDoesNotBecomeGuaranteed(t *testing.T) {
	a := byPeaks()
	a.MemoryLimits = cluster.LimitRule{Keep: true}
	target := cluster.Amounts(100, 900<<20)
	a.Advice[0].Estimate = cluster.Estimate{Lower: target, Target: target, Upper: target}
	created := admit(a, Limits{}, almostGuaranteed())
	again := Fit(a, Limits{}, created)
	if got, want := again[0].Requests.Memory>>20, created.Containers[0].Requests.Memory>>20; got != want {
		t.Errorf("a new pod (%v) gets a request of %d MiB, and then should have %d MiB, limit %d MiB", created.QoS, want, got, again[0].Limits.Memory>>20)
	}
}

// So it is if minAllowed is above the limit by peaks.
func TestFit_limitByPeaks_newPodDoesNotBecomeGuaranteed(t *testing.T) {
	a := byPeaks()
	a.Policies = []cluster.ContainerPolicy{{Container: "app", MinAllowed: cluster.Resources{}.Set(cluster.Memory, 2048<<20)}}
	running := admit(a, Limits{}, almostGuaranteed())
	a.Advice[0].MemoryLimit = 4096 << 20
	replacement := admit(a, Limits{}, almostGuaranteed())
	if got, want := Fit(a, Limits{}, running)[0].Limits.Memory>>20, replacement.Containers[0].Limits.Memory>>20; got != want {
		t.Errorf("a running pod (%v) should have a limit of %d MiB, its replacement gets %d MiB", running.QoS, got, want)
	}
}

// The LimitRange has room for the request, and for its limit in proportion. A higher limit must not lower the request in the same ratio.
func TestFit_limitByPeaks_podMaximumDoesNotLowerTheRequest(t *testing.T) {
	l := Limits{Range: cluster.LimitRange{Pod: cluster.Range{Max: cluster.Resources{}.Set(cluster.Memory, 768<<20)}}}
	for want, rule := range map[int64]cluster.LimitRule{300: {}, 307: {Peaks: true}} { // a limit of 615 MiB is a fifth above the highest usage
		a := byPeaks()
		a.MemoryLimits = rule
		if !rule.Peaks {
			a.Advice[0].MemoryPeak = 0
		}
		fits := Fit(a, l, burstable())
		if got := fits[0].Requests.Memory >> 20; got != want {
			t.Errorf("peaks %t: the request is %d MiB, the limit %d MiB, want a request of %d MiB", rule.Peaks, got, fits[0].Limits.Memory>>20, want)
		}
	}
}

// With the memory request left to an HPA, the limit does not change at all.
func TestMemoryLimitOf_memoryIsLeftToHPA_ruleDoesNotClaimToApply(t *testing.T) {
	a := byPeaks()
	a = scaledBy(a, cluster.UtilizationTarget{Resource: cluster.Memory, Percent: 80})
	p := burstable()
	fits := Fit(a, Limits{}, p)
	for _, f := range fits {
		if kind := MemoryLimitOf(a, Limits{}, p, &p.Containers[0]); kind == LimitByPeaks && !f.Limits.Has.Has(cluster.Memory) {
			t.Errorf("the limit %q, but Fit sets none: %+v", kind, f)
		}
	}
}

// The limit is bounded by the LimitRange, and the request stays below it: with equal ones, the class could become Guaranteed.
func TestFit_limitRangeMaximumIsBelowTheTarget_qosClassStays(t *testing.T) {
	for _, rule := range []cluster.LimitRule{{}, {Peaks: true}} {
		a, template := byPeaks(), almostGuaranteed()
		a.MemoryLimits = rule
		target := cluster.Amounts(100, 900<<20)
		a.Advice[0].Estimate = cluster.Estimate{Lower: target, Target: target, Upper: target}
		l := Limits{Range: cluster.LimitRange{Container: cluster.Range{Max: cluster.Resources{}.Set(cluster.Memory, 512<<20)}}}
		p := admit(a, l, template)
		c := p.Containers[0]
		if before := admissible.QoSOf(l, template, nil); p.QoS != before {
			t.Errorf("peaks %t: the class becomes %v from %v: request %d MiB, limit %d MiB", rule.Peaks, p.QoS, before, c.Requests.Memory>>20, c.Limits.Memory>>20)
		}
	}
}

// A note would become the condition RecommendationNotAdmitted, although the request is the target.
func TestFit_limitRangeRatio_boundsTheLimitWithoutANote(t *testing.T) {
	for _, rule := range []cluster.LimitRule{{}, {Peaks: true}} {
		a := byPeaks()
		a.MemoryLimits = rule
		l := Limits{Range: cluster.LimitRange{ContainerRatio: cluster.Resources{}.Set(cluster.Memory, 2000)}}
		f := Fit(a, l, burstable())[0]
		for _, n := range f.Notes {
			if n.Kind == admissible.HeldToAdmitted && f.Requests.Memory == 300<<20 {
				t.Errorf("peaks %t: request %d MiB and limit %d MiB are noted as %q", rule.Peaks, f.Requests.Memory>>20, f.Limits.Memory>>20, n.Kind)
			}
		}
	}
}

// The rule became keep after the pod was created with a boost and a limit in proportion.
func TestUnboost_limitIsKept_endOfTheBoostLeavesIt(t *testing.T) {
	a, l, p := byPeaks(), Limits{}, burstable()
	a.MemoryLimits = cluster.LimitRule{Keep: true}
	c := &p.Containers[0]
	c.Boosted = &cluster.Applied{Requests: cluster.Amounts(100, 200<<20), Limits: cluster.Resources{}.Set(cluster.Memory, 400<<20)}
	c.Requests, c.Limits = cluster.Amounts(300, 512<<20), c.Limits.Set(cluster.Memory, 1<<30)
	p.Ready, p.ReadySince = true, time.Now().Add(-time.Hour)
	over, _ := Unboost(a, p, Fit(a, l, p), time.Now())
	if limit, changes := over[0].Limits.Get(cluster.Memory); changes {
		t.Errorf("the limit of 1024 MiB becomes %d MiB", limit>>20)
	}
}

// A user's maximum, and the limit that a policy keeps, win against the request for a limit above the highest usage.
func TestFit_limitByPeaksInProportion_isBoundedByTheUser(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Autoscaler)
		want   int64 // MiB
	}{
		"nothing": {func(*cluster.Autoscaler) {}, 307},
		"maxAllowed": {func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Amounts(1000, 250<<20)}}
		}, 250},
		"RequestsOnly": {func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", RequestsOnly: true}}
		}, 300},
		"a larger target": {func(a *cluster.Autoscaler) { a.Advice[0].Target.Memory = 350 << 20 }, 350},
		"not known":       {func(a *cluster.Autoscaler) { a.Advice[0].MemoryPeak = 0 }, 300},
		"a peak that somebody wrote into the status": {func(a *cluster.Autoscaler) {
			a.Advice[0].MemoryPeak = math.MaxInt64
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Amounts(1000, 1<<30)}}
		}, 1024},
		"a negative peak": {func(a *cluster.Autoscaler) { a.Advice[0].MemoryPeak = math.MinInt64 }, 300},
		"a small peak":    {func(a *cluster.Autoscaler) { a.Advice[0].MemoryPeak = 100 << 20 }, 300},
		"another rule":    {func(a *cluster.Autoscaler) { a.MemoryLimits = cluster.LimitRule{} }, 307}, // while the target is that of the profile before
	} {
		a, p := byPeaks(), burstable()
		c.change(a)
		quotas := &cluster.Quotas{TooMany: true} // so that the limit keeps its ratio
		if got := Fit(a, Limits{Quotas: quotas}, p)[0].Requests.Memory >> 20; got != c.want {
			t.Errorf("%s: the request is %d MiB, want %d", name, got, c.want)
		}
	}
}

// The highest usage rises and falls by a few percent, and a pod with much more memory runs. Each pod is changed once.
func TestFit_limitByPeaksInProportion_podIsChangedOnce(t *testing.T) {
	const gib = 1 << 30
	a := byPeaks()
	a.Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(90, gib), Target: cluster.Amounts(100, gib), Upper: cluster.Amounts(125, gib)}
	p := &cluster.Pod{QoS: cluster.Guaranteed, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 32*gib), Limits: cluster.Amounts(100, 32*gib)}}}
	changes := 0
	for pass := range int64(20) {
		_, largest := MemoryLimitsOf([]*cluster.Pod{p}, "app")
		a.Advice[0].MemoryLimit = max(4*gib, largest) // as in the first 14 days
		a.Advice[0].MemoryPeak = 2*gib + pass%5*50<<20
		f, c := &Fit(a, Limits{}, p)[0], &p.Containers[0]
		if had := c.Requests.Memory; had < f.Estimate.Lower.Memory || had > f.Estimate.Upper.Memory {
			changes++
			c.Requests, c.Limits = f.Requests, f.Limits
		}
	}
	if limit := p.Containers[0].Limits.Memory; changes != 1 || limit < 2*gib*6/5 || limit > 3*gib {
		t.Errorf("changed %d times, the limit is %d MiB", changes, limit>>20)
	}
}
