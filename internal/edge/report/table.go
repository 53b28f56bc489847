// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package report writes the result of a backtest: as a table for a terminal, as JSON, CSV or HTML, and as a timeline
// of requests in CSV.
//
// It formats a replay.Comparison and calculates nothing; package replay measures and ranks.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// Options control how much a report shows.
type Options struct {
	Workloads  int              // how many workloads the table and the HTML page show at most; negative: all
	Width      int              // columns of the terminal, for the table; 0: unlimited
	AllColumns bool             // tables are as wide as they need, whatever Width is
	Nodes      []packing.Report // of the nodes that the requests need, by size
}

// WriteTable writes the report for a terminal. No line is longer than the terminal is wide, as long as that has at least
// 40 columns, unless all columns are asked for.
func WriteTable(w io.Writer, c *replay.Comparison, o Options) error {
	p := &printer{width: o.Width, tableWidth: o.Width}
	if o.AllColumns {
		p.tableWidth = 0
	}
	p.line("%s: %s, %s to %s, measured after %s of learning",
		c.Source, wording.Count(len(c.Workloads), "workload"), c.From.Format(time.DateOnly), c.To.Format(time.DateOnly), wording.Count(c.Learning, "day"))
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if !measured(c, res) {
			continue
		}
		names := column{title: res.String(), cells: cluster.Each(c.Recommenders, func(r *recommend.Profile) string { return "  " + r.Name })}
		p.line("")
		p.table(names, totals(c, res))
	}
	p.line("")
	if c.Judged() && c.Prices.Given() {
		var all []string
		for i, outcome := range c.Total {
			all = append(all, fmt.Sprintf("%s %.2f", c.Recommenders[i].Name, outcome.Money))
		}
		p.line("%s: %s", costTitle(c.Prices), strings.Join(all, ", "))
		p.line("")
	}
	p.line("%s", verdict(c))
	for _, sentence := range append(reasons(c), promises(c)...) {
		p.line("%s", sentence)
	}
	if c.Judged() && len(c.Recommenders) > 1 {
		p.line("%s", wins(c))
	}
	for _, r := range o.Nodes {
		p.line("")
		p.line("%s", aboutNodes(c, &r))
		names := column{title: "nodes", cells: cluster.Each(r.Results, func(r *packing.Result) string { return "  " + r.Recommender })}
		p.table(names, nodeColumns(&r))
		for _, sentence := range culprits(&r) {
			p.line("%s", sentence)
		}
	}
	if c.Judged() && o.Workloads != 0 {
		p.line("")
		p.workloads(c, o.Workloads)
	}
	if p.dropped {
		p.line("")
		p.line("Some columns do not fit this terminal. --output wide shows all of them.")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// workloads prints one row per workload with the figures of its best recommender.
func (p *printer) workloads(c *replay.Comparison, most int) {
	p.line("workloads, worst first: by the most harm under any of the recommenders; the figures are those of the best")
	order := c.Worst()
	hidden := 0
	if most >= 0 && most < len(order) {
		hidden = len(order) - most
		order = order[:most]
	}
	names := column{title: "workload"}
	columns := []column{
		{title: "pods", rank: 3}, {title: "best"},
		{title: "memory slack", rank: 5}, {title: "days without exceed", rank: 1}, {title: "memory"},
		{title: "CPU slack", rank: 4}, {title: "samples above/day", rank: 2}, {title: "CPU"},
	}
	if c.Prices.Given() {
		columns = append(columns, column{title: costTitle(c.Prices)})
	}
	for _, i := range order {
		names.cells = append(names.cells, c.Workloads[i].Key.String())
		for k, cell := range workloadCells(c, &c.Workloads[i], len(columns)) {
			columns[k].cells = append(columns[k].cells, cell)
		}
	}
	p.table(names, columns)
	if hidden > 0 {
		p.line("%d more are not shown: --workloads -1 shows all, --workloads 0 none", hidden)
	}
}

// workloadCells returns the n cells of one workload. A resource that was not measured has empty cells.
func workloadCells(c *replay.Comparison, w *replay.WorkloadResult, n int) []string {
	cells := make([]string, n)
	if len(w.Best) == 0 {
		cells[1] = "too short to measure"
		return cells
	}
	outcome := w.Outcomes[w.Best[0]]
	cells[0] = pods(w)
	cells[1] = wording.List(listed(c, w.Best), 1)
	if s := outcome.Memory; s.Days > 0 {
		copy(cells[2:], []string{fixed(3)(s.MeanSlack), percent(s.FreeDays), wording.Measured(cluster.Memory, s.Footprint)})
	}
	if s := outcome.CPU; s.Days > 0 {
		copy(cells[5:], []string{fixed(3)(s.MeanSlack), fixed(3)(s.Above), wording.Measured(cluster.CPU, s.Footprint)})
	}
	if c.Prices.Given() {
		cells[8] = fixed(2)(outcome.Money)
	}
	return cells
}

// A printer collects text that fits a terminal.
type printer struct {
	text       strings.Builder
	width      int  // of lines; 0: unlimited
	tableWidth int  // of tables; 0: unlimited
	dropped    bool // a column was dropped because its table did not fit
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
func wrap(s string, width int) string { return strings.Join(terminal.Wrap(s, width), "\n") }

// table prints a table whose first column names the rows. It omits columns without any figure. If it does not fit, columns are dropped by
// their rank; the columns that are never dropped and do not fit follow in another table below, which has the names again.
func (p *printer) table(names column, columns []column) {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(c.cells, func(cell string) bool { return cell != "" })
	})
	fits := func(columns []column) bool {
		return p.tableWidth <= 0 || text.LongestLineLen(p.draw(names, columns)) <= p.tableWidth
	}
	for !fits(columns) {
		most := slices.MaxFunc(columns, func(a, b column) int { return cmp.Compare(a.rank, b.rank) }).rank
		if most == 0 {
			break
		}
		last := slices.IndexFunc(columns, func(c column) bool { return c.rank == most })
		columns = slices.Delete(columns, last, last+1)
		p.dropped = true
	}
	for first := 0; first < len(columns); {
		end := len(columns)
		for !fits(columns[first:end]) && end > first+1 {
			end--
		}
		if first > 0 {
			p.text.WriteString("\n")
		}
		p.text.WriteString(p.draw(names, columns[first:end]) + "\n")
		first = end
	}
}

func (p *printer) draw(names column, columns []column) string {
	const titleWidth = 11 // the width at which column titles are wrapped. No word of them is longer
	columns = append([]column{names}, columns...)
	rows := make([][]string, len(names.cells)+1)
	configs := make([]table.ColumnConfig, len(columns))
	for i, c := range columns {
		rows[0] = append(rows[0], wrap(c.title, titleWidth))
		for k, cell := range c.cells {
			rows[k+1] = append(rows[k+1], cell)
		}
		configs[i] = table.ColumnConfig{Number: i + 1, VAlignHeader: text.VAlignBottom}
		if p.tableWidth > 0 {
			configs[i].WidthMax = p.tableWidth / 2
			configs[i].WidthMaxEnforcer = text.WrapSoft
		}
	}
	if p.tableWidth > 0 { // leave room for figures beside long names
		configs[0].WidthMax = p.tableWidth * 2 / 5
		configs[0].WidthMaxEnforcer = text.WrapHard
	}
	return terminal.Render(configs, rows)
}
