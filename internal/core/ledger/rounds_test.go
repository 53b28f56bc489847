// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/decision"
)

// An OOM rescue begins no round, and neither does an eviction after one without effect.
func TestLedger_rescueAndEvictionWithoutEffect_areNoRounds(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	for i := range 2 {
		q := *pod
		q.Created = noon.Add(time.Duration(i) * time.Minute)
		pod = &q
		l.Done(pod.Created, Attempt{Pod: pod, Do: decision.Evict})
		delete(l.evictions, db) // it had an effect
	}
	rescued := *pod
	rescued.Created = noon.Add(time.Hour)
	l.Done(noon.Add(time.Hour), Attempt{Pod: &rescued, Do: decision.Evict, Rescue: true})
	if got := l.rounds[db]; got.Count != 2 {
		t.Errorf("after an OOM rescue there are %d rounds, want 2", got.Count)
	}
	next := rescued
	next.Created = noon.Add(90 * time.Minute)
	if got, ok := l.NextRound(&next, true); !ok || got.Count != 3 || !got.At.Equal(noon.Add(time.Hour)) {
		t.Errorf("the next rescue follows %+v (%t), want 3 rounds", got, ok)
	}
	l.evictions[db] = eviction{EvictionState: EvictionState{Ineffective: 1}}
	q := *pod
	q.Created = noon.Add(2 * time.Hour)
	l.Done(noon.Add(2*time.Hour), Attempt{Pod: &q, Do: decision.Evict})
	if got := l.rounds[db]; got.Count != 2 {
		t.Errorf("after an eviction without effect there are %d rounds, want 2", got.Count)
	}
	l.Learn(noon.Add(2*time.Hour+roundsTTL+time.Second), View{}, nil)
	if len(l.rounds) > 0 {
		t.Error("the rounds are kept")
	}
}
