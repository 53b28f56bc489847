// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides when the pods of a workload may be changed: freezes, change windows, the limit on the amount of changes in an
// hour, and canaries. It does not decide which pods change, or how many at a time: package plan does.
//
// All functions are pure. Package plan calls them, and keeps their results from one pass to the next in its ledger.
package rollout

import (
	"iter"
	"math/bits"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// AnnotationWindow is the annotation of an autoscaler or a namespace with the times in which running pods may be changed.
const AnnotationWindow = "podfit.dev/change-window"

// MaxWindowDuration is the maximum duration of a change window.
const MaxWindowDuration = 31 * 24 * time.Hour

// horizon is how many days ahead the next start of a window is searched. February 29 occurs every 4 years, or every 8 years around 2100.
const horizon = 8*366 + 1

// A Closed explains why no change window is open.
type Closed struct {
	Until   time.Time // start of the next window; zero if there is none
	Problem string    // the error in the annotation, "" if there is none
}

// Outside reports whether the windows of an autoscaler do not allow changes now. Windows of the autoscaler replace those of the namespace. An
// invalid annotation allows no changes.
func Outside(now time.Time, r Rules) (Closed, bool) {
	rules := &r.Namespace
	if r.Autoscaler.Rules.HasWindows() {
		rules = &r.Autoscaler.Rules
	}
	switch {
	case rules.WindowProblem != "":
		return Closed{Problem: rules.WindowProblem}, true
	case len(rules.Windows) == 0:
		return Closed{}, false
	}
	var next time.Time
	for i := range rules.Windows {
		w := &rules.Windows[i]
		start, found := Next(now.Add(-w.Duration), w)
		if found && !start.After(now) {
			return Closed{}, false
		}
		next = cluster.Earliest(next, start)
	}
	return Closed{Until: next}, true
}

// Windows is the windows of the autoscalers in a pass. It is not safe for concurrent use.
type Windows struct {
	Now   time.Time
	known map[cluster.Key]window // by autoscaler; a search takes up to milliseconds
}

type window struct {
	closed  Closed
	outside bool
}

// Outside is the function Outside, which it calls once for each autoscaler.
func (w *Windows) Outside(r Rules) (Closed, bool) {
	of, known := w.known[r.Autoscaler.Key]
	if !known {
		of.closed, of.outside = Outside(w.Now, r)
		cluster.Put(&w.known, r.Autoscaler.Key, of)
	}
	return of.closed, of.outside
}

// Next returns the first start of a window after now, and false if there is none. A start in the hour that a time zone skips is at the end of the gap.
// A start in an hour that a time zone repeats is in its first pass. The duration of a window is elapsed time.
func Next(now time.Time, w *cluster.ChangeWindow) (time.Time, bool) {
	year, month, day := now.In(w.Zone).Date()
	date := time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
	for end := date.AddDate(0, 0, horizon); date.Before(end); date = date.AddDate(0, 0, 1) {
		if !has(w.Months, int(date.Month())) {
			date = time.Date(date.Year(), date.Month()+1, 0, 12, 0, 0, 0, time.UTC) // the last day of the month
			continue
		}
		if !startsOn(w, date) {
			continue
		}
		for at := range startsOf(w, date) {
			if at.After(now) {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// startsOn reports whether the schedule of a window fires on a date.
func startsOn(w *cluster.ChangeWindow, date time.Time) bool {
	if !has(w.Months, int(date.Month())) {
		return false
	}
	day := has(w.Days, date.Day())
	weekday := has(w.Weekdays, int(date.Weekday()))
	if w.AnyDay || w.AnyWeekday {
		return day && weekday
	}
	return day || weekday
}

func has(set uint64, n int) bool { return set&(1<<uint(n)) != 0 }

// startsOf yields the starts on a date, in the order of the wall clock.
func startsOf(w *cluster.ChangeWindow, date time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for hours := w.Hours; hours != 0; hours &= hours - 1 {
			for minutes := w.Minutes; minutes != 0; minutes &= minutes - 1 {
				if !yield(instant(w.Zone, date, bits.TrailingZeros64(hours), bits.TrailingZeros64(minutes))) {
					return
				}
			}
		}
	}
}

// instant returns when a wall clock in a time zone shows a time: the first time if it shows it twice, and the end of the gap if it skips
// it.
func instant(zone *time.Location, date time.Time, hour, minute int) time.Time {
	at := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, zone)
	begin, end := at.ZoneBounds()
	wall := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, time.UTC)
	shown := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
	switch {
	case shown.After(wall): // time.Date chose the offset before the gap
		return begin
	case shown.Before(wall): // time.Date chose the offset after the gap
		return end
	case begin.IsZero():
		return at
	}
	_, offset := at.Zone()
	_, before := begin.Add(-time.Second).Zone()
	first := at.Add(time.Duration(offset-before) * time.Second)
	if first.Before(begin) && first.Before(at) {
		return first
	}
	return at
}

// AnnotationFreeze is the annotation of an autoscaler or a namespace that stops changes of running pods.
const AnnotationFreeze = "podfit.dev/freeze"

// Rules are all rules that apply to an autoscaler.
type Rules struct {
	Autoscaler *cluster.Autoscaler
	Namespace  cluster.ChangeRules // from the annotations of the autoscaler's namespace
	Cluster    cluster.Freeze
}

// Frozen returns which switch stops changes of the pods of an autoscaler, and false if none does. The switch with the widest effect is
// named first, because removing another one has no effect.
func Frozen(r Rules) (by string, frozen bool) {
	switch {
	case r.Cluster.On && r.Cluster.Reason != "":
		return "ConfigMap " + r.Cluster.By.String() + " (" + r.Cluster.Reason + ")", true
	case r.Cluster.On:
		return "ConfigMap " + r.Cluster.By.String(), true
	case r.Namespace.Frozen:
		return "annotation " + AnnotationFreeze + " of namespace " + r.Autoscaler.Namespace, true
	case r.Autoscaler.Rules.Frozen:
		return "annotation " + AnnotationFreeze + " of VPA " + r.Autoscaler.Key.String(), true
	}
	return "", false
}
