// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// An unanswered eviction is reported after ten minutes, even if the pod was tried only once.
func TestPass_evictionIsUnanswered_isReportedAfterTenMinutes(t *testing.T) {
	tests := map[string]struct {
		attempts []RefusalKind // one every four minutes
		after    time.Duration // since the first
		want     bool
	}{
		"one attempt, nine minutes":           {[]RefusalKind{OutcomeIsUnknown}, 9 * time.Minute, false},
		"one attempt, ten minutes":            {[]RefusalKind{OutcomeIsUnknown}, 10 * time.Minute, true},
		"three attempts":                      {[]RefusalKind{OutcomeIsUnknown, OutcomeIsUnknown, OutcomeIsUnknown}, 10 * time.Minute, true},
		"the last attempt had an answer":      {[]RefusalKind{OutcomeIsUnknown, Denied}, 20 * time.Minute, false},
		"the first attempt had an answer":     {[]RefusalKind{Denied, OutcomeIsUnknown}, 13 * time.Minute, false},
		"ten minutes after the last answer":   {[]RefusalKind{Denied, OutcomeIsUnknown}, 14 * time.Minute, true},
		"an answer between two without one":   {[]RefusalKind{OutcomeIsUnknown, Denied, OutcomeIsUnknown}, 17 * time.Minute, false},
		"an answer between, and ten more":     {[]RefusalKind{OutcomeIsUnknown, Denied, OutcomeIsUnknown}, 18 * time.Minute, true},
		"only answers, and they are refusals": {[]RefusalKind{Denied, ServerBusy}, time.Hour, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(3)
			d := Decision{Pod: w.Governed[0].Pods[0], Autoscaler: a, Do: Evict}
			for i, kind := range tt.attempts {
				w.Ledger.Refused(noon.Add(time.Duration(i)*4*time.Minute), d, Refusal{Kind: kind, Text: "broken pipe"}, 3)
			}
			r, told := Begin(noon.Add(tt.after), w, DefaultBudget()).Unanswered(d)
			if told != tt.want {
				t.Fatalf("reported: %v (%s), want %v", told, r, tt.want)
			}
			if told && (r.For < unansweredAfter || r.Text != "broken pipe" || !r.Until.IsZero() && r.Until.Before(noon.Add(tt.after))) {
				t.Errorf("the reason is %+v", r)
			}
		})
	}
}

func TestPass_resizeIsUnanswered_isReportedAfterTenMinutes(t *testing.T) {
	w, a := shrinking(3)
	a.Mode = cluster.InPlaceOrRecreate
	d := Decision{Pod: w.Governed[0].Pods[0], Autoscaler: a, Do: Resize}
	w.Ledger.Refused(noon, d, Refusal{Kind: OutcomeIsUnknown}, 3)
	if _, told := Begin(noon.Add(10*time.Minute), w, DefaultBudget()).Unanswered(d); !told {
		t.Error("the unanswered resize is not reported")
	}
	w.Ledger.Done(noon.Add(time.Minute), d)
	if r, told := Begin(noon.Add(10*time.Minute), w, DefaultBudget()).Unanswered(d); told {
		t.Errorf("a resize that was carried out is reported as unanswered: %s", r)
	}
}
