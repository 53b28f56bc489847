// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/wording"
)

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
