// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// Options control how much a report shows.
type Options struct {
	Workloads int // how many workloads the table and the HTML page show at most; negative: all
	Width     int // columns of the terminal, for the table; 0: unlimited
}

// titleWidth is the width at which column titles are wrapped. No word of them is longer.
const titleWidth = 11

// WriteTable writes the report for a terminal. No line is longer than the terminal is wide, as long as that has at least
// 40 columns.
func WriteTable(w io.Writer, c *replay.Comparison, o Options) error {
	p := &printer{width: o.Width}
	p.line("%s: %s, %s to %s, measured after %d days of learning",
		c.Source, count(len(c.Workloads), "workload"), c.From.Format(time.DateOnly), c.To.Format(time.DateOnly), replay.Learning)
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if !measured(c, res) {
			continue
		}
		titles, rows := totals(c, res)
		for i := range rows {
			rows[i] = append([]string{"  " + c.Recommenders[i].Name}, rows[i]...)
		}
		p.line("")
		p.table(append([]string{res.String()}, titles...), rows)
	}
	p.line("")
	if c.Judged() && c.Prices.Given() {
		var all []string
		for i, outcome := range c.Total {
			all = append(all, fmt.Sprintf("%s %.2f", c.Recommenders[i].Name, outcome.Money))
		}
		p.line("cost per month: %s", strings.Join(all, ", "))
		p.line("")
	}
	p.line("%s", verdict(c))
	for _, promise := range promises(c) {
		p.line("%s", promise)
	}
	if c.Judged() && len(c.Recommenders) > 1 {
		p.line("%s", wins(c))
	}
	if c.Judged() && o.Workloads != 0 {
		p.line("")
		p.workloads(c, o.Workloads)
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// workloads prints one row per workload with the figures of its best recommender.
func (p *printer) workloads(c *replay.Comparison, most int) {
	p.line("workloads, worst first: by the most harm under any of the recommenders; the figures are those of the best")
	titles := []string{"workload", "pods", "best", "memory slack", "days without exceed", "memory", "CPU slack", "samples above/day", "CPU"}
	if c.Prices.Given() {
		titles = append(titles, "cost per month")
	}
	order := c.Worst()
	hidden := 0
	if most >= 0 && most < len(order) {
		hidden = len(order) - most
		order = order[:most]
	}
	var rows [][]string
	for _, i := range order {
		rows = append(rows, workloadCells(c, &c.Workloads[i]))
	}
	p.table(titles, rows)
	if hidden > 0 {
		p.line("%d more are not shown: --workloads -1 shows all, --workloads 0 none", hidden)
	}
}

// workloadCells returns the row of one workload. A resource that was not measured has empty cells.
func workloadCells(c *replay.Comparison, w *replay.WorkloadResult) []string {
	if len(w.Best) == 0 {
		return []string{w.Key.String(), "", "too short to measure"}
	}
	outcome := w.Outcomes[w.Best[0]]
	memory := []string{"", "", ""}
	cpu := []string{"", "", ""}
	if s := outcome.Memory; s.Days > 0 {
		memory = []string{fixed(3)(s.MeanSlack), percent(s.FreeDays), amount(cluster.Memory, s.Footprint)}
	}
	if s := outcome.CPU; s.Days > 0 {
		cpu = []string{fixed(3)(s.MeanSlack), fixed(3)(s.Above), amount(cluster.CPU, s.Footprint)}
	}
	cells := []string{w.Key.String(), pods(w), bestOf(c, w)}
	cells = append(cells, memory...)
	cells = append(cells, cpu...)
	if c.Prices.Given() {
		cells = append(cells, fixed(2)(outcome.Money))
	}
	return cells
}

// A printer collects text that fits a terminal.
type printer struct {
	text  strings.Builder
	width int // 0: unlimited
}

// line prints a line, wrapped between words.
func (p *printer) line(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if p.width > 0 {
		s = wrap(s, p.width)
	}
	p.text.WriteString(s + "\n")
}

// wrap breaks text between words into lines that are not longer than width.
func wrap(s string, width int) string {
	lines := strings.Split(text.WrapSoft(s, width), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// table prints a table whose first column names the rows. Columns that do not fit the width follow in another table below,
// which has the names again.
func (p *printer) table(titles []string, rows [][]string) {
	for first := 1; first < len(titles); {
		end := len(titles)
		drawn := p.draw(titles, rows, first, end)
		for p.width > 0 && text.LongestLineLen(drawn) > p.width && end > first+1 {
			end--
			drawn = p.draw(titles, rows, first, end)
		}
		if first > 1 {
			p.text.WriteString("\n")
		}
		p.text.WriteString(drawn + "\n")
		first = end
	}
}

// draw returns a table of the names and the columns from first to before end. Rows may have fewer cells than there are
// columns.
func (p *printer) draw(titles []string, rows [][]string, first, end int) string {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()

	cells := func(row []string) table.Row {
		out := table.Row{row[0]}
		for i := first; i < min(end, len(row)); i++ {
			out = append(out, row[i])
		}
		return out
	}
	wrapped := make([]string, len(titles))
	for i, title := range titles {
		wrapped[i] = wrap(title, titleWidth)
	}
	header := cells(wrapped)
	t.AppendHeader(header)
	for _, row := range rows {
		t.AppendRow(cells(row))
	}
	columns := make([]table.ColumnConfig, len(header))
	for i := range columns {
		columns[i] = table.ColumnConfig{Number: i + 1, VAlignHeader: text.VAlignBottom}
		if p.width > 0 {
			columns[i].WidthMax = p.width / 2
			columns[i].WidthMaxEnforcer = text.WrapSoft
		}
	}
	if p.width > 0 { // leave room for figures beside long names
		columns[0].WidthMax = p.width * 2 / 5
		columns[0].WidthMaxEnforcer = text.WrapHard
	}
	t.SetColumnConfigs(columns)
	return t.Render()
}
