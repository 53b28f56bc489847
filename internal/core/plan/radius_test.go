// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

func TestPlan_changesPerHourAreLimited_waitsAndGoesOnAfterARestart(t *testing.T) {
	for name, set := range map[string]func(*Budget){
		"namespace": func(b *Budget) { b.NamespaceShare = 0.25 },
		"cluster":   func(b *Budget) { b.ClusterShare = 0.25 },
	} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(8)
			a.MinReplicas = 1
			b := DefaultBudget()
			b.Tolerance = 1
			set(&b)
			w.Requested = RequestedBy(w.Governed[0].Pods)
			p := Begin(noon, w, b)
			acts := evictions(p)
			if len(acts) != 2 {
				t.Fatalf("%d evictions, want a quarter of 8", len(acts))
			}
			for _, d := range p.Decisions()[2:] {
				if d.Reason.Code != decision.BlastRadius || d.Reason.Have != 38 || d.Reason.Want != 25 {
					t.Errorf("%s: %s", d.Pod.Name, d.Reason)
				}
			}
			p.Done(acts[0])
			p.Refused(acts[1], decision.Refusal{Kind: decision.OutcomeIsUnknown})
			w.Governed[0].Pods = w.Governed[0].Pods[2:]
			stored := w.Ledger.Export(b.Delays)
			for i := range stored {
				stored[i].Replacements = nil // they exist
			}
			w.Ledger = ledger.New()
			w.Ledger.Restore(noon.Add(time.Minute), stored)
			at := func(d time.Duration) int { return len(evictions(Begin(noon.Add(d), w, b))) }
			if got := at(10 * time.Minute); got != 0 {
				t.Errorf("%d evictions in the same hour", got)
			}
			for _, d := range Plan(noon.Add(10*time.Minute), w, b) {
				if want := noon.Add(time.Hour + time.Minute); d.Reason.Code != decision.BlastRadius || !d.Reason.Until.Equal(want) {
					t.Errorf("%s: %s", d.Pod.Name, d.Reason)
				}
			}
			if got := at(62 * time.Minute); got == 0 {
				t.Error("no eviction in the next hour")
			}
		})
	}
}

func TestPlan_changesAreNotLimited_recordsNone(t *testing.T) {
	w, _ := shrinking(3)
	p := Begin(noon, w, DefaultBudget())
	for _, d := range evictions(p) {
		p.Done(d)
	}
	if len(w.Ledger.Changes()) > 0 {
		t.Errorf("changes %v", w.Ledger.Changes())
	}
}
