// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases makes up the cases on which podfit is compared with upstream, and shrinks one that fails.
package cases

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// Variable names the environment variable with the factor by which there are more cases than usually, as every night.
const Variable = "PODFIT_DIFFERENTIAL"

// Seed is what the usual cases begin with, so that a test that fails has met a change, not bad luck.
const Seed = "20260822"

// Factor is by how much more cases are run than usually.
func Factor(t testing.TB) int {
	v := os.Getenv(Variable)
	if v == "" {
		return 1
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, not a number of one or more", Variable, v)
	}
	return n
}

// Check runs a comparison on so many random cases, times the factor. Usually they are the same each time; with a factor
// they are others each time. Of one that fails, the smallest that fails the same way is shown, with the seed that leads to
// it. Tests that use it must not be parallel.
func Check(t testing.TB, usual int, compare func(*rapid.T)) {
	t.Helper()
	factor := Factor(t)
	defer fallback(t, "rapid.checks", strconv.Itoa(usual*factor))()
	if factor == 1 {
		defer fallback(t, "rapid.seed", Seed)()
	}
	defer fallback(t, "rapid.nofailfile", "true")()
	rapid.Check(t, compare)
}

// fallback sets one of rapid's flags, unless it was given, and returns what sets it back.
func fallback(t testing.TB, name, value string) (back func()) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	if before != f.DefValue {
		return func() {}
	}
	set := func(value string) {
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	set(value)
	return func() { set(before) }
}

// Show writes what a case is made of, the same way each time: a failure that reads otherwise the second time is not shrunk.
func Show(objects ...any) string {
	var out []string
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			panic(err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, "---\n")
}
