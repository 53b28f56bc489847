// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"

	"podfit.dev/podfit/internal/edge/report/terminal"
)

// A printer collects the text of a report in a format.
type printer struct {
	terminal.Printer
	content
	err error
}

// A column is a column of a table.
type column struct {
	title string
	right bool // numbers
	least int  // the narrowest it may become; 0: it keeps its width
	below bool // if it does not fit beside the others, it is printed below the row
}

// tables writes the report for a terminal.
func (p *printer) tables(wide bool) {
	for _, s := range p.header() {
		p.Line(s)
	}
	for _, s := range p.notes() {
		p.Line(s)
	}
	if p.options.Groups != nil {
		columns, rows := p.groupTable()
		p.Text.WriteString("\n")
		p.table(columns, rows, nil)
		return
	}
	for _, l := range p.lists(wide) {
		l.columns[0].title = l.title
		p.Text.WriteString("\n")
		p.table(l.columns, l.rows, l.colours)
	}
	if left := p.leftOut(); len(left) > 0 {
		p.Line(strings.Join(left, "    "))
	}
}

// table adds a table that fits the width. Columns that may become narrower are shortened first, then columns that may be below the row
// are printed there.
func (p *printer) table(columns []column, rows [][]string, colours []string) {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	all := append([][]string{titles}, rows...)
	widths := terminal.Widths(all)
	below := p.fit(columns, widths)
	lines := tableLines(columns, widths, all, below)
	p.Text.WriteString(p.Styled("1", lines[0]) + "\n")
	for k, row := range rows {
		line := lines[k+1]
		if len(colours) > k {
			line = p.Styled(colours[k], line)
		}
		p.Text.WriteString(line + "\n")
		for i := range columns {
			if !below || !columns[i].below || row[i] == "" {
				continue
			}
			for _, part := range terminal.Wrap(row[i], max(p.Width-4, 20)) {
				p.Text.WriteString("    " + part + "\n")
			}
		}
	}
}

// fit shortens widths to the terminal, and reports whether the columns that may be below are printed there. Text of these columns is never
// cut.
func (p *printer) fit(columns []column, widths []int) (below bool) {
	if p.Width == 0 {
		return false
	}
	over := func(below bool) int {
		sum := -terminal.Gap
		for i, c := range columns {
			if !below || !c.below {
				sum += widths[i] + terminal.Gap
			}
		}
		return sum - p.Width
	}
	spare := 0 // what columns can give
	for i, c := range columns {
		if c.least > 0 {
			spare += max(widths[i]-c.least, 0)
		}
	}
	below = over(false) > spare
	for n := over(below); n > 0; n = over(below) { // the widest column gives first
		widest := -1
		for i, c := range columns {
			if c.least > 0 && widths[i] > c.least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return below
}

// tableLines returns the lines of a table, without the columns that are printed below the rows.
func tableLines(columns []column, widths []int, rows [][]string, below bool) []string {
	var printed []terminal.Column
	cells := make([][]string, len(rows))
	for i, c := range columns {
		if below && c.below {
			continue
		}
		printed = append(printed, terminal.Column{Width: widths[i], Right: c.right})
		for k, row := range rows {
			cells[k] = append(cells[k], row[i])
		}
	}
	return terminal.Rows(printed, cells)
}

func plain(s string) string { return terminal.Plain(s) }
