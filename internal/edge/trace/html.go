// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
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
	Winner           string
	Tolerance        string
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
	Best   string
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
		Workloads: len(r.Workloads), Learning: replay.Learning, Winner: r.name(r.Winner),
		Tolerance: fmt.Sprintf("%.1f %% of days above the memory request and %.1f %% of CPU usage above its request",
			100*r.Tolerance.DaysAbove, 100*r.Tolerance.Shortfall),
	}
	for i, rec := range r.Recommenders {
		d.Legend = append(d.Legend, legend{rec.Name, rec.About, template.CSS(colour(i))})
		d.Money = append(d.Money, pageMoney{rec.Name, fmt.Sprintf("%.2f", r.Total[i].Money), template.CSS(colour(i))})
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
	t := pageTable{Resource: res.String()}
	for _, f := range figures {
		if f.only == 0 || f.only == res {
			t.Head = append(t.Head, f.title)
		}
	}
	t.Head = append(t.Head, "footprint")
	for i, o := range r.Total {
		s := summary(o, res)
		row := pageRow{Name: r.Recommenders[i].Name, Colour: template.CSS(colour(i)), Best: i == r.Winner}
		for _, f := range figures {
			if f.only == 0 || f.only == res {
				row.Cells = append(row.Cells, f.text(f.of(s)))
			}
		}
		row.Cells = append(row.Cells, amount(res, s.Footprint))
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Report) card(w *Workload) card {
	c := card{Name: w.Key.String(), Best: r.name(w.Winner)}
	for i, o := range w.Outcomes {
		row := pageRow{Name: r.Recommenders[i].Name, Colour: template.CSS(colour(i)), Best: i == w.Winner}
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
