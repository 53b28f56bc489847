// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/wording"
)

// A record is something that happened at a known time.
type record struct {
	at   time.Time
	text string
}

// eventsUntil returns the events that happened until a time, one for each eviction.
func eventsUntil(in *Input, until time.Time) []Event {
	return slices.DeleteFunc(withoutTwins(in.Events), func(e Event) bool { return e.At.IsZero() || e.At.After(until) })
}

// text describes an event, with notes about its other objects and about the time of the first of several.
func (e *Event) text(others, first string) string {
	text := e.Name + others + " " + e.Reason
	if e.Count > 1 {
		text += fmt.Sprintf(" (%d times%s)", e.Count, first)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Reasons of events that the rules for NOW know.
const (
	evictedByVPA = "EvictedByVPA" // of the pod
	evictedPod   = "EvictedPod"   // of its VPA
	resizedByVPA = "InPlaceResizedByVPA"
)

// twinDistance is how far apart the times of the two events of an eviction are at most: they are sent one after the other, and have whole
// seconds.
const twinDistance = time.Second

// withoutTwins removes the event of the VPA about an eviction if that of the pod exists, too. An event of a VPA that stands for several evictions
// is kept.
func withoutTwins(events []Event) []Event {
	used := make([]bool, len(events))
	hasTwin := func(e *Event) bool {
		for i := range events {
			twin := &events[i]
			if !used[i] && twin.Reason == evictedByVPA && twin.At.Sub(e.At).Abs() <= twinDistance {
				used[i] = true
				return true
			}
		}
		return false
	}
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Reason == evictedPod && e.Count <= 1 && hasTwin(&e) })
}

// Reasons are the reasons of the events that podfit writes, sorted. A test holds them equal to those of the jobs.
var Reasons = []string{
	"EvictedByVPA", "EvictedPod", "InPlaceResizeSkipped", "InPlaceResizedByVPA", "InvalidAnnotation", "NotAutoscaled", "OOMRescue",
	"RecommendationReverted", "ReplacementMissing", "ResizeRefused", "Surge", "UpdateHeld",
}

// events returns the last events of podfit. Those that differ only in the pod are one line.
func events(in *Input) []string {
	const shownEvents = 3 // the number of events in NOW
	groups := grouped(slices.DeleteFunc(eventsUntil(in, in.Now), func(e Event) bool { return !slices.Contains(Reasons, e.Reason) }))
	return cluster.Each(groups[max(0, len(groups)-shownEvents):], func(g **group) string { return clock(in.Now, (*g).last.At) + "  " + (*g).text(in.Now) })
}

// A group is one event, or several that differ only in the object and the time.
type group struct {
	last  Event           // its count is that of all events of the group
	first time.Time       // zero if it is not known, because one of them stands for several
	names map[string]bool // of the objects
}

// text describes the events. The message is that of the last one.
func (g *group) text(now time.Time) string {
	var others, first string
	last := g.last
	if n := len(g.names) - 1; n > 0 {
		others = " and " + wording.Count(n, "other pod")
		if last.VPA != "" {
			last.Message = "The last one: " + last.Message
		}
	}
	if !g.first.IsZero() && g.first.Before(g.last.At) {
		first = " since " + clock(now, g.first)
	}
	return last.text(others, first)
}

// grouped joins events of changes, by reason, and keeps other events as they are. The result is sorted by the time of the last event. Events
// are sorted by time.
func grouped(events []Event) []*group {
	var out []*group
	byReason := map[string]*group{}
	for _, original := range events {
		e := original
		g := byReason[e.Reason]
		if g == nil {
			g = &group{last: e, first: e.At, names: map[string]bool{}}
			if e.Reason == evictedByVPA || e.Reason == evictedPod || e.Reason == resizedByVPA {
				byReason[e.Reason] = g
			}
			out = append(out, g)
		} else {
			e.Count = max(1, g.last.Count) + max(1, e.Count)
			g.last = e
		}
		if original.Count > 1 {
			g.first = time.Time{}
		}
		g.names[e.Name] = true
	}
	slices.SortStableFunc(out, func(a, b *group) int { return a.last.At.Compare(b.last.At) })
	return out
}

// attempts returns the last attempts of the updater on the pods until a time.
func attempts(state *ledger.State, until time.Time) []record {
	var out []record
	for _, p := range state.Pods {
		if p.At.IsZero() || p.At.After(until) {
			continue
		}
		text := p.Name + " " + p.Do.String()
		switch {
		case p.Failed == nil:
			text += ": done"
		case p.Failed.Text != "":
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
	const shownRecords = 50 // of a time in the past
	happened := cluster.Each(eventsUntil(in, in.Now), func(e *Event) record { return record{e.At, e.text("", "")} })
	all := slices.Concat(happened, attempts(state, in.Now))
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
	out := &Explanation{At: at, Subject: in.Name, Facts: facts(in), Gaps: Gaps{Forbidden: in.Forbidden, Missing: in.Missing}}
	out.Remarks = append(slices.Clone(in.Remarks), "This is what events and the records of the updater contain until then, "+
		"and not the state of the pods, which the cluster does not store.")
	if omitted := n - shownRecords; omitted > 0 {
		out.Now = append(out.Now, fmt.Sprintf("%s until %s are omitted.", wording.Count(omitted, "earlier record"), clock(at, all[omitted-1].at)))
	}
	for _, r := range all[max(0, n-shownRecords):n] {
		out.Now = append(out.Now, clock(at, r.at)+"  "+r.text)
	}
	out.You = []Advice{{Text: "For the present state and the next pass, omit --at."}}
	return out, nil
}
