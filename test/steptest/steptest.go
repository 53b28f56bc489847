// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package steptest carries out the steps of a derivation with the amounts and factors that a person sees.
package steptest

import (
	"math"

	"podfit.dev/podfit/internal/core/derivation"
)

// LeadTo reports whether the last result of steps is an amount, in millicores or bytes, and the result of each step follows from the one before,
// as precisely as figures that were rounded can show it. No steps lead to 0.
func LeadTo(amount int64, steps derivation.Steps) bool {
	if len(steps) == 0 {
		return amount == 0
	}
	v := displayed(steps)
	return steps[len(steps)-1].Result == float64(amount) && math.Abs(v-float64(amount)) <= 1+1e-9*float64(amount)
}

// displayed folds the steps, without the conversion from cores. It is NaN if a step has another result.
func displayed(steps derivation.Steps) float64 {
	v := 0.0
	for _, s := range steps {
		switch s.Operation {
		case derivation.Value, derivation.Keep:
			v = s.Amount
		case derivation.Add:
			v += s.Amount
		case derivation.Multiply:
			if s.Name != derivation.StepUnit {
				v *= s.Factor
			}
		case derivation.Max:
			v = max(v, s.Amount)
		case derivation.Min:
			v = min(v, s.Amount)
		case derivation.Ceil, derivation.Truncate, derivation.RoundUp, derivation.Humanize:
			v = s.Result
		}
		if math.Abs(v-s.Result) > 1+1e-9*math.Abs(v) {
			return math.NaN()
		}
	}
	return v
}
