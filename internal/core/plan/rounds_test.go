// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// The replacements of a workload are evicted again at once one time. Each later round waits, also after a restart. Pods of
// the same round do not wait.
func TestPlan_replacementsAreOutsideTheirBoundsAgain_laterRoundsWait(t *testing.T) {
	b := DefaultBudget()
	w, a := shrinking(3)
	pod := w.Governed[0].Pods[0]
	evict := func(after time.Duration) {
		q := *pod
		q.UID, q.Created = pod.UID+"+", noon.Add(after)
		pod = &q
		w.Ledger.Done(noon.Add(after), ledger.Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Evict})
		replacement := *pod
		replacement.Created = pod.Created.Add(time.Second)
		w.Ledger.Learn(noon.Add(after), ledger.View{}, []decision.Decision{{Pod: &replacement}}) // it had an effect
	}
	waits := func(l *ledger.Ledger, at time.Duration, created time.Duration) bool {
		q := *pod
		q.Created = noon.Add(created)
		w.Ledger = l
		s := &pass{now: noon.Add(at), w: w, b: b}
		_, blocked := (&candidate{pass: s, d: &entry{Decision: &decision.Decision{Pod: &q, Autoscaler: a}}}).changesTooOften()
		return blocked
	}
	l := w.Ledger
	evict(0)
	if waits(l, time.Minute, time.Minute) {
		t.Error("the second round waits")
	}
	evict(time.Minute)
	after := ledger.New()
	after.Restore(noon.Add(time.Minute), l.Export(b.Delays))
	for name, record := range map[string]*ledger.Ledger{"the same updater": l, "a new updater": after} {
		for _, c := range []struct {
			at, created time.Duration
			want        bool
		}{
			{2 * time.Minute, 2 * time.Minute, true}, {2 * time.Minute, time.Minute, false},
			{30 * time.Minute, 2 * time.Minute, true}, {31 * time.Minute, 2 * time.Minute, false},
		} {
			if got := waits(record, c.at, c.created); got != c.want {
				t.Errorf("%s, after %v, a pod created after %v waits: %t, want %t", name, c.at, c.created, got, c.want)
			}
		}
	}
}
