// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	"podfit.dev/podfit/internal/core/recommend"
)

func TestTypo_similarOrOtherNames_onlySimilarNamesMatch(t *testing.T) {
	names := []string{"mine"}
	for _, p := range recommend.Builtins() {
		names = append(names, p.Name)
	}
	for name, want := range map[string]string{
		"ballanced": "balanced", "balenced": "balanced", "blaanced": "balanced", "balance": "balanced", "Balanced": "balanced",
		"balancd": "balanced", "criticla": "critical", "dfeault": "default", "busy_hours": "busy-hours", "busyhours": "busy-hours",
		"autopliot": "autopilot", "autopilto": "autopilot", "COST": "cost", "costs": "cost", "miner": "mine",

		"balanced": "", "cost": "", "mine": "", "autopilot": "", // correct, or the name of another recommender
		"test": "", "window-max": "", "autopilot-windo": "", "coast-1": "", "my-recommender": "", "prod": "", "frugal": "", "alpha": "", "custom": "", "vpa": "", "p": "", "": "",
	} {
		if got := Typo(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
