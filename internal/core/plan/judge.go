// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// A verdict is whether a pod should change, going by its size, its age and how it died; not whether it may now.
type verdict struct {
	wanted   Reason // Fits when the pod should not change
	instead  Reason // why it should not, when wanted is Fits
	priority Priority
}

// judge applies the rules for a change, the first that holds first. Containers that the webhook did not observe do not
// count, as nobody knows who sizes them.
//
//	a container was killed for memory soon after its start, and its request would change
//	a request is outside its range or missing
//	the pod is old enough, and its requests differ enough from the targets
//
// The last rule trusts the target rather than the range, which is wide as long as little is known. So the autoscaler has
// to be as old as the pod must be: on its first day its target is what a few minutes showed (W-02).
func judge(now time.Time, b Budget, a *cluster.Autoscaler, p *cluster.Pod, fits []policy.Fitted) verdict {
	t := compareRequests(p, fits)
	v := verdict{priority: t.priority()}
	name := nameUnlessSole(p)
	t.worst.Container = name(t.worst.Container)
	t.largest.Container = name(t.largest.Container)

	quick, dead := quickOOM(now, b, a, p)
	outside := t.worst.Code != Fits
	switch same := sameSize(p, fits); {
	case quick && (v.priority.Diff == 0 || same), outside && same:
		v.instead = Reason{Code: SameSize}
	case quick:
		v.wanted = t.largest
		if t.memory.Resource != 0 {
			v.wanted = t.memory
		}
		v.wanted.Code, v.wanted.For = OutOfMemory, dead.lived
		v.wanted.Container = name(dead.container)
	case outside:
		v.wanted = t.worst
	case same:
		v.instead = Reason{Code: Fits}
	case p.Started.IsZero():
		v.instead = Reason{Code: PodTooYoung}
	case now.Before(p.Started.Add(b.Lifetime)):
		v.instead = Reason{Code: PodTooYoung, Until: p.Started.Add(b.Lifetime)}
	case now.Before(a.Created.Add(b.Lifetime)):
		v.instead = Reason{Code: AutoscalerTooYoung, Until: a.Created.Add(b.Lifetime)}
	case v.priority.Diff < b.Threshold:
		v.instead = Reason{Code: SmallChange, Have: percent(v.priority.Diff), Want: percent(b.Threshold)}
	default:
		v.wanted = t.largest
		v.wanted.Code, v.wanted.For, v.wanted.Have = Drifted, now.Sub(p.Started), percent(v.priority.Diff)
	}
	return v
}

func percent(f float64) int { return int(min(math.Round(f*100), math.MaxInt32)) }

// soleName returns a function that drops the name of a pod's only container: a reason need not say which it was.
func nameUnlessSole(p *cluster.Pod) func(string) string {
	regular := 0
	for i := range p.Containers {
		if p.Containers[i].Role == cluster.Regular {
			regular++
		}
	}
	return func(name string) string {
		if regular == 1 {
			return ""
		}
		return name
	}
}

// A tally is how the requests of a pod compare to what is recommended.
type comparison struct {
	requested, target [len(cluster.All)]float64 // sums in thousandths, of what is recommended
	known             [len(cluster.All)]bool
	up                bool
	worst             Reason // the worst request that is missing or outside its range
	largest           Reason // the largest relative change of all
	memory            Reason // the largest relative change of memory
}

// ranks order what may be wrong with a request; the worst is what a reason names.
var ranks = map[ReasonCode]int{AboveRange: 1, MissingRequest: 2, BelowRange: 3}

func compareRequests(p *cluster.Pod, fits []policy.Fitted) comparison {
	var t comparison
	var worst, largest, memory float64
	for i := range fits {
		f := &fits[i]
		if !policy.Observed(p.Observed, f.Container) {
			continue
		}
		requests, _ := p.Container(f.Container).Running()
		for n, res := range cluster.All {
			to, ok := f.Estimate.Target.Get(res)
			if !ok {
				continue
			}
			from, requested := requests.Get(res)
			t.known[n] = true
			t.target[n] += thousandths(res, to)
			t.requested[n] += thousandths(res, from)
			t.up = t.up || !requested || to > from

			why := Fits
			lower, hasLower := f.Estimate.Lower.Get(res)
			upper, hasUpper := f.Estimate.Upper.Get(res)
			switch {
			case !requested:
				why = MissingRequest
			case hasLower && from < lower:
				why = BelowRange
			case hasUpper && from > upper:
				why = AboveRange
			}
			r := Reason{Code: why, Container: f.Container, Resource: res, From: from, To: to}
			change := math.Abs(float64(to)-float64(from)) / math.Max(float64(from), 1)
			if why != Fits && (ranks[why] > ranks[t.worst.Code] || ranks[why] == ranks[t.worst.Code] && change > worst) {
				t.worst, worst = r, change
			}
			if t.largest.Resource == 0 || change > largest {
				t.largest, largest = r, change
			}
			if res == cluster.Memory && (t.memory.Resource == 0 || change > memory) {
				t.memory, memory = r, change
			}
		}
	}
	return t
}

// priority sums the relative difference of each resource over the whole pod. Changes of one resource in opposite
// directions cancel: the pod as a whole asks its node for the same.
func (t comparison) priority() Priority {
	p := Priority{Up: t.up}
	for n := range cluster.All {
		if t.known[n] {
			requested := math.Max(t.requested[n], 1)
			p.Diff += math.Abs(requested-t.target[n]) / requested
		}
	}
	return p
}

// thousandths is the unit in which a request of nothing counts as one.
func thousandths(res cluster.Resource, amount int64) float64 {
	if res == cluster.CPU {
		return float64(amount)
	}
	return float64(amount) * 1000
}

// A death is how long a container lived before it was killed for memory.
type oomKill struct {
	container string
	lived     time.Duration
}

// quickOOM reports whether an observed container that the policy does not leave alone was killed for memory soon after
// its start, and only recently: an old kill says nothing about the size it has had since.
func quickOOM(now time.Time, b Budget, a *cluster.Autoscaler, p *cluster.Pod) (bool, oomKill) {
	soon := b.QuickOOM
	if b.PerVPAConfig && a.EvictAfterOOM > 0 {
		soon = a.EvictAfterOOM
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role != cluster.Regular || c.Exit == nil || !c.Exit.OOM || !policy.Observed(p.Observed, c.Name) {
			continue
		}
		if cp := a.Policy(c.Name); cp != nil && cp.Off {
			continue
		}
		lived := c.Exit.Finished.Sub(c.Exit.Started)
		if lived < soon && (c.Exit.Now || now.Sub(c.Exit.Finished) < soon) {
			return true, oomKill{container: c.Name, lived: lived}
		}
	}
	return false, oomKill{}
}

// requirementsMet reports whether the user's requirements allow an eviction: for one container at least, each of them
// holds for one of its resources at least. A resource that is recommended but not requested meets any requirement that
// names it, and only those (W-27).
func requirementsMet(a *cluster.Autoscaler, p *cluster.Pod, fits []policy.Fitted) bool {
	if len(a.Requirements) == 0 {
		return true
	}
	for i := range fits {
		requests, _ := p.Container(fits[i].Container).Running()
		met := true
		for _, r := range a.Requirements {
			met = met && requirementMet(r, requests, fits[i].Estimate.Target)
		}
		if met {
			return true
		}
	}
	return false
}

func requirementMet(r cluster.EvictionRequirement, requests, target cluster.Resources) bool {
	for _, res := range cluster.All {
		to, ok := target.Get(res)
		if !ok || !r.Resources.Has(res) {
			continue
		}
		from, requested := requests.Get(res)
		if !requested || r.Higher && to > from || !r.Higher && to < from {
			return true
		}
	}
	return false
}
