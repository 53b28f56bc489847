// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

// Dice make the random choices of a case, like math/rand/v2. rapid can shrink them to the first of several values and to the
// smallest number. Small and extreme numbers are more frequent than others.
type Dice struct{ *rapid.T }

// IntN returns a number from 0 to below n.
func (d Dice) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "") }

// Int64N returns a number from 0 to below n.
func (d Dice) Int64N(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(d.T, "") }

// Fraction returns a number from 0 to 1, in thousandths.
func (d Dice) Fraction() float64 { return float64(d.IntN(1001)) / 1000 }

// OneIn returns true in about one of n cases. It is shrunk to false.
func (d Dice) OneIn(n int) bool { return d.IntN(n) == n-1 }

// Pick returns one of several values.
func Pick[T any](d interface{ IntN(int) int }, of ...T) T { return of[d.IntN(len(of))] }

// Several returns a random number of values. Shrinking can remove each of them.
func Several[T any](d Dice, least, most int, one func(Dice) T) []T {
	each := rapid.Custom(func(t *rapid.T) T { return one(Dice{t}) })
	return rapid.SliceOfN(each, least, most).Draw(d.T, "")
}

// amounts are typical amounts, round ones first, given as minimum, step and count. No runtime starts a container with less than
// a few mebibytes.
var amounts = map[cluster.Resource][]struct{ least, step, steps int64 }{
	cluster.CPU:    {{100, 100, 40}, {1, 1, 100}, {1, 1, 64_000}},
	cluster.Memory: {{1 << 20, 1 << 20, 512}, {1 << 30, 1 << 30, 64}, {1 << 20, 1, 1 << 34}},
}

// Amount returns a possible amount of a resource of a container.
func (d Dice) Amount(res cluster.Resource) int64 {
	a := Pick(d, amounts[res]...)
	return a.least + a.step*d.Int64N(a.steps)
}
