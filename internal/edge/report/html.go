// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look"
	"podfit.dev/podfit/internal/look/chart"
)

//go:embed report.html
var page string

//go:embed report.css
var ownStyle string

var pageTemplate = template.Must(template.New("report").Parse(page))

// pageData is the input of the template.
type pageData struct {
	Style            template.CSS
	Policy           string
	Source, From, To string
	Workloads        int
	Hidden           int // workloads that are not shown
	Learning         string
	CostTitle        string
	Legend           []legend
	Verdict          string
	Promises         []string
	Judged           bool
	Tables           []pageTable
	Frontiers        []template.HTML
	Money            []pageMoney
	Cards            []card
}

type legend struct {
	Name, About string
	Dot         string
}

type pageTable struct {
	Resource string
	Head     []string
	Rows     []pageRow
}

type pageRow struct {
	Name  string
	Dot   string
	Cells []string
	Best  bool
}

type pageMoney struct {
	Name, Money string
	Dot         string
}

// A card shows one workload.
type card struct {
	Name   string
	Pods   string
	Rows   []pageRow
	Charts []figure
}

type figure struct {
	Title string
	SVG   template.HTML
}

// WriteHTML writes the report as one self-contained page: no scripts, and no fonts or images from other servers.
func WriteHTML(w io.Writer, c *replay.Comparison, o Options) error {
	style := look.Style(chart.Style + ownStyle)
	data := pageData{
		Style: template.CSS(style), Policy: look.Policy(style), Source: c.Source, From: c.From.Format(time.DateOnly), To: c.To.Format(time.DateOnly),
		Workloads: len(c.Workloads), Learning: wording.Count(c.Learning, "day"), CostTitle: costTitle(c.Prices), Verdict: verdict(c), Judged: c.Judged(),
	}
	if data.Judged {
		data.Promises = append(reasons(c), promises(c)...)
	}
	if data.Judged && len(c.Recommenders) > 1 {
		data.Verdict += " " + wins(c)
	}
	for i, recommender := range c.Recommenders {
		data.Legend = append(data.Legend, legend{recommender.Name, recommender.About, colour(i)})
		if data.Judged && c.Prices.Given() {
			data.Money = append(data.Money, pageMoney{recommender.Name, fixed(2)(c.Total[i].Money), colour(i)})
		}
	}
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if measured(c, res) {
			data.Tables = append(data.Tables, tableOf(c, res))
			data.Frontiers = append(data.Frontiers, frontier(c, res))
		}
	}
	order := c.Worst()
	if o.Workloads >= 0 && o.Workloads < len(order) {
		data.Hidden = len(order) - o.Workloads
		order = order[:o.Workloads]
	}
	for _, k := range order {
		data.Cards = append(data.Cards, cardOf(c, &c.Workloads[k]))
	}
	if err := pageTemplate.Execute(w, data); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// tableOf returns the table of a resource over all workloads.
func tableOf(c *replay.Comparison, res cluster.Resource) pageTable {
	t := pageTable{Resource: res.String()}
	columns := totals(c, res)
	for _, column := range columns {
		t.Head = append(t.Head, column.title)
	}
	for i := range c.Recommenders {
		var cells []string
		for _, column := range columns {
			cells = append(cells, column.cells[i])
		}
		t.Rows = append(t.Rows, pageRow{
			Name: c.Recommenders[i].Name, Dot: colour(i), Best: slices.Contains(c.Best, i), Cells: cells,
		})
	}
	return t
}

// cardOf returns the table and the charts of one workload.
func cardOf(c *replay.Comparison, w *replay.WorkloadResult) card {
	out := card{Name: w.Key.String()}
	if w.Pods > 0 {
		out.Pods = pods(w)
	}
	for i, outcome := range w.Outcomes {
		out.Rows = append(out.Rows, pageRow{
			Name: c.Recommenders[i].Name, Dot: colour(i), Best: slices.Contains(w.Best, i), Cells: cardCells(outcome),
		})
	}
	for i, name := range w.Containers {
		for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
			svg := usageChart(w, i, res)
			if svg == "" {
				continue
			}
			title := res.String()
			if len(w.Containers) > 1 {
				title = name + ", " + title
			}
			out.Charts = append(out.Charts, figure{title, svg})
		}
	}
	return out
}

// cardCells returns the figures of one recommender for one workload. A resource that was not measured has dashes.
func cardCells(outcome replay.Outcome) []string {
	var cells []string
	cell := func(measured bool, text string) {
		if !measured {
			text = "–"
		}
		cells = append(cells, text)
	}
	memory := outcome.Memory
	daysAbove := memory.Days - int(memory.FreeDays*float64(memory.Days)+0.5)
	cell(memory.Days > 0, wording.Measured(cluster.Memory, memory.Footprint))
	cell(memory.Days > 0, fixed(3)(memory.MeanSlack))
	cell(memory.Days > 0, fmt.Sprintf("%d of %d", daysAbove, memory.Days))
	cell(memory.Days > 0, fixed(2)(memory.Changes))
	cpu := outcome.CPU
	cell(cpu.Days > 0, wording.Measured(cluster.CPU, cpu.Footprint))
	cell(cpu.Days > 0, fixed(3)(cpu.MeanSlack))
	cell(cpu.Days > 0, fixed(2)(cpu.Above))
	cell(cpu.Days > 0, percent(cpu.Shortfall))
	cell(cpu.Days > 0, fixed(2)(cpu.Changes))
	cell(outcome.Measured(), fixed(2)(outcome.Money))
	return cells
}
