// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"
	"unicode"

	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// A printer collects the text of a report.
type printer struct {
	*core.Report
	options   Options
	differing int // workloads whose pods differ from their template
	text      strings.Builder
	err       error
}

// line adds a line. On a terminal it is wrapped between words, and following lines are indented.
func (p *printer) line(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if p.options.Width == 0 {
		p.text.WriteString(s + "\n")
		return
	}
	indent := len(s) - len(strings.TrimLeft(s, " "))
	for i, part := range terminal.Wrap(strings.TrimLeft(s, " "), max(p.options.Width-indent-2, 20)) {
		if i > 0 {
			p.text.WriteString("  ")
		}
		p.text.WriteString(strings.Repeat(" ", indent) + part + "\n")
	}
}

// bold returns s in bold if the output has colours.
func (p *printer) bold(s string) string { return p.colour("1", s) }

func (p *printer) colour(code, s string) string {
	if !p.options.Colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// A column is a column of a table.
type column struct {
	title string
	right bool // numbers
	least int  // the narrowest it may become; 0: it keeps its width
	below bool // if it does not fit beside the others, it is printed below the row
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
	p.text.WriteString(p.bold(lines[0]) + "\n")
	for k, row := range rows {
		line := lines[k+1]
		if len(colours) > k && colours[k] != "" {
			line = p.colour(colours[k], line)
		}
		p.text.WriteString(line + "\n")
		for i := range columns {
			if !below || !columns[i].below || row[i] == "" {
				continue
			}
			for _, part := range terminal.Wrap(row[i], max(p.options.Width-4, 20)) {
				p.text.WriteString("    " + part + "\n")
			}
		}
	}
}

// fit shortens widths to the terminal, and reports whether the columns that may be below are printed there. Text of these columns is never
// cut.
func (p *printer) fit(columns []column, widths []int) (below bool) {
	if p.options.Width == 0 {
		return false
	}
	over := func(below bool) int {
		sum := -terminal.Gap
		for i, c := range columns {
			if !below || !c.below {
				sum += widths[i] + terminal.Gap
			}
		}
		return sum - p.options.Width
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

// plain returns a name without characters that a terminal or a table would interpret.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
