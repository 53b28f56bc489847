// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/ledger"
)

// shownEvents is the number of events in NOW.
const shownEvents = 3

// shownRecords is the number of records of a time in the past.
const shownRecords = 50

// A record is something that happened at a known time.
type record struct {
	at   time.Time
	text string
}

// eventRecords returns the events until a time, the newest last.
func eventRecords(in *Input, until time.Time) []record {
	var out []record
	for _, e := range in.Events {
		if e.At.IsZero() || e.At.After(until) {
			continue
		}
		text := e.Name + " " + e.Reason
		if e.Count > 1 {
			text += fmt.Sprintf(" (%d times)", e.Count)
		}
		if e.Message != "" {
			text += ": " + e.Message
		}
		out = append(out, record{e.At, text})
	}
	return out
}

// Reasons are the reasons of the events that podfit writes, sorted. A test holds them equal to those of the jobs.
var Reasons = []string{
	"EvictedByVPA", "EvictedPod", "InPlaceResizeSkipped", "InPlaceResizedByVPA", "InvalidAnnotation", "NotAutoscaled", "OOMRescue",
	"RecommendationReverted", "ReplacementMissing", "ResizeRefused", "Surge", "UpdateHeld",
}

// events returns the last events of podfit.
func events(in *Input) []string {
	own := *in
	own.Events = slices.DeleteFunc(slices.Clone(in.Events), func(e Event) bool {
		return !slices.Contains(Reasons, e.Reason)
	})
	var out []string
	all := eventRecords(&own, in.Now)
	for _, r := range all[max(0, len(all)-shownEvents):] {
		out = append(out, clock(in.Now, r.at)+"  "+r.text)
	}
	return out
}

// attempts returns the last attempts of the updater on the pods until a time.
func attempts(state *ledger.State, until time.Time) []record {
	var out []record
	for i := range state.Pods {
		p := &state.Pods[i]
		if p.At.IsZero() || p.At.After(until) {
			continue
		}
		text := p.Name + " " + p.Do.String()
		switch {
		case p.Done:
			text += ": done"
		case p.Failed != nil && p.Failed.Text != "":
			text += ": refused: " + p.Failed.Text
		default:
			text += ": refused or not answered"
		}
		out = append(out, record{p.At, text})
	}
	return out
}

// Past describes what is recorded about a subject until a time in the past. The error has the time of the first record: the cluster
// stores no earlier states of pods and VPAs.
func Past(in *Input, state *ledger.State, at time.Time) (*Explanation, error) {
	all := slices.Concat(eventRecords(in, in.Now), attempts(state, in.Now))
	slices.SortStableFunc(all, func(a, b record) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.text, b.text)) })
	n := 0
	for n < len(all) && !all[n].at.After(at) {
		n++
	}
	if n == 0 {
		reach := "there is no event or attempt about it"
		if len(all) > 0 {
			reach = "the first event or attempt about it is from " + all[0].at.In(in.Now.Location()).Format("2006-01-02 15:04 MST")
		}
		return nil, fmt.Errorf("nothing is recorded about %s until %s: %s. The cluster stores no earlier states of pods; events are kept for an hour by default",
			in.Subject.Name, at.In(in.Now.Location()).Format("2006-01-02 15:04 MST"), reach)
	}
	out := &Explanation{At: at, Subject: in.Subject.Name, Facts: facts(in), Missing: append(slices.Clone(in.Missing),
		"This is what events and the records of the updater contain until then, and not the state of the pods, which the cluster does not store.")}
	if omitted := n - shownRecords; omitted > 0 {
		out.Now = append(out.Now, fmt.Sprintf("%s until %s are omitted.", count(omitted, "earlier record"), clock(at, all[omitted-1].at)))
	}
	for _, r := range all[max(0, n-shownRecords):n] {
		out.Now = append(out.Now, clock(at, r.at)+"  "+r.text)
	}
	out.You = []Advice{{Text: "For the present state and the next pass, omit --at."}}
	return out, nil
}
