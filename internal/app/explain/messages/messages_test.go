// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"slices"
	"strings"
	"testing"
)

func TestFind_namesAndTexts_theirMessages(t *testing.T) {
	for what, want := range map[string][]string{
		"BudgetSpent":              {"`BudgetSpent`"},
		"budgetspent":              {"`BudgetSpent`"},
		" EvictedByVPA":            {"`EvictedByVPA`"},
		"LimitFixed":               {"`OOMKillLoop` True, reason `LimitFixed`"},
		"OOMKillLoop":              {"`OOMKillLoop` True, reason `LimitFixed`", "`OOMKillLoop` True, reason `RequestBelowTarget`", "`OOMKillLoop` True, reason `TargetAtMaximum`"},
		"cpu capped to maxAllowed": {"`memory capped to maxAllowed`"},
		"Lost the lease":           {"`Lost the lease; trying to acquire it again`"},
		"too many reviews wait":    {"`Pod admitted without its recommendation: too many reviews wait for unknown controllers`"},
		"something else entirely":  nil,
		"The":                      nil,
		"":                         nil,
		"VPA Updater evicted Pod cart-7d9f-q8z to apply resource recommendation.":                                 {"`EvictedPod`"},
		"No pod is changed, because the annotation podfit.dev/change-window is invalid: unknown day Mo.":          {"`ChangeWindow`"},
		"The memory request 12Gi of container main is below the lower bound; the target is 14.5Gi.":               {"`BelowRange`"},
		"The startup boost of the CPU has ended; the CPU request of container web is 400m and the target is 200m": {"`BoostOver`"},
		"the memory request 3Gi of container web is above its limit 2Gi":                                          {"`the memory request 2Gi of container app is above its limit 1Gi`"},
		"Pod admitted without its recommendation: too many reviews wait for unknown controllers":                  {"`Pod admitted without its recommendation: too many reviews wait for unknown controllers`"},
	} {
		t.Run(what, func(t *testing.T) {
			var got []string
			for _, m := range Find(what) {
				got = append(got, m.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}

func TestEntries_wholePage_eachMessageHasItsParts(t *testing.T) {
	all := entries()
	if len(all) < 200 {
		t.Errorf("the page has %d messages", len(all))
	}
	seen := map[string]bool{}
	for _, m := range all {
		if complete := m.Meaning != "" && m.Remedy != "" || m.About != "" && strings.HasSuffix(m.Kind, " in the log"); !complete || len(m.Names) == 0 {
			t.Errorf("incomplete: %+v", m)
		}
		if m.Text != "" && seen[m.Kind+m.Text] {
			t.Errorf("the text of %s is not its own: %s", m.Name, m.Text)
		}
		seen[m.Kind+m.Text] = true
	}
}

func TestNames_wholePage_sortedNamesThatAreFound(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "BudgetSpent") || slices.Contains(names, "NAMESPACE") {
		t.Errorf("names are %q", names)
	}
	for _, name := range names {
		if len(Find(name)) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}
