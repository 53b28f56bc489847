// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

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

// Days returns the days that the samples cover, rounded.
func (e *Evidence) Days() int {
	if e.From.IsZero() {
		return 0
	}
	return int(e.To.Sub(e.From).Hours()/24 + 0.5)
}

// Share returns the share of hours between the first and the last sample that have samples.
func (e *Evidence) Share() float64 {
	hours := int(e.To.Unix()/3600-e.From.Unix()/3600) + 1
	if e.From.IsZero() || hours <= 0 {
		return 0
	}
	return min(float64(e.Hours)/float64(hours), 1)
}
