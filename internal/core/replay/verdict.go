// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

// Prices are what resources cost in an hour.
type Prices struct{ Core, GiB float64 }

// Given reports whether anything costs anything.
func (p Prices) Given() bool { return p.Core > 0 || p.GiB > 0 }

// PerMonth is how many hours a month of money has.
const PerMonth = 730

const gib = 1 << 30

// Money returns what footprints of CPU (cores) and memory (bytes) cost in a month.
func (p Prices) Money(cores, bytes float64) float64 {
	return PerMonth * (cores*p.Core + bytes/gib*p.GiB)
}

// A Tolerance is how much harm is accepted when algorithms are compared by money.
type Tolerance struct {
	DaysAbove float64 // share of days that may see memory above the request
	Shortfall float64 // share of CPU usage that may lie above the request
}

// DefaultTolerance accepts as many days above the memory request as any of the profiles compared promises, so that none of them is
// judged by less than it promises; where none promises anything, as many as the balanced profile does.
func DefaultTolerance(compared []recommend.Profile) Tolerance {
	t := Tolerance{Shortfall: 0.01}
	for _, p := range compared {
		t.DaysAbove = max(t.DaysAbove, p.OOMBudget)
	}
	if t.DaysAbove == 0 {
		t.DaysAbove = recommend.Balanced().Memory.Budget
	}
	return t
}

// An Outcome is what came of a workload, or of all, under one algorithm.
type Outcome struct {
	CPU, Memory Summary
	Money       float64
}

// OutcomeOf sums up scores.
func OutcomeOf(scores []Score, p Prices) Outcome {
	var by [2][]Score
	for _, s := range scores {
		if s.Resource == cluster.CPU {
			by[0] = append(by[0], s)
		} else {
			by[1] = append(by[1], s)
		}
	}
	o := Outcome{CPU: Summarize(by[0]), Memory: Summarize(by[1])}
	o.Money = p.Money(o.CPU.Footprint, o.Memory.Footprint)
	return o
}

// Measured reports whether there were days to judge by.
func (o Outcome) Measured() bool { return o.CPU.Days+o.Memory.Days > 0 }

// Keeps reports whether an outcome keeps the promise of a share of days above the memory request, as far as memory was measured.
func (o Outcome) Keeps(promised float64) bool {
	return o.Memory.Days == 0 || 1-o.Memory.FreeDays <= promised
}

// Within reports whether an outcome does no more harm than is tolerated.
func (o Outcome) Within(t Tolerance) bool { return o.harm(t) == 0 }

// harm is how far an outcome is beyond what is tolerated: 0 when it is within.
func (o Outcome) harm(t Tolerance) float64 {
	h := 0.0
	if o.Memory.Days > 0 {
		h += max(0, 1-o.Memory.FreeDays-t.DaysAbove)
	}
	if o.CPU.Days > 0 {
		h += max(0, o.CPU.Shortfall-t.Shortfall)
	}
	return h
}

// Best returns which outcome wins: of those that do no more harm than is tolerated the cheapest, and if all do more,
// the one that does the least. Several tie when they do the same harm for the same money. It returns none when there was
// nothing to judge by.
func Best(os []Outcome, t Tolerance) []int {
	var best []int
	for i, o := range os {
		if !o.Measured() {
			continue
		}
		if len(best) == 0 {
			best = []int{i}
			continue
		}
		first := os[best[0]]
		switch c := cmp.Or(cmp.Compare(o.harm(t), first.harm(t)), cmp.Compare(o.Money, first.Money)); {
		case c < 0:
			best = []int{i}
		case c == 0:
			best = append(best, i)
		}
	}
	return best
}
