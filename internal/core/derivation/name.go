// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package derivation

import (
	"time"

	"podfit.dev/podfit/internal/core/hourly"
)

// StepName is the meaning of a step. Machines read it; package explanation has the texts.
type StepName string

// The names of steps, with what their Evidence contains.
const (
	StepHighestDay   StepName = "highest-day"     // memory: the highest peak of the last Days days; From, Until: its hour
	StepSecondDay    StepName = "second-day"      // between the highest and the second highest peak of these days; Amount, From, Until: this peak
	StepLongSecond   StepName = "long-second"     // the same, over the longer period of Days days; Amount, From, Until
	StepSpread       StepName = "spread"          // spiky usage; Amount: the usage below which a Share of the hours of a week stays
	StepWindow       StepName = "window"          // margin of a look-back window that was chosen for this container; Days
	StepRecurring    StepName = "recurring"       // a peak that was reached on the same day of two weeks in a row
	StepMargin       StepName = "margin"          // Margin of the profile and Learnt part, Budget: days above per day that the margin aims at
	StepToday        StepName = "today"           // not below the peak of the last 24 hours and a Margin
	StepGrowth       StepName = "growth"          // steady growth of memory; Amount: bytes per day; From: its start
	StepRaised       StepName = "raised"          // usage above the request or an OOM kill raised the request until Until
	StepMinimum      StepName = "minimum"         // of the profile
	StepLeakBound    StepName = "leak-bound"      // the bound of the profile while a leak is suspected; From
	StepMaximum      StepName = "maximum"         // of any amount
	StepLowHours     StepName = "low-hours"       // the level of the hours with low usage; FirstHour, Hours (UTC)
	StepUsual        StepName = "usual"           // the usual level, which limits the level of low hours
	StepKept         StepName = "kept"            // unchanged since From; Amount: what a new decision gives; Kept, Until, Share: why it is kept
	StepPeak         StepName = "peak"            // CPU: the peak of the last Hours hours; From, Until: its hour
	StepFactor       StepName = "factor"          // of the profile, or as Origin and Class say
	StepSize         StepName = "size"            // smaller containers get relatively more
	StepHeadroom     StepName = "headroom"        // a fixed amount of the profile
	StepLearnt       StepName = "learnt"          // factor learnt from usage above the request; Budget: share of usage that it aims at
	StepRecent       StepName = "recent"          // not below the peak of the last Hours hours and a Margin
	StepPercentile   StepName = "percentile"      // of the samples: Share, Samples, From and Until of the samples, HalfLife
	StepRuns         StepName = "runs"            // of the maxima of the last runs of a Job or CronJob: Share, Samples is the number of runs
	StepSafetyMargin StepName = "safety-margin"   // a Margin
	StepFloor        StepName = "floor"           // the minimum per container
	StepUnit         StepName = "unit"            // a conversion or rounding to whole units
	StepBusy         StepName = "busy-percentile" // of the samples in the busy hours: Share, HalfLife, FirstHour, Hours
	StepBusyWindow   StepName = "busy-window"     // not above the peak of the last Hours hours; From, Until: its hour
	StepStartup      StepName = "startup"         // of the samples of containers that have just started, as few have run longer
	StepLeastMargin  StepName = "least-margin"    // margin of the profile, of a small container
	StepMost         StepName = "most"            // the highest CPU of the profile
	StepRound        StepName = "round"           // as the configuration of the recommender requires
	StepModel        StepName = "model"           // the bound of the cheapest model; HalfLife of the model
	StepModelMargin  StepName = "model-margin"    // Margin of the model
	StepWindowMax    StepName = "window-max"      // the maximum of the last Days days; From, Until: its hour
	StepReserve      StepName = "reserve"         // a Share of each node stays free; Amount: of the smallest one
	StepOverReserve  StepName = "over-reserve"    // the maximum of the last Days days minus Amount, what the container may use of what stays free
)

// Evidence is what a step is based on. The StepName determines which fields are set; the others are zero.
type Evidence struct {
	From, Until time.Time
	Amount      float64 // millicores or bytes
	Share       float64
	Days        float64
	Hours       int
	FirstHour   int // of the day, UTC
	Samples     int
	Margin      float64 // as a factor: 0.15 is 15 %
	Learnt      float64 // as a factor
	Budget      float64
	HalfLife    time.Duration
	Kept        KeptReason
	Origin      FactorOrigin
	Class       string // the PriorityClass, of FromPriorityClass
}

// KeptReason is why a decided request is kept although a new decision gives another amount.
type KeptReason string

// The reasons.
const (
	KeptSmall   KeptReason = "small"   // a change needs a difference of at least Share
	KeptWaiting KeptReason = "waiting" // requests shrink only at Until
	KeptPending KeptReason = "pending" // the next decision, at the next sample after Until, changes it
)

// A FactorOrigin is where a factor comes from. Machines read it; the zero value is the profile.
type FactorOrigin string

// The origins, the strongest last.
const (
	FromProfile       FactorOrigin = ""
	FromPriorityClass FactorOrigin = "priority-class"
	FromLabel         FactorOrigin = "label"
)

// HourOf sets the newest hour in [from, before) whose peak has a level.
func (e *Evidence) HourOf(peaks *hourly.Peaks, level hourly.Level, from, before int) {
	if level == 0 {
		return
	}
	for h := min(before, peaks.Newest()+1) - 1; h >= max(from, peaks.Newest()-peaks.Room()); h-- {
		if peaks.At(h) == level {
			e.From = time.Unix(int64(h)*3600, 0).UTC()
			e.Until = time.Unix(int64(h)*3600+3600, 0).UTC()
			return
		}
	}
}
