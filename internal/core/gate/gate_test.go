// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/decision"
)

func TestAll_decisions_gatesUpToTheReason(t *testing.T) {
	wanted := decision.Reason{Code: decision.BelowRange}
	spent := decision.Reason{Code: decision.BudgetSpent}
	checked := []Gate{{Name: Window}, {Name: Budget, Blocked: true, Reason: spent}, {Name: Probe}}
	for name, c := range map[string]struct {
		d       decision.Decision
		want    []Name
		blocked Name // "" if no gate blocks
	}{
		"mode is off":      {decision.Decision{Reason: decision.Reason{Code: decision.ModeOff}}, []Name{Mode}, Mode},
		"too young":        {decision.Decision{Reason: decision.Reason{Code: decision.PodTooYoung}}, []Name{Mode, Recommendation, Controller, Need}, Need},
		"already evicted":  {decision.Decision{Reason: decision.Reason{Code: decision.AlreadyEvicted}}, []Name{Mode, Recommendation, Controller, State}, State},
		"blocked":          {decision.Decision{Wanted: wanted, Reason: spent}, []Name{Mode, Recommendation, Controller, Need, Window, Budget, Probe}, Budget},
		"left for another": {decision.Decision{Wanted: wanted, Reason: decision.Reason{Code: decision.RoomReserved}}, []Name{Mode, Recommendation, Controller, Need, Window, State, Budget, Probe}, State},
		"changed":          {decision.Decision{Wanted: wanted, Reason: wanted, Do: decision.Evict}, []Name{Mode, Recommendation, Controller, Need, Window, Probe}, ""},
	} {
		var got []Name
		first := Name("")
		for _, g := range All(&c.d, checked) {
			got = append(got, g.Name)
			if g.Blocked && first == "" {
				first = g.Name
				if g.Reason != c.d.Reason {
					t.Errorf("%s: the first gate that blocks has the reason %s", name, g.Reason)
				}
			}
		}
		if !slices.Equal(got, c.want) || first != c.blocked {
			t.Errorf("%s: %v, %q blocks; want %v and %q", name, got, first, c.want, c.blocked)
		}
	}
	if got := All(&decision.Decision{Wanted: wanted, Reason: decision.Reason{Code: decision.Starting}}, nil); got[len(got)-1].Name != State || got[3].Reason != wanted {
		t.Errorf("without checks: %+v", got)
	}
	if got := Of(Budget, spent, false); got != (Gate{Name: Budget}) {
		t.Errorf("a gate that does not block has a reason: %+v", got)
	}
	if got := Of(Budget, spent, true); got != checked[1] {
		t.Errorf("%+v, want %+v", got, checked[1])
	}
}
