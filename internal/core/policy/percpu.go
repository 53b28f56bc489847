// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// keepPerCPU raises memory or CPU of the containers in proportion, so that the sums of their targets within minAllowed and maxAllowed have the
// memory for each core that the autoscaler requests. It lowers nothing. Containers without recommendation for both resources do not count.
// maxAllowed and the share of a node apply afterwards, and win.
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
	wanted := sum
	wanted.Memory, _ = integer.ScaledUp(sum.CPU, ratio.Least, 1000)
	if ratio.Most > 0 && wanted.Memory <= sum.Memory {
		wanted.CPU, _ = integer.ScaledUp(sum.Memory, 1000, ratio.Most)
	}
	for i := range advice {
		for _, res := range cluster.All {
			amount := cluster.Amounts(ratio.Most, ratio.Least).Amount(res)
			if before, ok := targets[i].Get(res); ok && amount > 0 {
				after := before
				if wanted.Amount(res) > sum.Amount(res) && sum.Amount(res) > 0 {
					whole := res == cluster.CPU && slices.Contains(a.IntegerCPU, advice[i].Container)
					advice[i].Target = advice[i].Target.Set(res, before)
					raise(&advice[i].Estimate, res, wanted.Amount(res), sum.Amount(res), whole)
					after = advice[i].Target.Amount(res)
				}
				look(looked.of(i), Bound{Resource: res, Kind: MemoryPerCPU, Amount: amount, Before: before, After: after})
			}
		}
	}
}

// raise multiplies the amounts of a resource in an estimate by wanted/sum.
func raise(e *cluster.Estimate, res cluster.Resource, wanted, sum int64, whole bool) {
	for _, r := range []*cluster.Resources{&e.Lower, &e.Target, &e.Upper} {
		if v, ok := r.Get(res); ok {
			v, _ = integer.ScaledUp(v, wanted, sum)
			if whole {
				v = wholeCores(v)
			}
			*r = r.Set(res, v)
		}
	}
}
