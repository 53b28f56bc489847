// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

// Prices are the costs of resources per hour.
type Prices struct {
	Core, GiB float64
	Currency  string // such as USD; "" if it is unknown
}

// Given reports whether any price is set.
func (p Prices) Given() bool { return p.Core > 0 || p.GiB > 0 }

// PerMonth is the number of hours in a month, as cloud providers count them.
const PerMonth = 730

const gib = 1 << 30

// Money returns the cost per month of footprints of CPU (cores) and memory (bytes).
func (p Prices) Money(cores, bytes float64) float64 {
	return PerMonth * (cores*p.Core + bytes/gib*p.GiB)
}

// An Outcome is the result of one recommender for one workload, or for all.
type Outcome struct {
	CPU, Memory Summary
	Money       float64 // cost per month of the footprints
}

// OutcomeOf summarizes the scores of one recommender.
func OutcomeOf(scores []Score, p Prices) Outcome {
	o := Outcome{CPU: summarize(scores, cluster.CPU), Memory: summarize(scores, cluster.Memory)}
	o.Money = p.Money(o.CPU.Footprint, o.Memory.Footprint)
	return o
}

// Measured reports whether any day was measured.
func (o Outcome) Measured() bool { return o.CPU.Days+o.Memory.Days > 0 }

// Keeps reports whether the share of days above the memory request is at most the promised one. It is true if memory was
// not measured.
func (o Outcome) Keeps(promised float64) bool { return o.Memory.daysAbove() <= promised }

// A Comparison is the result of a backtest: what each of several recommenders would have requested for the same
// workloads, and how well that would have served them.
type Comparison struct {
	Source       string    // where the usage was read from, for display
	From, To     time.Time // of the first and the last sample
	Recommenders []recommend.Profile
	Workloads    []WorkloadResult
	Total        []Outcome // over all workloads, one per recommender
	Best         []int     // indices of the winners over all workloads; several tie; none if nothing was measured
	Prices       Prices
	Learning     int // days at the start of each container that are not measured
	FullDays     int // full days of the container with the longest history, learning days included
	Tolerance    Tolerance
	BudgetChosen bool // the user set Tolerance.DaysAbove; otherwise it is the largest budget of the recommenders
}

// A WorkloadResult is the part of a Comparison about one workload.
type WorkloadResult struct {
	*Workload
	Outcomes []Outcome  // one per recommender
	Changes  [][]Change // one list per recommender
	Pods     float64    // mean number of pods, of the container that runs in the most pods
	Best     []int      // indices of the winners; none if the history is too short to measure
}

// Judged reports whether anything was measured.
func (c *Comparison) Judged() bool { return len(c.Best) > 0 }
