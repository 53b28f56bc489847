// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
)

//go:embed explanation.html
var page string

//go:embed explanation.css
var style string

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
	sum := sha256.Sum256([]byte(style))
	data := pageData{
		Policy: template.HTMLAttr(fmt.Sprintf(`content="default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'"`, base64.StdEncoding.EncodeToString(sum[:]))),
		Style:  template.CSS(style), Explanation: e, At: e.At.UTC().Format("15:04:05 MST, 2 Jan 2006"), Notes: notes(e),
	}
	for i := range e.Next {
		data.Steps = append(data.Steps, pageStepOf(&e.Next[i]))
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

func pageStepOf(s *explanation.Step) pageStep {
	out := pageStep{Pods: names(s.Pods), State: "rest", What: "no change", Reason: s.Reason, Fallback: s.Fallback}
	switch {
	case s.Act != decision.Leave:
		out.State, out.What = "act", s.Act.String()+" in the next pass"
	case s.Waits():
		out.State, out.What = "wait", "waits"
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
