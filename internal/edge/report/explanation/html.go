// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/look"
)

//go:embed explanation.html
var page string

//go:embed explanation.css
var ownStyle string

var pageTemplate = template.Must(template.New("explanation").Parse(page))

// pageData is the input of the template.
type pageData struct {
	Policy template.HTMLAttr // the attribute content of the Content-Security-Policy
	Style  template.CSS
	*explanation.Explanation
	At    string
	Steps []pageStep
	Sizes []pageWhy
	Ifs   []pageIf
	Notes []string
}

type pageWhy struct {
	Title, Container, Spark string
	Lines                   []explanation.Line
}

type pageIf struct{ Name, Text string }

type pageStep struct {
	Pods     string
	State    string // of the row: act, wait or rest
	What     string
	Reason   string
	Fallback string
	Gates    []pageGate
}

type pageGate struct {
	Name, Reason string
	Blocked      bool
}

// WriteHTML writes an explanation as one file. It has no scripts, loads nothing, and its Content-Security-Policy allows only its own style,
// by its hash.
func WriteHTML(w io.Writer, e *explanation.Explanation) error {
	style := look.Style(ownStyle)
	data := pageData{
		Policy: template.HTMLAttr(`content="` + look.Policy(style) + `"`),
		Style:  template.CSS(style), Explanation: e, At: e.At.Format("15:04:05 MST, 2 Jan 2006"), Notes: notes(e),
	}
	for i := range e.Next {
		data.Steps = append(data.Steps, pageStepOf(&e.Next[i], e.At))
	}
	for i := range e.IfOn {
		step := pageStepOf(&e.IfOn[i], e.At)
		step.State, step.What = "rest", "with update mode "+e.IfMode.String()+": "+step.What
		data.Steps = append(data.Steps, step)
	}
	for i := range e.Why {
		w := &e.Why[i]
		data.Sizes = append(data.Sizes, pageWhy{Title: w.Title(), Container: w.Container, Spark: explanation.Spark(w.Days), Lines: w.Lines()})
	}
	for _, g := range counterfactuals(e) {
		data.Ifs = append(data.Ifs, pageIf{Name: g.name, Text: g.text()})
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, data); err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	for line := range bytes.Lines(out.Bytes()) {
		if _, err := io.WriteString(w, plain(strings.TrimSuffix(string(line), "\n"))+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func pageStepOf(s *explanation.Step, at time.Time) pageStep {
	out := pageStep{Pods: names(s.Pods), State: "rest", What: "no change", Reason: strings.TrimSpace(refused(s) + " " + s.Reason), Fallback: s.Fallback}
	switch {
	case s.Act != decision.Leave:
		out.State, out.What = "act", s.Act.String()+" in the next pass"
		if s.By.After(at) {
			out.What += ", by " + moment(at, s.By)
		}
	case s.Waits():
		out.State, out.What = "wait", "waits"
		if s.NotBefore.After(at) {
			out.What += " until " + moment(at, s.NotBefore)
		}
	}
	for i := range s.Gates {
		g := pageGate{Name: gateWords(s.Gates[i].Name), Blocked: s.Gates[i].Blocked}
		if g.Blocked {
			g.Reason = s.Gates[i].Reason.String()
		}
		out.Gates = append(out.Gates, g)
	}
	return out
}
