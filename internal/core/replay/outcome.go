// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
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

// harm is the share of days above the memory request or the share of CPU usage above the request, whichever is larger.
func (o Outcome) harm() float64 { return max(o.Memory.daysAbove(), o.CPU.Shortfall) }

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
	return max(0, o.Memory.daysAbove()-t.DaysAbove) + max(0, o.CPU.Shortfall-t.Shortfall)
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

// Worst returns the indices of the workloads, worst first: by the most harm that any recommender does (the share of days
// above the memory request or the share of CPU usage above the request, whichever is larger), then by the highest cost
// under any recommender. The order shows where to look; it does not depend on which recommender is best.
func (c *Comparison) Worst() []int {
	most := func(workload int, of func(Outcome) float64) float64 {
		highest := 0.0
		for _, o := range c.Workloads[workload].Outcomes {
			highest = max(highest, of(o))
		}
		return highest
	}
	cost := func(o Outcome) float64 { return o.Money }
	order := make([]int, len(c.Workloads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(most(b, Outcome.harm), most(a, Outcome.harm)), cmp.Compare(most(b, cost), most(a, cost)))
	})
	return order
}

// A Summary is the figures of one resource, over containers and days. It is part of the JSON of a report, in this order.
type Summary struct {
	Containers int `json:"containers"`
	Days       int `json:"container_days"` // measured

	MeanSlack      float64 `json:"mean_slack"` // mean of the slack of the days
	MedianSlack    float64 `json:"median_slack"`
	AggregateSlack float64 `json:"aggregate_slack"` // 1 − Σ p95 / Σ mean request: weighted by size, as the nodes of a cluster see it

	FreeDays   float64 `json:"exceed_free_days"`               // share of days without samples above the request
	Above      float64 `json:"samples_above_per_day"`          // samples above the request, per day
	Events     float64 `json:"oom_kills_per_day"`              // runs of consecutive samples above the request, per day; for memory: OOM kills
	Shortfall  float64 `json:"usage_above"`                    // share of usage above the request
	Changes    float64 `json:"changes_per_day"`                // changes of the request, per day
	Footprint  float64 `json:"footprint"`                      // sum over containers of the mean request of all their pods, in cores or bytes
	UsedMean   float64 `json:"mean_usage"`                     // sum over containers of the mean usage of all their pods, in cores or bytes
	Pods       float64 `json:"mean_pods"`                      // sum over containers of the mean number of pods
	NeverAbove int     `json:"containers_never_above"`         // containers without days above the request
	WorstDays  int     `json:"most_days_above_of_a_container"` // days above the request of the container with the most such days
}

// daysAbove is the share of days with samples above the request, 0 if nothing was measured.
func (s *Summary) daysAbove() float64 {
	if s.Days == 0 {
		return 0
	}
	return 1 - s.FreeDays
}

// summarize combines the scores of one resource.
func summarize(scores []Score, res cluster.Resource) Summary {
	var summary Summary
	var slacks []float64
	var sumP95, sumMean, used float64
	for i := range scores {
		score := &scores[i]
		if score.Resource != res || len(score.Days) == 0 {
			continue
		}
		summary.Containers++
		summary.Footprint += score.Footprint
		summary.Pods += score.Pods
		daysAbove := 0
		samples := 0
		containerUsed := 0.0
		for _, day := range score.Days {
			slack := day.Slack()
			slacks = append(slacks, slack)
			summary.MeanSlack += slack
			sumP95 += day.P95 * day.Pods
			sumMean += day.Mean * day.Pods
			summary.Shortfall += day.Over
			containerUsed += day.Used
			samples += day.Samples
			summary.Above += float64(day.Above)
			summary.Events += float64(day.Events)
			summary.Changes += float64(day.Changes)
			if day.Above == 0 {
				summary.FreeDays++
			} else {
				daysAbove++
			}
		}
		used += containerUsed
		if samples > 0 {
			summary.UsedMean += containerUsed / float64(samples) * score.Pods
		}
		summary.WorstDays = max(summary.WorstDays, daysAbove)
		if daysAbove == 0 {
			summary.NeverAbove++
		}
	}
	summary.Days = len(slacks)
	if summary.Days == 0 {
		return summary
	}
	for _, sum := range []*float64{&summary.MeanSlack, &summary.FreeDays, &summary.Above, &summary.Events, &summary.Changes} {
		*sum /= float64(summary.Days)
	}
	slices.Sort(slacks)
	summary.MedianSlack = (slacks[(summary.Days-1)/2] + slacks[summary.Days/2]) / 2
	if sumMean > 0 {
		summary.AggregateSlack = 1 - sumP95/sumMean
	}
	if used > 0 {
		summary.Shortfall /= used
	}
	return summary
}
