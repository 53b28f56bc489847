// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	core "podfit.dev/podfit/internal/core/review"
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
	for i, part := range wrapped(strings.TrimLeft(s, " "), max(p.options.Width-indent-2, 20)) {
		if i > 0 {
			p.text.WriteString("  ")
		}
		p.text.WriteString(strings.Repeat(" ", indent) + part + "\n")
	}
}

// wrapped breaks text between words.
func wrapped(s string, width int) []string {
	lines := strings.Split(text.WrapSoft(s, width), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
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

// gap is the space between two columns.
const gap = 2

// table adds a table that fits the width. Columns that may become narrower are shortened first, then columns that may be below the row
// are printed there.
func (p *printer) table(columns []column, rows [][]string, colours []string) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = text.StringWidth(c.title)
		for _, row := range rows {
			widths[i] = max(widths[i], text.StringWidth(row[i]))
		}
	}
	below := p.fit(columns, widths)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	p.text.WriteString(p.bold(tableLine(columns, widths, titles, below)) + "\n")
	for k, row := range rows {
		line := tableLine(columns, widths, row, below)
		if len(colours) > k && colours[k] != "" {
			line = p.colour(colours[k], line)
		}
		p.text.WriteString(line + "\n")
		for i := range columns {
			if !below || !columns[i].below || row[i] == "" {
				continue
			}
			for _, part := range wrapped(row[i], max(p.options.Width-4, 20)) {
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
		sum := -gap
		for i, c := range columns {
			if !below || !c.below {
				sum += widths[i] + gap
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

func tableLine(columns []column, widths []int, cells []string, below bool) string {
	var b strings.Builder
	for i, c := range columns {
		if below && c.below {
			continue
		}
		cell := shortened(cells[i], widths[i])
		pad := strings.Repeat(" ", widths[i]-text.StringWidth(cell))
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if c.right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// shortened cuts a text to a width.
func shortened(s string, width int) string {
	if text.StringWidth(s) <= width {
		return s
	}
	return text.Trim(s, width-1) + "…"
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
