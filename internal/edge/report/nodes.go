// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look/chart"
)

// aboutNodes says which nodes were counted, and for what.
func aboutNodes(c *replay.Comparison, r *packing.Report) string {
	memory, cpu := wording.Measured(cluster.Memory, r.Shape.Memory), wording.Measured(cluster.CPU, r.Shape.CPU)
	about := fmt.Sprintf("nodes of %s and %s", memory, cpu)
	if r.Shape.Pods != packing.DefaultPods {
		about = fmt.Sprintf("nodes of %s, %s and %s", memory, cpu, wording.Count(r.Shape.Pods, "pod"))
	}
	about += ", for " + wording.Count(r.Pods, "pod")
	if r.Shape.Copies != 1 {
		about += fmt.Sprintf(" (%s of each)", wording.Count(r.Shape.Copies, "replica"))
	}
	if r.Shape.OnNode > 1 {
		about += fmt.Sprintf(", packed for %d of a workload on a node", r.Shape.OnNode)
	}
	about += " on " + wording.Count(r.Days, "day")
	if n := len(r.LeftOut); n > 0 {
		about += fmt.Sprintf("; left out, because a pod used more than half of a node: %s", wording.Count(n, "workload"))
	}
	if r.Sparse > 0 {
		about += fmt.Sprintf("; short and CPU saturated are too low, because samples are more than an hour apart: %s", wording.Count(r.Sparse, "workload"))
	}
	var large []string
	for i := range r.Results {
		if x := &r.Results[i]; x.TooLarge > 0 {
			large = append(large, fmt.Sprintf("%s %d", x.Recommender, x.TooLarge))
		}
	}
	if len(large) > 0 {
		about += "; pods that request more than a node count as one node each; the most on one day: " + strings.Join(large, ", ")
	}
	for i := range r.Results {
		if x := &r.Results[i]; x.Copies > 0 {
			about += fmt.Sprintf("; %s assumes %s of a workload on a node, but half of the nodes have at least %d. In a cluster podfit counts these pods, and requests more: add copies=%d to --nodes", x.Recommender, wording.Count(r.Shape.OnNode, "pod"), x.Copies, x.Copies)
		}
	}
	switch {
	case len(r.Results) > 0:
	case len(r.LeftOut) < len(c.Workloads):
		about += "; there is no full day in UTC after the learning days"
	default:
		about += "; no pod was measured"
	}
	return about
}

// nodeColumns returns the figures of the nodes, one cell for each recommender.
func nodeColumns(r *packing.Report) []column {
	var out []column
	for _, f := range [...]struct {
		title string
		rank  int
		cell  func(*packing.Result) string
	}{
		{"nodes", 0, func(x *packing.Result) string { return fixed(1)(x.Nodes) }},
		{"ratio", 0, func(x *packing.Result) string { return fixed(2)(x.Ratio) }},
		{"random halves", 3, func(x *packing.Result) string { return fixed(2)(x.RatioFrom) + "–" + fixed(2)(x.RatioTo) }},
		{"first fit", 4, func(x *packing.Result) string { return fixed(1)(x.FirstFit) }},
		{"day maximum", 5, func(x *packing.Result) string { return fixed(1)(x.DayMaximum) }},
		{"short", 0, func(x *packing.Result) string { return percentOrNone(x.Short) }},
		{"short, most of halves", 2, func(x *packing.Result) string { return percentOrNone(x.ShortTo) }},
		{"CPU saturated", 1, func(x *packing.Result) string { return percentOrNone(x.Saturated) }},
		{"kill-free", 0, func(x *packing.Result) string { return percentOrNone(x.KillFreeProportional) }},
		{"kill-free, peaks", 0, func(x *packing.Result) string { return percentOrNone(x.KillFreePeaks) }},
	} {
		out = append(out, column{title: f.title, rank: f.rank, cells: cluster.Each(r.Results, f.cell)})
	}
	return out
}

// nodeFrontier draws nodes (x) against the share of days on which a node was short (y). It returns "" if the share is not known: all results are of the
// same pods, so it is known for all of them or for none.
func nodeFrontier(r *packing.Report) template.HTML {
	var names []string
	var points []chart.Point
	for _, x := range r.Results {
		if x.Short == nil {
			return ""
		}
		names = append(names, x.Recommender)
		points = append(points, chart.Point{X: x.Nodes, Y: 100 * *x.Short})
	}
	return dots("nodes against short nodes", "nodes", "node-days short, %", 0, names, points)
}

func percentOrNone(v *float64) string {
	if v == nil {
		return "–"
	}
	return percent(*v)
}

// culprits names the workloads that made nodes short.
func culprits(r *packing.Report) []string {
	const mostCulprits = 3 // how many workloads are named for each recommender
	var out []string
	for _, x := range r.Results {
		names := cluster.Each(x.Culprits[:min(len(x.Culprits), mostCulprits)], func(c *packing.Culprit) string {
			worst := slices.MaxFunc(c.Short, func(a, b packing.ShortNode) int { return cmp.Compare(a.Used, b.Used) })
			return fmt.Sprintf("%s (%s, the worst: node %d on %s)", c.Workload, wording.Count(c.NodeDays, "node-day"), worst.Node, worst.Day)
		})
		if len(names) > 0 {
			out = append(out, fmt.Sprintf("%s: most above its request when a node was short: %s", x.Recommender, strings.Join(names, ", ")))
		}
	}
	return out
}
