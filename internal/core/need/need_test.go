// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package need

import (
	"fmt"
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

const gib = 1 << 30

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// podOf returns a pod that was started a day ago, with a container for each CPU request, named a, b and so on.
func podOf(cpu ...int64) *cluster.Pod {
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-0"}, Started: noon.Add(-24 * time.Hour), Phase: cluster.Running}
	for i, amount := range cpu {
		p.Containers = append(p.Containers, cluster.Container{Name: fmt.Sprintf("%c", 'a'+i), Requests: cluster.Amounts(amount, gib)})
	}
	return p
}

// fitOf returns a recommendation for the CPU of a container, with the memory that it has.
func fitOf(container string, lower, target, upper int64) policy.Fitted {
	return policy.Fitted{
		Container: container, Requests: cluster.Amounts(target, gib),
		Estimate: cluster.Estimate{Lower: cluster.Amounts(lower, gib), Target: cluster.Amounts(target, gib), Upper: cluster.Amounts(upper, gib)},
	}
}

// moreMemory gives the first container a target of 2 GiB within its bounds.
func (c *situation) moreMemory() {
	c.fits[0].Requests.Memory = 2 * gib
	c.fits[0].Estimate.Target.Memory = 2 * gib
	c.fits[0].Estimate.Upper.Memory = 3 * gib
}

// kill makes the first container be OOM-killed after it has lived for some time, some time ago, and restart.
func (c *situation) kill(lived, ago time.Duration) {
	finished := noon.Add(-ago)
	c.pod.Containers[0].Exit = &cluster.Exit{OOM: true, Started: finished.Add(-lived), Finished: finished}
}

// A situation is the input of Of: a pod with a request of 1 CPU and a target of 2 CPUs within its bounds, unless a test changes it.
type situation struct {
	rules Rules
	a     *cluster.Autoscaler
	pod   *cluster.Pod
	fits  []policy.Fitted
}

func situationOf() *situation {
	return &situation{
		rules: Rules{Threshold: 0.1, Lifetime: 12 * time.Hour, QuickOOM: 10 * time.Minute}, a: &cluster.Autoscaler{Created: noon.Add(-48 * time.Hour)},
		pod: podOf(1000), fits: []policy.Fitted{fitOf("a", 500, 2000, 3000)},
	}
}

func (c *situation) verdict() Verdict { return Of(noon, &c.rules, c.a, c.pod, c.fits) }

// cpu returns a reason about the CPU of the only container.
func cpu(code decision.ReasonCode, from, to int64) decision.Reason {
	return decision.Reason{Code: code, Resource: cluster.CPU, From: from, To: to}
}

func drifted(age time.Duration, percent int) decision.Reason {
	r := cpu(decision.Drifted, 1000, 2000)
	r.For = age
	r.Have = percent
	return r
}

func TestOf_requestsAndAge_firstRuleDecides(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*situation)
		wanted  decision.Reason
		instead decision.Reason
	}{
		"old, and far from the target": {change: func(*situation) {}, wanted: drifted(24*time.Hour, 100)},
		"exactly the minimum age": {
			change: func(c *situation) { c.pod.Started = noon.Add(-12 * time.Hour) }, wanted: drifted(12*time.Hour, 100),
		},
		"younger than the minimum age": {
			change:  func(c *situation) { c.pod.Started = noon.Add(-11 * time.Hour) },
			instead: decision.Reason{Code: decision.PodTooYoung, Until: noon.Add(time.Hour)},
		},
		"its age is not known": {
			change: func(c *situation) { c.pod.Started = time.Time{} }, instead: decision.Reason{Code: decision.PodTooYoung},
		},
		"the autoscaler is younger than the minimum age": {
			change:  func(c *situation) { c.a.Created = noon.Add(-10 * time.Hour) },
			instead: decision.Reason{Code: decision.AutoscalerTooYoung, Until: noon.Add(2 * time.Hour)},
		},
		"upstream's rules ignore the age of the autoscaler": {
			change: func(c *situation) {
				c.a.Created = noon
				c.rules.UpstreamRules = true
			}, wanted: drifted(24*time.Hour, 100),
		},
		"less than the threshold": {
			change:  func(c *situation) { c.fits[0] = fitOf("a", 500, 1050, 3000) },
			instead: decision.Reason{Code: decision.SmallChange, Have: 5, Want: 10},
		},
		"less than the threshold of the autoscaler": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 500, 1200, 3000)
				c.a.Rules.MinChange = cluster.Setting[float64]{Value: 0.3, Set: true}
			},
			instead: decision.Reason{Code: decision.SmallChange, Have: 20, Want: 30, Text: "podfit.dev/min-change"},
		},
		"as much as the smaller threshold of the autoscaler": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 500, 1050, 3000)
				c.a.Rules.MinChange = cluster.Setting[float64]{Value: 0.05, Set: true}
			},
			wanted: decision.Reason{Code: decision.Drifted, Resource: cluster.CPU, From: 1000, To: 1050, For: 24 * time.Hour, Have: 5},
		},
		"as much as the threshold": {
			change: func(c *situation) { c.fits[0] = fitOf("a", 500, 1100, 3000) },
			wanted: decision.Reason{Code: decision.Drifted, Resource: cluster.CPU, From: 1000, To: 1100, For: 24 * time.Hour, Have: 10},
		},
		"a request of zero": {
			change: func(c *situation) {
				c.pod.Containers[0].Requests.Memory = 0
				c.fits[0].Estimate.Lower = cluster.Resources{}
			},
			wanted: decision.Reason{Code: decision.Drifted, Resource: cluster.Memory, To: gib, For: 24 * time.Hour, Have: math.MaxInt32},
		},
		"as large as the target": {
			change: func(c *situation) { c.fits[0] = fitOf("a", 500, 1000, 3000) }, instead: decision.Reason{Code: decision.Fits},
		},
		"as large as the target, by upstream's rules": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 500, 1000, 3000)
				c.rules.UpstreamRules = true
			},
			instead: decision.Reason{Code: decision.SmallChange, Want: 10},
		},
		"below its range, whatever its age": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 1001, 2000, 3000)
				c.pod.Started = noon
			},
			wanted: cpu(decision.BelowRange, 1000, 2000),
		},
		"above its range": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 500, 800, 999)
				c.pod.Started = noon
			},
			wanted: cpu(decision.AboveRange, 1000, 800),
		},
		"at the bounds of its range": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 1000, 1000, 1000)
				c.pod.Started = noon
			},
			instead: decision.Reason{Code: decision.Fits},
		},
		"a missing request": {
			change: func(c *situation) {
				c.pod.Containers[0].Requests = c.pod.Containers[0].Requests.Unset(cluster.CPU)
				c.pod.Started = noon
			},
			wanted: cpu(decision.MissingRequest, 0, 2000),
		},
		"below its range by a rounding error": {
			change:  func(c *situation) { c.fits[0] = fitOf("a", 1001, 1001, 3000) },
			instead: decision.Reason{Code: decision.SameSize},
		},
		"below its range by a rounding error, by upstream's rules": {
			change: func(c *situation) {
				c.fits[0] = fitOf("a", 1001, 1001, 3000)
				c.rules.UpstreamRules = true
			},
			wanted: cpu(decision.BelowRange, 1000, 1001),
		},
	} {
		s := situationOf()
		c.change(s)
		v := s.verdict()
		if v.Wanted != c.wanted || v.Instead != c.instead {
			t.Errorf("%s: wanted %+v, instead %+v", name, v.Wanted, v.Instead)
		}
	}
}

func TestOf_outOfMemory_changesAtOnce(t *testing.T) {
	killed := func(from, to int64, lived time.Duration) decision.Reason {
		return decision.Reason{Code: decision.OutOfMemory, Resource: cluster.Memory, From: from, To: to, For: lived}
	}
	tooYoung := decision.Reason{Code: decision.PodTooYoung, Until: noon.Add(12 * time.Hour)}
	for name, c := range map[string]struct {
		change  func(*situation)
		wanted  decision.Reason
		instead decision.Reason
	}{
		"soon after its start": {
			change: func(c *situation) { c.kill(9*time.Minute, time.Minute) }, wanted: killed(gib, 2*gib, 9*time.Minute),
		},
		"too long after its start": {
			change: func(c *situation) { c.kill(10*time.Minute, time.Minute) }, instead: tooYoung,
		},
		"too long ago": {
			change: func(c *situation) { c.kill(time.Minute, 10*time.Minute) }, instead: tooYoung,
		},
		"long ago, but it has not restarted since": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Hour)
				c.pod.Containers[0].Exit.Now = true
			},
			wanted: killed(gib, 2*gib, time.Minute),
		},
		"not by the OOM killer": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.pod.Containers[0].Exit.OOM = false
			},
			instead: tooYoung,
		},
		"a sidecar that is not sized": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.pod.Containers[0].Role = cluster.FixedSidecar
			},
			instead: tooYoung,
		},
		"a container with policy Off": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.a.Policies = []cluster.ContainerPolicy{{Container: "*", Off: true}}
			},
			instead: tooYoung,
		},
		"within the time of the autoscaler": {
			change: func(c *situation) {
				c.kill(30*time.Minute, time.Minute)
				c.rules.PerVPAConfig = true
				c.a.EvictAfterOOM = time.Hour
			},
			wanted: killed(gib, 2*gib, 30*time.Minute),
		},
		"the autoscaler has no time of its own": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.rules.PerVPAConfig = true
			},
			wanted: killed(gib, 2*gib, time.Minute),
		},
		"the time of the autoscaler does not apply": {
			change: func(c *situation) {
				c.kill(30*time.Minute, time.Minute)
				c.a.EvictAfterOOM = time.Hour
			},
			instead: tooYoung,
		},
		"no request changes": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.fits[0] = fitOf("a", 500, 1000, 3000)
			},
			instead: decision.Reason{Code: decision.SameSize},
		},
		"no request changes, by upstream's rules": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.fits[0] = fitOf("a", 500, 1000, 3000)
				c.rules.UpstreamRules = true
			},
			instead: decision.Reason{Code: decision.SameSize},
		},
		"without a recommendation for memory": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				f := &c.fits[0]
				f.Requests = f.Requests.Unset(cluster.Memory)
				f.Estimate.Target = f.Estimate.Target.Unset(cluster.Memory)
			},
			wanted: decision.Reason{Code: decision.OutOfMemory, Resource: cluster.CPU, From: 1000, To: 2000, For: time.Minute},
		},
		"and below its range: the OOM kill is the reason": {
			change: func(c *situation) {
				c.kill(time.Minute, time.Minute)
				c.fits[0].Estimate.Lower.CPU = 1500
			},
			wanted: killed(gib, 2*gib, time.Minute),
		},
	} {
		s := situationOf()
		s.pod.Started = noon
		s.moreMemory()
		c.change(s)
		v := s.verdict()
		if v.Wanted != c.wanted || v.Instead != c.instead {
			t.Errorf("%s: wanted %+v, instead %+v", name, v.Wanted, v.Instead)
		}
	}
}

// Another component may size the containers that the webhook did not observe.
func TestOf_containersThatAreNotObserved_doNotCount(t *testing.T) {
	observed := "a"
	s := situationOf()
	s.pod = podOf(1000, 100)
	s.pod.Marks = &cluster.Marks{Observed: &observed}
	s.pod.Containers[1].Exit = &cluster.Exit{OOM: true, Now: true, Started: noon, Finished: noon}
	s.fits = []policy.Fitted{fitOf("a", 500, 1050, 3000), fitOf("b", 4000, 5000, 6000)}
	if v := s.verdict(); v.Instead.Code != decision.SmallChange || v.Priority.Diff != 0.05 {
		t.Errorf("wanted %+v, instead %+v, priority %+v", v.Wanted, v.Instead, v.Priority)
	}
	s.pod.Marks = nil
	if v := s.verdict(); v.Wanted.Code != decision.OutOfMemory || v.Wanted.Container != "b" {
		t.Errorf("all are observed: %+v", v.Wanted)
	}
}

func TestOf_severalContainers_reasonNamesOne(t *testing.T) {
	s := situationOf()
	s.pod = podOf(1000, 1000)
	s.fits = []policy.Fitted{fitOf("a", 500, 1500, 3000), fitOf("b", 500, 2000, 3000)}
	v := s.verdict()
	if v.Wanted.Code != decision.Drifted || v.Wanted.Container != "b" || v.Wanted.Have != 75 || v.Largest.Container != "b" || v.Largest.To != 2000 {
		t.Errorf("wanted %+v, largest %+v", v.Wanted, v.Largest)
	}
}

func TestCompare_worst_hasTheHighestRank(t *testing.T) {
	in := func(container string) policy.Fitted { return fitOf(container, 500, 1000, 3000) }
	for name, c := range map[string]struct {
		fits  []policy.Fitted
		unset bool // container b has no CPU request
		want  decision.Reason
	}{
		"all are in their range": {fits: []policy.Fitted{in("a"), in("b")}},
		"below its range is worse than above it": {
			fits: []policy.Fitted{fitOf("a", 10, 20, 30), fitOf("b", 1001, 1010, 3000)},
			want: decision.Reason{Code: decision.BelowRange, Container: "b", Resource: cluster.CPU, From: 1000, To: 1010},
		},
		"a missing request is worse than one above its range": {
			fits: []policy.Fitted{fitOf("a", 10, 20, 30), in("b")}, unset: true,
			want: decision.Reason{Code: decision.MissingRequest, Container: "b", Resource: cluster.CPU, To: 1000},
		},
		"below its range is worse than a missing request": {
			fits: []policy.Fitted{fitOf("a", 1001, 1010, 3000), in("b")}, unset: true,
			want: decision.Reason{Code: decision.BelowRange, Container: "a", Resource: cluster.CPU, From: 1000, To: 1010},
		},
		"of two, the larger change": {
			fits: []policy.Fitted{fitOf("a", 1200, 1300, 3000), fitOf("b", 1200, 1400, 3000)},
			want: decision.Reason{Code: decision.BelowRange, Container: "b", Resource: cluster.CPU, From: 1000, To: 1400},
		},
		"of two equal changes, the first": {
			fits: []policy.Fitted{fitOf("a", 1200, 1500, 3000), fitOf("b", 1200, 1500, 3000)},
			want: decision.Reason{Code: decision.BelowRange, Container: "a", Resource: cluster.CPU, From: 1000, To: 1500},
		},
		"of two, the larger change, if it comes first": {
			fits: []policy.Fitted{fitOf("a", 1200, 1500, 3000), fitOf("b", 1200, 1400, 3000)},
			want: decision.Reason{Code: decision.BelowRange, Container: "a", Resource: cluster.CPU, From: 1000, To: 1500},
		},
	} {
		p := podOf(1000, 1000)
		if c.unset {
			p.Containers[1].Requests = p.Containers[1].Requests.Unset(cluster.CPU)
		}
		if got := Compare(p, c.fits).worst; got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCompare_severalContainers_largestChanges(t *testing.T) {
	withMemory := func(container string, cpu, memory int64) policy.Fitted {
		f := fitOf(container, 0, cpu, 9000)
		f.Estimate.Target.Memory = memory
		return f
	}
	got := Compare(podOf(1000, 1000, 1000, 1000), []policy.Fitted{
		withMemory("a", 5000, gib), withMemory("b", 1000, 3*gib), withMemory("c", 1000, 2*gib), withMemory("d", 5000, 3*gib),
	})
	if got.Largest.Container != "a" || got.Largest.Resource != cluster.CPU || got.Largest.To != 5000 {
		t.Errorf("the largest change of all: %+v", got.Largest)
	}
	if got.memory.Container != "b" || got.memory.Resource != cluster.Memory || got.memory.To != 3*gib {
		t.Errorf("the largest change of memory: %+v", got.memory)
	}
}

func TestComparison_priority_sumsTheResourcesOfThePod(t *testing.T) {
	memory := fitOf("a", 0, 1000, 9000)
	memory.Estimate.Target.Memory = gib / 2
	for name, c := range map[string]struct {
		fits []policy.Fitted
		want decision.Priority
	}{
		"opposite changes cancel out": {fits: []policy.Fitted{fitOf("a", 0, 1500, 9000), fitOf("b", 0, 500, 9000)}, want: decision.Priority{Up: true}},
		"a part of the pod shrinks":   {fits: []policy.Fitted{fitOf("a", 0, 1000, 9000), fitOf("b", 0, 500, 9000)}, want: decision.Priority{Diff: 0.25}},
		"CPU and memory add up":       {fits: []policy.Fitted{memory, fitOf("b", 0, 3000, 9000)}, want: decision.Priority{Up: true, Diff: 1.25}},
		"only what is recommended":    {fits: []policy.Fitted{fitOf("b", 0, 3000, 9000)}, want: decision.Priority{Up: true, Diff: 2}},
		"no recommendation":           {},
	} {
		if got := Compare(podOf(1000, 1000), c.fits).Priority(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	empty := podOf(1000)
	empty.Containers[0].Requests = cluster.Resources{}
	f := fitOf("a", 0, 500, 9000)
	f.Estimate.Target = f.Estimate.Target.Unset(cluster.Memory)
	if got := Compare(empty, []policy.Fitted{f}).Priority(); !got.Up || got.Diff != 499 { // it counts as 1 millicore
		t.Errorf("a missing request: %+v", got)
	}
}

// The size that a pod runs with counts, not the size that it asks for.
func TestCompare_duringAResize_comparesTheActualRequests(t *testing.T) {
	p := podOf(2000)
	p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(1000, gib)}
	if got := Compare(p, []policy.Fitted{fitOf("a", 500, 2000, 3000)}).Largest; got.From != 1000 || got.To != 2000 {
		t.Errorf("%+v", got)
	}
}

func TestCompare_podLevelRequest_countsInsteadOfTheContainers(t *testing.T) {
	// A pod-level target of 2 CPUs; the upper bound of the container allows 1 CPU more than its target.
	for name, c := range map[string]struct {
		from  int64
		lower int64 // bound of the container
		upper int64 // bound of the container; 2500 if not set
		kept  bool  // the pod-level request does not change
		diff  float64
		worst decision.Reason
	}{
		"at most as large as the bounds allow": {from: 3000, diff: 1.0 / 3},
		"larger than the bounds allow":         {from: 4000, diff: 0.5, worst: decision.Reason{Code: decision.AboveRange, Resource: cluster.CPU, From: 4000, To: 2000}},
		"a container below its range is worse": {
			from: 4000, lower: 1001, diff: 0.5, worst: decision.Reason{Code: decision.BelowRange, Container: "a", Resource: cluster.CPU, From: 1000, To: 1500},
		},
		"it does not change": {from: 4000, kept: true, diff: 0.5},
		"the container is above its range, too": {
			from: 4000, upper: 900, diff: 0.5, worst: decision.Reason{Code: decision.AboveRange, Resource: cluster.CPU, From: 4000, To: 2000},
		},
	} {
		p := podOf(1000)
		p.PodLevel = &cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, c.from)}
		f := fitOf("a", c.lower, 1500, 2500)
		if c.upper > 0 {
			f = fitOf("a", c.lower, 800, c.upper)
		}
		if !c.kept {
			f.PodLevel = &cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, 2000)}
		}
		got := Compare(p, []policy.Fitted{f})
		if math.Abs(got.Priority().Diff-c.diff) > 1e-9 || got.worst != c.worst {
			t.Errorf("%s: priority %+v, worst %+v", name, got.Priority(), got.worst)
		}
	}
}

func TestCompare_podLevelRequest_isTheLargestChange(t *testing.T) {
	p := podOf(1000)
	p.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(1000, gib)}
	f := fitOf("a", 0, 1500, 9000)
	f.PodLevel = &cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, 3000)}
	if got := Compare(p, []policy.Fitted{f}).Largest; got != (decision.Reason{Resource: cluster.CPU, From: 1000, To: 3000}) {
		t.Errorf("%+v", got)
	}
	f.Estimate.Target.CPU = 3000
	if got := Compare(p, []policy.Fitted{f}).Largest; got.Container != "a" {
		t.Errorf("the container changes as much: %+v", got)
	}
	f.Estimate.Target.CPU = 5000
	if got := Compare(p, []policy.Fitted{f}).Largest; got.Container != "a" || got.To != 5000 {
		t.Errorf("the container changes more: %+v", got)
	}
	if got := Compare(p, nil); got != (Comparison{}) {
		t.Errorf("without a recommendation: %+v", got)
	}
	f.Estimate.Target = f.Estimate.Target.Unset(cluster.CPU)
	if got := Compare(p, []policy.Fitted{f}); got.Largest.Resource != cluster.Memory || got.Priority().Diff != 0 {
		t.Errorf("without a recommendation for CPU: %+v", got.Largest)
	}
}

func TestNameUnlessSole_onlyRegularContainer_hasNoName(t *testing.T) {
	p := podOf(1000, 1000)
	if got := NameUnlessSole(p)("a"); got != "a" {
		t.Errorf("one of two containers is %q", got)
	}
	p.Containers[1].Role = cluster.FixedSidecar
	if got := NameUnlessSole(p)("a"); got != "" {
		t.Errorf("the only container that is sized is %q", got)
	}
}

func TestRequirementsMet_eachHoldsForOneContainer(t *testing.T) {
	higher := func(rs ...cluster.Resource) cluster.EvictionRequirement {
		return cluster.EvictionRequirement{Resources: cluster.Of(rs...), Higher: true}
	}
	lower := func(rs ...cluster.Resource) cluster.EvictionRequirement {
		return cluster.EvictionRequirement{Resources: cluster.Of(rs...)}
	}
	up := fitOf("a", 0, 2000, 9000)
	same := fitOf("a", 0, 1000, 9000)
	down := fitOf("b", 0, 500, 9000)
	down.Estimate.Target.Memory = 2 * gib
	none := policy.Fitted{Container: "a"}
	for name, c := range map[string]struct {
		requirements []cluster.EvictionRequirement
		fits         []policy.Fitted
		unset        bool // container a has no CPU request
		met          bool
	}{
		"no requirement":                           {fits: []policy.Fitted{same}, met: true},
		"the target is higher":                     {requirements: []cluster.EvictionRequirement{higher(cluster.CPU)}, fits: []policy.Fitted{up}, met: true},
		"the target must be lower":                 {requirements: []cluster.EvictionRequirement{lower(cluster.CPU)}, fits: []policy.Fitted{up}},
		"the target is lower":                      {requirements: []cluster.EvictionRequirement{lower(cluster.CPU)}, fits: []policy.Fitted{down}, met: true},
		"the target is equal, and must be lower":   {requirements: []cluster.EvictionRequirement{lower(cluster.CPU)}, fits: []policy.Fitted{same}},
		"the target is equal, and must be higher":  {requirements: []cluster.EvictionRequirement{higher(cluster.CPU)}, fits: []policy.Fitted{same}},
		"one of two resources is enough":           {requirements: []cluster.EvictionRequirement{higher(cluster.CPU, cluster.Memory)}, fits: []policy.Fitted{down}, met: true},
		"another resource does not count":          {requirements: []cluster.EvictionRequirement{higher(cluster.Memory)}, fits: []policy.Fitted{up}},
		"both hold for one container":              {requirements: []cluster.EvictionRequirement{higher(cluster.Memory), lower(cluster.CPU)}, fits: []policy.Fitted{same, down}, met: true},
		"each holds for another container":         {requirements: []cluster.EvictionRequirement{higher(cluster.CPU), lower(cluster.CPU)}, fits: []policy.Fitted{up, down}},
		"a missing request meets all that name it": {requirements: []cluster.EvictionRequirement{higher(cluster.CPU), lower(cluster.CPU)}, fits: []policy.Fitted{up}, unset: true, met: true},
		"no recommendation for the resource":       {requirements: []cluster.EvictionRequirement{higher(cluster.CPU)}, fits: []policy.Fitted{none}, unset: true},
		"no recommendation":                        {requirements: []cluster.EvictionRequirement{higher(cluster.CPU)}},
	} {
		p := podOf(1000, 1000)
		if c.unset {
			p.Containers[0].Requests = p.Containers[0].Requests.Unset(cluster.CPU)
		}
		if got := (&Rules{}).RequirementsMet(&cluster.Autoscaler{Requirements: c.requirements}, p, c.fits); got != c.met {
			t.Errorf("%s: met %v, want %v", name, got, c.met)
		}
	}
}

func TestLeftToHPA_podWouldChangeWithoutTheHPA_isTheReason(t *testing.T) {
	fits := decision.Reason{Code: decision.Fits}
	target := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	for name, c := range map[string]struct {
		advice  cluster.Resources
		metrics []cluster.UtilizationTarget
		want    decision.ReasonCode
	}{
		"no HPA":          {cluster.Amounts(3000, gib), nil, decision.Fits},
		"CPU is scaled":   {cluster.Amounts(3000, gib), []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}, decision.LeftToHPA},
		"CPU would stay":  {cluster.Amounts(1000, gib), []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}, decision.Fits},
		"other container": {cluster.Amounts(3000, gib), []cluster.UtilizationTarget{{Resource: cluster.CPU, Container: "log", Percent: 80}}, decision.Fits},
	} {
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: target, Mode: cluster.Recreate}
		a.Advice = []cluster.Advice{{Container: "a", Estimate: cluster.Estimate{Lower: c.advice, Target: c.advice, Upper: c.advice}}}
		a = a.WithHorizontal([]*cluster.HorizontalAutoscaler{{Key: cluster.Key{Namespace: "shop", Name: "hpa"}, Target: target, Utilization: c.metrics}})
		got := LeftToHPA(noon, &situationOf().rules, a, policy.Limits{}, podOf(1000), fits)
		if got.Code != c.want || c.want == decision.LeftToHPA && got.Text != "hpa" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// An init container that has ended gets another size only in a new pod, for which no pod is replaced.
func TestOf_initContainerIsTooSmallAndWasKilled_podStays(t *testing.T) {
	c := situationOf()
	c.fits = []policy.Fitted{fitOf("a", 900, 1000, 1100)}
	before := c.verdict()
	c.pod.Containers = append(c.pod.Containers, cluster.Container{Name: "migrate", Role: cluster.Init, Requests: cluster.Amounts(10, gib)})
	c.pod.Containers[1].Exit = &cluster.Exit{OOM: true, Started: noon.Add(-2 * time.Minute), Finished: noon.Add(-time.Minute), Now: true}
	c.a.Advice = []cluster.Advice{{Container: "migrate", Estimate: cluster.Estimate{Lower: cluster.Amounts(500, gib), Target: cluster.Amounts(500, gib), Upper: cluster.Amounts(500, gib)}}}
	if after := c.verdict(); after != before {
		t.Errorf("verdict %+v, without the init container %+v", after, before)
	}
}
