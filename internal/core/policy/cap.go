// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// Cap holds raw estimates within the autoscaler's policies, as they are then published in its status. For each
// container, in this order:
//
//  1. CPU is rounded up to whole cores where the autoscaler asks for it, in the uncapped target too;
//  2. each bound is raised to minAllowed, then lowered to maxAllowed, so that the maximum wins a conflict. A resource
//     that the policy's maxAllowed does not name is held by the global one; one that it names is not, even if larger.
//     A minimum or maximum of zero does not bind;
//  3. lower ≤ target ≤ upper is restored should the raw estimate not have kept it.
//
// The input is not changed.
func Cap(a *cluster.Autoscaler, raw []cluster.Advice, global cluster.Resources) []cluster.Advice {
	out := slices.Clone(raw)
	for i := range out {
		c := &out[i]
		if slices.Contains(a.IntegerCPU, c.Container) {
			for _, r := range []*cluster.Resources{&c.Lower, &c.Target, &c.Upper, &c.Uncapped} {
				if v, ok := r.Get(cluster.CPU); ok {
					*r = r.Set(cluster.CPU, wholeCores(v))
				}
			}
		}
		var low, high cluster.Resources
		if p := a.Policy(c.Container); p != nil {
			low, high = p.MinAllowed, p.MaxAllowed
		}
		high = high.Or(global)
		for _, r := range []*cluster.Resources{&c.Lower, &c.Target, &c.Upper} {
			*r = within(*r, low, high)
		}
		c.Estimate = ordered(c.Estimate)
	}
	return out
}

// within raises amounts to low, then lowers them to high. A bound that is absent or zero does not bind, and an amount
// that is absent stays so.
func within(r, low, high cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		v, ok := r.Get(res)
		if !ok {
			continue
		}
		if b := low.Amount(res); b > 0 && v < b {
			v = b
		}
		if b := high.Amount(res); b > 0 && v > b {
			v = b
		}
		r = r.Set(res, v)
	}
	return r
}

// ordered moves the bounds so that lower ≤ target ≤ upper. The target stays: it is what a new pod gets, and a pod that
// has it must be within its own range, or it would be replaced for ever (W-12, kubernetes/autoscaler#8776).
func ordered(e cluster.Estimate) cluster.Estimate {
	for _, res := range cluster.All {
		t, ok := e.Target.Get(res)
		if !ok {
			continue
		}
		if v, ok := e.Lower.Get(res); ok && v > t {
			e.Lower = e.Lower.Set(res, t)
		}
		if v, ok := e.Upper.Get(res); ok && v < t {
			e.Upper = e.Upper.Set(res, t)
		}
	}
	return e
}
