// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package integer

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// amount returns random amounts of all magnitudes, including the extremes.
func amount() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, 999, 1000, 1001, math.MaxInt32, math.MaxInt64 - 1, math.MaxInt64}),
		rapid.Int64Range(0, 5000),
		rapid.Int64Range(0, 1<<40),
		rapid.Int64(),
	)
}

// The reference implementation uses integers of arbitrary size.
func scaledTwin(a, b, c int64, up bool) (int64, bool) {
	nat := func(v int64) *big.Int { return big.NewInt(max(v, 0)) }
	if c <= 0 {
		return max(a, 0), false
	}
	q, r := new(big.Int).QuoRem(new(big.Int).Mul(nat(a), nat(b)), nat(c), new(big.Int))
	if up && r.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return math.MaxInt64, true
	}
	return q.Int64(), false
}

func TestScaled_anyAmounts_equalsExactQuotient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := amount().Draw(t, "a"), amount().Draw(t, "b"), amount().Draw(t, "c")
		got, capped := Scaled(a, b, c)
		if want, wantCapped := scaledTwin(a, b, c, false); got != want || capped != wantCapped {
			t.Fatalf("%d·%d/%d rounded down: got %d (%v), want %d (%v)", a, b, c, got, capped, want, wantCapped)
		}
		got, capped = ScaledUp(a, b, c)
		if want, wantCapped := scaledTwin(a, b, c, true); got != want || capped != wantCapped {
			t.Fatalf("%d·%d/%d rounded up: got %d (%v), want %d (%v)", a, b, c, got, capped, want, wantCapped)
		}
	})
}

// Random amounts seldom reach each of the limits.
func TestScaled_resultsAtTheLimits_areTheLargestAmount(t *testing.T) {
	const largest = math.MaxInt64
	for _, c := range []struct {
		name         string
		a, b, c      int64
		down, up     int64
		over, overUp bool
	}{
		{"no ratio", 7, 3, 0, 7, 7, false, false},
		{"no ratio of a negative amount", -7, 3, 0, 0, 0, false, false},
		{"negative amount", -7, 3, 2, 0, 0, false, false},
		{"exact", 6, 3, 2, 9, 9, false, false},
		{"remainder", 7, 3, 2, 10, 11, false, false},
		{"quotient of 63 bits", largest, 1, 1, largest, largest, false, false},
		{"quotient of 64 bits", largest, 2, 1, largest, largest, true, true},
		{"quotient of more than 64 bits", largest, largest, 1, largest, largest, true, true},
		{"largest amount", 1 << 62, largest, 1 << 62, largest, largest, false, false},
		{"largest amount and a half", (largest / 3 * 2) + 1, 3, 2, largest, largest, false, true},
	} {
		if v, over := Scaled(c.a, c.b, c.c); v != c.down || over != c.over {
			t.Errorf("%s: %d·%d/%d rounded down is %d (%v), want %d (%v)", c.name, c.a, c.b, c.c, v, over, c.down, c.over)
		}
		if v, over := ScaledUp(c.a, c.b, c.c); v != c.up || over != c.overUp {
			t.Errorf("%s: %d·%d/%d rounded up is %d (%v), want %d (%v)", c.name, c.a, c.b, c.c, v, over, c.up, c.overUp)
		}
	}
}

func TestSum_overflow_isLargestAmount(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}, {-5, 3, 3},
		{math.MinInt64, math.MinInt64, 0},
	} {
		if got := Sum(c.a, c.b); got != c.want {
			t.Errorf("Sum(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
