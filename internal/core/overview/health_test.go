// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"
	"time"
)

func TestHealthOf_eachState_hasConditionAndCause(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	loop := func(name string, active, passed time.Duration) Loop {
		l := Loop{Name: name, Window: 5 * time.Minute, Active: ago(active)}
		if passed > 0 {
			l.Passed = ago(passed)
		}
		return l
	}
	lease := func(name string, renewed time.Duration) Lease {
		return Lease{Name: name, Found: true, Holder: "podfit-7d9f-a", Renewed: ago(renewed), Duration: 15 * time.Second}
	}
	registered := Webhook{Known: true, Registered: true, Until: now.AddDate(1, 0, 0), Lease: lease("vpa-admission-controller", 3*time.Second)}
	with := func(change func(*Webhook)) Webhook {
		w := registered
		change(&w)
		return w
	}
	for name, c := range map[string]struct {
		facts Facts
		part  int
		want  Condition
		text  string
	}{
		"loop works":                   {Facts{Leading: true, Loops: []Loop{loop("recommender", time.Second, 5*time.Second)}}, 0, Healthy, "This process leads. The last good pass was 5 s ago."},
		"loop has not begun":           {Facts{Leading: true, Loops: []Loop{{Name: "updater", Window: time.Minute}}}, 1, Late, "It has not started a pass yet."},
		"loop hangs":                   {Facts{Leading: true, Loops: []Loop{loop("updater", time.Hour, time.Hour)}}, 1, Failing, "It has done nothing for 60 min."},
		"no complete pass":             {Facts{Leading: true, Loops: []Loop{loop("updater", time.Second, 0)}}, 1, Late, "No pass was complete yet. The log has the cause."},
		"passes fail":                  {Facts{Leading: true, Loops: []Loop{loop("updater", time.Second, 3*time.Hour)}}, 1, Late, "The last good pass was 3 h ago. The log has the cause."},
		"another leads":                {Facts{Loops: []Loop{loop("updater", time.Hour, time.Hour)}, Leases: []Lease{lease("vpa-updater", 2*time.Second)}}, 1, Healthy, "podfit-7d9f-a leads and renewed its lease 2 s ago."},
		"newest lease":                 {Facts{Leases: []Lease{lease("vpa-updater", 90*24*time.Hour), lease("podfit", time.Second)}}, 1, Healthy, "podfit-7d9f-a leads and renewed its lease 1 s ago."},
		"nobody leads":                 {Facts{Leases: []Lease{lease("podfit", time.Hour)}}, 1, Failing, "The lease podfit was last renewed 60 min ago. No replica leads."},
		"no leases":                    {Facts{}, 1, NotKnown, "There is no lease of it. Without leader election there is none."},
		"leases not read":              {Facts{Problem: "podfit may not read leases."}, 1, NotKnown, "podfit may not read leases."},
		"usage is stored":              {Facts{Stored: ago(20 * time.Minute), Looked: ago(10 * time.Minute)}, 0, Healthy, "Usage was last stored on 22 Nov, 11:40 UTC, as of 22 Nov, 11:50 UTC."},
		"usage is not stored any more": {Facts{Stored: ago(72 * time.Hour), Looked: now}, 0, Failing, "Usage was last stored on 19 Nov, 12:00 UTC, as of 22 Nov, 12:00 UTC."},
		"webhook works":                {Facts{Webhook: registered}, 2, Healthy, "It is registered and renewed its lease 3 s ago. Its certificate authority is valid until 22 Nov 2027."},
		"webhook without lease":        {Facts{Webhook: with(func(w *Webhook) { w.Lease = Lease{} })}, 2, Healthy, "It is registered. Its certificate authority is valid until 22 Nov 2027."},
		"webhook, lease not read":      {Facts{Webhook: with(func(w *Webhook) { w.Lease, w.Problem = Lease{}, "podfit may not read its lease." })}, 2, NotKnown, "It is registered. Whether it works is not known: podfit may not read its lease. Its certificate authority is valid until 22 Nov 2027."},
		"webhook not registered":       {Facts{Webhook: Webhook{Known: true}}, 2, Failing, "It is not registered, so new pods keep their own requests."},
		"webhook is gone":              {Facts{Webhook: with(func(w *Webhook) { w.Lease.Renewed = ago(time.Hour) })}, 2, Failing, "It is registered, but last renewed its lease 60 min ago. Its certificate authority is valid until 22 Nov 2027."},
		"certificate expires":          {Facts{Webhook: with(func(w *Webhook) { w.Until = now.AddDate(0, 0, 3) })}, 2, Late, "It is registered. Its certificate authority is valid until 25 Nov 2026."},
		"certificate expired":          {Facts{Webhook: with(func(w *Webhook) { w.Until = now.AddDate(0, 0, -3) })}, 2, Failing, "The certificate authority of its registration expired on 19 Nov 2026, so the API server cannot call it."},
		"webhook not read":             {Facts{Webhook: Webhook{Problem: "podfit may not read webhook configurations."}}, 2, NotKnown, "podfit may not read webhook configurations."},
	} {
		c.facts.Now = now
		if got := HealthOf(&c.facts)[c.part]; got.Condition != c.want || got.Text != c.text {
			t.Errorf("%s: %s because %q, want %s because %q", name, got.Condition, got.Text, c.want, c.text)
		}
	}
}

// A reading is shown until the next one is made. Parts that work renew their leases meanwhile, so the age of a lease counts from the reading.
func TestHealthOf_readingIsOld_leasesCountFromTheReading(t *testing.T) {
	read := now.Add(-110 * time.Second)
	lease := Lease{Name: "podfit", Found: true, Holder: "podfit-7d9f-a", Renewed: read.Add(-3 * time.Second), Duration: 15 * time.Second}
	f := Facts{Now: now, Read: read, Leases: []Lease{lease}, Webhook: Webhook{Known: true, Registered: true, Lease: lease}}
	for _, p := range HealthOf(&f) {
		if p.Condition != Healthy {
			t.Errorf("%s is %s: %s", p.Name, p.Condition, p.Text)
		}
	}
	f.Read = now // a new reading shows that nobody renews them
	for _, p := range HealthOf(&f) {
		if p.Condition != Failing {
			t.Errorf("%s is %s: %s", p.Name, p.Condition, p.Text)
		}
	}
}
