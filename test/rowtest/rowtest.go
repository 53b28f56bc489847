// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rowtest has the table of the intended deviations from upstream, and runs the test of a row with both values of its flag.
package rowtest

import (
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/compatibility"
)

// Outcomes has what a situation leads to with podfit's behaviour and with upstream's.
type Outcomes struct{ Podfit, Upstream string }

// Both runs a situation three times as subtests: with podfit's value of the flag of a row, with upstream's, and with
// --compatibility=upstream, and compares the outcomes. run passes args to the component and returns the outcome. The outcomes differ, so a test
// that ignores the flag fails. The test that calls Both must be the one that the row names.
func Both(t *testing.T, row string, want Outcomes, run func(t *testing.T, args ...string) string) {
	t.Helper()
	i := slices.IndexFunc(Table, func(d Deviation) bool { return d.Name == row })
	if i < 0 {
		t.Fatalf("the table of deviations has no row %q", row)
	}
	d := Table[i]
	if top, _, _ := strings.Cut(t.Name(), "/"); top != d.Test {
		t.Errorf("the row %q names the test %s, not this one", row, d.Test)
	}
	if want.Podfit == want.Upstream {
		t.Errorf("%s: both outcomes are %q, which shows no difference", row, want.Podfit)
	}
	for _, c := range []struct{ arg, want string }{
		{"--" + d.Flag + "=" + d.Ours, want.Podfit},
		{"--" + d.Flag + "=" + d.Theirs, want.Upstream},
		{"--" + compatibility.FlagName + "=" + string(compatibility.Upstream), want.Upstream},
	} {
		t.Run(row+"/"+strings.TrimPrefix(c.arg, "--"), func(t *testing.T) {
			if got := run(t, c.arg); got != c.want {
				t.Errorf("%s: the outcome is %q, want %q", c.arg, got, c.want)
			}
		})
	}
}

// A Deviation is an intended difference between podfit and upstream.
type Deviation struct {
	Name     string // unique
	Weakness string // number of upstream's weakness that it fixes, or ""
	Upstream string // what upstream does
	Podfit   string // what podfit does
	Why      string

	// Flag is the flag that decides between the two, with the values for podfit's and for upstream's behaviour. It is "" if upstream's
	// behaviour is not available, and Kept says why: only the page has such a deviation.
	Flag, Ours, Theirs string
	Kept               string

	Test string // shows podfit's behaviour, and upstream's with rowtest.Both if there is a flag; "TestMany/one" is a case of a test, or a transcript in its folder
}
