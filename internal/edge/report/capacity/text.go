// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity writes a capacity plan as tables for a terminal, as JSON for programs, or as one page of HTML.
package capacity

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fragments"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look/chart"
	"podfit.dev/podfit/internal/look/page"
)

// A Report is a capacity plan and what a reader should know about it.
type Report struct {
	core.Plan
	Cluster   string
	Source    string   // where the history is from
	Missing   []string // what could not be read; the plan is incomplete
	Notes     []string
	BackedOff []string    // groups of nodes from which their autoscaler backs off
	For       room.Amount // the size for which moves make room; zero: none
	Fragments []fragments.Pool
}

// Formats are the names of all formats.
var Formats = []string{"table", "json", "html"}

// Write writes a report in a format. Tables are laid out by an empty printer.
func Write(w io.Writer, format string, r *Report, p *terminal.Printer) (err error) {
	switch format {
	case "table":
		p.Document(shown(r))
		_, err = io.WriteString(w, p.Text.String())
	case "json":
		err = writeJSON(w, r)
	case "html":
		err = page.Write(w, shown(r))
	default:
		return fmt.Errorf("unknown format %q", format)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// date returns a day for people: "9 Dec", with the year if it is not the present one.
func date(d core.Day, now time.Time) string {
	t := d.Time()
	if t.Year() != now.UTC().Year() {
		return t.Format("2 Jan 2006")
	}
	return t.Format("2 Jan")
}

// span returns a range of days: "2–20 Dec" or "28 Nov – 3 Jan 2027".
func span(from, to core.Day, now time.Time) string {
	a := from.Time()
	b := to.Time()
	switch {
	case from == to:
		return date(from, now)
	case a.Year() == b.Year() && a.Month() == b.Month():
		return a.Format("2") + "–" + date(to, now)
	}
	return date(from, now) + " – " + date(to, now)
}

// reaches returns when requests reach a threshold: "since 4 d", "already", "9 Dec (2–20 Dec)", "not within 90 d" or "not known".
func reaches(c *core.Crossing, o *core.Outlook, now time.Time) string {
	switch days := core.DayOf(now) - c.Since; {
	case c.State == core.Above && c.Since == 0:
		return "already"
	case c.State == core.Above && days > 0:
		return fmt.Sprintf("since %d d", days)
	case c.State == core.Above:
		return "since today"
	case c.State == core.NotWithin:
		return fmt.Sprintf("not within %d d", o.Reach)
	case c.State != core.Ahead:
		return "not known"
	case c.Expected == 0:
		return "from " + date(c.Earliest, now)
	case c.Latest == 0:
		return fmt.Sprintf("%s (from %s)", date(c.Expected, now), date(c.Earliest, now))
	}
	return fmt.Sprintf("%s (%s)", date(c.Expected, now), span(c.Earliest, c.Latest, now))
}

// orderBy returns the order-by date: "22 Nov: TODAY", "12 Nov: 10 d LATE" or "30 Nov"; "-" if there is none.
func orderBy(o *core.Outlook, now time.Time) string {
	if o.OrderBy == 0 {
		return "-"
	}
	text := date(o.OrderBy, now)
	switch late := core.DayOf(now) - o.OrderBy; {
	case late == 0:
		text += ": TODAY"
	case late > 0:
		text += fmt.Sprintf(": %d d LATE", late)
	}
	return text
}

// requested returns the requests: "154 of 192 (80 %), used 17 %".
func requested(r *core.ResourcePlan) string {
	text := fmt.Sprintf("%s of %s", number(r.Resource, r.Requested), number(r.Resource, r.Capacity))
	if r.Capacity <= 0 {
		return text
	}
	text += fmt.Sprintf(" (%s)", wording.Percent(r.Share(r.Requested)))
	if r.UsedKnown {
		text += ", used " + wording.Percent(r.Share(r.Used))
	}
	return text
}

// number returns an amount in cores or GiB, "0" if it is less than a twentieth of one.
func number(res cluster.Resource, v int64) string {
	amount := float64(v) / cluster.Pick(res, 1000.0, 1<<30)
	if text := wording.Trimmed(amount, 1); text != "-0" && math.Abs(amount) < 10 {
		return text
	}
	return wording.Grouped(amount)
}

func title(res cluster.Resource) string { return cluster.Pick(res, "CPU (cores)", "MEMORY (GiB)") }

// details returns sentences about a pool that the tables do not contain.
func details(p *core.PoolPlan, now time.Time) []string {
	out := append(cluster.Each(p.Resources[:], grew), causes(p), grows(p, now))
	out = slices.DeleteFunc(out, func(text string) bool { return text == "" })
	if p.Nodes > 0 {
		out = append(out, fits(p))
	}
	for i := range p.Resources {
		if r := &p.Resources[i]; !r.CanLoseANode() {
			out = append(out, fmt.Sprintf("Cannot lose a node: %s of %s are requested, and %s remain without the largest node.",
				wording.Total(r.Resource, r.Requested), r.Resource, wording.Total(r.Resource, r.WithoutLargest)))
		}
	}
	if p.Pending > 0 {
		out = append(out, fmt.Sprintf("%s pending; their requests count.", wording.Count(p.Pending, "pod")+wording.Form(p.Pending, " is", " are")))
	}
	if p.Unadvised > 0 {
		out = append(out, fmt.Sprintf("%s no recommendation, so what they could give back is not known.", wording.Count(p.Unadvised, "workload")+wording.Form(p.Unadvised, " has", " have")))
	}
	return out
}

// grows returns the sentence about the nodes that can be added to a pool, "" if they are not known.
func grows(p *core.PoolPlan, now time.Time) string {
	switch e := &p.Extension; {
	case !e.Known:
		return ""
	case e.Nodes == 0:
		return "No node can be added to the groups of its present nodes: they are at their maximum."
	}
	full := cluster.Each(p.Resources[:], func(r *core.ResourcePlan) string {
		return r.Resource.String() + " " + reaches(new(r.Extended.Crossing(1)), &r.Extended, now)
	})
	return fmt.Sprintf("The groups of its present nodes can grow by %s (%s). It reaches 100 %% of that: %s.",
		wording.Count(p.Extension.Nodes, "node"), wording.Totals(p.Extension.Capacity), strings.Join(full, ", "))
}

// grew returns the sentence about the growth of a resource, "" if it is not known or there is none.
func grew(r *core.ResourcePlan) string {
	if r.GrewDays == 0 {
		return ""
	}
	verb := "grew by"
	total := r.GrewTotal
	if total < 0 {
		verb = "fell by"
		total = -total
	}
	text := fmt.Sprintf("Requested %s %s %s in %d days", r.Resource, verb, wording.Total(r.Resource, total), r.GrewDays)
	var parts []string
	for _, part := range []struct {
		name  string
		value int64
	}{
		{"new workloads", r.Grew.New.Amount(r.Resource)}, {"gone workloads", r.Grew.Gone.Amount(r.Resource)},
		{"replicas", r.Grew.Replicas.Amount(r.Resource)}, {"requests per pod", r.Grew.PerPod.Amount(r.Resource)},
		{"not recorded", r.GrewTotal - r.Grew.Explained(r.Resource)},
	} {
		if n := number(r.Resource, part.value); n != "0" {
			if part.value > 0 {
				n = "+" + n
			}
			parts = append(parts, n+" "+part.name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return text + ": " + strings.Join(parts, ", ") + "."
}

// causes names the largest changes.
func causes(p *core.PoolPlan) string {
	const mostChanges = 5 // the number of changes that a report lists for a pool
	var parts []string
	for _, c := range core.LargestChanges(p.Changes, mostChanges) {
		res := cluster.CPU
		if c.Amount.CPU == 0 {
			res = cluster.Memory
		}
		sign := "+"
		if c.Amount.Amount(res) < 0 {
			sign = ""
		}
		parts = append(parts, fmt.Sprintf("%s %s %s%s (%s)", terminal.Plain(c.Workload.String()), strings.ToLower(string(c.Cause)), sign, wording.Total(res, c.Amount.Amount(res)), c.Day))
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Reverse(parts) // the newest first
	return "Largest changes: " + strings.Join(parts, "; ") + "."
}

// fits returns the sentence about the largest pod that still fits.
func fits(p *core.PoolPlan) string {
	a := p.Fit[0]
	b := p.Fit[1]
	text := func(r core.Room) string {
		return fmt.Sprintf("%s and %s on %s", wording.Total(cluster.CPU, r.Free.CPU), wording.Total(cluster.Memory, r.Free.Memory), terminal.Plain(r.Node))
	}
	switch {
	case a.Node == "" && b.Node == "":
		return "No pod fits any more on any node."
	case a.Node == b.Node:
		return "The largest pod that still fits: " + text(a) + "."
	}
	return "The largest pod that still fits: by CPU " + text(a) + ", by memory " + text(b) + "."
}

// notes returns what a reader must know before relying on the plan.
func notes(r *Report) []string {
	var out []string
	if u := &r.Unplaced; u.Pods > 0 {
		out = append(out, fmt.Sprintf("%s pending that no node accepts or can hold, such as %s; they count in no pool.", wording.Count(u.Pods, "pod")+wording.Form(u.Pods, " is", " are"), terminal.Plain(u.Example.String())))
	}
	if len(r.BackedOff) > 0 {
		out = append(out, fmt.Sprintf("The cluster autoscaler adds no nodes for now to %s, because a scale-up failed.", terminal.Plain(wording.List(r.BackedOff, 5))))
	}
	out = append(out, cluster.Each(r.Notes, func(n *string) string { return terminal.Plain(*n) })...)
	return append(out, cluster.Each(r.Missing, func(m *string) string { return "Incomplete: " + terminal.Plain(*m) + "." })...)
}

func head(r *Report) string {
	nodes, pods := 0, 0
	for i := range r.Pools {
		nodes += r.Pools[i].Nodes
		pods += r.Pools[i].Pods
	}
	return fmt.Sprintf("%s · %s, %s, %s · history of %s", terminal.Plain(r.Cluster), wording.Count(len(r.Pools), "pool"), wording.Count(nodes, "node"), wording.Count(pods, "pod"), terminal.Plain(r.Source))
}

func shown(r *Report) *page.Document {
	d := &page.Document{Command: "capacity", Title: "Capacity: " + terminal.Plain(r.Cluster), Style: chart.Style, Head: []string{head(r)}, Notes: notes(r)}
	d.Foot = []string{"podfit capacity, " + r.Now.UTC().Format(time.RFC1123) + ". A date is the first day on which requests may reach the capacity; 8 of 10 such dates are inside the range."}
	if len(r.Pools) > 0 {
		for i, res := range cluster.All {
			d.Sections = append(d.Sections, page.Section{Title: title(res), Table: tableOf(r, i)})
		}
	}
	for _, p := range r.Pools {
		images := slices.Concat(cluster.Each(p.Resources[:], charts)...)
		d.Sections = append(d.Sections, page.Section{Title: terminal.Plain(p.Name), Text: details(&p, r.Now), Charts: images})
	}
	d.Sections = append(d.Sections, fragmentSections(r)...)
	return d
}

// tableOf returns the table of a resource with a row for each pool. The last column is the advice.
func tableOf(r *Report, i int) *page.Table {
	t := &page.Table{Columns: []page.Column{{Title: "POOL"}, {Title: title(cluster.All[i])}}, Hanging: 2}
	thresholds := cluster.Each(r.Pools[0].Resources[i].Outlook.Crossings, func(c *core.Crossing) string { return wording.Percent(c.Threshold) })
	t.Columns = append(t.Columns, columns(thresholds...)...)
	t.Columns = append(t.Columns, page.Column{Title: "ORDER BY"}, page.Column{Title: "ADVICE", Below: true})
	for k := range r.Pools {
		res := &r.Pools[k].Resources[i]
		cells := []string{terminal.Plain(r.Pools[k].Name), requested(res)}
		cells = append(cells, cluster.Each(res.Outlook.Crossings, func(c *core.Crossing) string { return reaches(c, &res.Outlook, r.Now) })...)
		t.Rows = append(t.Rows, page.Row{Cells: append(cells, orderBy(&res.Outlook, r.Now), res.AdviceText()), High: res.Advice == core.OrderNow})
	}
	return t
}

// charts returns the forecast of a resource: the band, the expected line, and the capacity. There is none without a forecast.
func charts(r *core.ResourcePlan) []page.Chart {
	o := &r.Outlook
	days := len(o.High)
	if days < 2 || r.Capacity <= 0 {
		return nil
	}
	top := max(float64(r.Capacity), slices.Max(o.High))
	m := chart.New(640, 128, "cpu", fmt.Sprintf("Forecast of requested %s for %d days: the band, the expected line, and the capacity", r.Resource, days),
		chart.Frame{Width: 640, Height: 120, X1: float64(days - 1), Y1: 1.05 * top})
	band := make([]chart.Point, 2*days)
	line := make([]chart.Point, days)
	for i := range days {
		x := float64(i)
		band[i] = chart.Point{X: x, Y: o.High[i]}
		band[2*days-1-i] = chart.Point{X: x, Y: o.Low[i]}
		line[i] = chart.Point{X: x, Y: o.Middle[i]}
	}
	m.Area("area", band...)
	m.Line("peak", line...)
	m.Across("limit", float64(r.Capacity))
	return []page.Chart{{Image: m.HTML(), Caption: fmt.Sprintf("%s, next %d days; dashed: capacity", r.Resource, days)}}
}

// fragmentSections returns the tables of the free room of pools, of moves, and of what keeps a cluster autoscaler from removing nodes.
func fragmentSections(r *Report) []page.Section {
	if len(r.Fragments) == 0 {
		return nil
	}
	pools := &page.Table{Columns: columns("POOL", "FREE", "STRANDED", "FREE A NODE", "ROOM FOR "+wording.Totals(cluster.Amounts(r.For.CPU, r.For.Memory)))}
	nodes := &page.Table{Columns: columns("POOL", "NODE", "PODS", "REQUESTED", "CLUSTER AUTOSCALER"), Hanging: 2}
	nodes.Columns[4].Below = true
	moves := page.Section{Title: "Moves, one after the other; each line is a separate plan"}
	for _, p := range r.Fragments {
		cells := []string{terminal.Plain(p.Name), Amount(p.Free), Amount(p.Stranded)}
		if p.Counted < len(p.Nodes) {
			cells[1] += fmt.Sprintf(" on %d of %s", p.Counted, wording.Count(len(p.Nodes), "node"))
		}
		for k, plan := range []*fragments.Plan{&p.Empty, p.Room} {
			if plan == nil {
				continue
			}
			cells = append(cells, brief(plan))
			text := fmt.Sprintf("%s, %s %s: cordon %s", p.Name, []string{"to free", "to make room on"}[k], plan.Node, plan.Node)
			for _, m := range plan.Moves {
				if m.From != plan.Node {
					text += fmt.Sprintf("; cordon %s until the next pod has left it", m.From)
				}
				text += fmt.Sprintf("; %s (%s) from %s to %s", m.Pod, Amount(m.Size), m.From, m.To)
			}
			if len(plan.Moves) > 0 {
				moves.Text = append(moves.Text, terminal.Plain(text+"."))
			}
		}
		pools.Columns = pools.Columns[:len(cells)]
		pools.Rows = append(pools.Rows, page.Row{Cells: cells})
		for _, n := range p.Nodes {
			text := "could remove it"
			if len(n.Holds) > 0 {
				text = terminal.Plain("keeps it: " + strings.Join(cluster.Each(n.Holds, held), "; "))
			}
			nodes.Rows = append(nodes.Rows, page.Row{Cells: []string{cells[0], terminal.Plain(n.Name), strconv.Itoa(n.Pods), wording.Percent(n.Requested), text}})
		}
	}
	return []page.Section{{Title: "Free room", Table: pools}, moves, {Title: "Nodes", Table: nodes}}
}

func columns(titles ...string) []page.Column {
	return cluster.Each(titles, func(t *string) page.Column { return page.Column{Title: *t} })
}

// Amount returns an amount for people: "2 cores, 4 GiB".
func Amount(a room.Amount) string {
	return wording.Total(cluster.CPU, a.CPU) + ", " + wording.Total(cluster.Memory, a.Memory)
}

// brief returns the number of moves of a plan: "3 moves: n7".
func brief(p *fragments.Plan) string {
	text := wording.Count(len(p.Moves), "move") + ": " + terminal.Plain(p.Node)
	switch {
	case p.Node == "":
		return "no moves found"
	case !p.Proven:
		return "at most " + text
	}
	return text
}

func held(h *fragments.Hold) string {
	if h.Pods == 0 {
		return h.Message
	}
	return fmt.Sprintf("%s (%s, such as %s)", h.Message, wording.Count(h.Pods, "pod"), h.Pod)
}
