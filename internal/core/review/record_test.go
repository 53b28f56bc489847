// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestRecord_riskyContainer_hasAmountsFindingsAndMoney(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	r := Row{Subject: Subject{Evidence: new(Evidence)}, Confidence: Medium, Weight: 12.345, Risk: SeverityHigh}
	r.Workload = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	r.Container, r.Replicas = "app", 3
	r.Requests, r.Limits = cluster.Amounts(1000, 1<<30), cluster.Resources{}.Set(cluster.Memory, 3<<20)
	r.Target, r.Request = cluster.Amounts(250, 1500), cluster.Amounts(250, 1<<20)
	r.Freed = cluster.Amounts(2250, 1<<10)
	r.Template = &Size{Requests: cluster.Amounts(500, 1<<30)}
	r.Kept = [2]Kept{{Reason: FollowsHPA, By: "web", Percent: 80}, {Reason: NotControlled, By: "vpa"}}
	r.Findings = []Finding{{Kind: Killed, Severity: SeverityHigh, Resource: cluster.Memory, Count: 2, Since: now.Add(-time.Hour)},
		{Kind: BelowTarget, Resource: cluster.CPU, Share: 0.33333}}
	got := r.Record(now, &Prices{PriceSource: PriceSource{Currency: "EUR"}})
	if got.Replicas != 3 || got.Risk != "high" || got.MoneyMonth == nil || *got.MoneyMonth != 12.35 && *got.MoneyMonth != 12.34 {
		t.Errorf("replicas %d, risk %s, money %v; want 3, high, 12.34 or 12.35", got.Replicas, got.Risk, got.MoneyMonth)
	}
	if want := (ResourceRecord{Request: "1", Target: "250m", NewRequest: "250m", By: "web", HPATarget: 80}); got.CPU != want {
		t.Errorf("CPU %+v, want %+v", got.CPU, want)
	}
	if want := (ResourceRecord{Request: "1Gi", Limit: "3Mi", Target: "1500", NewRequest: "1Mi", Kept: "NotControlledByVPA", By: "vpa"}); got.Memory != want {
		t.Errorf("memory %+v, want %+v", got.Memory, want)
	}
	if want := (Quantities{CPU: "2250m", Memory: "1Ki"}); got.Freed != want {
		t.Errorf("freed %+v, want %+v", got.Freed, want)
	}
	if got.Template == nil || !got.Template.Differs || got.Template.Requests.CPU != "500m" {
		t.Errorf("template %+v, want one that differs", got.Template)
	}
	if len(got.Findings) != 2 || got.Findings[0].Since != "2026-11-01T11:00:00Z" || got.Findings[0].Share != nil || *got.Findings[1].Share != 0.333 {
		t.Errorf("findings %+v", got.Findings)
	}
	if want := "killed for memory at least 2× since " + day(now.Add(-time.Hour), now) + "; CPU request 33 % below need; set the CPU target of HPA web to 80 %"; got.Why != want {
		t.Errorf("why %q, want %q", got.Why, want)
	}
	if r.Record(now, &Prices{}).MoneyMonth != nil {
		t.Error("there is money without prices")
	}
}

func TestRecord_noConfidence_hasTheReason(t *testing.T) {
	for want, e := range map[string]Evidence{
		"no usage in the window":                           {},
		"not enough usage: less than 1 hour, 6 are needed": {Samples: 10},
		"not enough usage: 1 hour, 6 are needed":           {Samples: 60, Hours: 1},
		"not enough usage: 5 hours, 6 are needed":          {Samples: 300, Hours: 5},
		"its pods run elsewhere":                           {Lack: "its pods run elsewhere"},
	} {
		r := Row{}
		r.Evidence = &e
		r.Target, r.Request = cluster.Amounts(250, 1500), cluster.Amounts(250, 1<<20)
		got := r.Record(time.Time{}, &Prices{})
		if got.Why != want || got.CPU.NewRequest != "" || got.Template != nil || len(got.Findings) != 0 {
			t.Errorf("%q: %+v", want, got)
		}
	}
}

func TestCents_negativeAndTiny_areRounded(t *testing.T) {
	for v, want := range map[float64]float64{-0.001: 0, -1.239: -1.24, 0.004: 0} {
		if got := *Cents(v); got != want {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
	}
}

// One rule says what is too young, with the number.
func TestLacking_ageOfTheUsage_isInTheText(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for want, e := range map[string]Evidence{
		"no usage in the window":                           {},
		"not enough usage: 40 minutes, 6 hours are needed": {From: at.Add(-40 * time.Minute), To: at, Samples: 40},
		"not enough usage: less than 1 hour, 6 are needed": {From: at.Add(-45 * time.Second), To: at, Samples: 2},
		"not enough usage: 5 hours, 6 are needed":          {Hours: 5, Samples: 300},
		"its stored usage could not be read":               {Hours: 500, Lack: "its stored usage could not be read"},
		"":                                                 {Hours: lowHours, Samples: 360},
	} {
		if got := e.Lacking(); got != want || (got == "") != (e.Confidence() > None) {
			t.Errorf("%+v: %q with confidence %v, want %q", e, got, e.Confidence(), want)
		}
	}
}
