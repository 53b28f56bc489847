// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

// tables writes the report for a terminal.
func (p *printer) tables(wide bool) {
	for _, s := range p.header() {
		p.Line(s)
	}
	for _, s := range p.notes() {
		p.Line(s)
	}
	if p.options.Groups != nil {
		columns, rows := p.groupTable()
		p.Text.WriteString("\n")
		p.table(columns, rows, nil)
		return
	}
	for _, l := range p.lists(wide) {
		l.columns[0].title = l.title
		p.Text.WriteString("\n")
		p.table(l.columns, l.rows, l.colours)
	}
	if left := p.leftOut(); len(left) > 0 {
		p.Line(strings.Join(left, "    "))
	}
}

// header returns the lines with the facts about the whole report.
func (p *printer) header() []string {
	facts := []string{plain(p.Cluster), strings.Join(p.counts(), ", "), plain(p.Source)}
	if p.Window > 0 {
		facts[2] += ", " + window(p.Window)
	}
	facts = append(facts, strings.Join(p.Profiles, ", "))
	lines := []string{strings.Join(facts, " · ")}
	if use := p.usage(); use != "" {
		lines = append(lines, "  "+use)
	}
	if p.onlyUsage() {
		return append(lines, "  Requests are not known, only usage: this is what the containers should request.")
	}
	return append(lines, "  "+p.risk()+" "+p.freed())
}

// risk returns the sentence about workloads at risk. What is not known is no good news.
func (p *printer) risk() string {
	s := &p.Summary
	switch judged := s.Workloads - s.Unjudged; {
	case s.AtRisk == 1:
		return "1 workload is at risk."
	case s.AtRisk > 1:
		return fmt.Sprintf("%s are at risk.", wording.Count(s.AtRisk, "workload"))
	case s.Unjudged > 0 && judged == 0:
		return "Whether workloads are at risk is not known yet."
	case s.Unjudged > 0:
		return fmt.Sprintf("None of %s with enough usage is at risk; %d without are not judged.", wording.Count(judged, "workload"), s.Unjudged)
	case p.provisional():
		return "No risk was seen while usage was read."
	}
	return "No workload is at risk."
}

func (p *printer) counts() []string {
	s := &p.Summary
	counts := []string{wording.Count(s.Workloads, "workload")}
	if s.Pods > 0 {
		counts = append(counts, wording.Count(s.Pods, "pod"))
	}
	if s.Nodes > 0 {
		counts = append(counts, wording.Count(s.Nodes, "node"))
	}
	return counts
}

// usage returns the sentence about requests and real usage, relative to the nodes if the whole cluster is known.
func (p *printer) usage() string {
	s := &p.Summary
	if s.Packing.Known && s.Capacity.CPU > 0 && s.Capacity.Memory > 0 {
		text := fmt.Sprintf("Requests use %s of CPU and %s of memory", ratio(s.Requested.CPU, s.Capacity.CPU), ratio(s.Requested.Memory, s.Capacity.Memory))
		if s.Used.Has == cluster.Both {
			text += fmt.Sprintf("; pods really use %s and %s%s", ratio(s.Used.CPU, s.Capacity.CPU), ratio(s.Used.Memory, s.Capacity.Memory), p.peaks())
		}
		return text + "."
	}
	if s.Used.Has == cluster.Both && s.Reviewed.CPU > 0 && s.Reviewed.Memory > 0 {
		return fmt.Sprintf("Pods really use %s of the requested CPU and %s of the requested memory%s.", ratio(s.Used.CPU, s.Reviewed.CPU), ratio(s.Used.Memory, s.Reviewed.Memory), p.peaks())
	}
	return ""
}

// peaks returns what the share of usage is about, if it is not the mean usage.
func (p *printer) peaks() string {
	if p.Peaks {
		return " at their hourly peaks"
	}
	return ""
}

// freed returns the sentence about requests that could be freed and nodes that could go.
func (p *printer) freed() string {
	s := &p.Summary
	if s.Freed.CPU == 0 && s.Freed.Memory == 0 {
		if p.provisional() || len(p.Rows) > 0 && s.Young == len(p.Rows) {
			return "Whether requests can be freed is not known yet."
		}
		if s.Young > 0 {
			return "No requests of the other containers can be freed."
		}
		return "No requests can be freed."
	}
	text := fmt.Sprintf("%s and %s could be freed", total(cluster.CPU, s.Freed.CPU), total(cluster.Memory, s.Freed.Memory))
	k := &s.Packing
	if !k.Known {
		if p.Prices.Known() {
			text += fmt.Sprintf(", %s a month if nodes go with them", p.amountOfMoney(s.Recoverable))
		}
		return text + "."
	}
	if k.Gone == 0 {
		text += ", but not a whole node"
	} else {
		text += fmt.Sprintf(": up to %d of %s", k.Gone, wording.Count(k.Nodes, "node"))
	}
	if p.Prices.Known() && k.Gone > 0 {
		text += fmt.Sprintf(", %s a month", p.amountOfMoney(k.Money))
	}
	if k.Already > 0 {
		text += fmt.Sprintf(" (%d could go with the present requests)", k.Already)
	}
	return text + "."
}

func (p *printer) amountOfMoney(v float64) string {
	text := p.Prices.Currency + " " + price(v)
	if p.Prices.Assumed {
		return "assumed " + text
	}
	return text
}

func ratio(part, whole int64) string { return wording.Percent(float64(part) / float64(whole)) }

// notes returns what a reader must know before relying on the numbers.
func (p *printer) notes() []string {
	var notes []string
	if p.Prices.Known() && p.Prices.Assumed {
		notes = append(notes, "  Prices are assumed: "+p.Prices.From+". Give your own with --prices or --opencost.")
	}
	if n := p.differing; n > 0 {
		notes = append(notes, fmt.Sprintf("  The pods of %s have other requests or limits than the pod template, for example because a VPA changed them: -o wide shows both. Manifests change the template.",
			wording.Count(n, "workload")))
	}
	for _, n := range p.Notes {
		notes = append(notes, "  "+plain(n))
	}
	for _, m := range p.Missing {
		notes = append(notes, "  Incomplete: "+plain(m))
	}
	if p.provisional() {
		notes = append(notes, "  All numbers are provisional: usage was read for minutes, not days. No request is lowered.")
	}
	return notes
}

// otherTemplates returns the number of workloads whose pods differ from their template.
func (p *printer) otherTemplates() int {
	found := map[cluster.Workload]bool{}
	for i := range p.Rows {
		if p.Rows[i].TemplateDiffers() {
			found[p.Rows[i].Workload] = true
		}
	}
	return len(found)
}

func (p *printer) provisional() bool {
	return slices.ContainsFunc(p.Rows, func(r core.Row) bool { return r.Evidence.Provisional })
}

// A list is a table of a report.
type list struct {
	title   string
	columns []column
	rows    [][]string
	colours []string // ANSI codes by row; nil for none
}

// lists returns the tables of the report.
func (p *printer) lists(wide bool) []list {
	switch {
	case p.options.Sort == SortName, p.onlyUsage():
		return []list{p.list("BY NAME", p.top(p.ByName()), wide)}
	case p.options.Sort == SortMoney:
		return []list{p.list("BY MONEY", p.top(p.ByMoney()), wide)}
	}
	risks, waste, _, _ := p.sections()
	var out []list
	if len(risks) > 0 {
		out = append(out, p.risks(p.top(risks), wide))
	}
	if len(waste) > 0 {
		out = append(out, p.waste(p.top(waste), wide))
	}
	return out
}

// onlyUsage reports whether no present requests are known, as with a trace.
func (p *printer) onlyUsage() bool {
	return !slices.ContainsFunc(p.Rows, func(r core.Row) bool { return len(r.Places) > 0 })
}

// sections returns the rows at risk, the rows with waste, the number of rows with neither, and that of rows whose requests are above their
// target and stay, so that it cannot be said that nothing is wasted.
func (p *printer) sections() (risks, waste []*core.Row, rest, kept int) {
	for i := range p.Rows {
		if p.Rows[i].Risk >= core.SeverityMedium {
			risks = append(risks, &p.Rows[i])
		}
	}
	for _, row := range p.ByMoney() {
		switch {
		case row.Waste > core.Harmless && p.Money(row) >= p.options.MinSaving:
			waste = append(waste, row)
		case row.Risk >= core.SeverityMedium || row.Confidence == core.None:
		case row.KeepsMore():
			kept++
		default:
			rest++
		}
	}
	return risks, waste, rest, kept
}

// leftOut returns what the lists do not contain, and how to see it.
func (p *printer) leftOut() []string {
	if p.options.Sort != SortRisk && p.options.Sort != "" || p.onlyUsage() {
		if hidden := len(p.Rows) - len(p.top(p.ByName())); hidden > 0 {
			return []string{fmt.Sprintf("…%s more (--top 0 lists them)", wording.Grouped(float64(hidden)))}
		}
		return nil
	}
	risks, waste, rest, kept := p.sections()
	var parts []string
	if hidden := len(risks) + len(waste) - len(p.top(risks)) - len(p.top(waste)); hidden > 0 {
		parts = append(parts, fmt.Sprintf("…%s more (--top 0 lists them)", wording.Grouped(float64(hidden))))
	}
	if p.Summary.Young > 0 {
		parts = append(parts, fmt.Sprintf("%s without enough usage (--sort name lists them)", wording.Count(p.Summary.Young, "container")))
	}
	if kept > 0 {
		parts = append(parts, fmt.Sprintf("%s whose requests are kept, although less may do (--sort name lists them)", wording.Count(kept, "container")))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%s without risk and waste (--sort name lists them)", wording.Count(rest, "container")))
	}
	return parts
}

func (p *printer) top(rows []*core.Row) []*core.Row {
	if n := p.options.Top; n > 0 && n < len(rows) {
		return rows[:n]
	}
	return rows
}

// columns returns the columns that all lists have.
func (p *printer) columns(wide bool) []column {
	columns := []column{
		{title: "WORKLOAD", least: 16}, {title: "REPL", right: true}, {title: "CONTAINER", least: 8}, {title: "CPU"}, {title: "MEMORY"},
	}
	if wide {
		columns = append(columns, column{title: "CPU LIMIT"}, column{title: "MEMORY LIMIT"})
		if p.differing > 0 {
			columns = append(columns, column{title: "TEMPLATE"})
		}
		columns = append(columns, column{title: "VPA", least: 6})
		for _, name := range p.Profiles[1:] {
			columns = append(columns, column{title: strings.ToUpper(name)})
		}
	}
	return columns
}

func (p *printer) cells(row *core.Row, wide bool) []string {
	cells := []string{shortName(row.Workload), replicas(row), plain(row.Container), change(row, cluster.CPU), change(row, cluster.Memory)}
	if wide {
		cells = append(cells, limitChange(row, cluster.CPU), limitChange(row, cluster.Memory))
		if p.differing > 0 {
			cells = append(cells, templateCell(row))
		}
		cells = append(cells, plain(row.VPA))
		for i := range p.Profiles[1:] {
			cells = append(cells, other(row, i+1))
		}
	}
	return cells
}

// templateCell returns the requests of the pod template if the pods have others.
func templateCell(row *core.Row) string {
	switch {
	case row.Template == nil:
		return "–"
	case !row.TemplateDiffers():
		return "same"
	case row.Template.Requests == row.Requests:
		return "other limits"
	}
	var parts []string
	for _, res := range cluster.All {
		part := "none"
		if v, ok := row.Template.Requests.Get(res); ok {
			part = shortAmount(res, v)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// other returns the recommendation of another profile.
func other(row *core.Row, i int) string {
	if i >= len(row.Targets) || row.Targets[i].Amount.Has.Empty() {
		return "–"
	}
	var parts []string
	for _, res := range cluster.All {
		if v, ok := row.Targets[i].Amount.Get(res); ok {
			parts = append(parts, shortAmount(res, v))
		}
	}
	return strings.Join(parts, ", ")
}

// risks returns the list of risks.
func (p *printer) risks(rows []*core.Row, wide bool) list {
	l := list{title: "AT RISK", columns: append(p.columns(wide), column{title: "WHY", below: true})}
	for _, row := range rows {
		l.rows = append(l.rows, append(p.cells(row, wide), p.why(row)))
		colour := ""
		if row.Risk == core.SeverityHigh {
			colour = "31"
		}
		l.colours = append(l.colours, colour)
	}
	return l
}

// narrow reports whether the terminal has no room for all columns.
func (p *printer) narrow() bool { return p.Width > 0 && p.Width < 100 }

// waste returns the list of waste.
func (p *printer) waste(rows []*core.Row, wide bool) list {
	l := list{title: "WASTE", columns: append(p.columns(wide), p.moneyColumn(), column{title: "CONFIDENCE"})}
	if p.narrow() {
		l.columns[len(l.columns)-1] = column{title: "CONF."}
	}
	for _, row := range rows {
		sure := confidence(row)
		if p.narrow() {
			sure, _, _ = strings.Cut(sure, ",")
		}
		l.rows = append(l.rows, append(p.cells(row, wide), p.saving(row), sure))
	}
	return l
}

func (p *printer) moneyColumn() column {
	if !p.Prices.Known() {
		return column{title: "FREED"}
	}
	return column{title: p.Prices.Currency + "/MONTH", right: true}
}

// saving returns the money of a row, or what it frees if there are no prices.
func (p *printer) saving(row *core.Row) string {
	if p.Prices.Known() {
		return price(p.Money(row))
	}
	var parts []string
	for _, res := range cluster.All {
		if v := row.Freed.Amount(res); v != 0 {
			parts = append(parts, total(res, v))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}

// list returns a list of rows of all kinds.
func (p *printer) list(title string, rows []*core.Row, wide bool) list {
	l := list{title: title, columns: p.columns(wide)}
	if !p.narrow() {
		l.columns = append(l.columns, column{title: "RISK"}, p.moneyColumn(), column{title: "CONFIDENCE"}, column{title: "WHY", below: true})
		for _, row := range rows {
			l.rows = append(l.rows, append(p.cells(row, wide), row.Risk.String(), p.saving(row), confidence(row), p.why(row)))
		}
		return l
	}
	l.columns = append(l.columns, p.moneyColumn(), column{title: "WHY", below: true})
	for _, row := range rows {
		why := "confidence " + confidence(row)
		if s := p.why(row); s != "" {
			why += "; " + s
		}
		l.rows = append(l.rows, append(p.cells(row, wide), p.saving(row), why))
	}
	return l
}

func replicas(row *core.Row) string {
	if n := max(len(row.Places), row.Replicas); n > 0 {
		return fmt.Sprint(n)
	}
	return "–"
}

// change returns the change of a request, with the mark ◆ if a JVM misreads it: "1 → 1.5 ◆".
func change(row *core.Row, res cluster.Resource) string {
	text := changed(row, res)
	if slices.ContainsFunc(row.Findings, func(f core.Finding) bool { return f.Kind == core.AllCores && f.Resource == res }) {
		text += " ◆"
	}
	return text
}

// changed returns the change of a request: "500m → 633m", "keep", or why there is none.
func changed(row *core.Row, res cluster.Resource) string {
	kept := row.KeptFor(res)
	before, had := row.Requests.Get(res)
	after, has := row.Request.Get(res)
	switch {
	case kept.IsKept() && row.Confidence > core.None:
		return keeping(kept.Reason)
	case row.Confidence == core.None && had:
		return shortAmount(res, before)
	case row.Confidence == core.None || !has:
		return "–"
	case len(row.Places) == 0:
		return shortAmount(res, after)
	case had && shortAmount(res, before) == shortAmount(res, after): // a difference that is not shown is none for a person
		return "keep"
	}
	from := "none"
	if had {
		from = shortAmount(res, before)
	}
	text := from + " → " + shortAmount(res, after)
	if after > before {
		text += " ▲"
	}
	return text
}

func keeping(reason core.KeptReason) string {
	switch reason {
	case core.ScaledByHPA, core.SeveralMetrics:
		return "keep (HPA)"
	case core.NotControlled:
		return "keep (VPA)"
	case core.Provisional:
		return "keep (provisional)"
	case core.NotKept, core.FollowsHPA:
	}
	return "keep"
}

// limitChange returns the change of a limit.
func limitChange(row *core.Row, res cluster.Resource) string {
	before, had := row.Limits.Get(res)
	after, has := row.Limit.Get(res)
	switch {
	case !had && !has:
		return "–"
	case had && !has:
		return shortAmount(res, before) + " → none"
	case had && before == after:
		return shortAmount(res, before)
	}
	return shortAmount(res, before) + " → " + shortAmount(res, after)
}

// why returns the findings of a row, or why there is no recommendation, and what the user must do with it.
func (p *printer) why(row *core.Row) string { return plain(row.Why(p.Now)) }

// confidence returns the confidence and the days that the samples cover.
func confidence(row *core.Row) string {
	switch {
	case row.Confidence == core.None:
		return "none"
	case row.Evidence.Provisional:
		return "provisional"
	case row.Evidence.Days() > 0:
		return fmt.Sprintf("%s, %d d", row.Confidence, row.Evidence.Days())
	}
	return fmt.Sprintf("%s, %d h", row.Confidence, row.Evidence.Hours)
}

// window formats the length of the history.
func window(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return wording.Count(int(d/day), "day")
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}
