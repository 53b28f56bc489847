// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
)

// A Record is how the estimate of a container was computed. An Estimator writes it while it computes the estimate, so that both come
// from the same operations: Fold of the steps is the estimate.
type Record struct{ CPU, Memory Derivation }

// Of returns the derivation of one resource.
func (r *Record) Of(res cluster.Resource) *Derivation {
	switch {
	case r == nil:
		return nil
	case res == cluster.CPU:
		return &r.CPU
	}
	return &r.Memory
}

// only removes the steps of resources that are not in a set.
func (r *Record) only(s cluster.Set) {
	for _, res := range cluster.All {
		if !s.Has(res) {
			*r.Of(res) = Derivation{}
		}
	}
}

// A Derivation has the steps to the three amounts of an estimate. The steps of the bounds begin with the target, except those of Default.
type Derivation struct{ Target, Lower, Upper Steps }

// Steps are the operations that lead to an amount, in their order.
type Steps []Step

// A Step is one operation. Amounts are in millicores or bytes.
type Step struct {
	Name      StepName
	Operation Operation
	Amount    float64 // the operand of all operations but Multiply, Ceil and Truncate
	Factor    float64 // the operand of Multiply
	Result    float64 // the amount after the step
	Changed   bool    // the step changed the amount
	Evidence  Evidence

	operand float64 // as computed with: cores, or a position on the scale of hourly.Level
	log     bool    // operand and result are positions on the scale of hourly.Level, on which Multiply is an addition
}

// Operation is what a step does with the amount before it.
type Operation string

// The operations.
const (
	Value    Operation = "value"    // starts with Amount
	Add      Operation = "add"      // adds Amount
	Multiply Operation = "multiply" // multiplies by Factor
	Max      Operation = "max"      // raises to Amount
	Min      Operation = "min"      // lowers to Amount
	Ceil     Operation = "ceil"     // rounds up to a whole millicore or byte
	Truncate Operation = "truncate" // rounds down to a whole millicore or byte
	RoundUp  Operation = "round-up" // rounds up to a multiple of Amount
	Humanize Operation = "humanize" // rounds up to two decimals of the largest binary unit
	Keep     Operation = "keep"     // replaces the amount by Amount, which was decided before
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
	StepSafetyMargin StepName = "safety-margin"   // a Margin
	StepConfidence   StepName = "confidence"      // Days of history, of one sample per minute
	StepFloor        StepName = "floor"           // the minimum per container
	StepBand         StepName = "band"            // the range around the target in which a pod is not changed
	StepTarget       StepName = "target"          // the target, from which or to which a bound is computed
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
	StepSeason       StepName = "season"          // the maximum around the same hours of earlier periods of Days days
	StepHourBefore   StepName = "hour-before"     // the percentile of the hour before
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

// Fold carries out the steps and returns the amount.
func (s Steps) Fold() int64 {
	v := 0.0
	log := false
	for i := range s {
		step := &s[i]
		if log && !step.log {
			v = hourly.Amount(v)
		}
		log = step.log
		v = step.apply(v)
	}
	if log {
		v = hourly.Amount(v)
	}
	return int64(v)
}

func (s *Step) apply(v float64) float64 {
	switch s.Operation {
	case Value, Keep:
		return s.operand
	case Add:
		return v + s.operand
	case Multiply:
		if s.log {
			return v + s.operand
		}
		return float64(v * s.operand)
	case Max:
		return max(v, s.operand)
	case Min:
		return min(v, s.operand)
	case Ceil:
		return float64(amount(math.Ceil(v)))
	case Truncate:
		return float64(amount(v))
	case RoundUp:
		return float64(roundUp(int64(v), int64(s.operand)))
	case Humanize:
		return float64(humanized(int64(v)))
	}
	return v
}

// A recorder does the operations of an estimator on one amount and, unless it is nil, records them as steps.
type recorder struct {
	steps *Steps
	unit  float64 // of the amount, in millicores or bytes: 1000 while an amount is in cores

	// The peaks and the boundaries of the days of a memory level, for the times of evidence.
	peaks *hourly.Peaks
	cuts  dayCuts
}

// record returns a recorder for steps, nil if to is nil. Amounts are in units of millicores or bytes.
func record(to *Steps, unit float64) *recorder {
	if to == nil {
		return nil
	}
	*to = nil
	return &recorder{steps: to, unit: unit}
}

// continued returns a recorder that appends to the steps of an amount, nil if there are none.
func continued(to *Steps) *recorder {
	if to == nil || len(*to) == 0 {
		return nil
	}
	return &recorder{steps: to, unit: 1}
}

// target, lower and upper return where the steps of an amount are written.
func (d *Derivation) target() *Steps {
	if d == nil {
		return nil
	}
	return &d.Target
}

func (d *Derivation) lower() *Steps {
	if d == nil {
		return nil
	}
	return &d.Lower
}

func (d *Derivation) upper() *Steps {
	if d == nil {
		return nil
	}
	return &d.Upper
}

// linear appends a step on the linear scale from one amount to another.
func (r *recorder) linear(name StepName, op Operation, before, operand, after float64) {
	step := Step{Name: name, Operation: op, Result: after * r.unit, Changed: before != after || op == Value, operand: operand}
	switch op {
	case Multiply:
		step.Factor = operand
	case Ceil, Truncate, Humanize:
	case RoundUp:
		step.Amount = operand
	default:
		step.Amount = operand * r.unit
	}
	*r.steps = append(*r.steps, step)
}

// logarithmic appends a step on the scale of hourly.Level.
func (r *recorder) logarithmic(name StepName, op Operation, before, operand, after float64) {
	step := Step{Name: name, Operation: op, Result: amountOf(after) * r.unit, Changed: before != after || op == Value, operand: operand, log: true}
	if op == Multiply {
		step.Factor = math.Exp2(operand / hourly.Step)
	} else {
		step.Amount = amountOf(operand) * r.unit
	}
	*r.steps = append(*r.steps, step)
}

// amountOf converts a position on the scale of hourly.Level, where 0 is no sample.
func amountOf(position float64) float64 {
	if position == 0 {
		return 0
	}
	return hourly.Amount(position)
}

// evidence returns the evidence of the last step, to be set.
func (r *recorder) evidence() *Evidence { return &(*r.steps)[len(*r.steps)-1].Evidence }

func (r *recorder) value(name StepName, v float64) float64 {
	if r != nil {
		r.linear(name, Value, 0, v, v)
	}
	return v
}

func (r *recorder) add(name StepName, v, by float64) float64 {
	after := v + by
	if r != nil {
		r.linear(name, Add, v, by, after)
	}
	return after
}

func (r *recorder) multiply(name StepName, v, factor float64) float64 {
	after := float64(v * factor)
	if r != nil {
		r.linear(name, Multiply, v, factor, after)
	}
	return after
}

func (r *recorder) raise(name StepName, v, least float64) float64 {
	after := max(v, least)
	if r != nil {
		r.linear(name, Max, v, least, after)
	}
	return after
}

func (r *recorder) lower(name StepName, v, most float64) float64 {
	after := min(v, most)
	if r != nil {
		r.linear(name, Min, v, most, after)
	}
	return after
}

// keep records that a decided amount replaces one that was computed from the present history.
func (r *recorder) keep(name StepName, v, decided float64) {
	r.linear(name, Keep, v, decided, decided)
}

// ceil rounds up to a whole amount.
func (r *recorder) ceil(v float64) int64 {
	after := amount(math.Ceil(v))
	if r != nil {
		r.rounded(Ceil, v, after)
	}
	return after
}

// truncate rounds down to a whole amount.
func (r *recorder) truncate(v float64) int64 {
	after := amount(v)
	if r != nil {
		r.rounded(Truncate, v, after)
	}
	return after
}

// toMillicores converts cores; amounts of memory have the factor 1 and do not change.
func (r *recorder) toMillicores(v, factor float64) float64 {
	after := float64(v * factor)
	if r != nil {
		r.converted(v, factor, after)
	}
	return after
}

// whole begins with a whole amount.
func (r *recorder) whole(name StepName, v int64) int64 {
	if r != nil {
		r.linear(name, Value, 0, float64(v), float64(v))
	}
	return v
}

func (r *recorder) addWhole(name StepName, v, by int64) int64 {
	if r != nil {
		r.integral(name, Add, v, by, v+by)
	}
	return v + by
}

func (r *recorder) raiseWhole(name StepName, v, least int64) int64 {
	after := max(v, least)
	if r != nil {
		r.integral(name, Max, v, least, after)
	}
	return after
}

func (r *recorder) lowerWhole(name StepName, v, most int64) int64 {
	after := min(v, most)
	if r != nil {
		r.integral(name, Min, v, most, after)
	}
	return after
}

// integral appends a step on whole amounts.
func (r *recorder) integral(name StepName, op Operation, before, operand, after int64) {
	r.linear(name, op, float64(before), float64(operand), float64(after))
}

// rounded appends the rounding to a whole amount.
func (r *recorder) rounded(op Operation, before float64, after int64) {
	r.linear(StepUnit, op, before, 0, float64(after))
}

// converted appends the conversion to millicores. From then on, amounts are in millicores.
func (r *recorder) converted(v, factor, after float64) {
	if factor == 1 {
		return
	}
	r.unit = 1
	r.linear(StepUnit, Multiply, v, factor, after)
	(*r.steps)[len(*r.steps)-1].Changed = false
}

// scale multiplies a whole amount and truncates the result.
func (r *recorder) scale(name StepName, v int64, factor float64) int64 {
	return r.truncate(r.multiply(name, float64(v), factor))
}

// roundUp rounds up to a multiple of a unit.
func (r *recorder) roundUp(v, unit int64) int64 {
	after := roundUp(v, unit)
	if r != nil && unit > 1 {
		r.integral(StepRound, RoundUp, v, unit, after)
	}
	return after
}

// humanize rounds memory as humanized does.
func (r *recorder) humanize(v int64) int64 {
	after := humanized(v)
	if r != nil {
		r.linear(StepRound, Humanize, float64(v), 0, float64(after))
	}
	return after
}

// level begins with a position on the scale of hourly.Level.
func (r *recorder) level(name StepName, position float64) float64 {
	if r != nil {
		r.logarithmic(name, Value, 0, position, position)
	}
	return position
}

// shift multiplies an amount by adding to its position on the logarithmic scale of hourly.Level, and records the step.
func (r *recorder) shift(name StepName, position, by float64) float64 {
	after := position + by
	if r != nil {
		r.logarithmic(name, Multiply, position, by, after)
	}
	return after
}

// raiseLevel raises an amount on the scale of hourly.Level.
func (r *recorder) raiseLevel(name StepName, position, least float64) float64 {
	after := max(position, least)
	if r != nil {
		r.logarithmic(name, Max, position, least, after)
	}
	return after
}

// peakOf sets the number of hours in [from, before), and the newest of them with the highest peak, as evidence of the last step.
func (r *recorder) peakOf(peaks *hourly.Peaks, from, before int) {
	if r == nil {
		return
	}
	e := r.evidence()
	e.Hours = before - from
	e.hourOf(peaks, peaks.Max(from, before), from, before)
}

// hourOf sets the newest hour in [from, before) whose peak has a level.
func (e *Evidence) hourOf(peaks *hourly.Peaks, level hourly.Level, from, before int) {
	if level == 0 {
		return
	}
	for h := min(before, peaks.Newest()+1) - 1; h >= max(from, peaks.Newest()-peaks.Room()); h-- {
		if peaks.At(h) == level {
			e.From = unix(int64(h) * 3600)
			e.Until = unix(int64(h)*3600 + 3600)
			return
		}
	}
}
