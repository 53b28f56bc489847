// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A recommendation is young from the first sample on until there are six hours of usage. Usage that is not known gives no number.
func TestYoung_usage_numberIsShownWithItsAge(t *testing.T) {
	for name, tt := range map[string]struct {
		e    Evidence
		want string // "": not young
	}{
		"no sample":             {Evidence{}, ""},
		"one sample":            {Evidence{From: now, To: now, Samples: 1}, "from one sample of usage"},
		"the clock went back":   {Evidence{From: now, To: now.Add(-time.Hour), Samples: 2}, "from one sample of usage"},
		"two minutes":           {Evidence{From: now.Add(-2 * time.Minute), To: now, Samples: 3, Provisional: true}, "from 2 min of usage"},
		"over the hour":         {Evidence{From: now.Add(-12 * time.Minute), To: now, Samples: 12, Hours: 2}, "from 12 min of usage"},
		"few samples in 5 days": {Evidence{From: now.AddDate(0, 0, -5), To: now, Samples: 9}, "from 59 min of usage"},
		"four hours of 5 days":  {Evidence{From: now.AddDate(0, 0, -5), To: now, Samples: 240, Hours: 4}, "from 4 h of usage"},
		"six hours":             {Evidence{From: now.Add(-6 * time.Hour), To: now, Samples: 360, Hours: 6}, ""},
		"not read":              {Evidence{From: now.Add(-time.Hour), To: now, Samples: 60, Hours: 1, Lack: UnreadUsage}, ""},
	} {
		s := subject("web", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(200, gib/2))
		s.Evidence = &tt.e
		row := reviewed(s)
		if got := row.Basis(); got != tt.want || row.Young.Has.Empty() != (tt.want == "") {
			t.Errorf("%s: young %v, %q, want %q", name, row.Young, got, tt.want)
		}
		record := row.Record(now, &Prices{})
		if young := tt.want != ""; record.Young != young || (record.UsageMinutes != nil) != young || (record.CPU.Young == "200m") != young {
			t.Errorf("%s: got the record %+v", name, record)
		}
	}
}

// A young recommendation counts nowhere unless that is asked for.
func TestYoung_totals_haveItOnlyIfAskedFor(t *testing.T) {
	young := subject("web", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(200, gib/2))
	young.Evidence.Hours = 5
	for _, included := range []bool{false, true} {
		r := New(Config{Now: now, IncludeYoung: included}, []Subject{young})
		row := r.Rows[0]
		record := row.Record(now, &Prices{})
		if counts := r.Summary.Freed.CPU == 1600; counts != included || r.Summary.Unjudged != 1 || row.OnlyShown(cluster.CPU) == included ||
			row.Changes(cluster.CPU) != included || (record.CPU.Target != "") != included || (record.CPU.NewRequest == "200m") != included || (row.Waste > Harmless) != included {
			t.Errorf("included %v: summary %+v, record %+v", included, r.Summary, record)
		}
	}
}

// A young recommendation is no reason to change the target of an HPA, unless it counts.
func TestYoung_followedByHPA_targetOfTheHPAIsNamedOnlyIfItCounts(t *testing.T) {
	for _, included := range []bool{false, true} {
		s := subject("web", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(200, gib/2))
		s.Evidence.Hours = 5
		s.Kept[0] = Kept{Reason: FollowsHPA, By: "web", Percent: 350}
		row := New(Config{Now: now, IncludeYoung: included}, []Subject{s}).Rows[0]
		record := row.Record(now, &Prices{})
		if strings.Contains(record.Why, "HPA") != included || (record.CPU.HPATarget == 350) != included {
			t.Errorf("included %v: why %q, target of the HPA %d", included, record.Why, record.CPU.HPATarget)
		}
	}
}

// A container that has only a young recommendation is one without, also if its usage was read for minutes.
func TestYoung_provisional_countsAsWithoutRecommendation(t *testing.T) {
	for _, included := range []bool{false, true} {
		s := subject("web", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(200, gib/2))
		s.Evidence = &Evidence{From: now.Add(-2 * time.Minute), To: now, Samples: 3, Hours: 1, Provisional: true}
		if got := New(Config{Now: now, IncludeYoung: included}, []Subject{s}).Summary.Young; (got == 0) != included {
			t.Errorf("included %v: %d containers without a recommendation", included, got)
		}
	}
}
