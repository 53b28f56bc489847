// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look/chart"
	"podfit.dev/podfit/internal/look/page"
)

// WriteHTML writes the report as one self-contained page: no scripts, and no fonts or images from other servers.
func WriteHTML(w io.Writer, c *replay.Comparison, o Options) error {
	first := page.Section{Lead: verdict(c), Table: tableOf(recommenders(c), nil, []string{""}, func(i int) []string { return []string{c.Recommenders[i].About} })}
	first.Table.Class = "text"
	first.Text = append(reasons(c), promises(c)...)
	if c.Judged() && len(c.Recommenders) > 1 {
		first.About = wins(c)
	}
	frontiers := page.Section{Title: "Waste against risk", Text: []string{"Less waste is to the left, less risk is at the bottom: bottom left is best."}}
	var tables []page.Section
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if !measured(c, res) {
			continue
		}
		frontiers.Charts = append(frontiers.Charts, page.Chart{Image: frontier(c, res), Caption: res.String()})
		columns := totals(c, res)
		titles := cluster.Each(columns, func(c *column) string { return c.title })
		tables = append(tables, page.Section{Title: res.String(), Table: tableOf(recommenders(c), c.Best, titles, func(i int) []string {
			return cluster.Each(columns, func(c *column) string { return c.cells[i] })
		})})
	}
	d := &page.Document{
		Command: "backtest", Title: "Backtest of " + c.Source, Style: chart.Style, Sections: []page.Section{first},
		Head: []string{fmt.Sprintf("%s, %s to %s. The first %s of each container are used for learning and are not measured. Every decision uses only samples from before it.",
			wording.Count(len(c.Workloads), "workload"), c.From.Format(time.DateOnly), c.To.Format(time.DateOnly), wording.Count(c.Learning, "day"))},
	}
	if c.Judged() {
		d.Sections = append(d.Sections, frontiers)
	}
	d.Sections = append(d.Sections, tables...)
	if c.Judged() && c.Prices.Given() {
		d.Sections = append(d.Sections, page.Section{Title: "Total " + costTitle(c.Prices), Table: tableOf(recommenders(c), nil, []string{""}, func(i int) []string { return []string{fixed(2)(c.Total[i].Money)} })})
	}
	for _, r := range o.Nodes {
		columns := nodeColumns(&r)
		titles := cluster.Each(columns, func(c *column) string { return c.title })
		nodes := page.Section{Title: "Nodes", Text: append([]string{aboutNodes(c, &r)}, culprits(&r)...)}
		if len(r.Results) > 0 {
			nodes.Table = tableOf(cluster.Each(r.Results, func(x *packing.Result) string { return x.Recommender }), nil, titles, func(i int) []string {
				return cluster.Each(columns, func(c *column) string { return c.cells[i] })
			})
			if image := nodeFrontier(&r); image != "" {
				nodes.Charts = []page.Chart{{Image: image, Caption: "fewer nodes are to the left, fewer short nodes at the bottom"}}
			}
		}
		d.Sections = append(d.Sections, nodes)
	}
	if s := workloadSection(c, o.Workloads); len(s.Parts) > 0 {
		d.Sections = append(d.Sections, s)
	}
	return page.Write(w, d)
}

// recommenders returns the names of the recommenders.
func recommenders(c *replay.Comparison) []string {
	return cluster.Each(c.Recommenders, func(p *recommend.Profile) string { return p.Name })
}

func tableOf(names []string, best []int, titles []string, cells func(i int) []string) *page.Table {
	columns := cluster.Each(titles, func(title *string) page.Column { return page.Column{Title: *title} })
	t := &page.Table{Columns: append([]page.Column{{}}, columns...), Class: "numbers"}
	for i, name := range names {
		t.Rows = append(t.Rows, page.Row{Dot: colour(i), Best: slices.Contains(best, i), Cells: append([]string{name}, cells(i)...)})
	}
	return t
}

// workloadSection returns the tables and charts of workloads: at most so many, or all if it is negative.
func workloadSection(c *replay.Comparison, most int) page.Section {
	s := page.Section{Title: "Workloads, worst first", Text: []string{"Sorted by the most harm under any of the recommenders. Usage is grey; each line is what a recommender would have requested. The best recommender is bold."}}
	order := c.Worst()
	if most >= 0 && most < len(order) {
		s.Text[0] += fmt.Sprintf(" %d more are not shown.", len(order)-most)
		order = order[:most]
	}
	titles := []string{"memory", "slack", "days above", "changes/day", "CPU", "slack", "samples above/day", "usage above", "changes/day", costTitle(c.Prices)}
	for _, k := range order {
		w := &c.Workloads[k]
		part := page.Section{Title: w.Key.String(), Table: tableOf(recommenders(c), w.Best, titles, func(i int) []string { return cardCells(w.Outcomes[i]) })}
		if n := pods(w); w.Pods > 0 && n == "1" {
			part.Text = []string{"1 pod on average; memory and CPU are the sum over all pods."}
		} else if w.Pods > 0 {
			part.Text = []string{n + " pods on average; memory and CPU are the sum over all pods."}
		}
		for i, name := range w.Containers {
			for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
				image := usageChart(w, i, res)
				if image == "" {
					continue
				}
				caption := res.String()
				if len(w.Containers) > 1 {
					caption = name + ", " + caption
				}
				part.Charts = append(part.Charts, page.Chart{Image: image, Caption: caption})
			}
		}
		s.Parts = append(s.Parts, part)
	}
	return s
}

// cardCells returns the figures of one recommender for one workload. A resource that was not measured has dashes.
func cardCells(outcome replay.Outcome) []string {
	known := func(measured bool, cells ...string) []string {
		for i := range cells {
			if !measured {
				cells[i] = "–"
			}
		}
		return cells
	}
	memory := outcome.Memory
	cpu := outcome.CPU
	daysAbove := memory.Days - int(memory.FreeDays*float64(memory.Days)+0.5)
	return slices.Concat(
		known(memory.Days > 0, wording.Measured(cluster.Memory, memory.Footprint), fixed(3)(memory.MeanSlack), fmt.Sprintf("%d of %d", daysAbove, memory.Days), fixed(2)(memory.Changes)),
		known(cpu.Days > 0, wording.Measured(cluster.CPU, cpu.Footprint), fixed(3)(cpu.MeanSlack), fixed(2)(cpu.Above), percent(cpu.Shortfall), fixed(2)(cpu.Changes)),
		known(outcome.Measured(), fixed(2)(outcome.Money)),
	)
}
