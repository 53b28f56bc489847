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

// keepPerCPU raises memory or CPU of the containers with a target for both, in proportion, so that together they have the memory for each core that
// the autoscaler requests, as far as maxAllowed and the share of a node allow. It changes no whole cores.
func keepPerCPU(a *cluster.Autoscaler, advice []cluster.Advice, global cluster.Resources, node cluster.NodeShare, looked *lookedAt) {
	ratio := a.Rules.MemoryPerCPU.Value
	var sum cluster.Resources
	for i := range advice {
		if t := advice[i].Target; t.Has == cluster.Both {
			sum = cluster.Amounts(integer.Sum(sum.CPU, t.CPU), integer.Sum(sum.Memory, t.Memory))
		}
	}
	res := cluster.Memory
	wanted, _ := integer.ScaledUp(sum.CPU, ratio.Least, 1000)
	if wanted <= sum.Memory && ratio.Most > 0 {
		res = cluster.CPU
		wanted, _ = integer.ScaledUp(sum.Memory, 1000, ratio.Most)
		wanted = atMost(wanted, node.Most())
	}
	for i := range advice {
		e := &advice[i].Estimate
		before := e.Target.Amount(res)
		if e.Target.Has != cluster.Both || wanted == 0 || res == cluster.CPU && slices.Contains(a.IntegerCPU, advice[i].Container) {
			continue
		}
		within := allowedBy(a, advice[i].Container, global)
		for _, r := range []*cluster.Resources{&e.Lower, &e.Target, &e.Upper} {
			if v, ok := r.Get(res); ok {
				v, _ = integer.ScaledUp(v, max(wanted, sum.Amount(res)), sum.Amount(res))
				*r = r.Set(res, atMost(v, within.high.Amount(res)))
			}
		}
		least, _ := integer.ScaledUp(before, wanted, sum.Amount(res))
		look(looked.of(i), Bound{Resource: res, Kind: MemoryPerCPU, Amount: least, Before: before, After: e.Target.Amount(res)})
	}
}

// Running are the pods of an autoscaler, from whose requests its steps are measured.
type Running struct {
	Pods []*cluster.Pod
	Now  time.Time
}

// Step limits the targets of the result of Cap, in place: a target is at most one step above the least request of the pods, and at most one step below
// the most. So the next step begins when all pods have the last one, and nothing needs to be stored. Step does not limit CPU in whole cores, an
// increase of memory after an OOM kill, a resource that a pod does not request, and VPAs that do not change running pods. minAllowed and maxAllowed have
// precedence. Step appends what it did to looked, unless that is nil.
//
// If the updater would change the pods without the limit, Step also moves a bound to the limited target, so that the pods are outside of the bounds.
// Otherwise the updater would never take a step that is smaller than --pod-update-threshold.
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
			step := limit.Of(res, spans[i].least.Amount(res))
			if !ok || spans[i].least.Amount(res) <= 0 || step == math.MaxInt64 || whole && res == cluster.CPU {
				continue
			}
			e.Target = within.apply(e.Target.Set(res, spans[i].limited(limit, res, target)), nil, nil)
			to := e.Target.Amount(res)
			if drifts && to < target {
				e.Lower = e.Lower.Set(res, to)
			}
			if drifts && to > target {
				e.Upper = e.Upper.Set(res, to)
			}
			if looked != nil {
				look(&looked[i], Bound{Resource: res, Kind: MaxStep, Amount: step, Before: target, After: to})
			}
		}
		*e = ordered(*e)
	}
}

// A span is the least and the most that live pods request for a container, without a startup boost. During a resize, the old and the new request
// count. Otherwise, the next step would begin while the resize still waits for room.
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
		running, _ := c.Running()
		for _, v := range [...]cluster.Resources{c.Requests, running} {
			if c.Boosted != nil {
				v.CPU = c.Boosted.Requests.CPU
			}
			switch {
			case !p.Live():
			case s.most.Has.Empty():
				s.least = v
				s.most = cluster.Amounts(v.CPU, v.Memory)
			default:
				s.least = cluster.Amounts(min(s.least.CPU, v.CPU), min(s.least.Memory, v.Memory))
				s.most = s.most.Highest(v)
			}
		}
	}
	return s
}

// limited returns the amount closest to a target that differs from the request of each pod by at most one step. If there is no such amount, it returns
// the closest one between the least and the most request, so that no pod moves away from the target.
func (s *span) limited(limit cluster.MaxStep, res cluster.Resource, target int64) int64 {
	low := s.least.Amount(res)
	high := s.most.Amount(res)
	if least, most := high-limit.Of(res, high), integer.Sum(low, limit.Of(res, low)); least <= most {
		low, high = least, most
	}
	if res == cluster.Memory && s.killed {
		high = max(high, target)
	}
	return min(max(target, low), high)
}

// drifts reports whether the updater would change pods whose requests are within the bounds, because they are old and differ enough from the targets.
// It assumes that the updater has its default flags. The rule is that of need.Of.
func (r *Running) drifts(a *cluster.Autoscaler, advice []cluster.Advice, spans []span) bool {
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
	old := r.Now.Add(-12 * time.Hour)
	isOld := func(p *cluster.Pod) bool { return p.Live() && !p.Started.IsZero() && !p.Started.After(old) }
	return share >= a.Rules.MinChange.Or(0.1) && !a.Created.After(old) && slices.ContainsFunc(r.Pods, isOld)
}
