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
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/look"
)

//go:embed explanation.html
var page string

//go:embed explanation.css
var ownStyle string

var pageTemplate = template.Must(template.New("explanation").Funcs(template.FuncMap{
	"names": names, "gateWords": gateWords, "spark": rationale.Spark,
}).Parse(page))

// pageData is the input of the template.
type pageData struct {
	Policy template.HTMLAttr // the attribute content of the Content-Security-Policy
	Style  template.CSS
	*explanation.Explanation
	At    string
	Steps []pageStep
	Ifs   []group
	Notes []string
}

type pageStep struct {
	*explanation.Step
	State  string // of the row: act, wait or rest
	What   string
	Reason string
}

// WriteHTML writes an explanation as one file. It has no scripts, loads nothing, and its Content-Security-Policy allows only its own style,
// by its hash.
func WriteHTML(w io.Writer, e *explanation.Explanation) error {
	style := look.Style(ownStyle)
	data := pageData{
		Policy: template.HTMLAttr(`content="` + look.Policy(style) + `"`),
		Style:  template.CSS(style), Explanation: e, At: e.At.Format("15:04:05 MST, 2 Jan 2006"), Notes: notes(e),
		Steps: each(e.Next, func(s *explanation.Step) pageStep { return pageStepOf(s, e.At) }), Ifs: counterfactuals(e),
	}
	for i := range e.IfOn {
		step := pageStepOf(&e.IfOn[i], e.At)
		step.State, step.What = "rest", "with update mode "+e.IfMode.String()+": "+step.What
		data.Steps = append(data.Steps, step)
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
	out := pageStep{Step: s, State: "rest", What: outcome(s, at, s.Act.String(), "waits"), Reason: strings.TrimSpace(refused(s) + " " + s.Reason)}
	switch {
	case s.Act != decision.Leave:
		out.State = "act"
	case s.Waits():
		out.State = "wait"
	}
	return out
}
