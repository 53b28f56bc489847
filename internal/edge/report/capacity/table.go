// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"io"
	"strings"
	"time"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// rowsOf returns the table of a resource: the titles, a row per pool, and whether each row is urgent. The last column is the advice.
func rowsOf(r *Report, i int) (titles []string, rows [][]string, urgent []bool) {
	titles = []string{"POOL", title(cluster.All[i])}
	for k := range r.Pools {
		p := &r.Pools[k]
		res := &p.Resources[i]
		if len(rows) == 0 {
			for _, c := range res.Outlook.Crossings {
				titles = append(titles, percent(c.Threshold))
			}
			titles = append(titles, "ORDER BY", "ADVICE")
		}
		row := []string{plain(p.Name), requested(res)}
		for n := range res.Outlook.Crossings {
			row = append(row, reaches(&res.Outlook.Crossings[n], &res.Outlook, r.Now))
		}
		rows = append(rows, append(row, orderBy(&res.Outlook, r.Now), res.AdviceText()))
		urgent = append(urgent, res.Advice == core.OrderNow)
	}
	return titles, rows, urgent
}

// table writes the report for a terminal.
func table(w io.Writer, r *Report, o Options) error {
	p := &printer{options: o}
	p.line("", head(r))
	for _, n := range notes(r) {
		p.line("  ", n)
	}
	if len(r.Pools) > 0 {
		for i := range cluster.All {
			titles, rows, urgent := rowsOf(r, i)
			p.text.WriteString("\n")
			p.table(titles, rows, urgent)
		}
	}
	for i := range r.Pools {
		lines := details(&r.Pools[i])
		if len(lines) == 0 {
			continue
		}
		p.text.WriteString("\n" + p.styled("1", plain(r.Pools[i].Name)) + "\n")
		for _, l := range lines {
			p.line("  ", l)
		}
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// A printer collects the text of tables.
type printer struct {
	options Options
	text    strings.Builder
}

// line adds a line, wrapped between words. All lines have the indent, following ones two spaces more.
func (p *printer) line(indent, s string) {
	if p.options.Width == 0 {
		p.text.WriteString(indent + s + "\n")
		return
	}
	for i, part := range terminal.Wrap(s, max(p.options.Width-len(indent)-2, 20)) {
		if i > 0 {
			p.text.WriteString("  ")
		}
		p.text.WriteString(indent + part + "\n")
	}
}

func (p *printer) styled(code, s string) string {
	if !p.options.Colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// table adds a table. The last column is printed below the rows if it does not fit the width.
func (p *printer) table(titles []string, rows [][]string, urgent []bool) {
	all := append([][]string{titles}, rows...)
	last := len(titles) - 1
	var columns []terminal.Column
	total := -terminal.Gap
	for _, width := range terminal.Widths(all) {
		columns = append(columns, terminal.Column{Width: width})
		total += width + terminal.Gap
	}
	below := p.options.Width > 0 && total > p.options.Width
	if below {
		columns = columns[:last]
		for i := range all {
			all[i] = all[i][:last]
		}
	}
	lines := terminal.Rows(columns, all)
	p.text.WriteString(p.styled("1", lines[0]) + "\n")
	for i, row := range rows {
		s := lines[i+1]
		if urgent[i] {
			s = p.styled("31", s)
		}
		p.text.WriteString(s + "\n")
		if below && row[last] != "" {
			p.line("    ", row[last])
		}
	}
}

// stamp returns the time of the report.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
