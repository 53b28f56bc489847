// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckQuantities_textThatCannotBeParsedInTime_isReported(t *testing.T) {
	for text, bad := range map[string]bool{
		`{"spec":{"resourcePolicy":{"containerPolicies":[{"minAllowed":{"cpu":"1e-999999999"}}]}}}`:               true,
		`{"spec":{"resourcePolicy":{"containerPolicies":[{"maxAllowed":{"cpu":"1","memory":1E-999999999}}]}}}`:    true,
		`{"spec":{"resourcePolicy":{"containerPolicies":[{"oomMinBumpUp":"1e-100"}]}}}`:                           true,
		`{"spec":{"startupBoost":{"cpu":{"quantity":"0.1e-2147483647"}}}}`:                                        true,
		`{"status":{"recommendation":{"containerRecommendations":[{"target" : { "cpu" :"1\u0065-999999999"}}]}}}`: true,
		`{"minAllowed":{"memory":"` + strings.Repeat("9", 65) + `"}}`:                                             true,
		`{"minAllowed":{"memory":"` + strings.Repeat("9", 64) + `"}}`:                                             false,
		`{"minAllowed":{"cpu":"1e-99"},"maxAllowed":{"memory":"1E3"}}`:                                            false,
		`{"minAllowed":{"cpu":"1000E0000000000"},"maxAllowed":{"memory":"1e0000000000099"}}`:                      false,
		`{"minAllowed":{"cpu":"1e00100"}}`:                                                                        true,
		`{"metadata":{"annotations":{"commit":"1e999999999"},"name":"1e999999999"}}`:                              false,
		`{"minAllowed":{"cpu":"1"},"containerName":"1e999999999"}`:                                                false,
		`{"minAllowed":null,"containerName":"1e999999999"}`:                                                       false,
		`{"minAllowed":"`: false,
		`{"min\u0041llowed":{"cpu":"1e-999999999"}}`: true,
		`]]}}`: false,
	} {
		if err := CheckQuantities([]byte(text)); errors.Is(err, ErrQuantity) != bad {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCheckQuantities_largeObject_allocatesNothing(t *testing.T) {
	object := []byte(`{"a":[` + strings.Repeat(`{"minAllowed":{"cpu":"100m","memory":"1Gi"}},`, 10_000) + `{}]}`)
	if n := testing.AllocsPerRun(3, func() { _ = CheckQuantities(object) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
