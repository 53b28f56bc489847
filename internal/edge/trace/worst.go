// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"slices"
)

// Worst returns the places of the workloads, the worst first: by the most harm that any of the recommenders does, as the
// share of days above the memory request or the share of CPU usage above its request, whichever is more; then by the most
// money that any of them asks for. It is a place to look at, not a judgement of the best.
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
