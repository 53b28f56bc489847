// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

func TestReason_oomKill_textHasTheTimeSinceTheStart(t *testing.T) {
	r := Reason{Code: OutOfMemory, Resource: cluster.Memory, From: 256 << 20, To: 400 << 20}
	for after, want := range map[time.Duration]string{
		0: "less than 1s", 900 * time.Millisecond: "less than 1s", time.Second: "1s", 3 * time.Minute: "3m",
	} {
		r.For = after
		if !strings.Contains(r.String(), " "+want+" ") {
			t.Errorf("after %v: got %s, want %s", after, r, want)
		}
	}
}

// Events and logs are read days later and in other time zones.
func TestReason_untilIsSet_textHasDateAndZone(t *testing.T) {
	until := time.Date(2026, 3, 2, 23, 5, 0, 0, time.FixedZone("", -5*3600))
	for _, code := range []ReasonCode{
		PodTooYoung, AutoscalerTooYoung, Boosted, BackingOff, EffectUnknown, EvictionRefused, DisruptionBudget, ResizeRefused, ResizeOverQuota, Unanswered, ServerNotReached, NotAnnounced,
	} {
		text := Reason{Code: code, Until: until}.String()
		if !strings.Contains(text, " 2026-03-03T04:05:00Z") {
			t.Errorf("%s: %s", code, text)
		}
	}
}

func TestReason_everyCode_isFullSentences(t *testing.T) {
	until := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for code := range entries {
		texts := []string{"", "message.", "message"}
		if slices.Contains([]ReasonCode{ModeOff, GateOff, BackingOff, NoNodeFits, AwaitingCapacity, NoCapacityProvider}, code) { // their texts are podfit's own
			texts = []string{"eviction"}
		}
		for _, text := range texts {
			s := Reason{Code: code, Fallback: QoSChange, Resource: cluster.CPU, Container: "app", Until: until, For: time.Minute, Text: text}.String()
			if s[0] < 'A' || s[0] > 'Z' || !strings.HasSuffix(s, ".") || strings.Contains(s, "..") || strings.Contains(s, ". .") {
				t.Errorf("%s: %s", code, s)
			}
		}
	}
}

// docs/messages.md has the sentences.
func TestReason_amounts_haveUnits(t *testing.T) {
	for _, c := range []struct {
		r    Reason
		want []string
	}{
		{Reason{Code: AboveRange, Resource: cluster.CPU, From: 1000, To: 163}, []string{"CPU request 1 core", "163m"}},
		{Reason{Code: BelowRange, Resource: cluster.CPU, Container: "app", From: 100, To: 2000}, []string{"CPU request 100m of container app", "2 cores"}},
		{Reason{Code: BelowRange, Resource: cluster.Memory, To: 256 << 20}, []string{"memory request 0 bytes", "256Mi"}},
		{Reason{Code: MissingRequest, Resource: cluster.Memory, Container: "app", To: 1 << 30}, []string{"Container app", "memory", "1Gi"}},
		{Reason{Code: BoostOver, Resource: cluster.CPU, From: 2000, To: 500}, []string{"2 cores", "500m"}},
		{Reason{Code: TooFewReplicas, Have: 1, Want: 2}, []string{"1 live pod", "2"}},
	} {
		for _, value := range c.want {
			if !regexp.MustCompile(`\b` + value + `\b`).MatchString(c.r.String()) {
				t.Errorf("%s does not have %s", c.r, value)
			}
		}
	}
}

// Names of reasons are label values of metrics: each reason has its own.
func TestReason_everyCode_hasUniqueNameAndText(t *testing.T) {
	seen := map[string]ReasonCode{}
	for w := range entries {
		for _, s := range []string{w.String(), Reason{Code: w, Resource: cluster.CPU, Text: "x"}.String()} {
			if other, ok := seen[s]; ok && other != w {
				t.Errorf("%d and %d are both %q", w, other, s)
			}
			seen[s] = w
		}
		if s := (Reason{Code: w, Text: "x"}).String(); s == w.String() {
			t.Errorf("%s has no sentence", w)
		}
	}
	for w := ModeOff; w <= slices.Max(slices.Collect(maps.Keys(entries))); w++ {
		if entries[w].name == "" {
			t.Errorf("reason %d has no name", w)
		}
	}
}

func TestEntries_valuesInTexts_exist(t *testing.T) {
	used := map[string]bool{}
	for code, e := range entries {
		for _, text := range []string{e.text, e.undated, e.withText} {
			wording.Fill(text, func(name string) string {
				used[name] = true
				if values[name] == nil {
					t.Errorf("%s has the unknown value %s", code, name)
				}
				return ""
			})
		}
	}
	for name := range values {
		if !used[name] {
			t.Errorf("no reason has the value %s", name)
		}
	}
}

func TestReason_valueWithBraces_isNotReplaced(t *testing.T) {
	if got := (Reason{Code: ResizeFailed, Text: "{until} {"}).String(); !strings.HasSuffix(got, ": {until} {.") {
		t.Error(got)
	}
}

// Who may list only the pods of a namespace reads nothing about others.
func TestReason_podOfAnotherNamespace_isNamedOnlyWhenRevealed(t *testing.T) {
	var named int
	for code := range entries {
		r := Reason{Code: code, Elsewhere: "bank/ledger-0"}
		if strings.Contains(r.String(), "ledger") {
			t.Errorf("%s: %s", code, r)
		}
		if strings.Contains(r.Revealed().String(), "bank/ledger-0") {
			named++
		}
	}
	if named == 0 {
		t.Error("no reason names a pod when it is revealed")
	}
}

func TestReason_counts_wordsAgree(t *testing.T) {
	for _, c := range []struct {
		r    Reason
		want string
	}{
		{Reason{Code: BudgetOfOthers, Text: "web.", Want: 0}, "more than one PodDisruptionBudget selects it (web)"},
		{Reason{Code: BudgetOfOthers, Text: "web", Have: 1, Want: 1}, "requires 1 healthy pod (healthy or OOM-killed: 1)"},
		{Reason{Code: BudgetOfOthers, Text: "web", Have: 1, Want: 2}, "requires 2 healthy pods (healthy or OOM-killed: 1)"},
		{Reason{Code: NotSizedAtAdmission, Want: 1}, "another webhook, policy or LimitRange"},
		{Reason{Code: NotSizedAtAdmission}, "was not called"},
	} {
		if s := c.r.String(); !strings.Contains(s, c.want) {
			t.Errorf("%s does not have %q", s, c.want)
		}
	}
}
