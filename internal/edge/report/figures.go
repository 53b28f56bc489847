// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"strconv"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
)

// figures are the figures of one resource of an outcome: their names in CSV, and their titles and formats in tables.
// The fields of replay.Summary have the same names in JSON.
var figures = []struct {
	name, title string
	value       func(replay.Summary) float64
	format      func(float64) string
	only        cluster.Resource // the figure exists for this resource only; 0: for both
	rank        int              // see column.rank
}{
	{"mean_slack", "slack", func(s replay.Summary) float64 { return s.MeanSlack }, fixed(3), 0, 2},
	{"median_slack", "median", func(s replay.Summary) float64 { return s.MedianSlack }, fixed(3), 0, 7},
	{"aggregate_slack", "aggregate", func(s replay.Summary) float64 { return s.AggregateSlack }, fixed(3), 0, 6},
	{"exceed_free_days", "days without exceed", func(s replay.Summary) float64 { return s.FreeDays }, percent, 0, 1},
	{"samples_above_per_day", "samples above/day", func(s replay.Summary) float64 { return s.Above }, fixed(3), 0, 5},
	{"oom_kills_per_day", "kills/day", func(s replay.Summary) float64 { return s.Events }, fixed(3), cluster.Memory, 4},
	{"usage_above", "usage above", func(s replay.Summary) float64 { return s.Shortfall }, percent, 0, 1},
	{"changes_per_day", "changes/day", func(s replay.Summary) float64 { return s.Changes }, fixed(2), 0, 3},
}

// A column is a column of a table with one cell for each row. The cell of a figure that was not measured is empty.
type column struct {
	title string
	cells []string
	rank  int // if a table does not fit, the column with the highest rank is dropped first; 0: never dropped
}

// totals returns the columns of a resource, with one cell for each recommender, over all workloads.
func totals(c *replay.Comparison, res cluster.Resource) []column {
	var columns []column
	add := func(title string, rank int, cell func(replay.Summary) string) {
		cells := cluster.Each(c.Total, func(o *replay.Outcome) string { return cell(summary(*o, res)) })
		columns = append(columns, column{title: title, cells: cells, rank: rank})
	}
	for _, f := range figures {
		if f.only == 0 || f.only == res {
			add(f.title, f.rank, func(s replay.Summary) string { return f.format(f.value(s)) })
		}
	}
	add("footprint", 0, func(s replay.Summary) string { return wording.Measured(res, s.Footprint) })
	if c.Prices.Given() {
		add(costTitle(c.Prices), 0, func(s replay.Summary) string { return fixed(2)(money(c.Prices, res, s)) })
	}
	return columns
}

// costTitle is the title of costs, with the currency if it is known.
func costTitle(p replay.Prices) string {
	if p.Currency == "" {
		return "cost per month"
	}
	return p.Currency + " per month"
}

func summary(o replay.Outcome, res cluster.Resource) replay.Summary {
	return cluster.Pick(res, o.CPU, o.Memory)
}

// measured reports whether any recommender has figures for a resource.
func measured(c *replay.Comparison, res cluster.Resource) bool {
	return slices.ContainsFunc(c.Total, func(o replay.Outcome) bool { return summary(o, res).Days > 0 })
}

// money returns the cost of a resource's footprint per month.
func money(p replay.Prices, res cluster.Resource, s replay.Summary) float64 {
	return cluster.Pick(res, p.Money(s.Footprint, 0), p.Money(0, s.Footprint))
}

// pods returns the mean number of pods, with one decimal.
func pods(w *replay.WorkloadResult) string {
	return strconv.FormatFloat(math.Round(10*w.Pods)/10, 'f', -1, 64)
}

// fixed returns a format with n decimals.
func fixed(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
}

// percent formats a ratio as a percentage with two decimals.
func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }
