// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look/chart"
	"podfit.dev/podfit/internal/look/page"
)

// nodesAbout explains the figures of nodes.
const nodesAbout = "Nodes: mean per day, placed as the scheduler does, on as few nodes as hold the requests at the start of the day. Short: node-days in which the memory of the pods " +
	"exceeded 97 % of the node at least once. Kill-free: container-days without memory usage above the limit: 1.5 × the request; or of peaks: twice the largest usage of 14 days before, at least 1 GiB more than it."

// nodesTitle names a shape of nodes and what runs on them.
func nodesTitle(r *packing.Report) string {
	s := r.Shape
	title := fmt.Sprintf("Nodes of %s and %s: %s, %s", wording.Measured(cluster.Memory, s.Memory), wording.Measured(cluster.CPU, s.CPU), wording.Count(r.Pods, "pod"), wording.Count(r.Days, "day"))
	if s.Copies > 1 {
		title += fmt.Sprintf(", each pod of the recording %d times", s.Copies)
	}
	return title
}

// nodesColumns returns the figures of the recommenders, one cell for each.
func nodesColumns(r *packing.Report) []column {
	var out []column
	for _, c := range []struct {
		title string
		rank  int
		cell  func(r *packing.Result) string
	}{
		{"nodes", 0, func(r *packing.Result) string { return fixed(1)(r.Nodes) }},
		{"ratio", 0, func(r *packing.Result) string { return fixed(2)(r.Ratio) }},
		{"ratio of random halves", 2, func(r *packing.Result) string { return fixed(2)(r.RatioFrom) + "–" + fixed(2)(r.RatioTo) }},
		{"nodes, first fit", 4, func(r *packing.Result) string { return fixed(1)(r.FirstFit) }},
		{"nodes, day maximum", 3, func(r *packing.Result) string { return fixed(1)(r.DayMaximum) }},
		{"short", 0, func(r *packing.Result) string { return percent(r.Short) }},
		{"short, most of halves", 5, func(r *packing.Result) string { return percent(r.ShortTo) }},
		{"CPU saturated", 6, func(r *packing.Result) string { return percent(r.Saturated) }},
		{"kill-free", 1, func(r *packing.Result) string { return percent(r.KillFreeProportional) }},
		{"kill-free, peaks", 1, func(r *packing.Result) string { return percent(r.KillFreePeaks) }},
	} {
		out = append(out, column{title: c.title, rank: c.rank, cells: cluster.Each(r.Results, c.cell)})
	}
	return out
}

// nodesNotes says what made nodes short, and what is left out.
func nodesNotes(c *replay.Comparison, r *packing.Report) []string {
	const most = 3
	var out []string
	for k := range r.Results {
		if culprits := r.Results[k].Culprits; len(culprits) > 0 {
			names := cluster.Each(culprits[:min(most, len(culprits))], func(c *packing.Culprit) string { return fmt.Sprintf("%s (%d)", c.Workload, c.NodeDays) })
			out = append(out, fmt.Sprintf("%s: most above its request when a node was short, with the number of node-days: %s.", c.Recommenders[k].Name, strings.Join(names, ", ")))
		}
	}
	if n := len(r.LeftOut); n > 0 {
		out = append(out, fmt.Sprintf("Left out, because the usage of a pod exceeded half of a node: %s.", wording.Count(n, "workload")))
	}
	return out
}

// nodes prints the figures of each shape of nodes.
func (p *printer) nodes(c *replay.Comparison, all []packing.Report) {
	for i := range all {
		r := &all[i]
		p.line("")
		p.line("%s", nodesTitle(r))
		p.table(column{cells: cluster.Each(c.Recommenders, func(r *recommend.Profile) string { return "  " + r.Name })}, nodesColumns(r))
		for _, note := range nodesNotes(c, r) {
			p.line("%s", note)
		}
	}
	if len(all) > 0 {
		p.line("%s", nodesAbout)
	}
}

// nodesSections returns a table and a chart for each shape of nodes.
func nodesSections(c *replay.Comparison, all []packing.Report) []page.Section {
	return cluster.Each(all, func(r *packing.Report) page.Section {
		columns := nodesColumns(r)
		points := cluster.Each(r.Results, func(r *packing.Result) chart.Point { return chart.Point{X: r.Nodes, Y: 100 * r.Short} })
		return page.Section{
			Title: nodesTitle(r), Text: append(nodesNotes(c, r), nodesAbout),
			Charts: []page.Chart{{Image: frontierOf(c, points, "nodes against node-days short", "nodes", "node-days short of memory, %"), Caption: "nodes against risk"}},
			Table: tableOf(c, nil, cluster.Each(columns, func(c *column) string { return c.title }), func(i int) []string {
				return cluster.Each(columns, func(c *column) string { return c.cells[i] })
			}),
		}
	})
}
