// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/rationale"
)

type jsonExplanation struct {
	APIVersion string                  `json:"apiVersion"`
	Kind       string                  `json:"kind"`
	At         time.Time               `json:"at"`
	Subject    string                  `json:"subject"`
	Facts      []string                `json:"facts"`
	Situations []explanation.Situation `json:"situations"`
	Now        []string                `json:"now"`
	History    []string                `json:"history,omitempty"`
	Runs       []jsonRun               `json:"runs,omitempty"`    // by container, the newest first
	Changes    []jsonChange            `json:"changes,omitempty"` // of the recommendation, the newest first
	Next       []jsonStep              `json:"next"`
	IfOn       *jsonIfOn               `json:"nextIfSwitchedOn,omitempty"`
	You        []explanation.Advice    `json:"you"`
	Heaps      []jsonHeap              `json:"heaps,omitempty"`
	Why        []jsonWhy               `json:"why"`
	WhatIf     []jsonWhatIf            `json:"whatIf"`
	Assumed    []string                `json:"assumed,omitempty"`
	Missing    []string                `json:"missing,omitempty"`
}

// A jsonIfOn is what would be next with another update mode.
type jsonIfOn struct {
	UpdateMode string     `json:"updateMode"`
	Next       []jsonStep `json:"next"`
}

// A jsonRun has the highest usage of a run, in millicores and bytes; none that was not measured.
type jsonRun struct {
	Container string    `json:"container"`
	Started   time.Time `json:"started"`
	Seconds   int64     `json:"seconds"`
	Over      bool      `json:"over"`
	CPU       int64     `json:"cpu,omitempty"`
	Memory    int64     `json:"memory,omitempty"`
}

type jsonChange struct {
	Container string    `json:"container"`
	Resource  string    `json:"resource"`
	At        time.Time `json:"at"`
	From      int64     `json:"from,omitempty"`
	To        int64     `json:"to"`
	Cause     string    `json:"cause"`
}

// A jsonHeap has amounts in bytes, which are absent if they are not known.
type jsonHeap struct {
	Container      string   `json:"container"`
	Live           int64    `json:"live,omitempty"` // after a collection
	Collected      bool     `json:"liveMeasured"`   // false: live is the lowest use in an hour
	Ceiling        int64    `json:"ceiling,omitempty"`
	Beside         int64    `json:"besideHeap,omitempty"`
	GCShare        *float64 `json:"gcShare,omitempty"` // of the time, in the worst hour
	AdvisedCeiling int64    `json:"advisedCeiling,omitempty"`
	AdvisedMemory  int64    `json:"advisedMemory,omitempty"`
	Option         string   `json:"option,omitempty"`
	Reason         string   `json:"reason,omitempty"` // why nothing is advised
}

func jsonHeapOf(h *explanation.Heap) jsonHeap {
	out := jsonHeap{
		Container: h.Container, Live: h.Live, Collected: h.Collected, Ceiling: h.Ceiling, Beside: h.Beside, AdvisedCeiling: h.AdvisedCeiling,
		AdvisedMemory: h.AdvisedMemory, Option: h.Option, Reason: h.Lack,
	}
	if !math.IsNaN(h.GCShare) {
		out.GCShare = &h.GCShare
	}
	return out
}

type jsonStep struct {
	Pods      []string   `json:"pods"`
	Action    string     `json:"action"`
	Waits     bool       `json:"waits"`
	Code      string     `json:"code"`
	Reason    string     `json:"reason"`
	NotBefore time.Time  `json:"notBefore,omitzero"`
	By        time.Time  `json:"by,omitzero"`       // the pass has begun by then
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

type jsonWhy struct {
	Container string           `json:"container"`
	Resource  string           `json:"resource"`
	Profile   string           `json:"profile"`
	Title     string           `json:"title"`
	Estimate  int64            `json:"estimate"` // before bounds; like all amounts in millicores or bytes
	Target    int64            `json:"target"`
	Lower     int64            `json:"lower"`
	Upper     int64            `json:"upper"`
	Request   *int64           `json:"request,omitempty"` // of a pod that is created or resized now
	Limit     *int64           `json:"limit,omitempty"`
	Steps     []rationale.Line `json:"steps"`
	Bounds    []string         `json:"bounds"`
	Days      []rationale.Day  `json:"days,omitempty"`
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
	const version = "podfit.dev/explain/v1" // of the JSON format; a field is never renamed or removed without a new version
	out := &jsonExplanation{
		APIVersion: version, Kind: "Explanation", At: e.At.UTC(), Subject: e.Subject, Facts: listed(e.Facts), Situations: listed(e.Situations),
		Now: listed(e.Now), History: e.History, Runs: cluster.Each(e.Runs, func(r *explanation.Run) jsonRun {
			return jsonRun{r.Container, time.Unix(r.Started, 0).UTC(), int64(r.Length().Seconds()), r.IsOver(e.At.Unix()), r.CPU, r.Memory}
		}),
		Changes: cluster.Each(e.Changes, func(c *explanation.Change) jsonChange {
			return jsonChange{c.Container, c.Resource.String(), c.Time(), c.From, c.To, c.Cause.String()}
		}),
		Next: cluster.Each(e.Next, jsonStepOf), You: listed(e.You), Heaps: cluster.Each(e.Heaps, jsonHeapOf),
		Why: cluster.Each(e.Why, jsonWhyOf), WhatIf: cluster.Each(e.WhatIf, jsonWhatIfOf),
		Assumed: e.Assumed, Missing: e.Unknown(),
	}
	if len(e.IfOn) > 0 {
		out.IfOn = &jsonIfOn{UpdateMode: e.IfMode.String(), Next: cluster.Each(e.IfOn, jsonStepOf)}
	}
	return out
}

func jsonWhyOf(w *rationale.Why) jsonWhy {
	return jsonWhy{
		Container: w.Container, Resource: w.Resource.String(), Profile: w.Profile, Title: w.Title(), Estimate: w.Estimate,
		Target: w.Range.Target, Lower: w.Range.Lower, Upper: w.Range.Upper,
		Request: known(w.Size.Request, w.Size.HasRequest), Limit: known(w.Size.Limit, w.Size.HasLimit),
		Steps: w.Lines(), Bounds: listed(w.BoundTexts()),
		Days: slices.DeleteFunc(slices.Clone(w.Days), func(d rationale.Day) bool { return !d.Known }),
	}
}

func jsonWhatIfOf(c *rationale.Counterfactual) jsonWhatIf {
	return jsonWhatIf{
		If: c.If.String(), Container: c.Container, Resource: c.Resource.String(), Known: c.Known, Reason: c.Reason, Target: c.Target,
		Request: known(c.Size.Request, c.Size.HasRequest), DaysAbove: c.DaysAbove, Days: c.Days, OOMKilled: c.Killed.String(),
	}
}

func jsonStepOf(s *explanation.Step) jsonStep {
	return jsonStep{
		Pods: s.Pods, Action: s.Act.String(), Waits: s.Waits(), Code: s.Code, Reason: s.Reason, NotBefore: s.NotBefore.UTC(), By: s.By.UTC(),
		Refused: s.Refused, Fallback: s.Fallback, Gates: cluster.Each(s.Gates, jsonGateOf),
	}
}

func jsonGateOf(g *gate.Gate) jsonGate {
	if !g.Blocked {
		return jsonGate{Name: string(g.Name)}
	}
	return jsonGate{Name: string(g.Name), Blocked: true, Code: g.Reason.Code.String(), Reason: g.Reason.String()}
}

// known returns an amount, or nil if there is none.
func known(amount int64, has bool) *int64 {
	if !has {
		return nil
	}
	return &amount
}

// listed returns a list that is [] and not null in JSON.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
