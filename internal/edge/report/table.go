// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// Options control how much a report shows.
type Options struct {
	Workloads int // how many workloads the table and the HTML page show at most; negative: all
}

// WriteTable writes the report for a terminal.
func WriteTable(w io.Writer, c *replay.Comparison, o Options) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s, %s to %s, measured after %d days of learning\n",
		c.Source, count(len(c.Workloads), "workload"), c.From.Format(time.DateOnly), c.To.Format(time.DateOnly), replay.Learning)
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if !measured(c, res) {
			continue
		}
		titles, rows := totals(c, res)
		fmt.Fprintf(t, "\n%s\t%s\n", res, strings.Join(titles, "\t"))
		for i, row := range rows {
			fmt.Fprintf(t, "  %s\t%s\n", c.Recommenders[i].Name, strings.Join(row, "\t"))
		}
		t.Flush()
	}
	if c.Judged() && c.Prices.Given() {
		var all []string
		for i, outcome := range c.Total {
			all = append(all, fmt.Sprintf("%s %.2f", c.Recommenders[i].Name, outcome.Money))
		}
		fmt.Fprintf(&b, "\ncost per month: %s\n", strings.Join(all, ", "))
	}
	fmt.Fprintf(&b, "\n%s\n", verdict(c))
	for _, p := range promises(c) {
		fmt.Fprintln(&b, p)
	}
	if c.Judged() && len(c.Recommenders) > 1 {
		fmt.Fprintln(&b, wins(c))
	}
	if c.Judged() && o.Workloads != 0 {
		perWorkload(t, c, o.Workloads)
		t.Flush()
	}
	for line := range strings.Lines(b.String()) { // empty cells at the end of a row leave blanks
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// perWorkload writes one line per workload with the figures of its best recommender.
func perWorkload(w io.Writer, c *replay.Comparison, most int) {
	fmt.Fprintln(w, "\nworkloads, the worst first: by the most harm under any of the recommenders; the figures are those of the best")
	fmt.Fprint(w, "workload\tpods\tbest\tmemory slack\tdays without exceed\tmemory\tCPU slack\tsamples above/day\tCPU")
	if c.Prices.Given() {
		fmt.Fprint(w, "\tcost per month")
	}
	fmt.Fprintln(w)
	for i, k := range c.Worst() {
		if i == most {
			fmt.Fprintf(w, "(%d more; --workloads 0 leaves them all out, -1 shows all)\n", len(c.Workloads)-most)
			return
		}
		wl := &c.Workloads[k]
		if len(wl.Best) == 0 {
			fmt.Fprintf(w, "%s\t\ttoo short to measure\n", wl.Key)
			continue
		}
		o := wl.Outcomes[wl.Best[0]]
		fmt.Fprintf(w, "%s\t%s\t%s\t", wl.Key, pods(wl), bestOf(c, wl))
		if o.Memory.Days > 0 {
			fmt.Fprintf(w, "%.3f\t%.2f %%\t%s\t", o.Memory.MeanSlack, 100*o.Memory.FreeDays, amount(cluster.Memory, o.Memory.Footprint))
		} else {
			fmt.Fprint(w, "\t\t\t")
		}
		if o.CPU.Days > 0 {
			fmt.Fprintf(w, "%.3f\t%.3f\t%s", o.CPU.MeanSlack, o.CPU.Above, amount(cluster.CPU, o.CPU.Footprint))
		} else {
			fmt.Fprint(w, "\t\t")
		}
		if c.Prices.Given() {
			fmt.Fprintf(w, "\t%.2f", o.Money)
		}
		fmt.Fprintln(w)
	}
}
