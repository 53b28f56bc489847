// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
)

// A Line is one line of the text of a Why, in three columns.
type Line struct {
	Figure string // "1000Mi", "× 0.935"
	What   string // "second highest of 7 days is 800Mi"
	Note   string // "one peak alone does not set it"; may be empty
}

// Title returns what is explained, such as "1276Mi OF MEMORY (was 1024Mi)".
func (w *Why) Title() string {
	name := strings.ToUpper(w.Resource.String())
	size := format(w.Resource, float64(w.Range.Target))
	switch {
	case w.Horizontal.IsLeft() && w.Present.HasRequest:
		return fmt.Sprintf("%s STAYS %s (would be %s)", name, format(w.Resource, float64(w.Present.Request)), size)
	case w.Horizontal.IsLeft():
		return fmt.Sprintf("%s IS NOT SET (would be %s)", name, size)
	}
	if w.Size.HasRequest {
		size = format(w.Resource, float64(w.Size.Request))
	}
	if w.Present.HasRequest && format(w.Resource, float64(w.Present.Request)) != size {
		return fmt.Sprintf("%s OF %s (was %s)", size, name, format(w.Resource, float64(w.Present.Request)))
	}
	return fmt.Sprintf("%s OF %s", size, name)
}

// Lines returns the text: the steps that changed the amount or that people ask for, what an HPA has to do with it, and the result with its
// bounds.
func (w *Why) Lines() []Line {
	var out []Line
	for i := range w.Steps {
		step := &w.Steps[i]
		if !w.shows(step) {
			continue
		}
		text, ok := stepTexts[step.Name]
		line := Line{Figure: figure(step, w.Resource), What: string(step.Name)}
		if ok {
			line.What, line.Note = text(step, w.Resource)
		}
		out = append(out, line)
	}
	lines := []Line{w.nodeLine(), w.result(), w.sizeLine(), w.horizontalLine(), w.runtimeLine(), w.limitLine(), w.boostLine()}
	for _, line := range lines {
		if line != (Line{}) {
			out = append(out, line)
		}
	}
	return out
}

// shows reports whether a step has a line.
func (w *Why) shows(s *recommend.Step) bool {
	switch s.Name {
	case recommend.StepUnit:
		return false
	case recommend.StepKept:
		return s.Changed && format(w.Resource, s.Evidence.Amount) != format(w.Resource, s.Result)
	default:
		visible := s.Operation != recommend.Multiply || math.Abs(s.Factor-1) >= 0.0005
		return s.Changed && visible || alwaysShown[s.Name]
	}
}

// alwaysShown are the steps that are shown even if they change nothing, because it answers a question that nothing happened.
var alwaysShown = map[recommend.StepName]bool{
	recommend.StepSecondDay: true, recommend.StepLongSecond: true, recommend.StepSpread: true, recommend.StepMargin: true,
}

// figure returns the first column of a step.
func figure(s *recommend.Step, res cluster.Resource) string {
	amount := format(res, s.Amount)
	switch s.Operation {
	case recommend.Value:
		return peak(res, s.Amount)
	case recommend.Add:
		return "+ " + amount
	case recommend.Multiply:
		return "× " + strconv.FormatFloat(s.Factor, 'f', 3, 64)
	case recommend.Max:
		return "≥ " + amount
	case recommend.Min:
		return "≤ " + amount
	case recommend.Keep, recommend.Ceil, recommend.Truncate, recommend.RoundUp, recommend.Humanize:
		return "→ " + format(res, s.Result)
	}
	return ""
}

// stepText returns the second and the third column of a step.
type stepText func(s *recommend.Step, res cluster.Resource) (what, note string)

// fixed returns the text of a step without figures.
func fixed(what, note string) stepText {
	return func(*recommend.Step, cluster.Resource) (string, string) { return what, note }
}

// stepTexts are the texts of all steps; a test compares them with the steps of all profiles.
var stepTexts = map[recommend.StepName]stepText{
	recommend.StepHighestDay: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "highest day of " + number(s.Evidence.Days), hours(s.Evidence)
	},
	recommend.StepSecondDay: func(s *recommend.Step, res cluster.Resource) (string, string) {
		what := "second highest is " + peak(res, s.Evidence.Amount)
		switch {
		case s.Evidence.Days < 2:
			return "no second day yet", ""
		case !s.Changed:
			return what, "it came twice"
		}
		return what, "one peak alone does not set it"
	},
	recommend.StepLongSecond: func(s *recommend.Step, res cluster.Resource) (string, string) {
		what := fmt.Sprintf("second of %s days is %s", number(s.Evidence.Days), peak(res, s.Evidence.Amount))
		switch {
		case s.Evidence.Days < 2:
			return "no second day yet", ""
		case !s.Changed:
			return what, "it came twice"
		case s.Factor > 1:
			return what, "the week before was higher"
		}
		return what, "one peak alone does not set it"
	},
	recommend.StepSpread: func(s *recommend.Step, res cluster.Resource) (string, string) {
		what := fmt.Sprintf("%s of hours below %s", percent(s.Evidence.Share), peak(res, s.Evidence.Amount))
		if s.Factor < 1.0005 {
			return what, "steady: no extra margin"
		}
		return "spiky: " + what, "so the margin is larger"
	},
	recommend.StepWindow: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return fmt.Sprintf("looks back %s days", number(s.Evidence.Days)), "cost least for this container"
	},
	recommend.StepRecurring: fixed("weekly peak, seen twice", ""),
	recommend.StepMargin: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		aim := fmt.Sprintf("for %s above in 100", plural(100*s.Evidence.Budget, "day"))
		if s.Evidence.Learnt != 0 {
			return fmt.Sprintf("margin: %s, and %s learnt", signed(s.Evidence.Margin), signed(s.Evidence.Learnt)), aim
		}
		return "margin of the profile", aim
	},
	recommend.StepToday: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "peak of 24 hours, and " + percent(s.Evidence.Margin), hours(s.Evidence)
	},
	recommend.StepGrowth: func(s *recommend.Step, res cluster.Resource) (string, string) {
		return fmt.Sprintf("grows %s a day since %s", format(res, s.Evidence.Amount), day(s.Evidence.From)), "with room for the next days"
	},
	recommend.StepRaised: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "raised: a kill, or usage above it", "until " + moment(s.Evidence.Until)
	},
	recommend.StepMinimum: fixed("minimum of the profile", ""),
	recommend.StepLeakBound: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "bound while a leak is suspected", "since " + day(s.Evidence.From)
	},
	recommend.StepMaximum: fixed("maximum of any amount", ""),
	recommend.StepLowHours: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "highest in the low hours", hoursOfDay(s.Evidence.FirstHour, s.Evidence.Hours)
	},
	recommend.StepUsual: fixed("not above the usual size", ""),
	recommend.StepKept:  kept,
	recommend.StepPeak: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return fmt.Sprintf("peak of the last %d hours", s.Evidence.Hours), hours(s.Evidence)
	},
	recommend.StepFactor: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		switch s.Evidence.Origin {
		case recommend.FromLabel:
			return "criticality of the pods", "label " + recommend.CriticalityLabel
		case recommend.FromPriorityClass:
			return "criticality of the pods", "PriorityClass " + s.Evidence.Class
		case recommend.FromProfile:
		}
		return "factor of the profile", ""
	},
	recommend.StepSize:     fixed("by size", "small ones get relatively more"),
	recommend.StepHeadroom: fixed("fixed headroom of the profile", ""),
	recommend.StepLearnt: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "learnt from usage above the request", fmt.Sprintf("for %s of usage above it", percent(s.Evidence.Budget))
	},
	recommend.StepRecent: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		what := "peak of " + plural(float64(s.Evidence.Hours), "hour")
		switch {
		case s.Evidence.Margin > 0:
			what += ", and " + percent(s.Evidence.Margin)
		case s.Evidence.Margin < 0:
			what = percent(1+s.Evidence.Margin) + " of the " + what
		}
		return what, hours(s.Evidence)
	},
	recommend.StepPercentile: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		note := "half-life " + duration(s.Evidence.HalfLife)
		if s.Evidence.Samples > 0 {
			note = plural(float64(s.Evidence.Samples), "sample") + " since " + day(s.Evidence.From)
		}
		return percent(s.Evidence.Share) + " of the samples are below", note
	},
	recommend.StepSafetyMargin: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "safety margin of " + percent(s.Evidence.Margin), ""
	},
	recommend.StepConfidence: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return fmt.Sprintf("%s days of history", number(s.Evidence.Days)), "little history widens the range"
	},
	recommend.StepFloor:  fixed("minimum for each container", ""),
	recommend.StepBand:   fixed("range around the target", "pods within it are not changed"),
	recommend.StepTarget: fixed("the target", ""),
	recommend.StepBusy: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return percent(s.Evidence.Share) + " of busy-hour samples are below", hoursOfDay(s.Evidence.FirstHour, s.Evidence.Hours)
	},
	recommend.StepBusyWindow: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "at most the peak of " + plural(float64(s.Evidence.Hours), "hour"), "usage has long idle periods"
	},
	recommend.StepStartup:     fixed("samples just after container starts", "few containers run longer"),
	recommend.StepLeastMargin: fixed("minimum margin of small containers", ""),
	recommend.StepMost:        fixed("most CPU of the profile", ""),
	recommend.StepRound:       fixed("rounded, as the recommender is configured", ""),
	recommend.StepModel: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "bound of the model that cost least", "half-life " + duration(s.Evidence.HalfLife)
	},
	recommend.StepModelMargin: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "margin of that model: " + percent(s.Evidence.Margin), ""
	},
	recommend.StepWindowMax: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return fmt.Sprintf("highest of %s days", number(s.Evidence.Days)), hours(s.Evidence)
	},
	recommend.StepSeason: func(s *recommend.Step, _ cluster.Resource) (string, string) {
		return "highest around this hour before", fmt.Sprintf("usage repeats after %s", plural(s.Evidence.Days, "day"))
	},
	recommend.StepHourBefore: fixed("the same an hour before", ""),
}

// kept is the text of a request that was decided before.
func kept(s *recommend.Step, res cluster.Resource) (what, note string) {
	e := &s.Evidence
	what = "kept since " + moment(e.From)
	now := format(res, e.Amount)
	switch e.Kept {
	case recommend.KeptSmall:
		note = fmt.Sprintf("a new %s is within %s", now, percent(e.Share))
	case recommend.KeptWaiting:
		note = fmt.Sprintf("%s from %s", now, moment(e.Until))
	case recommend.KeptPending:
		note = fmt.Sprintf("%s after %s", now, moment(e.Until))
	}
	return what, note
}

// boundNames are the names of bounds in texts.
var boundNames = map[policy.BoundKind]string{
	policy.WholeCores: "whole cores", policy.NodeShare: "share of the smallest node for a pod", policy.MinAllowed: "minAllowed", policy.MaxAllowed: "maxAllowed", policy.GlobalMax: "maximum of the recommender",
	policy.PodRange: "LimitRange of pods", policy.RangeMin: "LimitRange minimum", policy.RangeMax: "LimitRange maximum",
	policy.ContainerLimit: "limit of the container", policy.ScalePoint: "range of the HPA's target", policy.APIServer: "rules of the API server",
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
	name := boundNames[b.Kind]
	if name == "" {
		name = string(b.Kind)
	}
	if b.Amount > 0 {
		name += " " + format(b.Resource, float64(b.Amount))
	}
	switch {
	case b.After > b.Before:
		return fmt.Sprintf("%s raises it to %s", name, format(b.Resource, float64(b.After)))
	case b.After < b.Before:
		return fmt.Sprintf("%s lowers it to %s", name, format(b.Resource, float64(b.After)))
	case b.Amount > 0:
		return name + " ok"
	case b.Kind == policy.MinAllowed, b.Kind == policy.MaxAllowed:
		return name + " –"
	}
	return ""
}

// nodeLine is the line about the share of a node that lowers the amount.
func (w *Why) nodeLine() Line {
	for _, b := range w.Bounds {
		if b.Kind == policy.NodeShare && b.Changed() {
			return Line{
				Figure: "→ " + format(w.Resource, float64(b.After)),
				What:   fmt.Sprintf("a pod may have %s, in proportion", format(w.Resource, float64(b.Amount))), Note: w.Node.String(),
			}
		}
	}
	return Line{}
}

// result is the line with the size and its bounds.
func (w *Why) result() Line {
	v := w.Range.Target
	if w.Size.HasRequest {
		v = w.Size.Request
	}
	line := Line{Figure: "= " + format(w.Resource, float64(v))}
	if texts := w.BoundTexts(); len(texts) > 0 {
		line.What = "bounds: " + strings.Join(texts, ", ")
	}
	return line
}

// sizeLine is the line about the limit, a recommendation in the status that differs, and the size outside of low hours.
func (w *Why) sizeLine() Line {
	var texts []string
	switch limit := format(w.Resource, float64(w.Size.Limit)); {
	case !w.Size.HasRequest:
	case !w.Size.HasLimit:
		texts = append(texts, "no limit")
	case w.LimitsKept:
		texts = append(texts, fmt.Sprintf("limit stays %s, by the policy", limit))
	case w.Present.HasLimit && w.Present.Limit != w.Size.Limit:
		texts = append(texts, fmt.Sprintf("limit %s → %s, in proportion", format(w.Resource, float64(w.Present.Limit)), limit))
	default:
		texts = append(texts, "limit "+limit)
	}
	if w.HasPublished && w.Published != w.Range.Target {
		texts = append(texts, fmt.Sprintf("the VPA's status has %s", format(w.Resource, float64(w.Published))))
	}
	if w.Usual > 0 {
		texts = append(texts, fmt.Sprintf("outside of the low hours: %s", format(w.Resource, float64(w.Usual))))
	}
	if len(texts) == 0 {
		return Line{}
	}
	return Line{What: strings.Join(texts, "; ")}
}

// horizontalLine is the line about an HPA that scales by the request.
func (w *Why) horizontalLine() Line {
	if w.Horizontal == policy.NotScaled || w.Metric.HPA == nil || w.Metric.Metric == nil {
		return Line{}
	}
	what := fmt.Sprintf("HPA %s scales at %d %% of the request", w.Metric.HPA.Name, w.Metric.Metric.Percent)
	if w.Present.HasRequest {
		what += fmt.Sprintf(": %s a pod", format(w.Resource, float64(w.Present.Request)*float64(w.Metric.Metric.Percent)/100))
	}
	note := "another request moves the scale point. To change both, annotate the VPA with podfit.dev/hpa=preserve-scale-point"
	switch w.Horizontal {
	case policy.ScalePointPreserved:
		note = "podfit changes its target with the request"
	case policy.SeveralMetrics:
		note = "several metrics depend on the request"
	case policy.ScalePointMissing:
		note = "podfit has not recorded its scale point yet"
	case policy.ScalePointStopped:
		note = "others overwrite its target"
	case policy.TargetNotWritten:
		note = "podfit could not write its target"
	case policy.NotScaled, policy.LeftToHPA:
	}
	return Line{What: what + "; " + note}
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
	request := c.Target
	if c.Size.HasRequest {
		request = c.Size.Request
	}
	text := name + " " + format(c.Resource, float64(request))
	switch {
	case c.Killed == Yes:
		return text + ": OOM-killed again"
	case c.DaysAbove > 0:
		return fmt.Sprintf("%s: below the peak of %d of %s", text, c.DaysAbove, plural(float64(c.Days), "day"))
	}
	return text
}

// format returns an amount for a person: CPU in millicores or cores, memory in MiB with three digits at least, GiB from 10 GiB on.
func format(res cluster.Resource, v float64) string {
	const mi, gi = 1 << 20, 1 << 30
	if math.IsNaN(v) || v < 0 {
		v = 0
	}
	v = min(v, 1e15)
	switch {
	case res == cluster.CPU && v < 10 && v != math.Trunc(v):
		return trimmed(v, 1) + "m"
	case res == cluster.CPU && v < 10_000:
		return cluster.Format(res, int64(math.Round(v)))
	case res == cluster.CPU && v >= 1e6:
		return trimmed(v/1000, 0)
	case res == cluster.CPU:
		return trimmed(v/1000, 1)
	case v >= 1000*gi:
		return trimmed(v/(1<<40), 1) + "Ti"
	case v >= 10*gi:
		return trimmed(v/gi, 1) + "Gi"
	case v == gi || v == 2*gi || v == 4*gi || v == 8*gi:
		return trimmed(v/gi, 0) + "Gi"
	case v >= 100*mi:
		return trimmed(v/mi, 0) + "Mi"
	case v >= mi:
		return trimmed(v/mi, 1) + "Mi"
	case v >= 1<<10:
		return trimmed(v/(1<<10), 0) + "Ki"
	}
	return trimmed(v, 0)
}

// peak formats a stored peak. It is rounded up by at most 0.07 % (hourly.Level), so the middle of this range is shown.
func peak(res cluster.Resource, v float64) string { return format(res, v*(1-0.00034)) }

func trimmed(v float64, decimals int) string {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func number(v float64) string { return trimmed(v, 1) }

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
	return trimmed(100*share, 1) + " %"
}

func signed(share float64) string {
	if share < 0 {
		return "−" + percent(-share)
	}
	return "+" + percent(share)
}

// day returns the date of a time, UTC.
func day(at time.Time) string { return at.UTC().Format("Mon 2 Jan") }

// moment returns a time to the minute, UTC.
func moment(at time.Time) string { return at.UTC().Format("Mon 2 Jan 15:04") }

// hours returns the hours of evidence: "Fri 21 Nov, 19–20 h".
func hours(e recommend.Evidence) string {
	if e.From.IsZero() {
		return ""
	}
	from := e.From.UTC()
	return fmt.Sprintf("%s, %d–%d h", day(from), from.Hour(), from.Hour()+1)
}

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
		return trimmed(d.Hours(), 1) + " h"
	}
	return trimmed(d.Hours()/24, 1) + " days"
}
