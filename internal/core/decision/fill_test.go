// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import "testing"

func TestFill_names_becomeTheirValues(t *testing.T) {
	value := func(name string) string { return "<" + name + "{a}>" }
	for text, want := range map[string]string{
		"":           "",
		"no name":    "no name",
		"{a}{b c} d": "<a{a}><b c{a}> d",
		"x {a}.":     "x <a{a}>.",
		"x {a":       "x <a{a}>",
	} {
		if got := fill(text, value); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
