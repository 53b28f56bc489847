// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package integer computes with amounts of resources, in millicores and bytes, exactly and without overflow: a result that does not fit is the
// largest int64. Negative amounts are not valid in Kubernetes, and count as zero. It also orders truth values.
package integer

import (
	"math"
	"math/bits"
)

// natural returns v, or zero if it is negative, so that products and quotients fit into 128 unsigned bits.
func natural(v int64) uint64 {
	if v < 0 {
		return 0
	}
	return uint64(v)
}

// Scaled returns a·b/c rounded down, and whether the exact quotient is above the largest int64, which it then
// returns. If c is zero, the ratio is not known, and the result is a.
func Scaled(a, b, c int64) (v int64, capped bool) {
	q, _, ok := mulDiv(a, b, c)
	if !ok {
		return math.MaxInt64, true
	}
	return q, false
}

// ScaledUp is like Scaled, but rounds up.
func ScaledUp(a, b, c int64) (v int64, capped bool) {
	q, rest, ok := mulDiv(a, b, c)
	switch {
	case !ok, rest && q == math.MaxInt64:
		return math.MaxInt64, true
	case rest:
		return q + 1, false
	}
	return q, false
}

// mulDiv divides the 128-bit product of a and b by c. It returns the quotient, whether the remainder is not zero, and
// whether the quotient fits into 64 bits.
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

// Sum returns the sum of amounts, at most the largest int64.
func Sum(a, b int64) int64 {
	if s := natural(a) + natural(b); s <= math.MaxInt64 {
		return int64(s)
	}
	return math.MaxInt64
}

// FalseFirst orders two values for sorting: false comes before true.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
