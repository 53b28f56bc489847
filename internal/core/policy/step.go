// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// keepPerCPU raises memory or CPU of the containers in proportion, so that the sums of their targets within minAllowed and maxAllowed have the
// memory for each core that the autoscaler requests. Containers without a target for both do not count. The bounds of Cap that follow win.
func keepPerCPU(a *cluster.Autoscaler, advice []cluster.Advice, global cluster.Resources, looked *lookedAt) {
	ratio := a.Rules.MemoryPerCPU.Value
	if ratio == (cluster.MemoryPerCPU{}) {
		return
	}
	var sum cluster.Resources
	targets := make([]cluster.Resources, len(advice))
	for i := range advice {
		if advice[i].Target.Has == cluster.Both {
			within := allowedBy(a, advice[i].Container, global)
			targets[i] = within.apply(advice[i].Target, nil, nil)
			sum = cluster.Amounts(integer.Sum(sum.CPU, targets[i].CPU), integer.Sum(sum.Memory, targets[i].Memory))
		}
	}
	res := cluster.Memory
	wanted, _ := integer.ScaledUp(sum.CPU, ratio.Least, 1000)
	if wanted <= sum.Memory && ratio.Most > 0 {
		res = cluster.CPU
		wanted, _ = integer.ScaledUp(sum.Memory, 1000, ratio.Most)
	}
	for i := range advice {
		before, ok := targets[i].Get(res)
		if !ok {
			continue
		}
		least, _ := integer.ScaledUp(before, wanted, sum.Amount(res))
		look(looked.of(i), Bound{Resource: res, Kind: MemoryPerCPU, Amount: least, Before: before, After: max(before, least)})
		if e := &advice[i].Estimate; least > before {
			for _, r := range []*cluster.Resources{&e.Lower, &e.Target, &e.Upper} {
				v, _ := integer.ScaledUp(r.Amount(res), wanted, sum.Amount(res))
				*r = r.Set(res, v)
			}
			e.Target = e.Target.Set(res, least)
		}
	}
}

// Running are the pods of an autoscaler, from whose requests its steps are measured.
type Running struct {
	Pods []*cluster.Pod
	Now  time.Time
}

// Step limits the result of Cap, in place: a target is at most a step above the least and a step below the most request of the pods. If no amount is,
// it stays between the two, so that no pod moves away from the target. The next step begins when all pods have had the last one, without a
// stored state. Not limited are whole cores, memory upwards after an OOM kill, what a pod has no request of, and all if running pods are not
// changed. minAllowed and maxAllowed win, because every pod gets them. Bounds are appended to looked, unless it is nil.
//
// A limited target moves the bound on the side of the pods, so that those that would change without the limit are outside of it. Otherwise
// a step that is smaller than --pod-update-threshold would never be taken.
func (r *Running) Step(a *cluster.Autoscaler, global cluster.Resources, advice []cluster.Advice, looked [][]Bound) {
	limit := a.Rules.MaxStep.Value
	if limit == (cluster.MaxStep{}) || !a.Mode.Updates() {
		return
	}
	spans := make([]span, len(advice))
	for i := range advice {
		spans[i] = r.spanOf(advice[i].Container)
	}
	drifts := r.drifts(a, advice, spans)
	for i := range advice {
		e := &advice[i].Estimate
		within := allowedBy(a, advice[i].Container, global)
		whole := slices.Contains(a.IntegerCPU, advice[i].Container)
		for _, res := range cluster.All {
			target, ok := e.Target.Get(res)
			low := spans[i].least.Amount(res)
			high := spans[i].most.Amount(res)
			step := limit.Of(res, low)
			if !ok || low <= 0 || step == math.MaxInt64 || whole && res == cluster.CPU {
				continue
			}
			if least, most := high-limit.Of(res, high), integer.Sum(low, step); least <= most {
				low, high = least, most
			}
			to := within.apply(cluster.Resources{}.Set(res, min(max(target, low), high)), nil, nil).Amount(res)
			if to < target && res == cluster.Memory && spans[i].killed {
				to = target
			}
			if looked != nil {
				look(&looked[i], Bound{Resource: res, Kind: MaxStep, Amount: step, Before: target, After: to})
			}
			e.Target = e.Target.Set(res, to)
			if to < target && (drifts || to < e.Lower.Amount(res)) {
				e.Lower = e.Lower.Set(res, to)
			}
			if to > target && (drifts || to > e.Upper.Amount(res)) {
				e.Upper = e.Upper.Set(res, to)
			}
		}
	}
}

// A span is the least and the most that live pods request for a container in their specs, without a startup boost.
type span struct {
	least, most cluster.Resources
	killed      bool // the container was OOM-killed in the last day
}

func (r *Running) spanOf(container string) (s span) {
	for _, p := range r.Pods {
		c := p.Container(container)
		if c == nil {
			continue
		}
		s.killed = s.killed || c.Exit != nil && c.Exit.OOM && r.Now.Sub(c.Exit.Finished) < 24*time.Hour
		requests := cluster.Amounts(c.Requests.CPU, c.Requests.Memory)
		if c.Boosted != nil {
			requests.CPU = c.Boosted.Requests.CPU
		}
		switch {
		case !p.Live():
		case s.most.Has.Empty():
			s.least, s.most = requests, requests
		default:
			s.least = cluster.Amounts(min(s.least.CPU, requests.CPU), min(s.least.Memory, requests.Memory))
			s.most = s.most.Highest(requests)
		}
	}
	return s
}

// drifts reports whether the updater would change pods within their bounds, by the rule of need.Of with the default flags of the updater.
func (r *Running) drifts(a *cluster.Autoscaler, advice []cluster.Advice, spans []span) bool {
	old := r.Now.Add(-12 * time.Hour)
	isOld := func(p *cluster.Pod) bool { return p.Live() && !p.Started.IsZero() && !p.Started.After(old) }
	if a.Created.After(old) || !slices.ContainsFunc(r.Pods, isOld) {
		return false
	}
	share := 0.0
	for _, res := range cluster.All {
		var target, least, most float64
		for i := range advice {
			if v, ok := advice[i].Target.Get(res); ok {
				target += float64(v)
				least += float64(spans[i].least.Amount(res))
				most += float64(spans[i].most.Amount(res))
			}
		}
		share += max(math.Abs(target-least)/max(least, 1), math.Abs(target-most)/max(most, 1))
	}
	return share >= a.Rules.MinChange.Or(0.1)
}
