// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/decision"
)

// The replacements of a workload are evicted again at once one time. Each later round waits, also after a restart. An OOM rescue and
// pods of the same round do not wait, and evictions without effect are no rounds.
func TestPlan_replacementsAreOutsideTheirBoundsAgain_laterRoundsWait(t *testing.T) {
	b := DefaultBudget()
	w, a := shrinking(3)
	pod := w.Governed[0].Pods[0]
	evict := func(after time.Duration) {
		q := *pod
		q.UID, q.Created = pod.UID+"+", noon.Add(after)
		pod = &q
		w.Ledger.Done(noon.Add(after), Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Evict})
		delete(w.Ledger.evictions, workloadOf(pod)) // it had an effect
	}
	waits := func(l *Ledger, at time.Duration, created time.Duration) bool {
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
	after := NewLedger()
	after.Restore(noon.Add(time.Minute), l.Export(b))
	for name, ledger := range map[string]*Ledger{"the same updater": l, "a new updater": after} {
		for _, c := range []struct {
			at, created time.Duration
			want        bool
		}{
			{2 * time.Minute, 2 * time.Minute, true}, {2 * time.Minute, time.Minute, false},
			{30 * time.Minute, 2 * time.Minute, true}, {31 * time.Minute, 2 * time.Minute, false},
		} {
			if got := waits(ledger, c.at, c.created); got != c.want {
				t.Errorf("%s, after %v, a pod created after %v waits: %t, want %t", name, c.at, c.created, got, c.want)
			}
		}
	}
	w.Ledger = l
	l.Done(noon.Add(time.Hour), Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Evict, Rescue: true})
	if got := l.rounds[workloadOf(pod)]; got.n != 2 {
		t.Errorf("after an OOM rescue there are %d rounds, want 2", got.n)
	}
	l.evictions[workloadOf(pod)] = eviction{ineffective: 1}
	q := *pod
	q.Created = noon.Add(2 * time.Hour)
	l.Done(noon.Add(2*time.Hour), Attempt{Pod: &q, Autoscaler: a.Key, Do: decision.Evict})
	if got := l.rounds[workloadOf(pod)]; got.n != 2 {
		t.Errorf("after an eviction without effect there are %d rounds, want 2", got.n)
	}
	l.Learn(noon.Add(2*time.Hour+roundsTTL+time.Second), w, nil)
	if len(l.rounds) > 0 {
		t.Error("the rounds are kept")
	}
}
