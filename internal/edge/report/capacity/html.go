// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look"
	"podfit.dev/podfit/internal/look/chart"
)

//go:embed page.html
var page string

//go:embed page.css
var ownStyle string

var pageTemplate = template.Must(template.New("page").Parse(page))

// pageData is the input of the template. The template escapes all texts but the charts, which contain only numbers and constants.
type pageData struct {
	Title  string
	Policy string
	Style  template.CSS
	Head   string
	Notes  []string
	Tables []pageTable
	Pools  []pagePool
	At     string
}

type pageTable struct {
	Title   string
	Columns []string
	Rows    []pageRow
}

type pageRow struct {
	High  bool
	Cells []string
}

type pagePool struct {
	Name   string
	Charts []template.HTML
	Lines  []string
}

// html writes one page without scripts, which loads nothing.
func html(w io.Writer, r *Report, _ Options) error {
	style := look.Style(chart.Style + ownStyle)
	data := pageData{
		Title: "Capacity: " + terminal.Plain(r.Cluster), Policy: look.Policy(style), Style: template.CSS(style), Head: head(r), Notes: notes(r),
		At: r.Now.UTC().Format(time.RFC1123),
	}
	for i := range cluster.All {
		if len(r.Pools) == 0 {
			break
		}
		titles, rows, urgent := rowsOf(r, i)
		t := pageTable{Title: title(cluster.All[i]), Columns: titles}
		for k, cells := range rows {
			t.Rows = append(t.Rows, pageRow{urgent[k], cells})
		}
		data.Tables = append(data.Tables, t)
	}
	for i := range r.Pools {
		p := &r.Pools[i]
		pool := pagePool{Name: terminal.Plain(p.Name), Lines: details(p)}
		for k := range p.Resources {
			if c := draw(&p.Resources[k]); c != "" {
				pool.Charts = append(pool.Charts, c)
			}
		}
		data.Pools = append(data.Pools, pool)
	}
	return pageTemplate.Execute(w, data)
}

// draw returns the forecast of a resource: the band, the expected line, and the capacity. It returns "" without a forecast.
func draw(r *core.ResourcePlan) template.HTML {
	o := &r.Outlook
	days := len(o.High)
	if days < 2 || r.Capacity <= 0 {
		return ""
	}
	top := max(float64(r.Capacity), slices.Max(o.High))
	m := chart.New(640, 128, "cpu", fmt.Sprintf("Forecast of requested %s for %d days: the band, the expected line, and the capacity", r.Resource, days),
		chart.Frame{Width: 640, Height: 120, X1: float64(days - 1), Y1: 1.05 * top})
	band := make([]chart.Point, 2*days)
	line := make([]chart.Point, days)
	for i := range days {
		x := float64(i)
		band[i] = chart.Point{X: x, Y: o.High[i]}
		band[2*days-1-i] = chart.Point{X: x, Y: o.Low[i]}
		line[i] = chart.Point{X: x, Y: o.Middle[i]}
	}
	m.Area("area", band...)
	m.Line("peak", line...)
	m.Across("limit", float64(r.Capacity))
	return m.HTML() + template.HTML(fmt.Sprintf("<figcaption>%s, next %d days; dashed: capacity</figcaption>", r.Resource, days))
}
