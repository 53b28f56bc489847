// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/test/load/apiserver"
)

// A row is one measure of the table.
type row struct {
	name   string
	unit   string
	budget float64 // the most that podfit may need; 0: no budget
	value  func(*Result) (float64, bool)
	grows  bool // with the number of workloads: 4 times the work may cost growth times as much
}

// growth is how much more four times the work may cost.
const growth = 4.4

// rows are the measures, with the budgets of podfit at 10,000 workloads with 10 pods each.
var rows = []row{
	{name: "VPAs with a recommendation", value: func(r *Result) (float64, bool) { return float64(r.Recommended), true }},
	{name: "start to the recommendations of all VPAs", unit: "s", budget: 45, grows: true, value: func(r *Result) (float64, bool) { return r.First, r.First > 0 }},
	{name: "pass of the recommender, median", unit: "s", value: func(r *Result) (float64, bool) { return percentile(r.Recommender, 0.5), len(r.Recommender) > 0 }},
	{name: "pass of the recommender, longest", unit: "s", budget: 5, grows: true, value: longestOf(func(r *Result) []float64 { return r.Recommender })},
	{name: "pass of the updater, median", unit: "s", value: func(r *Result) (float64, bool) { return percentile(r.Updater, 0.5), len(r.Updater) > 0 }},
	{name: "pass of the updater, longest", unit: "s", budget: 2, grows: true, value: longestOf(func(r *Result) []float64 { return r.Updater })},
	{name: "resident memory, all processes", unit: "MiB", grows: true, value: func(r *Result) (float64, bool) { _, resident := r.Memory(); return resident, true }},
	{name: "peak of the memory, all processes", unit: "MiB", budget: 700, grows: true, value: func(r *Result) (float64, bool) { peak, _ := r.Memory(); return peak, true }},
	{name: "peak divided by resident memory", budget: 1.3, value: func(r *Result) (float64, bool) {
		peak, resident := r.Memory()
		return peak / max(resident, 1), resident > 0
	}},
	{name: "writes in the steady state", unit: "/s", budget: 25, value: func(r *Result) (float64, bool) { n, _ := r.Writes(); return n, r.Window > 0 }},
	{name: "of these, statuses of VPAs", unit: "/s", value: writesOf("verticalpodautoscalers")},
	{name: "of these, checkpoints and usage histories", unit: "/s", value: writesOf("verticalpodautoscalercheckpoints", "usagehistories")},
	{name: "of these, evictions and resizes", unit: "/s", value: writesOf("pods")},
	{name: "bytes written in the steady state", unit: "KiB/s", value: func(r *Result) (float64, bool) { _, b := r.Writes(); return b / 1024, r.Window > 0 }},
	{name: "webhook, median", unit: "ms", value: func(r *Result) (float64, bool) { return r.Webhook.P50, r.Webhook.Reviews > 0 }},
	{name: "webhook, 99th percentile", unit: "ms", budget: 5, value: func(r *Result) (float64, bool) { return r.Webhook.P99, r.Webhook.Reviews > 0 }},
	{name: "reviews that failed", unit: "%", value: func(r *Result) (float64, bool) {
		return 100 * float64(r.Webhook.Failed) / max(1, float64(r.Webhook.Reviews)), r.Webhook.Reviews > 0
	}},
	{name: "the same requests to an empty server, 99th percentile", unit: "ms", value: func(r *Result) (float64, bool) { return r.Webhook.Empty, r.Webhook.Reviews > 0 }},
	{name: "CPU time of all processes", unit: "s", grows: true, value: func(r *Result) (float64, bool) {
		total := 0.0
		for _, p := range r.Processes {
			total += p.CPU
		}
		return total, true
	}},
	{name: "pods evicted", value: func(r *Result) (float64, bool) { return float64(r.Replaced), true }},
}

// writesOf returns the writes per second of resources in the steady state.
func writesOf(resources ...string) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		n := 0
		for _, l := range r.Steady {
			name, _, _ := strings.Cut(l.Resource, "/")
			name, _, _ = strings.Cut(name, ".")
			if l.Request.Writes() && slices.Contains(resources, name) {
				n += l.Requests
			}
		}
		return float64(n) / r.Window, r.Window > 0
	}
}

func longestOf(passes func(*Result) []float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if len(passes(r)) == 0 {
			return 0, false
		}
		return slices.Max(passes(r)), true
	}
}

// label returns the name with the unit.
func (w row) label() string { return strings.TrimSuffix(w.name+" ("+w.unit+")", " ()") }

// applies reports whether the budget of a row applies to a result. The budget for memory is that of one process.
func (w row) applies(r *Result) bool {
	if w.budget == 0 || r.System == upstream {
		return false
	}
	return w.unit != "MiB" || r.System == oneProcess
}

// cell returns the text of a value, with a mark if it exceeds its budget.
func (w row) cell(r *Result) string {
	v, ok := w.value(r)
	if !ok {
		if w.name == "start to the recommendations of all VPAs" {
			return "not reached"
		}
		return "–"
	}
	text := number(v)
	switch {
	case !w.applies(r) || v <= w.budget:
	case w.unit == "ms" && r.Webhook.Empty > w.budget:
		text += " (machine too busy)"
	default:
		text = "**" + text + "** (missed)"
	}
	return text
}

func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// A table is text in columns.
type table [][]string

// write writes a table in Markdown.
func (t table) write(w io.Writer) {
	widths := make([]int, len(t[0]))
	for _, line := range t {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for n, line := range t {
		for i, cell := range line {
			fmt.Fprint(w, "| ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))), " ")
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprint(w, "|", strings.Repeat("-", width+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}

// measures returns the table of the runs of one size.
func measures(results []*Result) table {
	head := []string{"", "budget"}
	for _, r := range results {
		head = append(head, r.System)
	}
	out := table{head}
	for _, w := range rows {
		line := []string{w.label(), "–"}
		if w.budget > 0 {
			line[1] = number(w.budget)
		}
		for _, r := range results {
			line = append(line, w.cell(r))
		}
		out = append(out, line)
	}
	return out
}

// memory returns the table of the processes of the runs of one size.
func memory(results []*Result) table {
	out := table{{"process", "peak (MiB)", "resident (MiB)", "CPU time (s)"}}
	for _, r := range results {
		for _, p := range r.Processes {
			out = append(out, []string{p.Process, number(p.Peak), number(p.Resident), number(p.CPU)})
		}
	}
	return out
}

// steps returns the table of the steps of the passes of the runs of one size.
func steps(results []*Result) table {
	out := table{{"process", "pass of the", "step", "passes", "mean (s)"}}
	for _, r := range results {
		for _, p := range r.Processes {
			for _, id := range slices.Sorted(maps.Keys(p.Steps)) {
				metric, step, _ := strings.Cut(id, "/")
				job := strings.TrimSuffix(strings.TrimPrefix(metric, "vpa_"), "_execution_latency_seconds")
				out = append(out, []string{p.Process, job, step, fmt.Sprint(p.Steps[id].Count), number(p.Steps[id].Sum / max(1, float64(p.Steps[id].Count)))})
			}
		}
	}
	return out
}

// traffic returns the table of the requests of a run.
func traffic(r *Result) table {
	out := table{{"client", "verb", "resource", "until the steady state", "in it, per minute", "KiB received", "KiB sent"}}
	type pair struct{ start, steady apiserver.Count }
	all := make(map[apiserver.Request]pair)
	for _, l := range r.Start {
		all[l.Request] = pair{start: l.Count}
	}
	for _, l := range r.Steady {
		p := all[l.Request]
		p.steady = l.Count
		all[l.Request] = p
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b apiserver.Request) int {
		return cmp.Or(strings.Compare(a.Client, b.Client), strings.Compare(a.Verb, b.Verb), strings.Compare(a.Resource, b.Resource))
	})
	for _, k := range keys {
		p := all[k]
		out = append(out, []string{
			k.Client, k.Verb, k.Resource, fmt.Sprint(p.start.Requests), number(float64(p.steady.Requests) / r.Window * 60),
			number(float64((p.start.Received + p.steady.Received) / 1024)), number(float64((p.start.Sent + p.steady.Sent) / 1024)),
		})
	}
	return out
}

// growths returns how much more each measure needs for four times the workloads, nil if there are no such results.
func growths(results []*Result) table {
	out := table{{"system", "workloads", "measure", "smaller", "larger", "ratio", "budget"}}
	for _, small := range results {
		for _, large := range results {
			if large.System != small.System || large.Churn != small.Churn || large.New != small.New || large.Settled != small.Settled || large.Pods != small.Pods || large.Workloads != 4*small.Workloads || small.System == upstream {
				continue
			}
			for _, w := range rows {
				a, known := w.value(small)
				b, ok := w.value(large)
				if !w.grows || !known || !ok || a <= 0 {
					continue
				}
				ratio := fmt.Sprintf("%.2f", b/a)
				if b/a > growth {
					ratio = "**" + ratio + "** (missed)"
				}
				out = append(out, []string{small.System, fmt.Sprintf("%d → %d", small.Workloads, large.Workloads), w.label(), number(a), number(b), ratio, number(growth)})
			}
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// lines returns counts in a fixed order.
func lines(c apiserver.Counts) []Line {
	var out []Line
	for r, n := range c {
		out = append(out, Line{r, n})
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.Client, b.Client), strings.Compare(a.Verb, b.Verb), strings.Compare(a.Resource, b.Resource))
	})
	return out
}

// missed returns the budgets that a run exceeds.
func missed(r *Result) []string {
	var out []string
	for _, w := range rows {
		if v, ok := w.value(r); ok && w.applies(r) && v > w.budget && (w.unit != "ms" || r.Webhook.Empty <= w.budget) {
			out = append(out, fmt.Sprintf("%s: %s instead of %s %s", w.name, number(v), number(w.budget), w.unit))
		}
	}
	if r.Recommended < r.Workloads && r.System != upstream {
		out = append(out, fmt.Sprintf("%d of %d VPAs have no recommendation", r.Workloads-r.Recommended, r.Workloads))
	}
	return out
}
