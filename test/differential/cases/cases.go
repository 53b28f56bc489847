// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases generates the cases on which podfit is compared with upstream, and shrinks a failing one.
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

// Variable is the environment variable with the factor for the number of cases.
const Variable = "PODFIT_DIFFERENTIAL"

// Seed is the seed of the default cases. It is constant, so that a test fails only because of a change.
const Seed = "20260822"

// Factor returns the factor for the number of cases.
func Factor(t testing.TB) int {
	v := os.Getenv(Variable)
	if v == "" {
		return 1
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s must be a number of at least 1, got %q", Variable, v)
	}
	return n
}

// Check runs a comparison on a number of random cases, times the factor. Without a factor, the cases are the same in each run. If
// one fails, Check prints the smallest case that fails in the same way, and its seed. Tests that use it must not be parallel.
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

// fallback sets one of rapid's flags unless it was given, and returns a function that resets it.
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

// Show formats a case. The format is deterministic, because rapid does not shrink a failure whose message changes.
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
