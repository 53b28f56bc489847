// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"slices"
)

// Worst returns the places of the workloads, those first for which the choice matters most: where the recommenders
// differ most in days above the memory request, then in money.
func (r *Report) Worst() []int {
	type rank struct {
		at          int
		harm, money float64
	}
	ranks := make([]rank, len(r.Workloads))
	for i, wl := range r.Workloads {
		k := rank{at: i}
		for _, o := range wl.Outcomes {
			if o.Memory.Days > 0 {
				k.harm = max(k.harm, 1-o.Memory.FreeDays)
			}
			if o.CPU.Days > 0 {
				k.harm = max(k.harm, o.CPU.Shortfall)
			}
			k.money = max(k.money, o.Money)
		}
		ranks[i] = k
	}
	slices.SortStableFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(b.harm, a.harm), cmp.Compare(b.money, a.money))
	})
	out := make([]int, len(ranks))
	for i, k := range ranks {
		out[i] = k.at
	}
	return out
}
