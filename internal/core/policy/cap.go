// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// Cap bounds raw estimates by the policies of the autoscaler and a share of a node. The results are published in its status. In this order:
//
//  1. CPU is rounded up to whole cores if the autoscaler requests it, in the uncapped target, too;
//  2. CPU of all containers together is lowered to the share of the node, see shareNode;
//  3. each bound is raised to minAllowed, then lowered to maxAllowed, so that the maximum wins a conflict. The global maximum
//     applies only to resources that maxAllowed of the policy does not contain. A minimum or maximum of zero has no effect;
//  4. lower ≤ target ≤ upper is restored if the raw estimate violates it.
//
// The input is not changed. CapBounds returns the bounds, too.
func Cap(autoscaler *cluster.Autoscaler, raw []cluster.Advice, global cluster.Resources, node cluster.NodeShare) []cluster.Advice {
	return capped(autoscaler, raw, global, node, nil)
}

// capped is Cap. Unless looked is nil, it appends the bounds that it compares the targets with.
func capped(autoscaler *cluster.Autoscaler, raw []cluster.Advice, global cluster.Resources, node cluster.NodeShare, looked [][]Bound) []cluster.Advice {
	out := slices.Clone(raw)
	for i := range out {
		if slices.Contains(autoscaler.IntegerCPU, out[i].Container) {
			inWholeCores(&out[i], boundsAt(looked, i))
		}
	}
	shareNode(autoscaler, out, global, node, looked)
	for i := range out {
		advice := &out[i]
		low, high, own := allowed(autoscaler, advice.Container, global)
		advice.Lower = within(advice.Lower, low, high, own, nil)
		advice.Target = within(advice.Target, low, high, own, boundsAt(looked, i))
		advice.Upper = within(advice.Upper, low, high, own, nil)
		advice.Estimate = ordered(advice.Estimate)
	}
	return out
}

// boundsAt returns where the bounds of a container are collected, or nil.
func boundsAt(looked [][]Bound, i int) *[]Bound {
	if looked == nil {
		return nil
	}
	return &looked[i]
}

// inWholeCores rounds CPU up to whole cores.
func inWholeCores(advice *cluster.Advice, to *[]Bound) {
	if v, ok := advice.Target.Get(cluster.CPU); ok {
		look(to, Bound{Resource: cluster.CPU, Kind: WholeCores, Before: v, After: wholeCores(v)})
	}
	for _, r := range []*cluster.Resources{&advice.Lower, &advice.Target, &advice.Upper, &advice.Uncapped} {
		if v, ok := r.Get(cluster.CPU); ok {
			*r = r.Set(cluster.CPU, wholeCores(v))
		}
	}
}

// allowed returns the minimum and the maximum of a container. Those of the resources in own are of the policy, the other maxima are global.
func allowed(autoscaler *cluster.Autoscaler, container string, global cluster.Resources) (low, high cluster.Resources, own cluster.Set) {
	if p := autoscaler.Policy(container); p != nil {
		low, high = p.MinAllowed, p.MaxAllowed
	}
	return low, high.Or(global), high.Has
}

// within raises amounts to low, then lowers them to high. A bound that is absent or zero has no effect, and an absent amount
// stays absent. The maximum of the resources in own is that of the policy, the others are global. Unless to is nil, it appends the bounds.
func within(amounts, low, high cluster.Resources, own cluster.Set, to *[]Bound) cluster.Resources {
	for _, res := range cluster.All {
		v, ok := amounts.Get(res)
		if !ok {
			continue
		}
		before := v
		if b := low.Amount(res); b > 0 && v < b {
			v = b
		}
		look(to, Bound{Resource: res, Kind: MinAllowed, Amount: low.Amount(res), Before: before, After: v})
		before = v
		if b := high.Amount(res); b > 0 && v > b {
			v = b
		}
		kind := MaxAllowed
		if high.Has.Has(res) && !own.Has(res) {
			kind = GlobalMax
		}
		look(to, Bound{Resource: res, Kind: kind, Amount: high.Amount(res), Before: before, After: v})
		amounts = amounts.Set(res, v)
	}
	return amounts
}

// ordered moves the bounds so that lower ≤ target ≤ upper. The target stays, because a new pod gets it. A pod with the target must be
// within its range, else it would be replaced again and again (W-12, kubernetes/autoscaler#8776).
func ordered(estimate cluster.Estimate) cluster.Estimate {
	for _, res := range cluster.All {
		t, ok := estimate.Target.Get(res)
		if !ok {
			continue
		}
		if v, ok := estimate.Lower.Get(res); ok && v > t {
			estimate.Lower = estimate.Lower.Set(res, t)
		}
		if v, ok := estimate.Upper.Get(res); ok && v < t {
			estimate.Upper = estimate.Upper.Set(res, t)
		}
	}
	return estimate
}
