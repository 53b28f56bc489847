// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package derivation

import (
	"math"

	"podfit.dev/podfit/internal/core/hourly"
)

// A Recorder does the operations of an algorithm on one amount and, unless it is nil, records them as steps.
type Recorder struct {
	steps *Steps
	unit  float64 // of the amount, in millicores or bytes: 1000 while an amount is in cores

	// The peaks of a memory level and the boundaries of its days, the newest first, for the times of evidence.
	Peaks *hourly.Peaks
	Days  []Day
}

// A Day has the hours of a day: [From, Before).
type Day struct{ From, Before int }

// Begin returns a Recorder that replaces the steps; nil if s is nil. Amounts are in units of millicores or bytes.
func (s *Steps) Begin(unit float64) *Recorder {
	if s == nil {
		return nil
	}
	*s = nil
	return &Recorder{steps: s, unit: unit}
}

// Continue returns a Recorder that appends to the steps, nil if there are none.
func (s *Steps) Continue() *Recorder {
	if s == nil || len(*s) == 0 {
		return nil
	}
	return &Recorder{steps: s, unit: 1}
}

// linear appends a step on the linear scale from one amount to another, which it returns. Without a recorder it only returns it.
func linear[N int64 | float64](r *Recorder, name StepName, op Operation, before, operand, after N) N {
	if r == nil {
		return after
	}
	step := Step{Name: name, Operation: op, Result: float64(after) * r.unit, Changed: before != after || op == Value}
	switch op {
	case Multiply:
		step.Factor = float64(operand)
	case Ceil, Truncate, Humanize:
	case RoundUp:
		step.Amount = float64(operand)
	default:
		step.Amount = float64(operand) * r.unit
	}
	*r.steps = append(*r.steps, step)
	return after
}

// logarithmic appends a step on the scale of hourly.Level.
func (r *Recorder) logarithmic(name StepName, op Operation, before, operand, after float64) float64 {
	if r == nil {
		return after
	}
	amount := amountOf(operand)
	if op == Multiply {
		amount = math.Exp2(operand / hourly.Step)
	}
	linear(r, name, op, amountOf(before), amount, amountOf(after))
	return after
}

// amountOf converts a position on the scale of hourly.Level, where 0 is no sample.
func amountOf(position float64) float64 {
	if position == 0 {
		return 0
	}
	return hourly.Amount(position)
}

// Evidence returns the evidence of the last step, to be set. Without a recorder, nobody reads it.
func (r *Recorder) Evidence() *Evidence {
	if r == nil {
		return new(Evidence)
	}
	return r.EvidenceBefore(0)
}

// EvidenceBefore returns the evidence of the step that is a number of steps before the last one.
func (r *Recorder) EvidenceBefore(last int) *Evidence {
	return &(*r.steps)[len(*r.steps)-1-last].Evidence
}

// Amount converts an amount to millicores or bytes.
func (r *Recorder) Amount(v float64) float64 { return v * r.unit }

// Value begins with an amount.
func (r *Recorder) Value(name StepName, v float64) float64 { return linear(r, name, Value, 0, v, v) }

// Add adds to an amount.
func (r *Recorder) Add(name StepName, v, by float64) float64 {
	return linear(r, name, Add, v, by, v+by)
}

// Multiply multiplies an amount.
func (r *Recorder) Multiply(name StepName, v, factor float64) float64 {
	return linear(r, name, Multiply, v, factor, float64(v*factor))
}

// Raise raises an amount to at least another one.
func (r *Recorder) Raise(name StepName, v, least float64) float64 {
	return linear(r, name, Max, v, least, max(v, least))
}

// Lower lowers an amount to at most another one.
func (r *Recorder) Lower(name StepName, v, most float64) float64 {
	return linear(r, name, Min, v, most, min(v, most))
}

// Keep records that a decided amount replaces one that was computed from the present history.
func (r *Recorder) Keep(name StepName, v, decided float64) {
	linear(r, name, Keep, v, decided, decided)
}

// Ceil rounds up to a whole amount.
func (r *Recorder) Ceil(v float64) int64 { return r.rounded(Ceil, v, Whole(math.Ceil(v))) }

// Truncate rounds down to a whole amount.
func (r *Recorder) Truncate(v float64) int64 { return r.rounded(Truncate, v, Whole(v)) }

func (r *Recorder) rounded(op Operation, before float64, after int64) int64 {
	linear(r, StepUnit, op, before, 0, float64(after))
	return after
}

// ToMillicores converts cores; amounts of memory have the factor 1 and do not change. From then on, amounts are in millicores.
func (r *Recorder) ToMillicores(v, factor float64) float64 {
	after := float64(v * factor)
	if r == nil || factor == 1 {
		return after
	}
	r.unit = 1
	linear(r, StepUnit, Multiply, v, factor, after)
	(*r.steps)[len(*r.steps)-1].Changed = false
	return after
}

// Whole begins with a whole amount.
func (r *Recorder) Whole(name StepName, v int64) int64 { return linear(r, name, Value, 0, v, v) }

// AddWhole adds to a whole amount.
func (r *Recorder) AddWhole(name StepName, v, by int64) int64 {
	return linear(r, name, Add, v, by, v+by)
}

// RaiseWhole raises a whole amount to at least another one.
func (r *Recorder) RaiseWhole(name StepName, v, least int64) int64 {
	return linear(r, name, Max, v, least, max(v, least))
}

// LowerWhole lowers a whole amount to at most another one.
func (r *Recorder) LowerWhole(name StepName, v, most int64) int64 {
	return linear(r, name, Min, v, most, min(v, most))
}

// RoundUp rounds up to a multiple of a unit.
func (r *Recorder) RoundUp(v, unit int64) int64 {
	if unit <= 1 {
		return v
	}
	return linear(r, StepRound, RoundUp, v, unit, int64(math.Ceil(float64(v)/float64(unit)))*unit)
}

// Humanize rounds memory as humanized does.
func (r *Recorder) Humanize(v int64) int64 {
	return linear(r, StepRound, Humanize, v, 0, humanized(v))
}

// Level begins with a position on the scale of hourly.Level.
func (r *Recorder) Level(name StepName, position float64) float64 {
	return r.logarithmic(name, Value, 0, position, position)
}

// Shift multiplies an amount by adding to its position on the logarithmic scale of hourly.Level, and records the step.
func (r *Recorder) Shift(name StepName, position, by float64) float64 {
	return r.logarithmic(name, Multiply, position, by, position+by)
}

// RaiseLevel raises an amount on the scale of hourly.Level.
func (r *Recorder) RaiseLevel(name StepName, position, least float64) float64 {
	return r.logarithmic(name, Max, position, least, max(position, least))
}

// PeakOf sets the number of hours in [from, before), and the newest of them with the highest peak, as evidence of the last step.
func (r *Recorder) PeakOf(peaks *hourly.Peaks, from, before int) {
	if r == nil {
		return
	}
	e := r.Evidence()
	e.Hours = before - from
	e.HourOf(peaks, peaks.Max(from, before), from, before)
}

// HourOfDay sets the hour of a day (an index of Days) whose peak has a level.
func (r *Recorder) HourOfDay(e *Evidence, day int, level hourly.Level) {
	if r != nil && day >= 0 && day < len(r.Days) {
		e.HourOf(r.Peaks, level, r.Days[day].From, r.Days[day].Before)
	}
}
