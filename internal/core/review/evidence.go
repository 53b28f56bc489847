// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
)

// Evidence is what a recommendation is based on, and what was observed of the present requests.
type Evidence struct {
	From, To    time.Time // of the samples; zero if there are none
	Hours       int       // hours with samples
	Samples     int
	Provisional bool   // read for some minutes only
	Lack        string // why there is no recommendation, if the source of usage knows the cause

	Kills      int       // OOM kills in the window
	KilledFrom time.Time // the first of these
	KilledLast time.Time // the last of these

	DayPeaks [PeakDays]int64 // highest memory usage of a pod in each of the last days, newest first, in bytes; 0: unknown

	Throttled      float64 // mean share of CPU periods in which the container was throttled
	ThrottledKnown bool

	Used cluster.Resources // mean usage of one pod; a resource that was not measured is not set
}

// PeakDays is the number of days whose memory peaks count for the risk.
const PeakDays = 7

// Peak returns the highest memory usage of the last days.
func (e *Evidence) Peak() int64 { return slices.Max(e.DayPeaks[:]) }

// Kill adds OOM kills of one pod, of which the last was at a time.
func (e *Evidence) Kill(at time.Time, n int) {
	e.Kills += n
	e.KilledFrom = cluster.Earliest(e.KilledFrom, at)
	e.KilledLast = cluster.Latest(e.KilledLast, at)
}

// Confidence describes how much usage a recommendation is based on: days covered × share of the samples present.
type Confidence uint8

// The levels of confidence. With None, no recommendation is given.
const (
	None Confidence = iota
	Low
	Medium
	High
)

// The smallest number of hours with samples for each level. Profiles look back 7 days for memory, so a week is the least for High.
const (
	lowHours    = 6
	mediumHours = 2 * 24
	highHours   = 7*24 - 12 // a week with a gap of half a day
)

// String returns the name of the level.
func (c Confidence) String() string { return [...]string{"none", "low", "medium", "high"}[c] }

// Confidence returns the confidence in a recommendation from this evidence. Hours with samples are days covered × share of the samples
// present × 24.
func (e *Evidence) Confidence() Confidence {
	switch {
	case e.Lack != "":
		return None
	case e.Provisional && e.Samples > 1:
		return Low
	case e.Hours >= highHours:
		return High
	case e.Hours >= mediumHours:
		return Medium
	case e.Hours >= lowHours:
		return Low
	}
	return None
}

// Lacking returns why this evidence is too little for a recommendation and for the statement that there is no risk; "" if it is enough. It is
// the one rule for what is too young, in podfit recommend, in podfit explain and on the web page.
func (e *Evidence) Lacking() string {
	switch span := e.To.Sub(e.From); {
	case e.Lack != "":
		return e.Lack
	case e.Confidence() > None:
		return ""
	case e.Samples == 0 && e.Hours == 0:
		return "no usage in the window"
	case e.Hours == 0 && span >= 2*time.Minute && span < time.Hour:
		return fmt.Sprintf("not enough usage: %d minutes, %d hours are needed", span/time.Minute, lowHours)
	case e.Hours == 0:
		return fmt.Sprintf("not enough usage: less than 1 hour, %d are needed", lowHours)
	}
	return fmt.Sprintf("not enough usage: %s, %d are needed", wording.Count(e.Hours, "hour"), lowHours)
}

// Young reports whether usage is known, but of too few hours to rely on a recommendation: it is shown with its age, but is no advice.
func (e *Evidence) Young() bool { return e.Lack == "" && e.Samples > 0 && e.Hours < lowHours }

// Age returns how much usage is known: at most the hours with samples.
func (e *Evidence) Age() time.Duration {
	return max(0, min(e.To.Sub(e.From), max(time.Duration(e.Hours)*time.Hour, time.Hour-time.Second)))
}

// Basis returns what a young recommendation is from: "from 12 min of usage". It is "" for others.
func (r *Row) Basis() string {
	age := r.Evidence.Age()
	switch {
	case r.Young.Has.Empty():
		return ""
	case age == 0:
		return "from one sample of usage"
	case age > 2*time.Hour:
		age = age.Round(time.Hour) // as Lacking counts
	}
	return "from " + wording.Elapsed(age, "d") + " of usage"
}

// Days returns the days that the samples cover, rounded.
func (e *Evidence) Days() int {
	if e.From.IsZero() {
		return 0
	}
	return max(0, int(e.To.Sub(e.From).Hours()/24+0.5)) // the clock may have gone back
}

// Share returns the share of hours between the first and the last sample that have samples.
func (e *Evidence) Share() float64 {
	hours := int(e.To.Unix()/3600-e.From.Unix()/3600) + 1
	if e.From.IsZero() || hours <= 0 {
		return 0
	}
	return min(float64(e.Hours)/float64(hours), 1)
}

// unknownHours is the maximum number of hours of usage that a recommendation counts for if the history behind it is not stored, so that
// its confidence is low.
const unknownHours = 24

// UnreadUsage is the Lack of evidence whose stored history cannot be read.
const UnreadUsage = "its stored usage could not be read"

// StoredEvidence returns what the stored history of a container shows. The VPA may be nil, and so may the history.
func StoredEvidence(a *cluster.Autoscaler, container string, history *usage.ContainerHistory, now time.Time) Evidence {
	const samplesPerHour = 30 // the number of samples of one container in an hour: a recommender reads one in a minute. Half of them is enough
	switch {
	case a == nil:
		return Evidence{Lack: "no VPA: the cluster stores no usage of it; use --source prometheus or metrics"}
	case history == nil:
		return Evidence{Lack: "the cluster stores no usage of it"}
	}
	var e Evidence
	for _, res := range cluster.All {
		seen := history.Seen(res)
		if seen.Count == 0 {
			continue
		}
		e.From = cluster.Earliest(e.From, seen.First)
		e.To = cluster.Latest(e.To, seen.Last)
		e.Samples = max(e.Samples, seen.Count)
	}
	if e.Samples == 0 && a.AdviceFor(container) != nil { // the recommender reads history from Prometheus, and stores none
		e.From, e.To, e.Hours = a.Created, now, max(0, min(int(now.Sub(a.Created).Hours()), unknownHours))
		return e
	}
	e.Hours = max(0, min(int(e.To.Sub(e.From).Hours()+0.5), e.Samples/samplesPerHour))
	if peaks := recommend.PeaksOf(history, cluster.Memory); peaks != nil {
		hour := int(now.Unix() / 3600)
		for d := range PeakDays {
			e.DayPeaks[d] = int64(peaks.Max(hour+1-24*(d+1), hour+1-24*d).Amount())
		}
	}
	if at, _, _ := history.LastOOM(); !at.IsZero() {
		e.Kill(at, 1)
	}
	e.AddRuns(history, now)
	return e
}

// AddRuns counts runs of a container that runs to its end instead of hours, which short runs hardly have: those that it can be sized by as enough for
// Low, and as many as are kept as enough for Medium. The history may be nil.
func (e *Evidence) AddRuns(history *usage.ContainerHistory, now time.Time) {
	if history == nil {
		return
	}
	measured := runs.Most
	for _, res := range cluster.All {
		_, n := history.Runs().Percentile(res, 1, now)
		measured = min(measured, n)
	}
	switch {
	case measured == runs.Most:
		e.Hours = max(e.Hours, mediumHours)
	case measured >= runs.Least:
		e.Hours = max(e.Hours, lowHours)
	}
}

// AddStatusKills adds the OOM kills since a time that the status of live pods contains, unless the source of usage knows more.
func (e *Evidence) AddStatusKills(pods []*cluster.Pod, container string, since time.Time) {
	var seen Evidence
	for _, p := range pods {
		seen.SeeKill(p.Container(container), since)
	}
	e.LearnKills(&seen, since)
}

// SeeKill adds the OOM kill in the status of a container, if there was one since a time. The container may be nil.
func (e *Evidence) SeeKill(c *cluster.Container, since time.Time) {
	if c != nil && c.Exit != nil && c.Exit.OOM && c.Exit.Finished.After(since) {
		e.Kill(c.Exit.Finished, max(int(c.Exit.Kills), 1))
	}
}

// LearnKills replaces the OOM kills by those that were seen in the status of pods, unless the source of usage knows more of them.
func (e *Evidence) LearnKills(seen *Evidence, since time.Time) {
	if seen.Kills >= e.Kills || e.KilledLast.Before(since) {
		e.Kills = seen.Kills
		e.KilledFrom = seen.KilledFrom
		e.KilledLast = seen.KilledLast
	}
}

// KillWindow is the time in which OOM kills count, if no other is asked for.
const KillWindow = 14 * 24 * time.Hour
