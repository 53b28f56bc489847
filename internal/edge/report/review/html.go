// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	_ "embed"
	"html/template"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look"
)

//go:embed page.html
var page string

//go:embed page.css
var ownStyle string

var pageTemplate = template.Must(template.New("page").Parse(page))

// pageData is the input of the template. The template escapes all texts.
type pageData struct {
	Title   string
	Policy  string // Content-Security-Policy: nothing is loaded, and only the style below is used
	Style   template.CSS
	Head    []string
	Notes   []string
	Figures []figure
	Lists   []pageList
	Left    []string
	At      string
}

type figure struct{ Name, Value, Detail string }

type pageList struct {
	Title   string
	Columns []pageColumn
	Rows    []pageRow
}

type pageColumn struct {
	Title  string
	Number bool
}

type pageRow struct {
	High  bool
	Young bool
	Cells []pageCell
}

type pageCell struct {
	Text   string
	Number bool
}

// html writes one page without scripts, which loads nothing.
func (p *printer) html() {
	style := look.Style(ownStyle)
	data := pageData{
		Title: "Recommended requests: " + plain(p.Cluster), Style: template.CSS(style), At: p.Now.UTC().Format(time.RFC1123),
		Policy:  look.Policy(style),
		Head:    trimmedLines(p.header()),
		Notes:   trimmedLines(p.notes()),
		Figures: p.figures(), Left: p.leftOut(),
	}
	if p.options.Groups != nil {
		columns, rows := p.groupTable()
		data.Lists = append(data.Lists, pageListOf(list{title: "By " + p.options.Groups.By, columns: columns, rows: rows}))
		data.Left = nil
	} else {
		for _, l := range p.lists(true) {
			data.Lists = append(data.Lists, pageListOf(l))
		}
	}
	p.err = pageTemplate.Execute(&p.Text, data)
}

func trimmedLines(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimSpace(l)
	}
	return out
}

// figures returns the four numbers at the top.
func (c *content) figures() []figure {
	s := &c.Summary
	out := []figure{{"Workloads at risk", wording.Grouped(float64(s.AtRisk)), "of " + wording.Grouped(float64(s.Workloads))}}
	out = append(out, figure{"CPU that could be freed", wording.Total(cluster.CPU, s.Freed.CPU), "requests"}, figure{"Memory that could be freed", wording.Total(cluster.Memory, s.Freed.Memory), "requests"})
	if s.Packing.Known {
		f := figure{"Nodes that could go", wording.Grouped(float64(s.Packing.Gone)), "of " + wording.Grouped(float64(s.Packing.Nodes))}
		if c.Prices.Known() {
			f.Detail += ", " + c.amountOfMoney(s.Packing.Money) + " a month"
		}
		out = append(out, f)
	}
	return out
}

func pageListOf(l list) pageList {
	out := pageList{Title: l.title}
	for _, c := range l.columns {
		out.Columns = append(out.Columns, pageColumn{c.title, c.right})
	}
	for i, cells := range l.rows {
		var row pageRow
		if len(l.colours) > i {
			row.High, row.Young = l.colours[i] == red, l.colours[i] == grey
		}
		for k, text := range cells {
			row.Cells = append(row.Cells, pageCell{text, l.columns[k].right})
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
