// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// An unanswered eviction is reported after ten minutes, even if the pod was tried only once.
func TestPass_evictionIsUnanswered_isReportedAfterTenMinutes(t *testing.T) {
	tests := map[string]struct {
		attempts []decision.RefusalKind // one every four minutes
		after    time.Duration          // since the first
		want     bool
	}{
		"one attempt, nine minutes":           {[]decision.RefusalKind{decision.OutcomeIsUnknown}, 9 * time.Minute, false},
		"one attempt, ten minutes":            {[]decision.RefusalKind{decision.OutcomeIsUnknown}, 10 * time.Minute, true},
		"three attempts":                      {[]decision.RefusalKind{decision.OutcomeIsUnknown, decision.OutcomeIsUnknown, decision.OutcomeIsUnknown}, 10 * time.Minute, true},
		"the last attempt had an answer":      {[]decision.RefusalKind{decision.OutcomeIsUnknown, decision.Denied}, 20 * time.Minute, false},
		"the first attempt had an answer":     {[]decision.RefusalKind{decision.Denied, decision.OutcomeIsUnknown}, 13 * time.Minute, false},
		"ten minutes after the last answer":   {[]decision.RefusalKind{decision.Denied, decision.OutcomeIsUnknown}, 14 * time.Minute, true},
		"an answer between two without one":   {[]decision.RefusalKind{decision.OutcomeIsUnknown, decision.Denied, decision.OutcomeIsUnknown}, 17 * time.Minute, false},
		"an answer between, and ten more":     {[]decision.RefusalKind{decision.OutcomeIsUnknown, decision.Denied, decision.OutcomeIsUnknown}, 18 * time.Minute, true},
		"only answers, and they are refusals": {[]decision.RefusalKind{decision.Denied, decision.ServerBusy}, time.Hour, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(3)
			d := decision.Decision{Pod: w.Governed[0].Pods[0], Autoscaler: a, Do: decision.Evict}
			for i, kind := range tt.attempts {
				w.Ledger.Refused(noon.Add(time.Duration(i)*4*time.Minute), attemptOf(w, d), decision.Refusal{Kind: kind, Text: "broken pipe"}, 3)
			}
			r, reported := Begin(noon.Add(tt.after), w, DefaultBudget()).Unanswered(d)
			if reported != tt.want {
				t.Fatalf("reported: %v (%s), want %v", reported, r, tt.want)
			}
			if reported && (r.For < 10*time.Minute || r.Text != "broken pipe" || !r.Until.IsZero() && r.Until.Before(noon.Add(tt.after))) {
				t.Errorf("the reason is %+v", r)
			}
		})
	}
}

func TestPass_resizeIsUnanswered_isReportedAfterTenMinutes(t *testing.T) {
	w, a := shrinking(3)
	a.Mode = cluster.InPlaceOrRecreate
	d := decision.Decision{Pod: w.Governed[0].Pods[0], Autoscaler: a, Do: decision.Resize}
	w.Ledger.Refused(noon, attemptOf(w, d), decision.Refusal{Kind: decision.OutcomeIsUnknown}, 3)
	if _, reported := Begin(noon.Add(10*time.Minute), w, DefaultBudget()).Unanswered(d); !reported {
		t.Error("the unanswered resize is not reported")
	}
	w.Ledger.Done(noon.Add(time.Minute), attemptOf(w, d))
	if r, reported := Begin(noon.Add(10*time.Minute), w, DefaultBudget()).Unanswered(d); reported {
		t.Errorf("a resize that was carried out is reported as unanswered: %s", r)
	}
}

// An eviction without an answer that was not carried out must not prolong the back-off after an earlier one that did not help.
func TestLedger_unansweredEvictionNotCarriedOut_earlierEvictionCounts(t *testing.T) {
	tests := map[string]struct {
		unanswered []int // minutes of evictions without an answer
		gone       bool  // the last of them was carried out
		want       int   // minute of the last eviction
	}{
		"none":                              {nil, false, 0},
		"one, and the pod still runs":       {[]int{20}, false, 0},
		"three, and the pod still runs":     {[]int{20, 21, 27}, false, 0},
		"one that was carried out":          {[]int{20}, true, 20},
		"the last of three was carried out": {[]int{20, 21, 27}, true, 27},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, _ := shrinking(3)
			pods := w.Governed[0].Pods
			first := evictions(Begin(noon, w, DefaultBudget()))[0]
			w.Ledger.Done(noon, attemptOf(w, first))
			replacement := *first.Pod // without the recommended size
			replacement.UID, replacement.Created = "again", noon.Add(time.Minute)
			pods[0] = &replacement
			second := ledger.Attempt{Pod: pods[1], Autoscaler: first.Autoscaler.Key, Do: decision.Evict, With: first.With, Newest: replacement.Created}
			for minute := 1; minute <= 40; minute++ {
				now := noon.Add(time.Duration(minute) * time.Minute)
				pass := Begin(now, w, DefaultBudget())
				pass.Learn()
				if slices.Contains(tt.unanswered, minute) {
					w.Ledger.Refused(now, second, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 3)
				}
				if tt.gone && minute == tt.want+1 { // the watch shows it
					w.Governed[0].Pods = []*cluster.Pod{pods[0], pods[2]}
				}
			}
			if at, want := w.Ledger.Export(DefaultBudget().Delays)[0].Eviction.At, noon.Add(time.Duration(tt.want)*time.Minute); !at.Equal(want) {
				t.Errorf("the last eviction was at %s, want %s", at, want)
			}
		})
	}
}

// An API server that stops may carry out an eviction without an answer, and refuse connections after that.
func TestPlan_connectionRefusedAfterUnansweredEviction_takesNoSecondPod(t *testing.T) {
	for name, tt := range map[string]struct {
		then decision.RefusalKind
		want int // evictions two minutes after the one without an answer
	}{
		"connection refused":                     {decision.NotReached, 0},
		"webhook failed":                         {decision.WebhookFailed, 0},
		"disruption budget does not allow it":    {decision.DeniedByBudget, 1},
		"no answer to the second attempt either": {decision.OutcomeIsUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := shrinking(3)
			pass := Begin(noon, w, DefaultBudget())
			d := evictions(pass)[0]
			pass.Refused(d, decision.Refusal{Kind: decision.OutcomeIsUnknown})
			w.Ledger.Refused(noon.Add(time.Minute), attemptOf(w, d), decision.Refusal{Kind: tt.then}, 3)
			if ds := evictions(Begin(noon.Add(2*time.Minute), w, DefaultBudget())); len(ds) != tt.want {
				t.Errorf("%d evictions while the outcome of the first one is unknown, want %d", len(ds), tt.want)
			}
		})
	}
}

// An eviction without an answer may have been carried out, and the watch may still show the pod: another pod is evicted only if enough
// pods are left in that case. The same pod may be tried again.
func TestPlan_evictionIsUnanswered_minimumOfReplicasHoldsInBothCases(t *testing.T) {
	for name, tt := range map[string]struct {
		minimum int
		after   time.Duration
		same    bool // whether the same pod may be evicted
		other   bool
	}{
		"minimum is all pods":             {2, 2 * time.Minute, true, false},
		"minimum is fewer pods":           {1, 2 * time.Minute, true, true},
		"the watch must have shown it":    {2, attempt.WatchDelay + time.Minute, true, true},
		"both, and one more than present": {3, 2 * time.Minute, false, false},
	} {
		w, a := shrinking(2)
		b := DefaultBudget()
		b.MinReplicas, b.Tolerance = tt.minimum, 1
		pods := w.Governed[0].Pods
		for _, p := range pods { // they do not recover by themselves, so they take nothing from the budget of ready pods
			p.Ready = false
		}
		d := decision.Decision{Pod: pods[0], Autoscaler: a, Do: decision.Evict}
		w.Ledger.Refused(noon, attemptOf(w, d), decision.Refusal{Kind: decision.OutcomeIsUnknown, Text: "broken pipe"}, 0)
		done := map[*cluster.Pod]bool{}
		for _, d := range evictions(Begin(noon.Add(tt.after), w, b)) {
			done[d.Pod] = true
		}
		if done[pods[0]] != tt.same || done[pods[1]] != tt.other {
			t.Errorf("%s: evicted: the same pod %t, the other one %t; want %t and %t", name, done[pods[0]], done[pods[1]], tt.same, tt.other)
		}
	}
}

// A resize without an answer may have been carried out. If the eviction that would take its place must wait, its budget is not given to another
// pod.
func TestPass_resizeIsUnansweredAndEvictionWaits_budgetStaysSpent(t *testing.T) {
	w := workloadsOf(1)
	w.Governed[0].Autoscaler.Mode = cluster.InPlaceOrRecreate
	b := DefaultBudget()
	b.Tolerance = 0.5 // two pods
	evicts := true
	refuse := func(now time.Time, kinds ...decision.RefusalKind) int {
		changed := map[string]bool{}
		pass := Begin(now, w, b)
		todo := actions(pass)
		for len(todo) > 0 {
			d, kind := todo[0], decision.OutcomeIsUnknown
			todo = todo[1:]
			if len(kinds) > 0 {
				kind, kinds = kinds[0], kinds[1:]
			}
			if d.Do == decision.Evict && !evicts {
				todo = append(todo, pass.Refused(d, decision.Refusal{Kind: decision.Denied, Text: "no"})...)
				continue
			}
			if d.Do == decision.Evict || kind == decision.OutcomeIsUnknown {
				changed[d.Pod.UID] = true
			}
			if d.Do == decision.Evict {
				pass.Done(d)
				continue
			}
			todo = append(todo, pass.Refused(d, decision.Refusal{Kind: kind, Text: "no"})...)
		}
		return len(changed)
	}
	refuse(noon, decision.WebhookFailed, decision.WebhookFailed, decision.WebhookFailed, decision.WebhookFailed, decision.WebhookFailed)
	for i, then := range []bool{false, true} {
		evicts = then
		if n := refuse(noon.Add(time.Duration(i+1)*time.Hour), decision.Denied); n != 2 {
			t.Errorf("evictions are carried out %v: %d pods are changed or may have been, want 2", evicts, n)
		}
	}
}

// The resize of a canary without an answer may have been carried out. If the eviction that takes its place is refused, it stays the canary.
func TestPass_resizeOfCanaryIsUnanswered_noOtherPodIsChanged(t *testing.T) {
	w := workloadsOf(1)
	w.Governed[0].Autoscaler.Mode = cluster.InPlaceOrRecreate
	w.Governed[0].Autoscaler.Canary = cluster.Canary{On: true, Watch: time.Hour}
	first := Begin(noon, w, DefaultBudget())
	for todo := actions(first); len(todo) > 0; todo = todo[1:] {
		todo = append(todo, first.Refused(todo[0], decision.Refusal{Kind: decision.WebhookFailed, Text: "no"})...)
	}
	pass := Begin(noon.Add(time.Hour), w, DefaultBudget())
	pass.Learn()
	changed := map[string]bool{}
	for todo := actions(pass); len(todo) > 0; todo = todo[1:] {
		d, kind := todo[0], decision.Denied
		if d.Do == decision.Resize {
			changed[d.Pod.UID] = true
			kind = decision.OutcomeIsUnknown
		}
		todo = append(todo, pass.Refused(d, decision.Refusal{Kind: kind, Text: "no"})...)
	}
	for _, d := range actions(Begin(noon.Add(time.Hour+time.Minute), w, DefaultBudget())) {
		changed[d.Pod.UID] = true
	}
	if len(changed) != 1 {
		t.Errorf("%d pods may have been changed, want the canary only", len(changed))
	}
}
