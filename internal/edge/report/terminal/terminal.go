// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package terminal lays out text by the columns of a terminal that it takes: it measures, pads, cuts and wraps text, aligns tables, and
// collects the lines of a report. It does not know what the text says, and writes nothing.
package terminal

import (
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Gap is the number of blanks between two columns of a table.
const Gap = 2

// Width returns the number of columns that a text takes. Some letters take two, and accents none.
func Width(s string) int { return text.StringWidth(s) }

// Pad appends blanks to a text until it takes width columns.
func Pad(s string, width int) string { return text.Pad(s, width, ' ') }

// Wrap breaks a text between words into lines of at most width columns. Only words that are longer than a line are cut.
func Wrap(s string, width int) []string {
	lines := strings.Split(text.WrapSoft(s, width), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// Plain returns a name without characters that a terminal or a table would interpret.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// A Printer collects the text of a report.
type Printer struct {
	Width  int  // columns of the terminal; 0: unlimited
	Colour bool // use ANSI colours
	Text   strings.Builder
}

// Line adds a line. On a terminal it is wrapped between words. Following lines have the indent of the first and two blanks more.
func (p *Printer) Line(s string) {
	if p.Width == 0 {
		p.Text.WriteString(s + "\n")
		return
	}
	words := strings.TrimLeft(s, " ")
	indent := s[:len(s)-len(words)]
	for i, part := range Wrap(words, max(p.Width-len(indent)-2, 20)) {
		if i > 0 {
			p.Text.WriteString("  ")
		}
		p.Text.WriteString(indent + part + "\n")
	}
}

// Styled returns a text with an ANSI code if the terminal has colours.
func (p *Printer) Styled(code, s string) string {
	if !p.Colour || s == "" || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Widths returns the width of each column of a table.
func Widths(rows [][]string) []int {
	if len(rows) == 0 {
		return nil
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	return widths
}

// A Column says how a column of a table is printed.
type Column struct {
	Width int  // longer cells are cut
	Right bool // aligned to the right, as numbers are
}

// Rows returns a line for each row of a table, without blanks at its end. A cell for each column; cells have no line breaks.
func Rows(columns []Column, rows [][]string) []string {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = strings.Repeat(" ", Gap)
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	configs := make([]table.ColumnConfig, len(columns))
	for i, c := range columns {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMin: c.Width, WidthMax: c.Width, WidthMaxEnforcer: cut}
		if c.Right {
			configs[i].Align = text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	for _, row := range rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			cells[i] = cell
		}
		t.AppendRow(cells)
	}
	if len(rows) == 0 {
		return nil
	}
	return strings.Split(t.Render(), "\n")
}

// cut shortens a text to a width.
func cut(s string, width int) string { return text.Snip(s, width, "…") }
