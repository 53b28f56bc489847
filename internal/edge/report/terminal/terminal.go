// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package terminal lays out text by the columns of a terminal that it takes: it measures, pads, cuts and wraps text, aligns tables, and
// collects the lines of a report. It does not know what the text says.
package terminal

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"podfit.dev/podfit/internal/look/page"
)

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

// A Layout distributes words to lines, and cuts no word.
type Layout struct {
	Hanging   int    // indent of all lines but the first
	Separator string // between words of a line
	Ending    string // of all lines but the last
	Width     int    // of lines with their ending
	Last      int    // width of the last line; 0: Width
	Overflow  int    // indent of further lines of a word with blanks that is wider than a line; 0: it is not broken
}

// Lines returns the lines of words. The first line begins with a start.
func (l Layout) Lines(start string, words []string) (out []string) {
	current := start
	for i, word := range words {
		room := l.Width - Width(l.Ending)
		if i == len(words)-1 {
			room = cmp.Or(l.Last, l.Width)
		}
		switch {
		case i == 0:
		case Width(current+l.Separator+word) > room:
			out = append(out, current+l.Ending)
			current = strings.Repeat(" ", l.Hanging)
		default:
			current += l.Separator
		}
		current += word
		for l.Overflow > 0 && Width(current) > l.Width {
			at := -1
			for k, r := range current {
				if r == ' ' && k > l.Overflow && Width(current[:k]) <= l.Width {
					at = k
				}
			}
			if at < 0 {
				break // one long word
			}
			out = append(out, current[:at])
			current = strings.Repeat(" ", l.Overflow) + current[at+1:]
		}
	}
	return append(out, current)
}

// shellWord matches a word of a command, with quoted blanks.
var shellWord = regexp.MustCompile(`(?:[^\s'"\\]+|\\.|'[^']*'|"[^"]*"|['"\\])+`)

// Command returns the lines of a command, so that it can be copied: it is broken only between words, and all lines but the last end with a
// backslash. The first line begins with start, and the others have an indent.
func Command(start, command string, hanging, width int) []string {
	const ending = ` \`
	l := Layout{Hanging: hanging, Separator: " ", Ending: ending, Width: width, Last: width - len(ending)}
	return l.Lines(start, shellWord.FindAllString(command, -1))
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

// Document adds a document, without what only a page has.
func (p *Printer) Document(d *page.Document) {
	for i, s := range d.Head {
		if i > 0 {
			s = "  " + s
		}
		p.Line(s)
	}
	for _, s := range d.Notes {
		p.Line("  " + s)
	}
	for _, s := range d.Sections {
		if s.Table != nil {
			p.Text.WriteString("\n")
			p.Table(s.Table)
		}
		if len(s.Text) > 0 {
			p.Text.WriteString("\n" + p.Styled("1", s.Title) + "\n")
		}
		for _, text := range s.Text {
			p.Line("  " + text)
		}
	}
	if len(d.Rest) > 0 {
		p.Line(strings.Join(d.Rest, "    "))
	}
}

// Table adds a table that fits the width. Columns that may become narrower are shortened first, then columns that may be below the row
// are printed there.
func (p *Printer) Table(t *page.Table) {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Title)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Width(row.Cells[i]))
		}
	}
	below := p.fit(t.Columns, widths)
	printed := lines(t, widths, below)
	p.Text.WriteString(p.Styled("1", printed[0]) + "\n")
	for k, row := range t.Rows {
		line := printed[k+1]
		if row.High {
			line = p.Styled("31", line)
		} else if row.Young {
			line = p.Styled("90", line)
		}
		p.Text.WriteString(line + "\n")
		for i, c := range t.Columns {
			if !below || !c.Below || row.Cells[i] == "" {
				continue
			}
			parts := Wrap(row.Cells[i], max(p.Width-4-t.Hanging, 20))
			p.Text.WriteString("    " + strings.Join(parts, "\n    "+Pad("", t.Hanging)) + "\n")
		}
	}
}

// gap is the number of blanks between two columns of a table.
const gap = 2

// fit shortens widths to the terminal, and reports whether the columns that may be below are printed there. Text of these columns is never
// cut.
func (p *Printer) fit(columns []page.Column, widths []int) (below bool) {
	if p.Width == 0 {
		return false
	}
	over := func(below bool) int {
		sum := -gap
		for i, c := range columns {
			if !below || !c.Below {
				sum += widths[i] + gap
			}
		}
		return sum - p.Width
	}
	spare := 0 // what columns can give
	for i, c := range columns {
		if c.Least > 0 {
			spare += max(widths[i]-c.Least, 0)
		}
	}
	below = over(false) > spare
	for n := over(below); n > 0; n = over(below) { // the widest column gives first
		widest := -1
		for i, c := range columns {
			if c.Least > 0 && widths[i] > c.Least && (widest < 0 || widths[i] > widths[widest]) {
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

// lines returns the lines of a table, without the columns that are printed below the rows.
func lines(t *page.Table, widths []int, below bool) []string {
	all := make([][]string, len(t.Rows)+1)
	var configs []table.ColumnConfig
	cut := func(s string, width int) string { return text.Snip(s, width, "…") }
	for i, c := range t.Columns {
		if below && c.Below {
			continue
		}
		config := table.ColumnConfig{Number: len(configs) + 1, WidthMin: widths[i], WidthMax: widths[i], WidthMaxEnforcer: cut}
		if c.Right {
			config.Align = text.AlignRight
			config.AlignHeader = text.AlignRight
		}
		configs = append(configs, config)
		all[0] = append(all[0], c.Title)
		for k, row := range t.Rows {
			all[k+1] = append(all[k+1], row.Cells[i])
		}
	}
	return strings.Split(Render(configs, all), "\n")
}

// Render returns a table without lines between its cells and without blanks at the end of its lines. The first row is the titles.
func Render(columns []table.ColumnConfig, rows [][]string) string {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = strings.Repeat(" ", gap)
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.SetColumnConfigs(columns)
	for i, row := range rows {
		cells := make(table.Row, len(row))
		for k, cell := range row {
			cells[k] = cell
		}
		if i == 0 {
			t.AppendHeader(cells)
			continue
		}
		t.AppendRow(cells)
	}
	return t.Render()
}
