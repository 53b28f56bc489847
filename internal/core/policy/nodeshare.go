// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// shareNode lowers the CPU of the containers of a pod in proportion, so that the sum of their targets is at most the share of a node. The
// bounds of a recommendation are lowered with its target; a lower bound stays at least at the floor, and an upper bound is at most the share.
//
// A container counts with the amount that minAllowed and maxAllowed leave it. It keeps minAllowed and its part of the floor, and one core if its
// CPU is in whole cores, even if the sum exceeds the share then; what the others have to give up is larger.
func shareNode(autoscaler *cluster.Autoscaler, advice []cluster.Advice, global cluster.Resources, node cluster.NodeShare, looked *lookedAt) {
	most := node.Most()
	if most == 0 {
		return
	}
	parts := wishes(autoscaler, advice, global, node.Floor)
	total := int64(0)
	for i := range parts {
		total = integer.Sum(total, parts[i].amount)
	}
	if total > most {
		distribute(parts, most)
	}
	for i := range parts {
		p := &parts[i]
		a := &advice[p.index]
		before := a.Target.CPU
		after := before
		if total > most {
			after = min(before, p.amount)
		}
		look(looked.of(p.index), Bound{Resource: cluster.CPU, Kind: NodeShare, Amount: most, Before: before, After: after})
		a.Estimate = scaledCPU(a.Estimate, after, p.floor, most)
	}
}

// A nodePart is what a container gets of an amount that all containers of a pod share.
type nodePart struct {
	index  int   // of the advice
	amount int64 // millicores or bytes: what it should have, then what it gets
	floor  int64 // what it keeps; at most amount
	whole  bool  // in whole cores
	fixed  bool  // it gets the floor
}

// wishes returns the containers with a recommendation for CPU, with the amounts that minAllowed and maxAllowed leave them.
func wishes(autoscaler *cluster.Autoscaler, advice []cluster.Advice, global cluster.Resources, floor int64) []nodePart {
	parts := make([]nodePart, 0, len(advice))
	for i := range advice {
		target, ok := advice[i].Target.Get(cluster.CPU)
		if !ok {
			continue
		}
		within := allowedBy(autoscaler, advice[i].Container, global)
		p := nodePart{index: i, whole: slices.Contains(autoscaler.IntegerCPU, advice[i].Container)}
		p.floor = within.low.Amount(cluster.CPU)
		p.amount = atMost(max(target, p.floor), within.high.Amount(cluster.CPU))
		parts = append(parts, p)
	}
	for i := range parts {
		p := &parts[i]
		p.floor = max(p.floor, floor/int64(len(parts)))
		if p.whole {
			p.floor = max(wholeCores(p.floor), 1000)
		}
		p.floor = min(p.floor, p.amount)
	}
	return parts
}

// atMost lowers an amount to a maximum, which has no effect if it is not above zero.
func atMost(v, most int64) int64 {
	if most > 0 {
		return min(v, most)
	}
	return v
}

// distribute lowers the amounts in proportion, so that their sum is at most the given one. Parts whose proportion is below their floor get the
// floor, which leaves less for the others. If the floors exceed the sum, every part gets its floor.
func distribute(parts []nodePart, most int64) {
	for again := true; again; {
		again = false
		left := most
		total := int64(0)
		for i := range parts {
			if parts[i].fixed {
				left -= min(left, parts[i].floor)
			} else {
				total = integer.Sum(total, parts[i].amount)
			}
		}
		for i := range parts {
			p := &parts[i]
			if !p.fixed && p.share(left, total) < p.floor {
				p.fixed = true
				again = true
			}
		}
		if again {
			continue
		}
		for i := range parts {
			p := &parts[i]
			p.amount = p.share(left, total)
			if p.fixed {
				p.amount = p.floor
			}
		}
	}
}

// share returns the proportion of a part: left × amount ÷ total, rounded down.
func (p *nodePart) share(left, total int64) int64 {
	v, _ := integer.Scaled(left, p.amount, total)
	if p.whole {
		v = v / 1000 * 1000
	}
	return v
}

// scaledCPU lowers the CPU of an estimate to a target, and its bounds in proportion.
func scaledCPU(e cluster.Estimate, target, floor, most int64) cluster.Estimate {
	before := e.Target.CPU
	e.Target = e.Target.Set(cluster.CPU, target)
	if v, ok := e.Lower.Get(cluster.CPU); ok && target < before {
		scaled, _ := integer.Scaled(v, target, before)
		e.Lower = e.Lower.Set(cluster.CPU, min(max(scaled, min(floor, v)), target))
	}
	if v, ok := e.Upper.Get(cluster.CPU); ok {
		if target < before {
			v, _ = integer.Scaled(v, target, before)
		}
		e.Upper = e.Upper.Set(cluster.CPU, max(min(v, most), target))
	}
	return e
}

// CPUWish returns the sum of the CPU that the containers of a pod would get without the share of a node, in millicores: the uncapped targets,
// at most maxAllowed. More replicas change it only as far as it is above the floor of the profile, so it is 0 if it is not.
func CPUWish(autoscaler *cluster.Autoscaler, advice []cluster.Advice, global cluster.Resources, node cluster.NodeShare) int64 {
	sum := int64(0)
	for i := range advice {
		within := allowedBy(autoscaler, advice[i].Container, global)
		sum = integer.Sum(sum, atMost(advice[i].Uncapped.Amount(cluster.CPU), within.high.Amount(cluster.CPU)))
	}
	if sum <= node.Floor {
		return 0
	}
	return sum
}
