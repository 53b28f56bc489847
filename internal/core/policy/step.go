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

// Running is what the pods of an autoscaler run with, from which its steps are measured.
type Running struct {
	Pods   []*cluster.Pod
	Killed []string // containers that were OOM-killed recently, whose memory is not limited upwards
	Now    time.Time
}

// The conditions for a change of a pod within its bounds, as in core/need: the defaults of the flags of the updater.
const (
	driftAge   = 12 * time.Hour // --in-recommendation-bounds-eviction-lifetime-threshold
	driftShare = 0.1            // --pod-update-threshold; the annotation podfit.dev/min-change replaces it
)

// A span is the least and the most that pods request for a container.
type span struct{ least, most cluster.Resources }

// Step limits the result of Cap to a step from the requests of the running pods, in place: a target is at most a step above the least and
// at most a step below the most request. If no such amount exists, the target only stays between the two, so that no pod moves away from it. The next
// step begins when all pods have had the last one, so no state is stored. Nothing is limited if running pods are not changed, or for a
// container that a pod has no request of. minAllowed and maxAllowed win, because every pod gets them.
//
// A limited target moves a bound, so that pods which would be changed without the limit are outside of the bounds: else a step below
// --pod-update-threshold would never be taken. For pods within the bounds, these are pods that are old and different enough.
//
// Bounds are appended to looked, unless it is nil.
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
		for _, res := range cluster.All {
			target, ok := e.Target.Get(res)
			least, most := spans[i].least.Amount(res), spans[i].most.Amount(res)
			if _, limited := limit.Of(res, least); !ok || !limited || least <= 0 {
				continue
			}
			amount, after := stepped(limit, res, target, least, most)
			whole := res == cluster.CPU && slices.Contains(a.IntegerCPU, advice[i].Container)
			switch {
			case after < target && res == cluster.Memory && slices.Contains(r.Killed, advice[i].Container):
				after = target
			case after < target:
				if whole {
					after = wholeCores(after)
				}
				after = min(max(after, within.low.Amount(res)), target)
			case after > target:
				if whole {
					after = after / 1000 * 1000
				}
				after = max(atMost(after, within.high.Amount(res)), target)
			}
			if looked != nil {
				look(&looked[i], Bound{Resource: res, Kind: MaxStep, Amount: amount, Before: target, After: after})
			}
			limitTo(e, res, after, drifts)
		}
	}
}

// limitTo replaces a target, and moves the bound on the side of the pods to it: as far as needed, or entirely so that all pods which differ from
// the target are outside.
func limitTo(e *cluster.Estimate, res cluster.Resource, to int64, entirely bool) {
	before := e.Target.Amount(res)
	e.Target = e.Target.Set(res, to)
	if v, ok := e.Lower.Get(res); ok && to < before && (entirely || to < v) {
		e.Lower = e.Lower.Set(res, to)
	}
	if v, ok := e.Upper.Get(res); ok && to > before && (entirely || to > v) {
		e.Upper = e.Upper.Set(res, to)
	}
}

// stepped returns the target within a step of the requests, and the step.
func stepped(limit cluster.MaxStep, res cluster.Resource, target, least, most int64) (step, to int64) {
	up, _ := limit.Of(res, least)
	down, _ := limit.Of(res, most)
	low, high := most-down, integer.Sum(least, up)
	if low > high {
		low, high = least, most
	}
	to = min(max(target, low), high)
	if to > target {
		return down, to
	}
	return up, to
}

// spanOf returns what the live pods request for a container in their specs, without a startup boost. A request that is missing counts as zero.
func (r *Running) spanOf(container string) span {
	var s span
	seen := false
	for _, p := range r.Pods {
		c := p.Container(container)
		if c == nil || !p.Live() {
			continue
		}
		requests := c.Requests
		if c.Boosted != nil {
			requests.CPU = c.Boosted.Requests.CPU
		}
		if !seen {
			s = span{requests, requests}
			seen = true
		}
		s.least = cluster.Amounts(min(s.least.CPU, requests.CPU), min(s.least.Memory, requests.Memory))
		s.most = s.most.Highest(requests)
	}
	return s
}

// drifts reports whether the updater would change pods that are within their bounds, by the rule of need.Of.
func (r *Running) drifts(a *cluster.Autoscaler, advice []cluster.Advice, spans []span) bool {
	isOld := func(p *cluster.Pod) bool { return p.Live() && !p.Started.IsZero() && r.Now.Sub(p.Started) >= driftAge }
	if r.Now.Sub(a.Created) < driftAge || !slices.ContainsFunc(r.Pods, isOld) {
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
	return share >= a.Rules.MinChange.Or(driftShare)
}
