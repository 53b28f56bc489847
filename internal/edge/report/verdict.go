// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
)

// NothingMeasured returns the reason why a comparison has no figures, and the remedy.
func NothingMeasured(c *replay.Comparison) string {
	reason := fmt.Sprintf("nothing to measure: no container has a full day of samples after its first %s, which are used for learning",
		wording.Count(c.Learning, "day"))
	if c.FullDays < 2 {
		return reason + "; provide a history of at least two days, better of ten"
	}
	return fmt.Sprintf("%s; the longest history has %d full days: use --learning %dd, or provide a longer one", reason, c.FullDays, c.FullDays/2)
}

// verdict returns which recommender wins, and by which tolerance.
func verdict(c *replay.Comparison) string {
	if !c.Judged() {
		reason := NothingMeasured(c)
		return strings.ToUpper(reason[:1]) + reason[1:] + "."
	}
	if c.BudgetChosen || !measured(c, cluster.Memory) {
		return winning(c)
	}
	return winning(c) + " " + budgetSource(c)
}

func winning(c *replay.Comparison) string {
	limits := "within " + strings.Join(limits(c), " and ")
	within := 0
	for _, outcome := range c.Total {
		if outcome.Measured() && outcome.Within(c.Tolerance) {
			within++
		}
	}
	winners := wording.List(listed(c, c.Best), len(c.Best))
	alone := len(c.Best) == 1
	switch {
	case len(c.Total) == 1 && within == 1:
		return winners + " is " + limits + "."
	case len(c.Total) == 1:
		return winners + " is not " + limits + "."
	case within == 0 && alone:
		return "None is " + limits + ". " + winners + " exceeds these limits the least."
	case within == 0:
		return "None is " + limits + ". " + winners + " tie: they exceed these limits the least, at the same cost."
	case within == 1:
		return winners + " wins: the only one " + limits + "."
	case alone:
		return winners + " wins: the cheapest of those " + limits + "."
	}
	return winners + " tie: they are the cheapest of those " + limits + "."
}

// reasons returns one sentence for each recommender that does not win because it exceeds the limits: by what, and what it would save.
// Without it, a reader sees only that a dearer recommender wins.
func reasons(c *replay.Comparison) []string {
	if !c.Judged() {
		return nil
	}
	var out []string
	winner := c.Total[c.Best[0]]
	for i, outcome := range c.Total {
		if slices.Contains(c.Best, i) || !outcome.Measured() || outcome.Within(c.Tolerance) {
			continue
		}
		var harm []string
		if above := 1 - outcome.Memory.FreeDays; outcome.Memory.Days > 0 && above > c.Tolerance.DaysAbove {
			harm = append(harm, share(above)+" of days above the memory request")
		}
		if above := outcome.CPU.Shortfall; outcome.CPU.Days > 0 && above > c.Tolerance.Shortfall {
			harm = append(harm, share(above)+" of CPU usage above its request")
		}
		sentence := c.Recommenders[i].Name + ": " + strings.Join(harm, " and ")
		if saved := winner.Money - outcome.Money; c.Prices.Given() && saved >= 0.005 {
			sentence += fmt.Sprintf(", for %s less per month", strings.TrimPrefix(c.Prices.Currency+" "+fixed(2)(saved), " "))
		}
		out = append(out, sentence+".")
	}
	return out
}

// share formats a ratio as a percentage with three significant digits.
func share(v float64) string { return strconv.FormatFloat(100*v, 'g', 3, 64) + " %" }

// limits returns the limits of the resources that were measured.
func limits(c *replay.Comparison) []string {
	var out []string
	if measured(c, cluster.Memory) {
		out = append(out, percentage(c.Tolerance.DaysAbove)+" % of days above the memory request")
	}
	if measured(c, cluster.CPU) {
		out = append(out, percentage(c.Tolerance.Shortfall)+" % of CPU usage above its request")
	}
	return out
}

// budgetSource returns a sentence that names the recommenders whose OOM budget is the tolerance, if the user set none.
func budgetSource(c *replay.Comparison) string {
	var sources []string
	for _, recommender := range c.Recommenders {
		if recommender.OOMBudget == c.Tolerance.DaysAbove {
			sources = append(sources, recommender.Name)
		}
	}
	if len(sources) == 0 {
		return "None of them promises a share of days; set another with --oom-budget."
	}
	return "The share of days is the largest that a recommender promises (" + strings.Join(sources, ", ") + "); set another with --oom-budget."
}

// promises returns one sentence per recommender that promises a share of days above the memory request.
func promises(c *replay.Comparison) []string {
	var out []string
	for i, outcome := range c.Total {
		recommender := c.Recommenders[i]
		if recommender.OOMBudget == 0 || outcome.Memory.Days == 0 {
			continue
		}
		verb := "keeps"
		if !outcome.Keeps(recommender.OOMBudget) {
			verb = "does not keep"
		}
		out = append(out, fmt.Sprintf("%s %s its promise of at most %s %% of days above the memory request: %.2f %%.",
			recommender.Name, verb, percentage(recommender.OOMBudget), 100*(1-outcome.Memory.FreeDays)))
	}
	return out
}

// wins returns a sentence with the number of workloads that each recommender wins.
func wins(c *replay.Comparison) string {
	won := make([]int, len(c.Recommenders))
	ties := 0
	short := 0
	for _, workload := range c.Workloads {
		switch len(workload.Best) {
		case 0:
			short++
		case 1:
			won[workload.Best[0]]++
		default:
			ties++
		}
	}
	var parts []string
	for i, n := range won {
		parts = append(parts, fmt.Sprintf("%s %d", c.Recommenders[i].Name, n))
	}
	if ties > 0 {
		parts = append(parts, fmt.Sprintf("tied %d", ties))
	}
	if short > 0 {
		parts = append(parts, fmt.Sprintf("too short to measure %d", short))
	}
	return "Workloads won: " + strings.Join(parts, ", ") + "."
}

func listed(c *replay.Comparison, indices []int) []string {
	return cluster.Each(indices, func(k *int) string { return c.Recommenders[*k].Name })
}

// winnersOf returns the name of the only winner, or the names of several that tie.
func winnersOf(c *replay.Comparison, best []int) (winner string, tied []string) {
	list := listed(c, best)
	if len(list) == 1 {
		return list[0], nil
	}
	return "", list
}

// percentage formats a ratio as a percentage, without the sign.
func percentage(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) }
