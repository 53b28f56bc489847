// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package derivation

import (
	"math"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
)

func last(s Steps) float64 { return s[len(s)-1].Result }

func TestRecorder_eachOperation_resultIsThatOfTheSteps(t *testing.T) {
	compute := func(to *Recorder) int64 {
		level := to.Level(StepHighestDay, float64(hourly.LevelOf(2)))
		level = to.RaiseLevel(StepToday, to.Shift(StepMargin, level, hourly.Step), float64(hourly.LevelOf(3)))
		v := to.Multiply(StepFactor, to.Add(StepHeadroom, hourly.Amount(level), 1), 1.5)
		v = to.Lower(StepMaximum, to.Raise(StepMinimum, v, 0.5), 7)
		v = to.Value(StepPeak, v)
		to.Keep(StepKept, v, 6.5)
		whole := to.Ceil(to.ToMillicores(6.5, 1000))
		whole = to.LowerWhole(StepMost, to.RaiseWhole(StepFloor, to.AddWhole(StepSafetyMargin, whole, 3), 10), 6400)
		return to.Humanize(to.RoundUp(to.Truncate(to.Multiply(StepFactor, float64(to.Whole(StepRuns, whole)), 0.95)), 7))
	}
	var record Record
	got := compute(record.Of(cluster.CPU).Begin(1000))
	if want := compute(nil); got != want || last(record.CPU) != float64(want) {
		t.Errorf("the result is %d and that of the steps is %g, want %d", got, last(record.CPU), want)
	}
	record.Only(cluster.Of(cluster.Memory))
	if record.CPU != nil {
		t.Error("steps of a resource that is not controlled are kept")
	}
}

func TestSteps_beginAndContinue_replaceAndAppend(t *testing.T) {
	var record Record
	steps := record.Of(cluster.Memory)
	if steps.Continue() != nil {
		t.Error("an amount without steps is continued")
	}
	for i := range 3 {
		steps.Begin(1).Whole(StepRuns, int64(i))
		steps.Continue().AddWhole(StepFloor, int64(i), 10)
	}
	if len(record.Memory) != 2 || last(record.Memory) != 12 || record.CPU != nil {
		t.Errorf("%+v, want two steps of memory to 12", record)
	}
	var none *Record
	if none.Of(cluster.CPU).Begin(1) != nil || none.Of(cluster.Memory).Continue() != nil {
		t.Error("steps are recorded without a record")
	}
}

func TestEvidence_peak_hasItsHour(t *testing.T) {
	peaks := hourly.NewPeaks(48)
	for hour := range 48 {
		peaks.Observe(1000+hour, float64(hour%24))
	}
	var steps Steps
	to := steps.Begin(1)
	to.Value(StepPeak, 23)
	to.PeakOf(&peaks, 1000, 1048)
	to.Value(StepHighestDay, 20)
	to.Peaks = &peaks
	to.Days = []Day{{1024, 1048}, {1000, 1024}}
	to.HourOfDay(to.Evidence(), 1, hourly.LevelOf(20))
	to.HourOfDay(to.Evidence(), 2, hourly.LevelOf(3)) // there is no such day
	if e := to.EvidenceBefore(1); e.Hours != 48 || e.From.Unix() != 1047*3600 {
		t.Errorf("the highest peak is %+v, want the newest hour", e)
	}
	if e := to.Evidence(); e.From.Unix() != 1020*3600 || e.Until.Unix() != 1021*3600 {
		t.Errorf("the peak of the day before is %+v", e)
	}
	var without *Recorder
	without.PeakOf(&peaks, 1000, 1048)
}

func TestWhole_anyNumber_isBounded(t *testing.T) {
	for v, want := range map[float64]int64{-1: 0, 1.9: 1, 1e15: 1e14, math.Inf(1): 1e14, math.Inf(-1): 0} {
		if got := Whole(v); got != want {
			t.Errorf("%g: %d, want %d", v, got, want)
		}
	}
	if got := Whole(math.NaN()); got != 0 {
		t.Errorf("NaN: %d", got)
	}
}
