// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
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
	"podfit.dev/podfit/internal/look/page"
)

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
