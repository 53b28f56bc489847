// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package derivation records how an amount is computed: a Recorder does each operation of an algorithm and appends it to the steps, so that
// the steps always lead to the amount. It knows no algorithm.
package derivation

import (
	"math"

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

// Only removes the steps of resources that are not in a set.
func (r *Record) Only(s cluster.Set) {
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
		return float64(Whole(math.Ceil(v)))
	case Truncate:
		return float64(Whole(v))
	case RoundUp:
		return float64(roundUp(int64(v), int64(s.operand)))
	case Humanize:
		return float64(humanized(int64(v)))
	}
	return v
}

// MaxAmount is the largest amount, in millicores or bytes. Models are limited to it, too, so that their state can be stored whatever the
// history is.
const MaxAmount = 1e14

// Whole truncates a number to an integer between 0 and MaxAmount. NaN is 0.
func Whole(v float64) int64 {
	switch {
	case v > MaxAmount:
		return MaxAmount
	case v > 0:
		return int64(v)
	}
	return 0
}

func roundUp(v, unit int64) int64 {
	if v == 0 || unit <= 1 {
		return v
	}
	return int64(math.Ceil(float64(v)/float64(unit))) * unit
}
