// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "time"

// A Comparison is the result of a backtest: what each of several recommenders would have requested for the same
// workloads, and how well that would have served them.
type Comparison struct {
	Source       string    // where the usage was read from, for display
	From, To     time.Time // of the first and the last sample
	Recommenders []Recommender
	Workloads    []WorkloadResult
	Total        []Outcome // over all workloads, one per recommender
	Best         []int     // indices of the winners over all workloads; several tie; none if nothing was measured
	Prices       Prices
	Learning     int // days at the start of each container that are not measured
	FullDays     int // full days of the container with the longest history, learning days included
	Tolerance    Tolerance
	BudgetChosen bool // the user set Tolerance.DaysAbove; otherwise it is the largest budget of the recommenders
}

// A Recommender is one of the recommenders of a Comparison.
type Recommender struct {
	Name, About string
	OOMBudget   float64 // the promised share of days above the memory request; 0: no promise
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
