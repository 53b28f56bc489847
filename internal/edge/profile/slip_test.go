// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	"podfit.dev/podfit/internal/core/recommend"
)

func TestASlipIsToldFromAnotherName(t *testing.T) {
	names := []string{"mine"}
	for _, p := range recommend.Builtins() {
		names = append(names, p.Name)
	}
	for name, want := range map[string]string{
		"ballanced": "balanced", "balenced": "balanced", "blaanced": "balanced", "balance": "balanced", "Balanced": "balanced",
		"balancd": "balanced", "criticla": "critical", "dfeault": "default", "busy_hours": "busy-hours", "busyhours": "busy-hours",
		"autopliot": "autopilot", "autopilto": "autopilot", "COST": "cost", "costs": "cost", "miner": "mine",

		"balanced": "", "cost": "", "mine": "", "autopilot": "", // right as they are
		"test": "", "window-max": "", "autopilot-windo": "", "coast-1": "", "my-recommender": "", "prod": "", "frugal": "", "alpha": "", "custom": "", "vpa": "", "p": "", "": "",
	} {
		if got := Slip(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
