// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"encoding/json"
	"io"
	"time"

	"podfit.dev/podfit/internal/core/explanation"
)

// version is the version of the JSON format. A field is never renamed or removed without a new version.
const version = "podfit.dev/explain/v1"

type jsonExplanation struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	At         time.Time       `json:"at"`
	Subject    string          `json:"subject"`
	Facts      []string        `json:"facts"`
	Situations []jsonSituation `json:"situations"`
	Now        []string        `json:"now"`
	Next       []jsonStep      `json:"next"`
	IfOn       *jsonIfOn       `json:"nextIfSwitchedOn,omitempty"`
	You        []jsonAdvice    `json:"you"`
	Why        []jsonWhy       `json:"why"`
	WhatIf     []jsonWhatIf    `json:"whatIf"`
	Assumed    []string        `json:"assumed,omitempty"`
	Missing    []string        `json:"missing,omitempty"`
}

type jsonSituation struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// A jsonIfOn is what would be next with another update mode.
type jsonIfOn struct {
	UpdateMode string     `json:"updateMode"`
	Next       []jsonStep `json:"next"`
}

type jsonStep struct {
	Pods      []string   `json:"pods"`
	Action    string     `json:"action"`
	Waits     bool       `json:"waits"`
	Code      string     `json:"code"`
	Reason    string     `json:"reason"`
	NotBefore *time.Time `json:"notBefore,omitempty"`
	By        *time.Time `json:"by,omitempty"`      // the pass has begun by then
	Refused   string     `json:"refused,omitempty"` // why the API server would refuse the eviction now
	Fallback  string     `json:"fallback,omitempty"`
	Gates     []jsonGate `json:"gates"`
}

type jsonGate struct {
	Name    string `json:"name"`
	Blocked bool   `json:"blocked"`
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

type jsonAdvice struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
}

type jsonWhy struct {
	Container string     `json:"container"`
	Resource  string     `json:"resource"`
	Profile   string     `json:"profile"`
	Title     string     `json:"title"`
	Estimate  int64      `json:"estimate"` // before bounds; like all amounts in millicores or bytes
	Target    int64      `json:"target"`
	Lower     int64      `json:"lower"`
	Upper     int64      `json:"upper"`
	Request   *int64     `json:"request,omitempty"` // of a pod that is created or resized now
	Limit     *int64     `json:"limit,omitempty"`
	Steps     []jsonLine `json:"steps"`
	Bounds    []string   `json:"bounds"`
	Days      []jsonPeak `json:"days,omitempty"`
}

type jsonLine struct {
	Figure string `json:"figure"`
	Text   string `json:"text"`
	Note   string `json:"note,omitempty"`
}

type jsonPeak struct {
	From time.Time `json:"from"`
	Peak float64   `json:"peak"`
	At   time.Time `json:"at"`
}

type jsonWhatIf struct {
	If        string `json:"if"`
	Container string `json:"container"`
	Resource  string `json:"resource"`
	Known     bool   `json:"known"`
	Reason    string `json:"reason,omitempty"`
	Target    int64  `json:"target,omitempty"`
	Request   *int64 `json:"request,omitempty"`
	DaysAbove int    `json:"daysAbove"`
	Days      int    `json:"days"`
	OOMKilled string `json:"oomKilled"` // yes, no or unknown
}

// WriteJSON writes an explanation as one JSON object.
func WriteJSON(w io.Writer, e *explanation.Explanation) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(jsonOf(e))
}

func jsonOf(e *explanation.Explanation) *jsonExplanation {
	out := &jsonExplanation{
		APIVersion: version, Kind: "Explanation", At: e.At.UTC(), Subject: e.Subject, Facts: listed(e.Facts), Now: listed(e.Now),
		Situations: []jsonSituation{}, Next: []jsonStep{}, You: []jsonAdvice{}, Why: []jsonWhy{}, WhatIf: []jsonWhatIf{}, Assumed: e.Assumed, Missing: e.Unknown(),
	}
	for i := range e.Situations {
		s := &e.Situations[i]
		out.Situations = append(out.Situations, jsonSituation{Code: s.Code, Title: s.Title, Text: s.Text})
	}
	for i := range e.Next {
		out.Next = append(out.Next, jsonStepOf(&e.Next[i]))
	}
	if len(e.IfOn) > 0 {
		out.IfOn = &jsonIfOn{UpdateMode: e.IfMode.String()}
		for i := range e.IfOn {
			out.IfOn.Next = append(out.IfOn.Next, jsonStepOf(&e.IfOn[i]))
		}
	}
	for _, a := range e.You {
		out.You = append(out.You, jsonAdvice{Text: a.Text, Command: a.Command})
	}
	for i := range e.Why {
		out.Why = append(out.Why, jsonWhyOf(&e.Why[i]))
	}
	for i := range e.WhatIf {
		out.WhatIf = append(out.WhatIf, jsonWhatIfOf(&e.WhatIf[i]))
	}
	return out
}

func jsonWhyOf(w *explanation.Why) jsonWhy {
	out := jsonWhy{
		Container: w.Container, Resource: w.Resource.String(), Profile: w.Profile, Title: w.Title(), Estimate: w.Estimate,
		Target: w.Range.Target, Lower: w.Range.Lower, Upper: w.Range.Upper, Steps: []jsonLine{}, Bounds: listed(w.BoundTexts()),
	}
	if w.Size.HasRequest {
		out.Request = &w.Size.Request
	}
	if w.Size.HasLimit {
		out.Limit = &w.Size.Limit
	}
	for _, line := range w.Lines() {
		out.Steps = append(out.Steps, jsonLine{Figure: line.Figure, Text: line.What, Note: line.Note})
	}
	for _, d := range w.Days {
		if d.Known {
			out.Days = append(out.Days, jsonPeak{From: d.From, Peak: d.Peak, At: d.At})
		}
	}
	return out
}

func jsonWhatIfOf(c *explanation.Counterfactual) jsonWhatIf {
	out := jsonWhatIf{
		If: c.If.String(), Container: c.Container, Resource: c.Resource.String(), Known: c.Known, Reason: c.Reason, Target: c.Target,
		DaysAbove: c.DaysAbove, Days: c.Days, OOMKilled: c.Killed.String(),
	}
	if c.Size.HasRequest {
		out.Request = &c.Size.Request
	}
	return out
}

func jsonStepOf(s *explanation.Step) jsonStep {
	step := jsonStep{
		Pods: s.Pods, Action: s.Act.String(), Waits: s.Waits(), Code: s.Code, Reason: s.Reason, Refused: s.Refused, Fallback: s.Fallback, Gates: []jsonGate{},
	}
	if !s.NotBefore.IsZero() {
		at := s.NotBefore.UTC()
		step.NotBefore = &at
	}
	if !s.By.IsZero() {
		by := s.By.UTC()
		step.By = &by
	}
	for i := range s.Gates {
		g := jsonGate{Name: string(s.Gates[i].Name), Blocked: s.Gates[i].Blocked}
		if g.Blocked {
			g.Code, g.Reason = s.Gates[i].Reason.Code.String(), s.Gates[i].Reason.String()
		}
		step.Gates = append(step.Gates, g)
	}
	return step
}

// listed returns a list that is [] and not null in JSON.
func listed(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
