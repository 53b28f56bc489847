// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package explanation writes an explanation as text, JSON or one HTML file.
//
// It changes only the form. Package core/explanation decides the content.
package explanation

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look/page"
)

// The widths of texts, in columns.
const (
	Usual    = 80 // the width of a text that is not for a terminal
	narrow   = 40 // the least width: with less, hardly a word fits beside the indents
	wide     = 120
	indent   = 8  // of the sections
	maxSteps = 8  // that the text contains
	maxPods  = 3  // names of a step
	maxNames = 30 // width of the first column of WHAT IF

	maxChanges = 5 // of the recommendation
	maxRuns    = 5 // of each container
)

// WriteText writes an explanation for a terminal with a number of columns, with one line of what is not known, or with all notes. Longer
// lines than 120 are hard to read. Names and messages cannot move the cursor or change colours.
func WriteText(w io.Writer, e *explanation.Explanation, width int, allNotes bool) error {
	t := &text{width: min(max(width, narrow), wide)}
	t.paragraph("", append([]string{e.Subject}, e.Facts...), " · ")
	if len(e.Situations) > 0 {
		t.paragraph("LIMITS", cluster.Each(e.Situations, func(s *explanation.Situation) string { return s.Title }), " · ")
	}
	t.line("")
	t.section("NOW", e.Now)
	t.history(e, allNotes)
	t.steps(e)
	t.advice("YOU", e.You)
	t.advice("HEAP", heapParts(e))
	t.why(e)
	t.whatIf(e)
	if len(e.Situations) > 0 {
		t.line("THE LIMITS IN WORDS")
		t.section("", cluster.Each(e.Situations, func(s *explanation.Situation) string { return s.Text }))
	}
	if allNotes {
		t.section("NOTE", notes(e))
	} else {
		t.section("NOTE", append(slices.Clone(e.Remarks), t.shortNote(e)))
	}
	_, err := w.Write(t.out.Bytes())
	return err
}

// history writes how much usage is known, and the last changes of the recommendation.
func (t *text) history(e *explanation.Explanation, all bool) {
	if len(e.History) > 0 {
		t.section("HISTORY", []string{strings.Join(e.History, ", ")})
	}
	most := maxRuns
	if all {
		most = len(e.Runs)
	}
	t.section("RUNS", runLines(e, most))
	lines := changeLines(e)
	if more := len(lines) - maxChanges; more > 0 && !all {
		lines = append(lines[:maxChanges:maxChanges], fmt.Sprintf("%d earlier ones (-o wide)", more))
	}
	t.section("CHANGES", lines)
}

// runLines returns the last runs of each container, one on each line, at most a number of each.
func runLines(e *explanation.Explanation, most int) []string {
	var out []string
	shown := map[string]int{}
	for _, r := range e.Runs {
		if shown[r.Container]++; shown[r.Container] > most {
			continue
		}
		var used []string
		for _, res := range cluster.All {
			if v := r.Used(res); v > 0 {
				used = append(used, wording.Amount(res, v)+" "+wording.Name(res))
			}
		}
		if len(used) == 0 {
			used = []string{"not measured"}
		}
		length := "for " + wording.Elapsed(r.Length(), "d")
		if r.Length() == 0 {
			length = "of unknown duration"
		}
		if !r.IsOver(e.At.Unix()) {
			length += " so far"
		}
		out = append(out, fmt.Sprintf("%s: %s %s: %s", time.Unix(r.Started, 0).In(e.At.Location()).Format("2 Jan 15:04"), r.Container, length, strings.Join(used, ", ")))
	}
	return out
}

func changeLines(e *explanation.Explanation) []string {
	return cluster.Each(e.Changes, func(c *explanation.Change) string {
		amounts := wording.Amount(c.Resource, c.To)
		if c.From > 0 {
			amounts = wording.Amount(c.Resource, c.From) + " → " + amounts
		}
		at := c.Time().In(e.At.Location())
		return fmt.Sprintf("%s (%s ago): %s %s target %s: %s",
			at.Format("2 Jan 15:04"), wording.Span(e.At.Sub(at)), c.Container, wording.Name(c.Resource), amounts, c.Cause)
	})
}

// shortNote names what is not known, as far as it fits on one line: the updater may decide differently because of it.
func (t *text) shortNote(e *explanation.Explanation) string {
	parts := unknown(e)
	if len(parts) == 0 {
		return stateOf(e)
	}
	for n := len(parts); ; n-- {
		named := strings.Join(parts[:n], ", ")
		switch more := len(parts) - n; {
		case n == 0:
			named = wording.Count(more, "part")
		case more > 0:
			named += fmt.Sprintf(" and %d more", more)
		}
		out := e.At.Format("2 Jan 15:04 MST") + zoneOf(e) + ". Not known: " + named + " (-o wide)."
		if n == 0 || indent+terminal.Width(out) <= t.width {
			return out
		}
	}
}

// unknown returns the names of the parts that are not known.
func unknown(e *explanation.Explanation) []string {
	parts := e.Parts()
	if len(e.Assumed) > 0 && !slices.Contains(parts, explanation.UpdaterFlags) {
		parts = append(parts, explanation.UpdaterFlags)
	}
	return parts
}

// Notes returns what limits an explanation, in short.
func Notes(e *explanation.Explanation) []string {
	out := slices.Clone(e.Remarks)
	if parts := unknown(e); len(parts) > 0 {
		out = append(out, "Not known: "+strings.Join(parts, ", ")+".")
	}
	return out
}

// notes returns what was assumed and what is missing.
func notes(e *explanation.Explanation) []string {
	out := e.Unknown()
	if len(e.Assumed) > 0 {
		out = append(out, "Assumed for the updater: "+strings.Join(e.Assumed, " ")+". If it runs with other flags, add them to this command.")
	}
	return append(out, stateOf(e))
}

// stateOf returns the time of an explanation with its zone, which is that of all times but those of WHY.
func stateOf(e *explanation.Explanation) string {
	return "State of " + e.At.Format("15:04:05 MST, 2 Jan 2006") + zoneOf(e) + "."
}

// zoneOf says that the times in WHY have another zone than the others, if they do.
func zoneOf(e *explanation.Explanation) string {
	if _, offset := e.At.Zone(); offset != 0 && len(e.Why) > 0 {
		return ", WHY in UTC"
	}
	return ""
}

// A text is wrapped while it is written.
type text struct {
	out   bytes.Buffer
	width int
}

func (t *text) line(s string) { t.out.WriteString(strings.TrimRight(s, " ") + "\n") }

func (t *text) section(title string, paragraphs []string) {
	if len(paragraphs) == 0 {
		return
	}
	for i, p := range paragraphs {
		if i > 0 {
			title = ""
		}
		t.paragraph(title, strings.Fields(plain(p)), " ")
	}
	t.line("")
}

// paragraph writes words with a separator. Further lines are indented.
func (t *text) paragraph(title string, words []string, separator string) {
	start := ""
	if title != "" || separator == " " {
		start = terminal.Pad(title, indent)
	}
	l := terminal.Layout{Hanging: indent, Separator: separator, Ending: strings.TrimRight(separator, " "), Width: t.width}
	if separator != " " {
		l.Overflow = indent
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	t.lines(l, start, cluster.Each(words, func(w *string) string { return plain(*w) }))
}

func (t *text) lines(l terminal.Layout, start string, words []string) {
	for _, line := range l.Lines(start, words) {
		t.line(line)
	}
}

// plain returns text on one line without characters that a terminal would interpret.
func plain(s string) string { return terminal.Plain(wording.OneLine(s)) }

// figures is the width of the first column of WHY.
const figures = 10

func (t *text) why(e *explanation.Explanation) {
	for _, w := range e.Why {
		title := "WHY " + w.Title()
		if several(e) {
			title += ", container " + w.Container
		}
		t.line(plain(title))
		for j, line := range w.Lines() {
			what := line.What
			note := line.Note
			if j == 0 && len(w.Days) > 0 {
				note = strings.TrimSpace(note + "  " + rationale.Spark(w.Days))
			}
			t.columns(line.Figure, what, note)
		}
	}
	if len(e.Why) > 0 {
		t.line("")
	}
}

func several(e *explanation.Explanation) bool {
	return slices.ContainsFunc(e.Why, func(w rationale.Why) bool { return w.Container != e.Why[0].Container })
}

// columns writes a figure, what it is, and a note, which has its own line if there is no room.
func (t *text) columns(figure, what, note string) {
	start := "   " + terminal.Pad(plain(figure), figures)
	rest := plain(what)
	if note != "" && terminal.Width(start)+terminal.Width(rest)+2+terminal.Width(note) <= t.width {
		rest = terminal.Pad(rest, min(34, t.width-terminal.Width(start)-2-terminal.Width(note))) + "  " + plain(note)
		t.line(start + rest)
		return
	}
	t.wrapped(start, rest)
	if note != "" {
		t.wrapped(terminal.Pad("", 3+figures), plain(note))
	}
}

// wrapped writes text after a start, and further lines below the text.
func (t *text) wrapped(start, words string) {
	t.lines(terminal.Layout{Hanging: terminal.Width(start), Separator: " ", Width: t.width}, start, strings.Fields(words))
}

// whatIf writes the sizes that result from the conditions of --if, one line for each resource of a container.
func (t *text) whatIf(e *explanation.Explanation) {
	if len(e.WhatIf) == 0 {
		return
	}
	groups := counterfactuals(e)
	if groups[0].Name == "" {
		t.section("WHAT IF", []string{groups[0].Text()})
		return
	}
	t.line("WHAT IF")
	longest := figures
	for i := range groups {
		longest = max(longest, min(terminal.Width(plain(groups[i].Name))+2, maxNames))
	}
	for i := range groups {
		name := plain(groups[i].Name)
		if terminal.Width(name) > longest-2 {
			name += "  "
		}
		t.wrapped("   "+terminal.Pad(name, longest), groups[i].Text())
	}
	t.line("")
}

// A group are the counterfactuals of one resource of a container.
type group struct {
	Name             string
	texts            []string
	unknown, reasons []string // conditions under which the size is not known, and why
}

// counterfactuals returns the groups, or one without a name if no size is known.
func counterfactuals(e *explanation.Explanation) []group {
	var out []group
	hasAnswer := slices.ContainsFunc(e.WhatIf, func(c rationale.Counterfactual) bool { return c.Known })
	for _, c := range e.WhatIf {
		name := c.Resource.String()
		if several(e) {
			name = c.Container + " " + name
		}
		if !hasAnswer {
			name = ""
		}
		cluster.FindOrAdd(&out, func(g *group) bool { return g.Name == name }, group{Name: name}).add(&c)
	}
	return out
}

func (g *group) add(c *rationale.Counterfactual) {
	if c.Known {
		g.texts = append(g.texts, plain(c.Text()))
		return
	}
	if name := plain(c.If.String()); !slices.Contains(g.unknown, name) {
		g.unknown = append(g.unknown, name)
	}
	if reason := plain(c.Reason); !slices.Contains(g.reasons, reason) {
		g.reasons = append(g.reasons, reason)
	}
}

// Text returns the counterfactuals as one text, with those that are not known at its end.
func (g *group) Text() string {
	texts := slices.Clone(g.texts)
	if len(g.unknown) > 0 {
		texts = append(texts, "not known: "+strings.Join(g.unknown, ", ")+". "+strings.Join(g.reasons, " "))
	}
	return strings.Join(texts, " · ")
}

func (t *text) steps(e *explanation.Explanation) {
	if len(e.Next)+len(e.IfOn) == 0 {
		return
	}
	out := cluster.Each(e.Next[:min(maxSteps, len(e.Next))], func(s *explanation.Step) string { return sentence(s, e.At) })
	if more := len(e.Next) - maxSteps; more > 0 {
		out = append(out, fmt.Sprintf("%d more groups of pods: use -o json.", more))
	}
	for i := range e.IfOn[:min(maxSteps, len(e.IfOn))] {
		out = append(out, "With update mode "+e.IfMode.String()+", "+sentence(&e.IfOn[i], e.At))
	}
	t.section("NEXT", out)
}

// verbs are the words for acts of the next pass.
var verbs = map[decision.Act]string{
	decision.Resize: "RESIZE in place", decision.Evict: "EVICT", decision.Delete: "DELETE", decision.Surge: "REPLACE by a surge",
}

func sentence(s *explanation.Step, at time.Time) string {
	out := wording.List(s.Pods, maxPods-1) + ": " + outcome(s, at, verbs[s.Act], "WAITS")
	if s.Act == decision.Leave && !s.Waits() && s.NotBefore.After(at) {
		out += " before " + moment(at, s.NotBefore)
	}
	out += "." + refused(s) + " " + s.Reason
	if s.Fallback != "" {
		out += " " + s.Fallback
	}
	if more := s.Blocked(); len(more) > 0 {
		out += " Also blocked by: " + strings.Join(cluster.Each(more, func(g *gate.Gate) string { return gateWords(g.Name) }), ", ") + "."
	}
	return out
}

// outcome returns what happens with the pods of a step, and when.
func outcome(s *explanation.Step, at time.Time, act, waits string) string {
	switch {
	case s.Act != decision.Leave && s.By.After(at):
		return act + " in the next pass, by " + moment(at, s.By)
	case s.Act != decision.Leave:
		return act + " in the next pass"
	case s.Waits() && s.NotBefore.After(at):
		return waits + " until " + moment(at, s.NotBefore)
	case s.Waits():
		return waits
	}
	return "no change"
}

// refused returns why the API server would refuse the eviction, as a sentence with a space before it; "" if it would not.
func refused(s *explanation.Step) string {
	if s.Refused == "" {
		return ""
	}
	return " The API server would REFUSE this now: " + s.Refused + "; the updater tries again later."
}

// moment returns a time in the location of now, with its date if that is another one, and how long it is from now.
func moment(now, at time.Time) string {
	at = at.In(now.Location())
	layout := "15:04"
	if now.Format(time.DateOnly) != at.Format(time.DateOnly) {
		layout = "2 Jan 15:04"
	}
	return at.Format(layout) + " (in " + wording.Span(max(at.Sub(now), time.Second)) + ")"
}

// advice writes what can be done. Commands have a line of their own, so that they can be copied.
func (t *text) advice(title string, all []explanation.Advice) {
	if len(all) == 0 {
		return
	}
	for i := range all {
		t.paragraph(title, strings.Fields(plain(all[i].Text)), " ")
		title = ""
		if all[i].Command == "" {
			continue
		}
		for _, line := range terminal.Command(terminal.Pad("", indent+2), plain(all[i].Command), indent+4, t.width) {
			t.line(line)
		}
	}
	t.line("")
}

// heapParts returns what is known about the heaps of JVMs, with the options to copy.
func heapParts(e *explanation.Explanation) []explanation.Advice {
	var out []explanation.Advice
	for i := range e.Heaps {
		for _, text := range e.Heaps[i].Texts() {
			out = append(out, explanation.Advice{Text: text})
		}
		out[len(out)-1].Command = e.Heaps[i].Option
	}
	return out
}

var gates = map[gate.Name]string{
	gate.Mode: "update mode", gate.Recommendation: "recommendation", gate.Controller: "controller", gate.Need: "need for a change",
	gate.State: "state of the pod and its node", gate.Interruption: "outcome of the last pass", gate.Window: "freezes and change windows",
	gate.Surge: "surge of the workload", gate.Size: "size of a replacement", gate.Admission: "admission by the API server",
	gate.Protection: "annotations against eviction", gate.Quota: "ResourceQuotas", gate.SiblingQuota: "quota refusal of another pod", gate.NodeSize: "size of the nodes",
	gate.Requirements: "eviction requirements", gate.Replacements: "replacements of evicted pods", gate.EvictionEffect: "effect of earlier evictions",
	gate.ResizeEffect: "effect of earlier resizes", gate.Probe: "test eviction of another pod", gate.Frequency: "number of recent replacements",
	gate.EvictionRefusal: "back-off after a refused eviction", gate.ResizeRefusal: "back-off after a refused resize",
	gate.Replicas: "number of replicas", gate.MinReplicas: "minimum of replicas", gate.WayBack: "way back for a failed canary", gate.Canary: "canary",
	gate.HourlyShare: "share of requests changed in an hour", gate.SurgeEffect: "back-off after a failed surge", gate.Budget: "eviction tolerance",
	gate.Resizing: "resize in progress", gate.Started: "start of the pod", gate.Kills: "number of OOM kills", gate.Data: "data of the pod",
	gate.Rescue: "rescue of another pod", gate.Others: "other pods of the disruption budget", gate.Announcement: "record of the updater", gate.DeletionRefusal: "back-off after a refused deletion",
}

func gateWords(name gate.Name) string { return cmp.Or(gates[name], string(name)) }

// WriteHTML writes an explanation as one file without scripts, which loads nothing.
func WriteHTML(w io.Writer, e *explanation.Explanation) error {
	d := &page.Document{Command: "explain", Title: e.Subject, Tags: Tags(e), Sections: Sections(e), Foot: notes(e)}
	if len(e.Facts) > 0 {
		d.Head = []string{strings.Join(e.Facts, " · ")}
	}
	return page.Write(w, d)
}

// Tags returns the short names of the limits that apply.
func Tags(e *explanation.Explanation) []string {
	return cluster.Each(e.Situations, func(s *explanation.Situation) string { return s.Title })
}

// Sections returns what an explanation shows. Empty sections are left out.
func Sections(e *explanation.Explanation) []page.Section {
	next := page.Section{Title: "Next", Parts: cluster.Each(e.Next, func(s *explanation.Step) page.Section { return partOf(s, e.At) })}
	for i := range e.IfOn {
		part := partOf(&e.IfOn[i], e.At)
		part.Class, part.Lead = "", "with update mode "+e.IfMode.String()+": "+part.Lead
		next.Parts = append(next.Parts, part)
	}
	sections := []page.Section{
		{Title: "Now", List: e.Now}, {Title: "History", List: e.History}, {Title: "Runs", List: runLines(e, maxRuns)}, {Title: "Changes of the recommendation", List: changeLines(e)}, next,
		{Title: "You", Parts: cluster.Each(e.You, adviceOf)}, {Title: "Heap", Parts: cluster.Each(heapParts(e), adviceOf)},
	}
	for _, w := range e.Why {
		rows := cluster.Each(w.Lines(), func(l *rationale.Line) page.Row { return page.Row{Cells: []string{l.Figure, l.What, l.Note}} })
		t := &page.Table{Class: "text", Columns: []page.Column{{Right: true}, {}, {}}, Rows: rows}
		sections = append(sections, page.Section{Title: "Why " + w.Title(), About: w.Container + " " + rationale.Spark(w.Days), Table: t})
	}
	if groups := counterfactuals(e); len(groups) > 0 {
		sections = append(sections, page.Section{Title: "What if", Table: &page.Table{
			Class: "text", Columns: make([]page.Column, 2), Rows: cluster.Each(groups, func(g *group) page.Row { return page.Row{Cells: []string{g.Name, g.Text()}} }),
		}})
	}
	sections = append(sections, page.Section{Title: "The limits in words", List: cluster.Each(e.Situations, func(s *explanation.Situation) string { return s.Text })})
	return slices.DeleteFunc(sections, func(s page.Section) bool { return s.Table == nil && len(s.List)+len(s.Parts) == 0 })
}

func adviceOf(a *explanation.Advice) page.Section {
	return page.Section{Text: []string{a.Text}, Command: a.Command}
}

func partOf(s *explanation.Step, at time.Time) page.Section {
	out := page.Section{
		Lead: outcome(s, at, s.Act.String(), "waits"), About: wording.List(s.Pods, maxPods-1), Text: []string{strings.TrimSpace(refused(s) + " " + s.Reason + " " + s.Fallback)},
		Summary: "All gates", Details: cluster.Each(s.Gates, func(g *gate.Gate) string {
			if g.Blocked {
				return "✗ " + gateWords(g.Name) + ": " + g.Reason.String()
			}
			return "✓ " + gateWords(g.Name)
		}),
	}
	switch {
	case s.Act != decision.Leave:
		out.Class = "act"
	case s.Waits():
		out.Class = "wait"
	}
	return out
}
