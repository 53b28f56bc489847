// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// An outage of the API server says nothing about the pod: its resize is tried again and is not replaced by an eviction.
func TestPass_apiServerNotReached_neverEvictsInsteadOfResizing(t *testing.T) {
	y := &tenancy{template: 100, want: 700, hard: 100000, mode: cluster.InPlaceOrRecreate}
	y.pods = []*cluster.Pod{y.pod(noon.AddDate(0, 0, -2), 400), y.pod(noon.AddDate(0, 0, -2), 400)}
	l := ledger.New()
	tried := 0
	for minute := range 240 {
		p := Begin(noon.Add(time.Duration(minute)*time.Minute), y.world(2, l), y.budget())
		for queue := p.Decisions(); len(queue) > 0; {
			d := queue[0]
			queue = queue[1:]
			if d.Do == decision.Evict {
				t.Fatalf("minute %d: evicts %s after %d attempts: %s", minute, d.Pod.Name, tried, d.Reason)
			}
			if d.Do == decision.Resize {
				tried++
				queue = append(queue, p.Refused(d, decision.Refusal{Kind: decision.NotReached, Text: "connection refused"})...)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d attempts in four hours", tried)
	}
}

// The API server has refused nothing, so the reason must not say that it did.
func TestPlan_apiServerNotReached_reasonIsNotARefusal(t *testing.T) {
	for mode, do := range map[cluster.Mode]decision.Act{cluster.Recreate: decision.Evict, cluster.InPlace: decision.Resize} {
		y := &tenancy{template: 100, want: 700, hard: 100000, mode: mode}
		y.pods = []*cluster.Pod{y.pod(noon.AddDate(0, 0, -2), 400), y.pod(noon.AddDate(0, 0, -2), 400)}
		l := ledger.New()
		p := Begin(noon, y.world(2, l), y.budget())
		d := p.Decisions()[0]
		if d.Do != do {
			t.Fatalf("%s: the first decision is to %s, want %s", mode, d.Do, do)
		}
		p.Refused(d, decision.Refusal{Kind: decision.NotReached, Text: "connection refused"})
		for when, ds := range map[string][]decision.Decision{"same pass": p.Decisions(), "next pass": Begin(noon.Add(30*time.Second), y.world(2, l), y.budget()).Decisions()} {
			i := slices.IndexFunc(ds, func(o decision.Decision) bool { return o.Pod.UID == d.Pod.UID })
			if r := ds[i].Reason; r.Code != decision.ServerNotReached || !strings.Contains(r.Text, "connection refused") || r.Until.IsZero() {
				t.Errorf("%s, %s: the reason is %s: %s", mode, when, r.Code, r)
			}
		}
	}
}
