// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"slices"
	"testing"
)

func TestAct_all_haveVerbs(t *testing.T) {
	var got []string
	for a := Leave; a <= Surge; a++ {
		got = append(got, a.String())
	}
	if want := []string{"leave", "resize", "evict", "delete", "surge"}; !slices.Equal(got, want) {
		t.Errorf("acts %v, want %v", got, want)
	}
}

func TestPriority_podsThatGrow_comeFirst(t *testing.T) {
	ordered := []Priority{{Up: true, Diff: 2}, {Up: true, Diff: 1}, {Diff: 3}, {Diff: 1}}
	for i := range ordered {
		for j := range ordered {
			if got := ordered[i].Compare(ordered[j]); got != cmp.Compare(i, j) {
				t.Errorf("%+v compared with %+v: %d", ordered[i], ordered[j], got)
			}
		}
	}
}

func TestReasonCode_unknown_isANumber(t *testing.T) {
	if s := ReasonCode(255).String(); s != "ReasonCode(255)" {
		t.Errorf("an unknown code is %q", s)
	}
}

// What a kind means for the pass and the back-off. A new kind needs a row.
func TestRefusalKind_each_hasItsConsequences(t *testing.T) {
	type consequences struct{ keepsBudget, size, transient, open, eviction bool }
	want := map[RefusalKind]consequences{
		Denied:           {open: true, eviction: true},
		DeniedByBudget:   {open: true, eviction: true},
		DeniedByNode:     {size: true, eviction: true},
		DeniedByQuota:    {size: true, open: true, eviction: true},
		Unsupported:      {eviction: true},
		WebhookFailed:    {transient: true, open: true},
		ServerBusy:       {keepsBudget: true, transient: true, open: true},
		NotReached:       {keepsBudget: true, open: true},
		OutcomeIsUnknown: {keepsBudget: true, transient: true, open: true},
		NotReadyInTime:   {open: true},
	}
	for k := Denied; k <= NotReadyInTime; k++ {
		got := consequences{k.KeepsBudget(), k.DependsOnSize(), k.IsTransient(), k.LeavesReplacementOpen(), k.AllowsEviction()}
		if w, ok := want[k]; !ok || got != w {
			t.Errorf("kind %d: %+v, want %+v", k, got, w)
		}
	}
}
