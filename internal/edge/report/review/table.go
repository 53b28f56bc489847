// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
)

// tables writes the report for a terminal.
func (p *printer) tables(wide bool) {
	for _, s := range p.header() {
		p.line("%s", s)
	}
	for _, s := range p.notes() {
		p.line("%s", s)
	}
	switch p.options.Sort {
	case SortName:
		p.list("BY NAME", p.ByName(), wide)
	case SortMoney:
		p.list("BY MONEY", p.ByMoney(), wide)
	default:
		p.sections(wide)
	}
}

// header returns the lines with the facts about the whole report.
func (p *printer) header() []string {
	s := &p.Summary
	facts := []string{plain(p.Cluster), strings.Join(p.counts(), ", "), plain(p.Source)}
	if p.Window > 0 {
		facts[2] += ", " + window(p.Window)
	}
	facts = append(facts, strings.Join(p.Profiles, ", "))
	lines := []string{strings.Join(facts, " · ")}
	if use := p.usage(); use != "" {
		lines = append(lines, "  "+use)
	}
	risk := "No workload is at risk."
	switch {
	case s.AtRisk == 1:
		risk = "1 workload is at risk."
	case s.AtRisk > 1:
		risk = fmt.Sprintf("%s are at risk.", count(s.AtRisk, "workload"))
	}
	lines = append(lines, "  "+risk+" "+p.freed())
	return lines
}

func (p *printer) counts() []string {
	s := &p.Summary
	counts := []string{count(s.Workloads, "workload")}
	if s.Pods > 0 {
		counts = append(counts, count(s.Pods, "pod"))
	}
	if s.Nodes > 0 {
		counts = append(counts, count(s.Nodes, "node"))
	}
	return counts
}

// usage returns the sentence about requests and real usage, relative to the nodes if the whole cluster is known.
func (p *printer) usage() string {
	s := &p.Summary
	if s.Packing.Known && s.Capacity.CPU > 0 && s.Capacity.Memory > 0 {
		text := fmt.Sprintf("Requests use %s of CPU and %s of memory", ratio(s.Requested.CPU, s.Capacity.CPU), ratio(s.Requested.Memory, s.Capacity.Memory))
		if s.Used.Has == cluster.Both {
			text += fmt.Sprintf("; pods really use %s and %s", ratio(s.Used.CPU, s.Capacity.CPU), ratio(s.Used.Memory, s.Capacity.Memory))
		}
		return text + "."
	}
	if s.Used.Has == cluster.Both && s.Reviewed.CPU > 0 && s.Reviewed.Memory > 0 {
		return fmt.Sprintf("Pods really use %s of the requested CPU and %s of the requested memory.", ratio(s.Used.CPU, s.Reviewed.CPU), ratio(s.Used.Memory, s.Reviewed.Memory))
	}
	return ""
}

// freed returns the sentence about requests that could be freed and nodes that could go.
func (p *printer) freed() string {
	s := &p.Summary
	if s.Freed.CPU == 0 && s.Freed.Memory == 0 {
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
	text += fmt.Sprintf(": up to %d of %s", k.Gone, count(k.Nodes, "node"))
	if p.Prices.Known() {
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

func ratio(part, whole int64) string { return percent(float64(part) / float64(whole)) }

// notes returns what a reader must know before relying on the numbers.
func (p *printer) notes() []string {
	var notes []string
	if p.Prices.Known() && p.Prices.Assumed {
		notes = append(notes, "  Prices are assumed: "+p.Prices.From+". Give your own with --prices or --opencost.")
	}
	for _, m := range p.Missing {
		notes = append(notes, "  Incomplete: "+plain(m))
	}
	if p.provisional() {
		notes = append(notes, "  All numbers are provisional: usage was read for minutes, not days. No request is lowered.")
	}
	return notes
}

func (p *printer) provisional() bool {
	for i := range p.Rows {
		if p.Rows[i].Evidence.Provisional {
			return true
		}
	}
	return false
}

// sections prints the list of risks and the list of waste.
func (p *printer) sections(wide bool) {
	var risks, waste, rest []*core.Row
	for i := range p.Rows {
		if p.Rows[i].Risk >= core.SeverityMedium {
			risks = append(risks, &p.Rows[i])
		}
	}
	for _, row := range p.ByMoney() {
		switch {
		case row.Waste == core.Harmless || p.Money(row) < p.options.MinSaving:
			if row.Risk < core.SeverityMedium && row.Confidence > core.None {
				rest = append(rest, row)
			}
		default:
			waste = append(waste, row)
		}
	}
	hiddenRisks, hiddenWaste := 0, 0
	if len(risks) > 0 {
		shown := p.top(risks)
		hiddenRisks = len(risks) - len(shown)
		p.text.WriteString("\n")
		p.risks(shown, wide)
	}
	if len(waste) > 0 {
		shown := p.top(waste)
		hiddenWaste = len(waste) - len(shown)
		p.text.WriteString("\n")
		p.waste(shown, wide)
	}
	p.left(hiddenRisks+hiddenWaste, len(rest))
}

// left prints what is left out, and how to see it.
func (p *printer) left(hidden, rest int) {
	var parts []string
	if hidden > 0 {
		parts = append(parts, fmt.Sprintf("…%s more: --top 0", grouped(float64(hidden))))
	}
	if p.Summary.Young > 0 {
		parts = append(parts, fmt.Sprintf("%s without enough usage: --sort name", count(p.Summary.Young, "container")))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%s without risk and waste: --sort name", count(rest, "container")))
	}
	if len(parts) > 0 {
		p.line("%s", strings.Join(parts, "    "))
	}
}

func (p *printer) top(rows []*core.Row) []*core.Row {
	if n := p.options.Top; n > 0 && n < len(rows) {
		return rows[:n]
	}
	return rows
}

// The columns that both lists have.
func (p *printer) columns(title string, wide bool) []column {
	columns := []column{
		{title: title, least: 16}, {title: "REPL", right: true}, {title: "CONTAINER", least: 8}, {title: "CPU", least: 12}, {title: "MEMORY", least: 14},
	}
	if wide {
		columns = append(columns, column{title: "CPU LIMIT"}, column{title: "MEMORY LIMIT"}, column{title: "VPA"})
		for _, name := range p.Profiles[1:] {
			columns = append(columns, column{title: strings.ToUpper(name)})
		}
	}
	return columns
}

func (p *printer) cells(row *core.Row, wide bool) []string {
	cells := []string{shortName(row.Workload), replicas(row), plain(row.Container), change(row, cluster.CPU), change(row, cluster.Memory)}
	if wide {
		cells = append(cells, limitChange(row, cluster.CPU), limitChange(row, cluster.Memory), plain(row.VPA))
		for i := range p.Profiles[1:] {
			cells = append(cells, other(row, i+1))
		}
	}
	return cells
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

// risks prints the list of risks.
func (p *printer) risks(rows []*core.Row, wide bool) {
	columns := append(p.columns("AT RISK", wide), column{title: "WHY", below: true})
	lines := make([][]string, 0, len(rows))
	colours := make([]string, 0, len(rows))
	for _, row := range rows {
		lines = append(lines, append(p.cells(row, wide), p.why(row)))
		colour := ""
		if row.Risk == core.SeverityHigh {
			colour = "31"
		}
		colours = append(colours, colour)
	}
	p.table(columns, lines, colours)
}

// waste prints the list of waste.
func (p *printer) waste(rows []*core.Row, wide bool) {
	columns := append(p.columns("WASTE", wide), p.moneyColumn(), column{title: "CONFIDENCE", least: 6})
	lines := make([][]string, 0, len(rows))
	for _, row := range rows {
		lines = append(lines, append(p.cells(row, wide), p.saving(row), confidence(row)))
	}
	p.table(columns, lines, nil)
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
	if row.Freed.CPU == 0 && row.Freed.Memory == 0 {
		return "–"
	}
	return total(cluster.CPU, row.Freed.CPU) + ", " + total(cluster.Memory, row.Freed.Memory)
}

// list prints one list of all rows.
func (p *printer) list(title string, rows []*core.Row, wide bool) {
	columns := append(p.columns(title, wide), column{title: "RISK"}, p.moneyColumn(), column{title: "CONFIDENCE", least: 6}, column{title: "WHY", below: true})
	shown := p.top(rows)
	lines := make([][]string, 0, len(shown))
	for _, row := range shown {
		lines = append(lines, append(p.cells(row, wide), row.Risk.String(), p.saving(row), confidence(row), p.why(row)))
	}
	p.text.WriteString("\n")
	p.table(columns, lines, nil)
	if hidden := len(rows) - len(shown); hidden > 0 {
		p.line("…%s more: --top 0", grouped(float64(hidden)))
	}
}

func replicas(row *core.Row) string {
	if n := max(len(row.Places), row.Replicas); n > 0 {
		return fmt.Sprint(n)
	}
	return "–"
}

// change returns the change of a request: "500m → 633m", "keep", or why there is none.
func change(row *core.Row, res cluster.Resource) string {
	i := index(res)
	before, had := row.Requests.Get(res)
	after, has := row.Request.Get(res)
	switch {
	case row.Kept[i].IsKept() && row.Confidence > core.None:
		return keeping(row.Kept[i].Reason)
	case row.Confidence == core.None && had:
		return shortAmount(res, before)
	case row.Confidence == core.None || !has:
		return "–"
	case len(row.Places) == 0:
		return shortAmount(res, after)
	case had && before == after:
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
func (p *printer) why(row *core.Row) string {
	var parts []string
	for i := range row.Findings {
		parts = append(parts, row.Findings[i].Text(p.Now))
	}
	if row.Confidence == core.None {
		parts = append(parts, lack(row))
	}
	for i, res := range cluster.All {
		if row.Kept[i].Reason == core.FollowsHPA {
			parts = append(parts, fmt.Sprintf("set the %s target of HPA %s to %d %%", res, plain(row.Kept[i].By), row.Kept[i].Percent))
		}
	}
	return strings.Join(parts, "; ")
}

// lack returns why there is no recommendation.
func lack(row *core.Row) string {
	switch {
	case row.Evidence.Lack != "":
		return plain(row.Evidence.Lack)
	case row.Evidence.Hours == 0:
		return "no usage in the window"
	default:
		return fmt.Sprintf("too young: %s with usage, 6 are needed", count(row.Evidence.Hours, "hour"))
	}
}

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

func index(res cluster.Resource) int {
	if res == cluster.CPU {
		return 0
	}
	return 1
}

// window formats the length of the history.
func window(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return count(int(d/day), "day")
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}
