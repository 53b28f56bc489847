// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

// numbers returns up to fifty numbers.
func numbers(t *rapid.T) []int {
	return Several(Dice{t}, 0, 50, func(d Dice) int { return d.IntN(1000) })
}

// A failing test records its messages.
type failing struct {
	testing.TB
	said   string
	failed bool
}

func (f *failing) Errorf(format string, args ...any) { f.say(fmt.Sprintf(format, args...)) }
func (f *failing) Fatalf(format string, args ...any) { f.say(fmt.Sprintf(format, args...)) }
func (f *failing) Failed() bool                      { return f.failed }
func (f *failing) FailNow()                          {}

func (f *failing) say(text string) {
	f.said += text + "\n"
	f.failed = true
}

func TestCheck_failure_isShrunkAndShowsSeed(t *testing.T) {
	t.Setenv(Variable, "1")
	f := &failing{TB: t}
	Check(f, 100, func(t *rapid.T) {
		ns := numbers(t)
		for _, n := range ns {
			if n >= 700 {
				t.Fatalf("failed with %v", ns)
			}
		}
	})
	if !regexp.MustCompile(`failed with \[\d+\]\n(?s:.*) -rapid.seed=\d`).MatchString(f.said) {
		t.Errorf("%q is not shrunk, or has no seed", f.said)
	}
}

func TestCheck_noFailure_reportsNothing(t *testing.T) {
	f := &failing{TB: t}
	Check(f, 100, func(*rapid.T) {})
	if f.failed {
		t.Error(f.said)
	}
}

func TestCheck_sameCount_repeatsSameCases(t *testing.T) {
	made := func(factor string) (out []string) {
		t.Setenv(Variable, factor)
		Check(t, 20, func(t *rapid.T) { out = append(out, fmt.Sprint(numbers(t))) })
		return out
	}
	a, b := made("1"), made("1")
	if len(a) != 20 || !slices.Equal(a, b) {
		t.Errorf("%v, then %v", a, b)
	}
	if slices.Sort(b); len(slices.Compact(b)) < 10 {
		t.Errorf("too many cases are the same: %v", b)
	}
	c, d := made("2"), made("2")
	if len(c) != 40 || len(d) != 40 || slices.Equal(c, d) {
		t.Errorf("%v, then %v", c, d)
	}
}

func TestDice_manyRolls_showEverySide(t *testing.T) {
	t.Setenv(Variable, "1")
	var sides [6]int
	var least, most float64
	rounds := map[bool]int{}
	Check(t, 2000, func(t *rapid.T) {
		d := Dice{t}
		sides[d.IntN(6)]++
		least, most = min(least, d.Fraction()), max(most, d.Fraction())
		rounds[d.Amount(cluster.CPU)%100 == 0]++
	})
	for side, n := range sides {
		if n < 100 {
			t.Errorf("%d comes up %d times of 2000: %v", side, n, sides)
		}
	}
	if least != 0 || most != 1 || rounds[true] < 500 || rounds[false] < 500 {
		t.Errorf("from %v to %v, round amounts %v", least, most, rounds)
	}
}
