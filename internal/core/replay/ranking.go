// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/recommend"
)

// A Tolerance is how much harm a winner may do. Among outcomes within it, the cost decides.
type Tolerance struct {
	DaysAbove float64 // share of days with memory above the request
	Shortfall float64 // share of CPU usage above the request
}

// DefaultTolerance returns a tolerance with the largest OOM budget of the profiles compared, so that no profile is held
// to less than it promises. If none has a budget, it is that of the balanced profile.
func DefaultTolerance(compared []recommend.Profile) Tolerance {
	t := Tolerance{Shortfall: 0.01}
	for _, p := range compared {
		t.DaysAbove = max(t.DaysAbove, p.OOMBudget)
	}
	t.DaysAbove = cmp.Or(t.DaysAbove, recommend.Balanced().Memory.Budget)
	return t
}

// Within reports whether an outcome is within a tolerance.
func (o Outcome) Within(t Tolerance) bool { return o.excess(t) == 0 }

// excess is by how much an outcome exceeds a tolerance, 0 if it is within: the sum of the excess shares of days and of
// CPU usage.
func (o Outcome) excess(t Tolerance) float64 {
	sum := 0.0
	if o.Memory.Days > 0 {
		sum += max(0, 1-o.Memory.FreeDays-t.DaysAbove)
	}
	if o.CPU.Days > 0 {
		sum += max(0, o.CPU.Shortfall-t.Shortfall)
	}
	return sum
}

// Best returns the indices of the winners: the cheapest of the outcomes within the tolerance or, if none is within, the
// ones with the least excess. Outcomes with equal excess and cost tie. The result is empty if nothing was measured.
func Best(outcomes []Outcome, tolerance Tolerance) []int {
	var best []int
	for i, outcome := range outcomes {
		if !outcome.Measured() {
			continue
		}
		if len(best) == 0 {
			best = []int{i}
			continue
		}
		leader := outcomes[best[0]]
		order := cmp.Or(cmp.Compare(outcome.excess(tolerance), leader.excess(tolerance)), cmp.Compare(outcome.Money, leader.Money))
		switch {
		case order < 0:
			best = []int{i}
		case order == 0:
			best = append(best, i)
		}
	}
	return best
}

// Worst returns the indices of the workloads, worst first: by the most harm that any recommender does (the share of days
// above the memory request or the share of CPU usage above the request, whichever is larger), then by the highest cost
// under any recommender. The order shows where to look; it does not depend on which recommender is best.
func (c *Comparison) Worst() []int {
	type rank struct {
		index      int
		harm, cost float64
	}
	ranks := make([]rank, len(c.Workloads))
	for i, workload := range c.Workloads {
		r := rank{index: i}
		for _, o := range workload.Outcomes {
			r.harm = max(r.harm, o.harm())
			r.cost = max(r.cost, o.Money)
		}
		ranks[i] = r
	}
	slices.SortStableFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(b.harm, a.harm), cmp.Compare(b.cost, a.cost))
	})
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = r.index
	}
	return out
}

// harm is the share of days above the memory request or the share of CPU usage above the request, whichever is larger.
func (o Outcome) harm() float64 {
	most := 0.0
	if o.Memory.Days > 0 {
		most = max(most, 1-o.Memory.FreeDays)
	}
	if o.CPU.Days > 0 {
		most = max(most, o.CPU.Shortfall)
	}
	return most
}
