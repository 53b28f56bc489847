// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// pageData is what the page shows.
type pageData struct {
	Source, From, To string
	Workloads, Left  int
	Learning         int
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
	Colour      template.CSS
}

type pageTable struct {
	Resource string
	Head     []string
	Rows     []pageRow
}

type pageRow struct {
	Name   string
	Colour template.CSS
	Cells  []string
	Best   bool
}

type pageMoney struct {
	Name, Money string
	Colour      template.CSS
}

// card is one workload.
type card struct {
	Name   string
	Pods   string
	Rows   []pageRow
	Charts []chart
}

type chart struct {
	Title string
	SVG   template.HTML
}

// WriteHTML writes the report as one page that needs nothing else: no script, no font, no picture from elsewhere. It
// shows up to so many workloads, all when negative.
func WriteHTML(w io.Writer, r *Report, workloads int) error {
	d := pageData{
		Source: r.Source, From: r.From.Format(time.DateOnly), To: r.To.Format(time.DateOnly),
		Workloads: len(r.Workloads), Learning: replay.Learning, Verdict: r.verdict(), Judged: r.Judged(),
	}
	if d.Judged {
		d.Promises = r.promises()
	}
	if d.Judged && len(r.Recommenders) > 1 {
		d.Verdict += " " + r.wins()
	}
	for i, rec := range r.Recommenders {
		d.Legend = append(d.Legend, legend{rec.Name, rec.About, template.CSS(colour(i))})
		if d.Judged && r.Prices.Given() {
			d.Money = append(d.Money, pageMoney{rec.Name, fixed(2)(r.Total[i].Money), template.CSS(colour(i))})
		}
	}
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if r.has(res) {
			d.Tables = append(d.Tables, r.table(res))
			d.Frontiers = append(d.Frontiers, template.HTML(r.frontier(res))) // made by us; names are escaped
		}
	}
	order := r.Worst()
	if workloads >= 0 && workloads < len(order) {
		d.Left = len(order) - workloads
		order = order[:workloads]
	}
	for _, k := range order {
		d.Cards = append(d.Cards, r.card(&r.Workloads[k]))
	}
	if err := pageTemplate.Execute(w, d); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Report) table(res cluster.Resource) pageTable {
	head, rows := r.totals(res)
	t := pageTable{Resource: res.String(), Head: head}
	for i, cells := range rows {
		t.Rows = append(t.Rows, pageRow{
			Name: r.Recommenders[i].Name, Colour: template.CSS(colour(i)), Best: slices.Contains(r.Best, i), Cells: cells,
		})
	}
	return t
}

func (r *Report) card(w *Workload) card {
	c := card{Name: w.Key.String()}
	if w.Pods > 0 {
		c.Pods = w.pods()
	}
	for i, o := range w.Outcomes {
		row := pageRow{Name: r.Recommenders[i].Name, Colour: template.CSS(colour(i)), Best: slices.Contains(w.Best, i)}
		cell := func(measured bool, text string) {
			if !measured {
				text = "–"
			}
			row.Cells = append(row.Cells, text)
		}
		m, p := o.Memory, o.CPU
		cell(m.Days > 0, amount(cluster.Memory, m.Footprint))
		cell(m.Days > 0, fixed(3)(m.MeanSlack))
		cell(m.Days > 0, fmt.Sprintf("%d of %d", m.Days-int(m.FreeDays*float64(m.Days)+0.5), m.Days))
		cell(m.Days > 0, fixed(2)(m.Changes))
		cell(p.Days > 0, amount(cluster.CPU, p.Footprint))
		cell(p.Days > 0, fixed(3)(p.MeanSlack))
		cell(p.Days > 0, fixed(2)(p.Above))
		cell(p.Days > 0, percent(2)(p.Shortfall))
		cell(p.Days > 0, fixed(2)(p.Changes))
		cell(o.Measured(), fmt.Sprintf("%.2f", o.Money))
		c.Rows = append(c.Rows, row)
	}
	for i, name := range w.Containers {
		for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
			if svg := w.history(i, res); svg != "" {
				title := res.String()
				if len(w.Containers) > 1 {
					title = name + ", " + title
				}
				c.Charts = append(c.Charts, chart{title, template.HTML(svg)})
			}
		}
	}
	return c
}
