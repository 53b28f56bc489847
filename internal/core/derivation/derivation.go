// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package derivation records how an amount is computed: a Recorder does each operation of an algorithm and appends it to the steps, so that
// the steps always lead to the amount. It knows no algorithm.
package derivation

import (
	"math"
	"strconv"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Record is how the targets of a container were computed. An Estimator writes it while it computes them, so that both come from the
// same operations: the result of the last step is the target.
type Record struct{ CPU, Memory Steps }

// Of returns the steps to the target of one resource.
func (r *Record) Of(res cluster.Resource) *Steps {
	if r == nil {
		return nil
	}
	return cluster.Pick(res, &r.CPU, &r.Memory)
}

// Only removes the steps of resources that are not in a set.
func (r *Record) Only(s cluster.Set) {
	for _, res := range cluster.All {
		if !s.Has(res) {
			*r.Of(res) = nil
		}
	}
}

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

// humanized rounds memory to two decimals of the largest binary unit that fits, as upstream's deprecated flag
// --humanize-memory does. A part of a byte counts as a whole one, as Kubernetes reads such amounts.
func humanized(bytes int64) int64 {
	for _, unit := range [...]int64{1 << 40, 1 << 30, 1 << 20, 1 << 10} {
		if bytes < unit {
			continue
		}
		v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(bytes)/float64(unit), 'f', 2, 64), 64) // no error: it is what FormatFloat writes
		return int64(math.Ceil(v * float64(unit)))
	}
	return bytes
}
