// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// Cap bounds raw estimates by the policies of the autoscaler and a share of a node. The results are published in its status. In this order:
//
//  1. CPU is rounded up to whole cores if the autoscaler requests it, in the uncapped target, too;
//  2. CPU of all containers together is lowered to the share of the node, see shareNode;
//  3. each bound is raised to minAllowed, then lowered to maxAllowed, so that the maximum wins a conflict. The global maximum
//     applies only to resources that maxAllowed of the policy does not contain. A minimum or maximum of zero has no effect;
//  4. lower ≤ target ≤ upper is restored if the raw estimate violates it;
//  5. memory or CPU is raised to the memory for each core that the autoscaler requests, see keepPerCPU.
//
// The input is not changed. CapBounds returns the bounds, too.
func Cap(autoscaler *cluster.Autoscaler, raw []cluster.Advice, global cluster.Resources, node cluster.NodeShare) []cluster.Advice {
	return capped(autoscaler, raw, global, node, nil)
}

// capped is Cap. Unless looked is nil, it appends the bounds that it compares the targets with.
func capped(autoscaler *cluster.Autoscaler, raw []cluster.Advice, global cluster.Resources, node cluster.NodeShare, looked *lookedAt) []cluster.Advice {
	out := slices.Clone(raw)
	for i := range out {
		if slices.Contains(autoscaler.IntegerCPU, out[i].Container) {
			inWholeCores(&out[i], looked.of(i))
		}
	}
	shareNode(autoscaler, out, global, node, looked)
	for i := range out {
		advice := &out[i]
		within := allowedBy(autoscaler, advice.Container, global)
		advice.Lower = within.apply(advice.Lower, nil, nil)
		advice.Target = within.apply(advice.Target, nil, looked.of(i))
		advice.Upper = within.apply(advice.Upper, nil, nil)
		advice.Estimate = ordered(advice.Estimate)
	}
	keepPerCPU(autoscaler, out, global, node, looked)
	return out
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

// allowedBy returns the minimum and the maximum of a container: those of its policy, and the global maximum of other resources.
func allowedBy(autoscaler *cluster.Autoscaler, container string, global cluster.Resources) allowed {
	out := allowed{least: MinAllowed, most: MaxAllowed, high: global, global: global.Has}
	if p := autoscaler.Policy(container); p != nil {
		out.low = p.MinAllowed
		out.high = p.MaxAllowed.Or(global)
		out.global = global.Has &^ p.MaxAllowed.Has
	}
	return out
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

// wholeCores rounds millicores up to whole cores, at most the largest whole number of cores in an int64.
func wholeCores(milli int64) int64 {
	cores, _ := integer.ScaledUp(milli, 1, 1000)
	return min(cores, math.MaxInt64/1000) * 1000
}
