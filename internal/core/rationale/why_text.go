// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/wording"
)

// A Line is one line of the text of a Why, in three columns.
type Line struct {
	Figure string `json:"figure"`         // "1000Mi", "× 0.935"
	What   string `json:"text"`           // "second highest of 7 days is 800Mi"
	Note   string `json:"note,omitempty"` // "one peak alone does not set it"; may be empty
}

// Title returns what is explained, such as "1276Mi of memory (was 1024Mi)".
func (w *Why) Title() string {
	name := wording.Name(w.Resource)
	size := wording.Figure(w.Resource, float64(w.Range.Target))
	switch {
	case w.Horizontal.IsLeft() && w.Present.HasRequest:
		return fmt.Sprintf("%s stays %s (would be %s)", name, wording.Figure(w.Resource, float64(w.Present.Request)), size)
	case w.Horizontal.IsLeft():
		return fmt.Sprintf("%s is not set (would be %s)", name, size)
	}
	size = wording.Figure(w.Resource, float64(w.Size.requestOr(w.Range.Target)))
	if w.Present.HasRequest && wording.Figure(w.Resource, float64(w.Present.Request)) != size {
		return fmt.Sprintf("%s of %s (was %s)", size, name, wording.Figure(w.Resource, float64(w.Present.Request)))
	}
	return fmt.Sprintf("%s of %s", size, name)
}

// Lines returns the text: the steps that changed the amount or that people ask for, what an HPA has to do with it, and the result with its
// bounds.
func (w *Why) Lines() []Line {
	var out []Line
	for _, step := range w.Steps {
		if !w.shows(&step) {
			continue
		}
		text, ok := stepTexts[step.Name]
		line := Line{Figure: figure(&step, w.Resource), What: string(step.Name)}
		if ok {
			line.What, line.Note = text(&step, w.Resource)
		}
		out = append(out, line)
	}
	addUp(out, w.result())
	lines := []Line{w.nodeLine(), w.result(), w.sizeLine(), w.horizontalLine(), w.runtimeLine(), w.limitLine(), w.boostLine()}
	return append(out, slices.DeleteFunc(lines, func(l Line) bool { return l == (Line{}) })...)
}

// addUp makes the last line, if it is a sum with the line before it, the difference of the amounts that are shown: a person adds them up, and
// each of them is rounded. A result that a later bound has changed is no such sum.
func addUp(lines []Line, result Line) {
	if len(lines) < 2 {
		return
	}
	last := &lines[len(lines)-1]
	before, beforeUnit, known := shownAmount(lines[len(lines)-2].Figure)
	part, _, isPart := shownAmount(strings.TrimPrefix(last.Figure, "+ "))
	total, unit, whole := shownAmount(strings.TrimPrefix(result.Figure, "= "))
	if !known || !isPart || !whole || beforeUnit != unit || !strings.HasPrefix(last.Figure, "+ ") { // digits of other units do not line up
		return
	}
	digit := figureUnits[unit]
	if figures := lines[len(lines)-2].Figure + last.Figure + result.Figure; unit == "" || unit != "m" && strings.Contains(figures, ".") {
		digit /= 10
	}
	if math.Abs(before+part-total) <= max(0.01*total, 1.6*digit) {
		last.Figure = "+ " + wording.Trimmed((total-before)/figureUnits[unit], 1) + unit
	}
}

// figureUnits are the amounts of the units of format. Ten cores and more have none.
var figureUnits = map[string]float64{"m": 1, "": 1000, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}

// shownAmount returns the amount of a figure of format and its unit, and whether it is one.
func shownAmount(figure string) (amount float64, unit string, ok bool) {
	number := strings.TrimRightFunc(strings.TrimLeft(figure, "→≥≤ "), unicode.IsLetter)
	unit = figure[strings.LastIndex(figure, number)+len(number):]
	v, err := strconv.ParseFloat(number, 64)
	size, ok := figureUnits[unit]
	return v * size, unit, err == nil && ok
}

func (w *Why) shows(s *derivation.Step) bool {
	switch s.Name {
	case derivation.StepUnit:
		return false
	case derivation.StepKept:
		return s.Changed && wording.Figure(w.Resource, s.Evidence.Amount) != wording.Figure(w.Resource, s.Result)
	default:
		visible := s.Operation != derivation.Multiply || math.Abs(s.Factor-1) >= 0.0005
		return s.Changed && visible || alwaysShown[s.Name]
	}
}

// alwaysShown are the steps that are shown even if they change nothing, because it answers a question that nothing happened.
var alwaysShown = map[derivation.StepName]bool{
	derivation.StepSecondDay: true, derivation.StepLongSecond: true, derivation.StepSpread: true, derivation.StepMargin: true,
}

func figure(s *derivation.Step, res cluster.Resource) string {
	amount := wording.Figure(res, s.Amount)
	switch s.Operation {
	case derivation.Value:
		return peak(res, s.Amount)
	case derivation.Add:
		return "+ " + amount
	case derivation.Multiply:
		return "× " + strconv.FormatFloat(s.Factor, 'f', 3, 64)
	case derivation.Max:
		return "≥ " + amount
	case derivation.Min:
		return "≤ " + amount
	case derivation.Keep, derivation.Ceil, derivation.Truncate, derivation.RoundUp, derivation.Humanize:
		return "→ " + wording.Figure(res, s.Result)
	}
	return ""
}

// stepText returns the second and the third column of a step.
type stepText func(s *derivation.Step, res cluster.Resource) (what, note string)

// texts returns the texts of a step with the names of stepValues in braces.
func texts(what, note string) stepText {
	return func(s *derivation.Step, res cluster.Resource) (string, string) {
		value := func(name string) string { return stepValues[name](&s.Evidence, res) }
		return wording.Fill(what, value), wording.Fill(note, value)
	}
}

var stepValues = map[string]func(e *derivation.Evidence, res cluster.Resource) string{
	"days":      func(e *derivation.Evidence, _ cluster.Resource) string { return number(e.Days) },
	"n days":    func(e *derivation.Evidence, _ cluster.Resource) string { return plural(e.Days, "day") },
	"hours":     func(e *derivation.Evidence, _ cluster.Resource) string { return strconv.Itoa(e.Hours) },
	"n hours":   func(e *derivation.Evidence, _ cluster.Resource) string { return plural(float64(e.Hours), "hour") },
	"hour":      func(e *derivation.Evidence, _ cluster.Resource) string { return hours(e) },
	"time slot": func(e *derivation.Evidence, _ cluster.Resource) string { return hoursOfDay(e.FirstHour, e.Hours) },
	"from":      func(e *derivation.Evidence, _ cluster.Resource) string { return day(e.From) },
	"until":     func(e *derivation.Evidence, _ cluster.Resource) string { return moment(e.Until) },
	"amount":    func(e *derivation.Evidence, res cluster.Resource) string { return wording.Figure(res, e.Amount) },
	"margin":    func(e *derivation.Evidence, _ cluster.Resource) string { return percent(e.Margin) },
	"share":     func(e *derivation.Evidence, _ cluster.Resource) string { return percent(e.Share) },
	"budget":    func(e *derivation.Evidence, _ cluster.Resource) string { return percent(e.Budget) },
	"half-life": func(e *derivation.Evidence, _ cluster.Resource) string { return duration(e.HalfLife) },
}

// stepTexts are the texts of all steps; a test compares them with the steps of all profiles.
var stepTexts = map[derivation.StepName]stepText{
	derivation.StepHighestDay: texts("highest day of {days}", "{hour}"),
	derivation.StepSecondDay: func(s *derivation.Step, res cluster.Resource) (string, string) {
		return second(s, "second highest is "+peak(res, s.Evidence.Amount))
	},
	derivation.StepLongSecond: func(s *derivation.Step, res cluster.Resource) (string, string) {
		return second(s, fmt.Sprintf("second of %s days is %s", number(s.Evidence.Days), peak(res, s.Evidence.Amount)))
	},
	derivation.StepSpread: func(s *derivation.Step, res cluster.Resource) (string, string) {
		what := fmt.Sprintf("%s of hours below %s", percent(s.Evidence.Share), peak(res, s.Evidence.Amount))
		if s.Factor < 1.0005 && (s.Operation == derivation.Multiply || !s.Changed) {
			return what, "steady: no extra margin"
		}
		return "spiky: " + what, "so the margin is larger"
	},
	derivation.StepWindow:    texts("looks back {days} days", "cost least for this container"),
	derivation.StepRecurring: texts("weekly peak, seen twice", ""),
	derivation.StepMargin: func(s *derivation.Step, _ cluster.Resource) (string, string) {
		aim := fmt.Sprintf("for %s above in 100", plural(100*s.Evidence.Budget, "day"))
		if s.Evidence.Learnt != 0 {
			return fmt.Sprintf("margin: %s, and %s learnt", signed(s.Evidence.Margin), signed(s.Evidence.Learnt)), aim
		}
		return "margin of the profile", aim
	},
	derivation.StepToday:     texts("peak of 24 hours, and {margin}", "{hour}"),
	derivation.StepGrowth:    texts("grows {amount} a day since {from}", "with room for the next days"),
	derivation.StepRaised:    texts("raised: a kill, or usage above it", "until {until}"),
	derivation.StepMinimum:   texts("minimum of the profile", ""),
	derivation.StepLeakBound: texts("bound while a leak is suspected", "since {from}"),
	derivation.StepMaximum:   texts("maximum of any amount", ""),
	derivation.StepLowHours:  texts("highest in the low hours", "{time slot}"),
	derivation.StepUsual:     texts("not above the usual size", ""),
	derivation.StepKept:      kept,
	derivation.StepPeak:      texts("peak of the last {hours} hours", "{hour}"),
	derivation.StepFactor: func(s *derivation.Step, _ cluster.Resource) (string, string) {
		switch s.Evidence.Origin {
		case derivation.FromLabel:
			return "criticality of the pods", "label " + criticality.Label
		case derivation.FromPriorityClass:
			return "criticality of the pods", "PriorityClass " + s.Evidence.Class
		case derivation.FromProfile:
		}
		return "factor of the profile", ""
	},
	derivation.StepSize:     texts("by size", "small ones get relatively more"),
	derivation.StepHeadroom: texts("fixed headroom of the profile", ""),
	derivation.StepLearnt:   texts("learnt from usage above the request", "for {budget} of usage above it"),
	derivation.StepRecent: func(s *derivation.Step, _ cluster.Resource) (string, string) {
		what := "peak of " + plural(float64(s.Evidence.Hours), "hour")
		switch {
		case s.Evidence.Margin > 0:
			what += ", and " + percent(s.Evidence.Margin)
		case s.Evidence.Margin < 0:
			what = percent(1+s.Evidence.Margin) + " of the " + what
		}
		return what, hours(&s.Evidence)
	},
	derivation.StepPercentile: func(s *derivation.Step, _ cluster.Resource) (string, string) {
		note := "half-life " + duration(s.Evidence.HalfLife)
		if s.Evidence.Samples > 0 {
			note = plural(float64(s.Evidence.Samples), "sample") + " since " + day(s.Evidence.From)
		}
		return percent(s.Evidence.Share) + " of the samples are below", note
	},
	derivation.StepRuns: func(s *derivation.Step, _ cluster.Resource) (string, string) {
		if s.Evidence.Samples == 0 {
			return "by run", "no run has ended yet"
		}
		if s.Evidence.Samples < 20 {
			return "by run, highest of " + plural(float64(s.Evidence.Samples), "run"), "the last ones that were measured"
		}
		return "by run, " + percent(s.Evidence.Share) + " of the runs used at most this", "the last " + plural(float64(s.Evidence.Samples), "run") + " that were measured"
	},
	derivation.StepSafetyMargin: texts("safety margin of {margin}", ""),
	derivation.StepFloor:        texts("minimum for each container", ""),
	derivation.StepBusy:         texts("{share} of busy-hour samples are below", "{time slot}"),
	derivation.StepBusyWindow:   texts("at most the peak of {n hours}", "usage has long idle periods"),
	derivation.StepStartup:      texts("samples just after container starts", "few containers run longer"),
	derivation.StepLeastMargin:  texts("minimum margin of small containers", ""),
	derivation.StepMost:         texts("most CPU of the profile", ""),
	derivation.StepRound:        texts("rounded, as the recommender is configured", ""),
	derivation.StepModel:        texts("bound of the model that cost least", "half-life {half-life}"),
	derivation.StepModelMargin:  texts("margin of that model: {margin}", ""),
	derivation.StepWindowMax:    texts("highest of {n days}", "{hour}"),
	derivation.StepOverReserve:  texts("highest of {n days}, less {amount}", "its part of what stays free"),
	derivation.StepReserve:      texts("{share} of a node ({amount}) stays free", "larger nodes, or fewer copies on one, count a day later"),
}

// second is the text of a step from the highest peak towards the second highest.
func second(s *derivation.Step, is string) (what, note string) {
	switch {
	case s.Evidence.Days < 2:
		return "no second day yet", ""
	case !s.Changed:
		return is, "it came twice"
	case s.Factor > 1: // only over a longer period
		return is, "the week before was higher"
	}
	return is, "one peak alone does not set it"
}

// kept is the text of a request that was decided before.
func kept(s *derivation.Step, res cluster.Resource) (what, note string) {
	e := &s.Evidence
	what = "kept since " + moment(e.From)
	now := wording.Figure(res, e.Amount)
	switch e.Kept {
	case derivation.KeptSmall:
		note = fmt.Sprintf("a new %s is within %s", now, percent(e.Share))
	case derivation.KeptWaiting:
		note = fmt.Sprintf("%s from %s", now, moment(e.Until))
	case derivation.KeptPending:
		note = fmt.Sprintf("%s after %s", now, moment(e.Until))
	}
	return what, note
}

var boundNames = map[policy.BoundKind]string{
	policy.WholeCores: "whole cores", policy.NodeShare: "share of the smallest node for a pod",
	policy.MemoryPerCPU: "podfit.dev/memory-per-cpu", policy.MaxStep: "podfit.dev/max-step", policy.MinAllowed: "minAllowed", policy.MaxAllowed: "maxAllowed", policy.GlobalMax: "maximum of the recommender",
	policy.PodRange: "LimitRange of pods", policy.RangeMin: "LimitRange minimum", policy.RangeMax: "LimitRange maximum",
	policy.ContainerLimit: "limit of the container", policy.LimitOfPeak: "a limit above the highest usage", policy.ScalePoint: "range of the HPA's target", policy.APIServer: "rules of the API server",
	policy.JVMHeap: "heap of the JVM", policy.JVMShare: "range that a JVM misreads", policy.Node: "largest node", policy.Quota: "ResourceQuota",
}

// BoundTexts returns a text for each bound: "maxAllowed 4Gi ok", "minAllowed –", "LimitRange maximum 1Gi lowers it to 1Gi".
func (w *Why) BoundTexts() []string {
	var out []string
	said := map[policy.BoundKind]int{} // index of the text, plus one
	for _, b := range w.Bounds {
		text := boundText(b)
		switch i := said[b.Kind]; {
		case text == "":
		case i == 0:
			out = append(out, text)
			said[b.Kind] = len(out)
		case b.Changed(): // the same bound is looked at for the recommendation and for the pod
			out[i-1] = text
		}
	}
	return out
}

func boundText(b policy.Bound) string {
	if b.Kind == policy.NodeShare {
		return "" // nodeLine
	}
	name := cmp.Or(boundNames[b.Kind], string(b.Kind))
	from := ""
	if b.Amount > 0 {
		name += " " + wording.Figure(b.Resource, float64(b.Amount))
	}
	if b.Kind == policy.MemoryPerCPU || b.Kind == policy.MaxStep {
		from = "from " + wording.Figure(b.Resource, float64(b.Before)) + " "
	}
	switch {
	case b.After > b.Before:
		return fmt.Sprintf("%s raises it %sto %s", name, from, wording.Figure(b.Resource, float64(b.After)))
	case b.After < b.Before:
		return fmt.Sprintf("%s lowers it %sto %s", name, from, wording.Figure(b.Resource, float64(b.After)))
	case b.Amount > 0:
		return name + " ok"
	case b.Kind == policy.MinAllowed, b.Kind == policy.MaxAllowed:
		return name + " –"
	}
	return ""
}

// Spark returns the days as a row of bars, the highest of which is full. A day without samples is a dot.
func Spark(days []Day) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	highest := 0.0
	for _, d := range days {
		highest = max(highest, d.Peak)
	}
	var out strings.Builder
	for _, d := range days {
		switch {
		case !d.Known:
			out.WriteRune('·')
		case !(highest > 0):
			out.WriteRune(bars[0])
		default:
			i := int(math.Ceil(d.Peak/highest*float64(len(bars)))) - 1
			out.WriteRune(bars[min(max(i, 0), len(bars)-1)])
		}
	}
	return out.String()
}

// Text returns a counterfactual in a few words: "profile=cost 1180Mi", "maxAllowed.memory=1Gi 1Gi: OOM-killed again".
func (c *Counterfactual) Text() string {
	name := c.If.String()
	switch {
	case c.If.Key == IfProfile:
		name = "profile " + c.If.Value
	case c.If.Key == IfWithout && !c.Without.IsZero():
		name = "without " + day(c.Without)
	case c.If.Key == IfDecide:
		name = "decided anew"
	}
	if !c.Known {
		return name + ": unknown. " + c.Reason
	}
	text := name + " " + wording.Figure(c.Resource, float64(c.Size.requestOr(c.Target)))
	switch {
	case c.Killed == Yes:
		return text + ": OOM-killed again"
	case c.DaysAbove > 0:
		return fmt.Sprintf("%s: below the peak of %d of %s", text, c.DaysAbove, plural(float64(c.Days), "day"))
	}
	return text
}

// hours returns the hours of evidence: "Fri 21 Nov, 19–20 h".
func hours(e *derivation.Evidence) string {
	if e.From.IsZero() {
		return ""
	}
	from := e.From.UTC()
	return fmt.Sprintf("%s, %d–%d h", day(from), from.Hour(), from.Hour()+1)
}

// peak formats a stored peak. It is rounded up by at most 0.07 % (hourly.Level), so the middle of this range is shown.
func peak(res cluster.Resource, v float64) string { return wording.Figure(res, v*(1-0.00034)) }

func number(v float64) string { return wording.Trimmed(v, 1) }

// plural returns "1 day" or "7 days".
func plural(v float64, noun string) string {
	if v == 1 {
		return "1 " + noun
	}
	return number(v) + " " + noun + "s"
}

// percent has a decimal, and two digits below a tenth.
func percent(share float64) string {
	if math.Abs(share) > 0 && math.Abs(share) < 0.0005 {
		return strconv.FormatFloat(100*share, 'g', 2, 64) + " %"
	}
	return wording.Trimmed(100*share, 1) + " %"
}

func signed(share float64) string {
	if share < 0 {
		return "−" + percent(-share)
	}
	return "+" + percent(share)
}

func day(at time.Time) string { return at.UTC().Format("Mon 2 Jan") }

func moment(at time.Time) string { return at.UTC().Format("Mon 2 Jan 15:04") }

// hoursOfDay returns a range of hours of the day.
func hoursOfDay(first, count int) string {
	if count <= 0 || count >= 24 {
		return "all hours"
	}
	return fmt.Sprintf("%d hours from %d h UTC on", count, first)
}

// duration returns hours up to two days, days above.
func duration(d time.Duration) string {
	if d <= 48*time.Hour {
		return wording.Trimmed(d.Hours(), 1) + " h"
	}
	return wording.Trimmed(d.Hours()/24, 1) + " days"
}
