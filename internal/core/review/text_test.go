// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

func TestFinding_eachKind_hasANameAndAText(t *testing.T) {
	for want, f := range map[string]Finding{
		"OOMKilled high: killed for memory at least 3× since 10:00 UTC":                    {Kind: Killed, Severity: SeverityHigh, Count: 3, Since: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)},
		"OOMKilled high: killed for memory at least 3× since Sat":                          {Kind: Killed, Severity: SeverityHigh, Count: 3, Since: time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC)},
		"OOMKilled high: killed for memory at least 1× since 20 Feb":                       {Kind: Killed, Severity: SeverityHigh, Count: 1, Since: time.Date(2026, 2, 20, 10, 0, 0, 0, time.UTC)},
		"PeakNearLimit medium: peak 97 % of its limit on 1 day":                            {Kind: NearLimit, Severity: SeverityMedium, Share: 0.97, Count: 1},
		"PeakNearLimit medium: peak 97 % of its limit on 2 days":                           {Kind: NearLimit, Severity: SeverityMedium, Share: 0.97, Count: 2},
		"Throttled high: throttled in 30 % of CPU periods":                                 {Kind: Throttling, Severity: SeverityHigh, Share: 0.3},
		"NoRequest low: no memory request":                                                 {Kind: NoRequest, Severity: SeverityLow, Resource: cluster.Memory},
		"RequestBelowTarget none: CPU request 40 % below need":                             {Kind: BelowTarget, Resource: cluster.CPU, Share: 0.4},
		"RequestBelowTarget medium: memory request 12 % below need":                        {Kind: BelowTarget, Severity: SeverityMedium, Resource: cluster.Memory, Share: 0.12},
		"JVMUsesAllCores medium: ◆ JVM and 1 core: sees all cores of the node (explain)":   {Kind: AllCores, Severity: SeverityMedium, Amount: 1000},
		"JVMUsesAllCores medium: ◆ JVM: with 995m it sees all cores of the node (explain)": {Kind: AllCores, Severity: SeverityMedium, Amount: 995, Proposed: true},
	} {
		noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		if got := f.Kind.String() + " " + f.Severity.String() + ": " + f.Text(noon); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestConfidence_names_areInOrder(t *testing.T) {
	var names []string
	for c := None; c <= High; c++ {
		names = append(names, c.String())
	}
	if got := strings.Join(names, " "); got != "none low medium high" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(LimitRules(), " "); got != "keep proportional none memory-only" {
		t.Errorf("rules %s", got)
	}
}

// Pods were resized, and the template has the old requests: the template changes although the pods do not.
func TestRow_podsDifferFromTheirTemplate_templateChanges(t *testing.T) {
	size := cluster.Amounts(500, 512<<20)
	s := subject("web", 2, size, cluster.Resources{}, size)
	if row := reviewed(s); row.TemplateDiffers() || row.Changes(cluster.CPU) || row.Changes(cluster.Memory) {
		t.Errorf("without a template: %+v to %+v", row.Declared(), row.Declare())
	}
	s.Template = &Size{Requests: cluster.Amounts(2000, 512<<20)}
	row := reviewed(s)
	if !row.TemplateDiffers() || !row.Changes(cluster.CPU) || row.Changes(cluster.Memory) {
		t.Errorf("the template changes from %+v to %+v", row.Declared(), row.Declare())
	}
	s.Evidence = &Evidence{}
	if row := reviewed(s); row.Declare().Requests != s.Template.Requests {
		t.Errorf("without confidence, the template changes to %+v", row.Declare())
	}
}

func TestReport_orders_areByNameAndByMoney(t *testing.T) {
	large, small := cluster.Amounts(4000, 4<<30), cluster.Amounts(200, 256<<20)
	r := New(Config{Now: now}, []Subject{
		subject("b", 1, small, cluster.Resources{}, small), subject("c", 1, large, cluster.Resources{}, small), subject("a", 1, small, cluster.Resources{}, small),
	})
	names := func(rows []*Row) (out string) {
		for _, row := range rows {
			out += row.Workload.Name
		}
		return out
	}
	if got := names(r.ByName()); got != "abc" {
		t.Errorf("by name: %s", got)
	}
	if got := names(r.ByMoney()); got != "cab" {
		t.Errorf("by money: %s", got)
	}
}

func TestEvidence_killsInTheStatusOfPods_countIfTheyAreMore(t *testing.T) {
	since := now.Add(-24 * time.Hour)
	killed := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Exit: &cluster.Exit{OOM: true, Kills: 3, Finished: now.Add(-time.Hour)}}}}
	old := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Exit: &cluster.Exit{OOM: true, Kills: 9, Finished: now.Add(-48 * time.Hour)}}}}
	e := Evidence{}
	e.AddStatusKills([]*cluster.Pod{killed, old, {}}, "app", since)
	if e.Kills != 3 {
		t.Errorf("%d kills, want the 3 of the last day", e.Kills)
	}
	more := Evidence{Kills: 5, KilledFrom: now.Add(-2 * time.Hour), KilledLast: now.Add(-time.Hour)}
	more.AddStatusKills([]*cluster.Pod{killed}, "app", since)
	if more.Kills != 5 {
		t.Errorf("%d kills, want the 5 that are known", more.Kills)
	}
	if e := StoredEvidence(nil, "app", nil, now); e.Lack == "" {
		t.Error("evidence without a VPA")
	}
	if e := StoredEvidence(&cluster.Autoscaler{}, "app", nil, now); e.Lack == "" {
		t.Error("evidence without a history")
	}
}

func TestStoredEvidence_clockIsBehindTheVPA_hasNoHoursAndDays(t *testing.T) {
	now := time.Date(2027, 3, 11, 0, 0, 20, 0, time.UTC)
	a := &cluster.Autoscaler{Created: now.AddDate(0, 7, 0), Advice: []cluster.Advice{{Container: "app"}}}
	e := StoredEvidence(a, "app", &usage.ContainerHistory{}, now)
	if e.Hours != 0 || e.Days() != 0 || e.Lacking() != "no usage in the window" {
		t.Errorf("%d hours, %d days: %q", e.Hours, e.Days(), e.Lacking())
	}
}
