// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"io"

	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/report/page"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// Options control what a report shows.
type Options struct {
	Width     int    // columns of the terminal, for tables; 0: unlimited
	Colour    bool   // tables use ANSI colours
	Top       int    // number of rows in each list of a table, Markdown and HTML; 0: all
	Sort      string // SortRisk, SortMoney or SortName
	MinSaving float64
	Groups    *core.Groups // totals by group, instead of rows; nil: rows
}

// The values of Options.Sort.
const (
	SortRisk  = "risk"  // a list of risks, then a list of waste
	SortMoney = "money" // one list, most money first
	SortName  = "name"  // one list by name, also of containers without a recommendation
)

// Formats returns the names of all formats.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

var formats = []struct {
	name  string
	write func(*printer)
}{
	{"table", func(p *printer) { p.tables(false) }},
	{"wide", func(p *printer) { p.tables(true) }},
	{"json", func(p *printer) { p.writeJSON(p.document()) }},
	{"yaml", func(p *printer) { p.writeYAML(p.document()) }},
	{"csv", (*printer).csv},
	{"markdown", (*printer).markdown},
	{"html", func(p *printer) { p.err = page.Write(&p.Text, p.shown(true)) }},
	{"patch", (*printer).patch},
	{"kustomize", (*printer).kustomize},
	{"helm-values", (*printer).helmValues},
	{"vpa", (*printer).vpa},
	{"krr-json", (*printer).krrJSON},
	{"krr-csv", (*printer).krrCSV},
}

// A printer collects the text of a report in a format.
type printer struct {
	terminal.Printer
	content
	err error
}

// tables writes the report for a terminal. The title of a list is the title of its first column.
func (p *printer) tables(wide bool) {
	d := p.shown(wide)
	if p.options.Groups == nil {
		for _, s := range d.Sections {
			s.Table.Columns[0].Title = s.Title
		}
	}
	p.Document(d)
}

// Write writes a report in a format.
func Write(w io.Writer, format string, r *core.Report, o Options) error {
	for _, f := range formats {
		if f.name != format {
			continue
		}
		p := &printer{Printer: terminal.Printer{Width: o.Width, Colour: o.Colour}, content: content{Report: r, options: o}}
		p.differing = p.otherTemplates()
		f.write(p)
		if p.err != nil {
			return fmt.Errorf("write report: %w", p.err)
		}
		if _, err := io.WriteString(w, p.Text.String()); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		return nil
	}
	return fmt.Errorf("unknown format %q", format)
}
