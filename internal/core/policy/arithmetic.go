// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"math/bits"
)

// An amount below zero means nothing in Kubernetes. The arithmetic here treats it as zero, so that products and
// quotients stay within 128 unsigned bits.
func natural(v int64) uint64 {
	if v < 0 {
		return 0
	}
	return uint64(v)
}

// scaled returns a·b/c rounded down, and whether the exact quotient was above the largest int64, which is then
// returned. A zero divisor leaves a as it is: nothing is known of the proportion.
func scaled(a, b, c int64) (v int64, capped bool) {
	q, _, ok := mulDiv(a, b, c)
	if !ok {
		return math.MaxInt64, true
	}
	return q, false
}

// scaledUp is scaled rounded up.
func scaledUp(a, b, c int64) (v int64, capped bool) {
	q, rest, ok := mulDiv(a, b, c)
	switch {
	case !ok, rest && q == math.MaxInt64:
		return math.MaxInt64, true
	case rest:
		return q + 1, false
	}
	return q, false
}

// mulDiv divides the 128-bit product of a and b by c. It returns the quotient, whether something is left over, and
// whether the quotient fits.
func mulDiv(a, b, c int64) (q int64, rest, ok bool) {
	if c <= 0 {
		return int64(natural(a)), false, true
	}
	hi, lo := bits.Mul64(natural(a), natural(b))
	if hi >= uint64(c) {
		return 0, false, false
	}
	u, r := bits.Div64(hi, lo, uint64(c))
	if u > math.MaxInt64 {
		return 0, false, false
	}
	return int64(u), r != 0, true
}

// sum adds amounts and stops at the largest int64.
func sum(a, b int64) int64 {
	if s := natural(a) + natural(b); s <= math.MaxInt64 {
		return int64(s)
	}
	return math.MaxInt64
}

// wholeCores rounds millicores up to whole cores, and stops at the largest whole number of cores.
func wholeCores(milli int64) int64 {
	const most = math.MaxInt64 / 1000 * 1000
	if milli <= 0 {
		return 0
	}
	if milli > most {
		return most
	}
	return (milli + 999) / 1000 * 1000
}
