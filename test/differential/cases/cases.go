// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases says how many cases a comparison makes up.
package cases

import (
	"os"
	"strconv"
	"testing"
)

// Variable names the environment variable with the factor by which there are more cases than usually, as every night.
const Variable = "PODFIT_DIFFERENTIAL"

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
