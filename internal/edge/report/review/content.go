// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look/page"
)

// Options control what a report shows.
type Options struct {
	Width     int    // columns of the terminal, for tables; 0: unlimited
	Colour    bool   // tables use ANSI colours
	Top       int    // number of rows in each list of a table, Markdown and HTML; 0: all
	Sort      string // SortRisk, SortMoney or SortName
	MinSaving float64
	Groups    *core.Groups // totals by group, instead of rows; nil: rows
}

// The values of Options.Sort.
const (
	SortRisk  = "risk"  // a list of risks, then a list of waste
	SortMoney = "money" // one list, most money first
	SortName  = "name"  // one list by name, also of containers without a recommendation
)

// A printer collects the text of a report in a format.
type printer struct {
	terminal.Printer
	content
	err error
}

// content is what a report says, in lines, lists and cells, whatever its format.
type content struct {
	*core.Report
	options   Options
	differing int // workloads whose pods differ from their template
}

func (c *content) shown(wide bool) *page.Document {
	d := &page.Document{Command: "recommend", Title: "Recommended requests: " + plain(c.Cluster), Head: c.header(), Notes: c.notes(wide), Figures: c.figures()}
	d.Foot = []string{"podfit recommend, " + c.Now.UTC().Format(time.RFC1123) + ". Requests that could be freed save money only if nodes go."}
	if c.options.Groups != nil {
		d.Sections = []page.Section{c.groupTable()}
		return d
	}
	d.Sections = c.lists(wide)
	d.Rest = c.leftOut()
	return d
}

// tables writes the report for a terminal. The title of a list is the title of its first column.
func (p *printer) tables(wide bool) {
	d := p.shown(wide)
	if p.options.Groups == nil {
		for _, s := range d.Sections {
			s.Table.Columns[0].Title = s.Title
		}
	}
	p.Document(d)
}

// header returns the lines with the facts about the whole report.
func (c *content) header() []string {
	facts := []string{plain(c.Cluster), strings.Join(c.counts(), ", "), plain(c.Source)}
	if c.Window > 0 {
		facts[2] += ", " + window(c.Window)
	}
	facts = append(facts, strings.Join(c.Profiles, ", "))
	lines := []string{strings.Join(facts, " · ")}
	if use := c.usage(); use != "" {
		lines = append(lines, use)
	}
	if c.onlyUsage() {
		return append(lines, "Requests are not known, only usage: this is what the containers should request.")
	}
	return append(lines, c.risk()+" "+c.freed())
}

// risk returns the sentence about workloads at risk. What is not known is no good news.
func (c *content) risk() string {
	s := &c.Summary
	switch judged := s.Workloads - s.Unjudged; {
	case s.AtRisk == 1:
		return "1 workload is at risk."
	case s.AtRisk > 1:
		return fmt.Sprintf("%s are at risk.", wording.Count(s.AtRisk, "workload"))
	case s.Unjudged > 0 && judged == 0:
		return "Whether workloads are at risk is not known yet."
	case s.Unjudged > 0:
		return fmt.Sprintf("None of %s with enough usage is at risk; not judged: %s.", wording.Count(judged, "workload"), wording.Count(s.Unjudged, "workload"))
	case c.provisional():
		return "No risk was seen while usage was read."
	}
	return "No workload is at risk."
}

func (c *content) counts() []string {
	s := &c.Summary
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
func (c *content) usage() string {
	s := &c.Summary
	if s.Packing.Known && s.Capacity.CPU > 0 && s.Capacity.Memory > 0 {
		text := fmt.Sprintf("Pods request %s of the CPU and %s of the memory of the nodes that accept pods", ratio(s.Requested.CPU, s.Capacity.CPU), ratio(s.Requested.Memory, s.Capacity.Memory))
		if s.Used.Has == cluster.Both {
			text += fmt.Sprintf("; they really use %s and %s%s", ratio(s.Used.CPU, s.Capacity.CPU), ratio(s.Used.Memory, s.Capacity.Memory), c.peaks())
		}
		return text + "."
	}
	if s.Used.Has == cluster.Both && s.Reviewed.CPU > 0 && s.Reviewed.Memory > 0 {
		return fmt.Sprintf("Pods really use %s of the requested CPU and %s of the requested memory%s.", ratio(s.Used.CPU, s.Reviewed.CPU), ratio(s.Used.Memory, s.Reviewed.Memory), c.peaks())
	}
	return ""
}

// peaks returns what the share of usage is about, if it is not the mean usage.
func (c *content) peaks() string {
	if c.Peaks {
		return " at their hourly peaks"
	}
	return ""
}

// freed returns the sentence about requests that could be freed and nodes that could go.
func (c *content) freed() string {
	s := &c.Summary
	if s.Freed.CPU == 0 && s.Freed.Memory == 0 {
		if c.provisional() || len(c.Rows) > 0 && s.Young == len(c.Rows) {
			return "Whether requests can be freed is not known yet."
		}
		if s.Young > 0 {
			return "No requests of the other containers can be freed."
		}
		return "No requests can be freed."
	}
	text := fmt.Sprintf("%s and %s could be freed", wording.Total(cluster.CPU, s.Freed.CPU), wording.Total(cluster.Memory, s.Freed.Memory))
	k := &s.Packing
	if !k.Known {
		if c.Prices.Known() {
			text += fmt.Sprintf(", %s a month if nodes go with them", c.amountOfMoney(s.Recoverable))
		}
		return text + "."
	}
	if k.Gone == 0 {
		text += ", but not a whole node"
	} else {
		text += fmt.Sprintf(": up to %d of %s", k.Gone, wording.Count(k.Nodes, "node"))
	}
	if c.Prices.Known() && k.Gone > 0 {
		text += fmt.Sprintf(", %s a month", c.amountOfMoney(k.Money))
	}
	if k.Already > 0 {
		text += fmt.Sprintf(" (%d could go with the present requests)", k.Already)
	}
	return text + "."
}

func (c *content) amountOfMoney(v float64) string {
	text := c.Prices.Currency + " " + price(v)
	if c.Prices.Assumed {
		return "assumed " + text
	}
	return text
}

// price formats money, without decimals unless it is small.
func price(v float64) string {
	if math.Abs(v) < 10 && math.Abs(v) >= 0.005 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return wording.Grouped(v)
}

func ratio(part, whole int64) string { return wording.Percent(float64(part) / float64(whole)) }

// notes returns what a reader must know before relying on the numbers.
func (c *content) notes(wide bool) []string {
	var notes []string
	if c.Prices.Known() && c.Prices.Assumed {
		notes = append(notes, "Prices are assumed: "+c.Prices.From+". Give your own with --prices or --opencost.")
	}
	if n := c.differing; n > 0 {
		notes = append(notes, fmt.Sprintf("The pods of %s have other requests or limits than the pod template, for example because a VPA changed them: -o wide shows both. Manifests change the template.",
			wording.Count(n, "workload")))
	}
	notes = append(notes, packing(c.Report, wide)...)
	notes = append(notes, cluster.Each(c.Notes, func(n *string) string { return plain(*n) })...)
	notes = append(notes, cluster.Each(c.Missing, func(m *string) string { return "Incomplete: " + plain(*m) })...)
	switch young := slices.ContainsFunc(c.Rows, func(r *core.Row) bool { return !r.Young.Has.Empty() }); {
	case young && !c.IncludeYoung:
		return append(notes, "Young numbers are from less than 6 hours of usage. Totals and manifests leave them out (--include-young).")
	case young:
		notes = append(notes, "Young numbers are from less than 6 hours of usage. They are included.")
	}
	if c.provisional() {
		notes = append(notes, "All numbers are provisional: usage was read for minutes, not days. No request is lowered.")
	}
	return notes
}

// packing returns what must be known of containers that are sized for full nodes, and which ones are not although their profile does that: all, or an
// example for each reason.
func packing(r *core.Report, wide bool) (notes []string) {
	all := 0
	apart := map[string][]string{} // by why
	for _, row := range r.Rows {
		switch {
		case row.Confidence == core.None || !row.Applies(cluster.Memory): // no such recommendation counts
		case row.Packs && row.Unpacked == "":
			all++
		case row.Packs:
			apart[row.Unpacked] = append(apart[row.Unpacked], plain(row.Container)+" of "+ShortName(row.Workload))
		}
	}
	if all > 0 {
		notes = append(notes, fmt.Sprintf("%s sized for full nodes, on which a part of the memory must stay free for peaks. Run no other pods on these nodes, let memory limits follow the highest usage, "+
			"and see with podfit backtest --nodes how often a node is short.", wording.Count(all, "container")+wording.Form(all, " is", " are")))
	}
	if k := &r.Summary.Packing; all > 0 && k.Short != nil {
		notes = append(notes, fmt.Sprintf("Nodes: %d now, %d with these requests. As far as usage is known, at most %d of them would be short of memory: if all pods had their highest usage of one of the last %d days at the same time.",
			k.Nodes, k.Nodes-k.Gone, *k.Short, core.PeakDays))
	}
	for _, why := range slices.Sorted(maps.Keys(apart)) {
		of := "such as " + apart[why][0]
		if wide {
			of = strings.Join(apart[why], ", ")
		}
		notes = append(notes, fmt.Sprintf("Not for full nodes, but as by profile balanced: %s, %s: %s.", wording.Count(len(apart[why]), "container"), of, why))
	}
	return notes
}

// heldBack reports whether a row has a young recommendation that is only shown.
func (c *content) heldBack(row *core.Row) bool { return !row.Young.Has.Empty() && !c.IncludeYoung }

// otherTemplates returns the number of workloads whose pods differ from their template.
func (c *content) otherTemplates() int {
	differing := slices.DeleteFunc(slices.Clone(c.Rows), func(r *core.Row) bool { return !r.TemplateDiffers() })
	return len(cluster.SetOf(differing, func(r *core.Row) cluster.Workload { return r.Workload }))
}

func (c *content) provisional() bool {
	return slices.ContainsFunc(c.Rows, func(r *core.Row) bool { return r.Evidence.Provisional })
}

// figures returns the four numbers at the top.
func (c *content) figures() []page.Figure {
	s := &c.Summary
	out := []page.Figure{
		{Name: "Workloads at risk", Value: wording.Grouped(float64(s.AtRisk)), Detail: "of " + wording.Grouped(float64(s.Workloads))},
		{Name: "CPU that could be freed", Value: wording.Total(cluster.CPU, s.Freed.CPU), Detail: "requests"},
		{Name: "Memory that could be freed", Value: wording.Total(cluster.Memory, s.Freed.Memory), Detail: "requests"},
	}
	if s.Packing.Known {
		f := page.Figure{Name: "Nodes that could go", Value: wording.Grouped(float64(s.Packing.Gone)), Detail: "of " + wording.Grouped(float64(s.Packing.Nodes))}
		if c.Prices.Known() {
			f.Detail += ", " + c.amountOfMoney(s.Packing.Money) + " a month"
		}
		out = append(out, f)
	}
	return out
}

func (c *content) lists(wide bool) []page.Section {
	switch {
	case c.options.Sort == SortName, c.onlyUsage():
		return []page.Section{c.list("BY NAME", c.top(c.ByName()), wide)}
	case c.options.Sort == SortMoney:
		return []page.Section{c.list("BY MONEY", c.top(c.ByMoney()), wide)}
	}
	s := c.sections()
	out := []page.Section{c.risks(c.top(s.risks), wide), c.waste(c.top(s.waste), wide), c.young(c.top(s.young), wide)}
	return slices.DeleteFunc(out, func(s page.Section) bool { return len(s.Table.Rows) == 0 })
}

// onlyUsage reports whether no present requests are known, as with a trace.
func (c *content) onlyUsage() bool {
	return !slices.ContainsFunc(c.Rows, func(r *core.Row) bool { return len(r.Places) > 0 })
}

// sections are the rows of a report by what is to be said of them.
type sections struct {
	risks, waste []*core.Row
	young        []*core.Row // without a known risk, and with a recommendation that is only shown
	kept         int         // rows whose requests are above their target and stay, so that it cannot be said that nothing is wasted
	rest         int         // rows with none of these
	without      int         // rows without any number, also if they are at risk
}

func (c *content) sections() (s sections) {
	s.risks = slices.DeleteFunc(slices.Clone(c.Rows), func(r *core.Row) bool { return r.Risk < core.SeverityMedium })
	for _, row := range c.ByMoney() {
		unknown := row.Confidence == core.None && row.Young.Has.Empty()
		if unknown {
			s.without++
		}
		switch {
		case row.Waste > core.Harmless && c.Money(row) >= c.options.MinSaving, row.IsIdle() && (row.Request.CPU < row.Requests.CPU || row.Request.Memory < row.Requests.Memory):
			s.waste = append(s.waste, row)
		case row.Risk >= core.SeverityMedium || unknown:
		case c.heldBack(row):
			s.young = append(s.young, row)
		case row.KeepsMore():
			s.kept++
		default:
			s.rest++
		}
	}
	return s
}

// leftOut returns what the lists do not contain, and how to see it.
func (c *content) leftOut() []string {
	s := c.sections()
	lists := [][]*core.Row{s.risks, s.waste, s.young}
	isOne := c.options.Sort != SortRisk && c.options.Sort != "" || c.onlyUsage()
	if isOne {
		lists = [][]*core.Row{c.Rows}
	}
	hidden := 0
	for _, rows := range lists {
		hidden += len(rows) - len(c.top(rows))
	}
	var parts []string
	if hidden > 0 {
		parts = append(parts, fmt.Sprintf("…%s more (--top 0 lists them)", wording.Grouped(float64(hidden))))
	}
	if isOne {
		return parts
	}
	parts = withCount(parts, s.without, "without a number (--sort name lists them)")
	parts = withCount(parts, s.kept, "whose requests are kept, although less may do (--sort name lists them)")
	return withCount(parts, s.rest, "without risk and waste (--sort name lists them)")
}

// withCount adds a number of containers and what they have in common, unless there are none.
func withCount(parts []string, n int, what string) []string {
	if n == 0 {
		return parts
	}
	return append(parts, wording.Count(n, "container")+" "+what)
}

func (c *content) top(rows []*core.Row) []*core.Row {
	if n := c.options.Top; n > 0 && n < len(rows) {
		return rows[:n]
	}
	return rows
}

// A column is a column of the lists, and what its cells contain.
type column struct {
	page.Column
	cell func(*core.Row) string
}

// columns returns the columns that all lists have.
func (c *content) columns(wide bool) []column {
	columns := []column{
		{page.Column{Title: "WORKLOAD", Least: 16}, func(row *core.Row) string { return ShortName(row.Workload) }},
		{page.Column{Title: "REPL", Right: true}, replicas},
		{page.Column{Title: "CONTAINER", Least: 8}, func(row *core.Row) string { return plain(row.Container) }},
		{page.Column{Title: "CPU"}, func(row *core.Row) string { return change(row, cluster.CPU) }},
		{page.Column{Title: "MEMORY"}, func(row *core.Row) string { return change(row, cluster.Memory) }},
	}
	if !wide {
		return columns
	}
	columns = append(columns,
		column{page.Column{Title: "CPU LIMIT"}, func(row *core.Row) string { return limitChange(row, cluster.CPU) }},
		column{page.Column{Title: "MEMORY LIMIT"}, func(row *core.Row) string { return limitChange(row, cluster.Memory) }})
	if c.differing > 0 {
		columns = append(columns, column{page.Column{Title: "TEMPLATE"}, templateCell})
	}
	columns = append(columns, column{page.Column{Title: "VPA", Least: 6}, func(row *core.Row) string { return plain(row.VPA) }})
	for i, name := range c.Profiles[1:] {
		columns = append(columns, column{page.Column{Title: strings.ToUpper(name)}, func(row *core.Row) string { return other(row, i+1) }})
	}
	return columns
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
	return cell(row.Template.Requests, cluster.CPU, "none") + ", " + cell(row.Template.Requests, cluster.Memory, "none")
}

// cell returns an amount, or another text if it is not set.
func cell(r cluster.Resources, res cluster.Resource, otherwise string) string {
	if v, ok := r.Get(res); ok {
		return wording.Cell(res, v)
	}
	return otherwise
}

// other returns the recommendation of another profile.
func other(row *core.Row, i int) string {
	if i >= len(row.Targets) || row.Targets[i].Amount.Has.Empty() {
		return "–"
	}
	var parts []string
	for _, res := range cluster.All {
		if v, ok := row.Targets[i].Amount.Get(res); ok {
			parts = append(parts, wording.Cell(res, v))
		}
	}
	if !row.Young.Has.Empty() {
		parts[0] = "young " + parts[0]
	}
	return strings.Join(parts, ", ")
}

// table returns a list of rows with the columns that all lists have, and more.
func (c *content) table(title string, rows []*core.Row, wide bool, more ...column) page.Section {
	columns := append(c.columns(wide), more...)
	t := &page.Table{Columns: cluster.Each(columns, func(x *column) page.Column { return x.Column })}
	for _, row := range rows {
		t.Rows = append(t.Rows, page.Row{Cells: cluster.Each(columns, func(x *column) string { return x.cell(row) }), Young: c.heldBack(row)})
	}
	return page.Section{Title: title, Table: t}
}

func (c *content) risks(rows []*core.Row, wide bool) page.Section {
	s := c.table("AT RISK", rows, wide, c.whyColumn())
	for i, row := range rows {
		s.Table.Rows[i].High = row.Risk == core.SeverityHigh
	}
	return s
}

// young returns the list of recommendations that are only shown.
func (c *content) young(rows []*core.Row, wide bool) page.Section {
	return c.table("YOUNG", rows, wide, column{page.Column{Title: "NO ADVICE YET", Below: true}, (*core.Row).Basis})
}

// narrow reports whether the terminal has no room for all columns.
func (c *content) narrow() bool { return c.options.Width > 0 && c.options.Width < 100 }

func (c *content) waste(rows []*core.Row, wide bool) page.Section {
	sure := column{page.Column{Title: "CONFIDENCE"}, confidence}
	if c.narrow() {
		sure = column{page.Column{Title: "CONF."}, func(row *core.Row) string { return strings.Split(confidence(row), ",")[0] }}
	}
	return c.table("WASTE", rows, wide, c.moneyColumn(), sure)
}

func (c *content) moneyColumn() column {
	if !c.Prices.Known() {
		return column{page.Column{Title: "FREED"}, c.saving}
	}
	return column{page.Column{Title: c.Prices.Currency + "/MONTH", Right: true}, c.saving}
}

func (c *content) whyColumn() column { return column{page.Column{Title: "WHY", Below: true}, c.why} }

// saving returns the money of a row, or what it frees if there are no prices.
func (c *content) saving(row *core.Row) string {
	if c.Prices.Known() && !row.IsIdle() {
		return price(c.Money(row))
	}
	var parts []string
	for _, res := range cluster.All {
		if v := row.Freed.Amount(res); v != 0 {
			parts = append(parts, wording.Total(res, v))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}

func (c *content) list(title string, rows []*core.Row, wide bool) page.Section {
	why := c.whyColumn()
	if !c.narrow() {
		risk := column{page.Column{Title: "RISK"}, func(row *core.Row) string { return row.Risk.String() }}
		return c.table(title, rows, wide, risk, c.moneyColumn(), column{page.Column{Title: "CONFIDENCE"}, confidence}, why)
	}
	why.cell = func(row *core.Row) string {
		text := "confidence " + confidence(row)
		if s := c.why(row); s != "" {
			text += "; " + s
		}
		return text
	}
	return c.table(title, rows, wide, c.moneyColumn(), why)
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
	if row.Young.Has.Has(res) && row.Applies(res) {
		text += " (young)"
	}
	return text
}

// changed returns the change of a request: "500m → 633m", "keep", or why there is none.
func changed(row *core.Row, res cluster.Resource) string {
	kept := row.KeptFor(res)
	before, had := row.Requests.Get(res)
	after, has := row.Request.Get(res)
	from := cell(row.Requests, res, "none")
	switch {
	case row.OnlyShown(res) && !had && len(row.Places) == 0:
		return "young " + wording.Cell(res, row.Young.Amount(res))
	case row.OnlyShown(res):
		return from + ", young " + wording.Cell(res, row.Young.Amount(res))
	case kept.IsKept() && row.Confidence > core.None:
		return keeping[kept.Reason]
	case row.Confidence == core.None && had:
		return from
	case row.Confidence == core.None || !has:
		return "–"
	case len(row.Places) == 0 && !row.IsIdle():
		return wording.Cell(res, after)
	case had && from == wording.Cell(res, after): // a difference that is not shown is none for a person
		return "keep"
	}
	text := from + " → " + wording.Cell(res, after)
	if after > before {
		text += " ▲"
	}
	return text
}

// keeping says why a request is kept.
var keeping = map[core.KeptReason]string{
	core.ScaledByHPA: "keep (HPA)", core.SeveralMetrics: "keep (HPA)", core.NotControlled: "keep (VPA)", core.Provisional: "keep (provisional)",
}

func limitChange(row *core.Row, res cluster.Resource) string {
	before, had := row.Limits.Get(res)
	after, has := row.Limit.Get(res)
	if had == has && before == after {
		return cell(row.Limits, res, "–")
	}
	return cell(row.Limits, res, "none") + " → " + cell(row.Limit, res, "none")
}

// why returns the findings of a row, or why there is no recommendation, and what the user must do with it.
func (c *content) why(row *core.Row) string { return plain(row.Why(c.Now)) }

// confidence returns the confidence and the days that the samples cover.
func confidence(row *core.Row) string {
	switch {
	case !row.Young.Has.Empty():
		return "young"
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
