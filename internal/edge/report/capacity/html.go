// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look"
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
	style := look.Style(ownStyle)
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
			if c := chart(&p.Resources[k]); c != "" {
				pool.Charts = append(pool.Charts, c)
			}
		}
		data.Pools = append(data.Pools, pool)
	}
	return pageTemplate.Execute(w, data)
}

// The size of a chart, in pixels.
const (
	chartWidth  = 640
	chartHeight = 120
)

// chart returns the forecast of a resource as SVG: the band, the expected line, and the capacity. It returns "" without a forecast.
func chart(r *core.ResourcePlan) template.HTML {
	o := &r.Outlook
	if len(o.High) < 2 || r.Capacity <= 0 {
		return ""
	}
	top := float64(r.Capacity)
	for _, v := range o.High {
		top = max(top, v)
	}
	x := func(i int) float64 { return float64(i) * chartWidth / float64(len(o.High)-1) }
	y := func(v float64) float64 { return chartHeight * (1 - v/(1.05*top)) }
	var band, line strings.Builder
	for i, v := range o.High {
		fmt.Fprintf(&band, "%.1f,%.1f ", x(i), y(v))
	}
	for i := len(o.Low) - 1; i >= 0; i-- {
		fmt.Fprintf(&band, "%.1f,%.1f ", x(i), y(o.Low[i]))
	}
	for i, v := range o.Middle {
		fmt.Fprintf(&line, "%.1f,%.1f ", x(i), y(v))
	}
	c := y(float64(r.Capacity))
	return template.HTML(fmt.Sprintf(
		`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Forecast of requested %s for %d days: the band, the expected line, and the capacity">`+
			`<polygon points="%s" fill="currentColor" fill-opacity="0.15"/><polyline points="%s" fill="none" stroke="currentColor"/>`+
			`<line x1="0" y1="%.1f" x2="%d" y2="%.1f" stroke="currentColor" stroke-dasharray="4 3"/></svg><figcaption>%s, next %d days; dashed: capacity</figcaption>`,
		chartWidth, chartHeight+8, chartWidth, chartHeight+8, r.Resource, len(o.High), strings.TrimSpace(band.String()), strings.TrimSpace(line.String()),
		c, chartWidth, c, r.Resource, len(o.High)))
}
