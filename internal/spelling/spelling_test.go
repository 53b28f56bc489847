// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package spelling

import (
	"strings"
	"testing"
)

func TestTypo_similarOrOtherNames_onlySimilarNamesMatch(t *testing.T) {
	names := []string{"mine", "default", "balanced", "cost", "critical", "busy-hours", "autopilot"}
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

func TestTypo_nameOfAMegabyte_returnsNone(t *testing.T) {
	if got := Typo(strings.Repeat("balanced", 1<<17), []string{"balanced", strings.Repeat("x", 1<<20)}); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

func TestNearest_similarOrOtherNames_onlySimilarNamesMatch(t *testing.T) {
	for name, want := range map[string]string{
		"balanced": "balanced", "balancd": "balanced", "Balanced": "balanced", "cots": "cost", "kritical": "critical", "something": "", "": "", "c": "", "bussy-hours": "busy-hours",
	} {
		if got := Nearest(name, []string{"default", "balanced", "cost", "critical", "busy-hours"}); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
