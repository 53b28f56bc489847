// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// delays are the default ones.
var delays = attempt.Delays{
	RefusalBase: time.Minute, RefusalMax: 90 * time.Minute, EvictionBackoff: 30 * time.Minute, BackoffBase: 5 * time.Minute, BackoffMax: 6 * time.Hour,
}

// db is the workload of the pods, and the key of its autoscaler.
var (
	db  = cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	vpa = cluster.Key{Namespace: "shop", Name: "db"}
)

// podsOf returns pods of the workload db.
func podsOf(replicas int) []*cluster.Pod {
	var out []*cluster.Pod
	for i := range replicas {
		out = append(out, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("db-%d", i)}, UID: fmt.Sprint(i), Controller: db, Top: db, Node: "a",
			Phase: cluster.Running, Ready: true, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30)}},
		})
	}
	return out
}

// restored returns a ledger after a restart.
func restored(now time.Time, l *Ledger) *Ledger {
	next := New()
	next.Restore(now, l.Export(delays))
	return next
}

// The ledger forgets pods that are gone, so that it does not grow without limit.
func TestLedger_podsAreGone_forgetsThem(t *testing.T) {
	l := New()
	w := cluster.Workload{Group: "apps", Kind: "StatefulSet", Name: "w"}
	p := &cluster.Pod{Key: cluster.Key{Name: "a"}, UID: "1", Top: w, Controller: w}
	l.Done(noon, Attempt{Pod: p, Do: decision.Resize})
	l.Done(noon, Attempt{Pod: p, Do: decision.Evict})
	l.Refused(noon, Attempt{Pod: &cluster.Pod{UID: "2"}, Do: decision.Resize}, decision.Refusal{Kind: decision.DeniedByNode}, 0)
	l.Refused(noon, Attempt{Pod: &cluster.Pod{UID: "3"}, Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget}, 0)
	l.Learn(noon.Add(time.Hour), View{}, []decision.Decision{{Pod: &cluster.Pod{UID: "2"}}})
	if len(l.resizes) != 0 || len(l.refusals) != 1 || len(l.evictions) != 1 || len(l.evicted) != 0 {
		t.Errorf("after an hour it keeps %d resizes, %d refusals, %d evictions of workloads and %d of pods",
			len(l.resizes), len(l.refusals), len(l.evictions), len(l.evicted))
	}
	l.Learn(noon.Add(25*time.Hour), View{}, nil)
	if n := len(l.resizes) + len(l.refusals) + len(l.evictions) + len(l.evicted) + len(l.progress) + len(l.pending); n != 0 {
		t.Errorf("after a day it keeps %d entries: %+v", n, l)
	}
}

func TestBackoff_moreAttempts_doublesUpToMaximum(t *testing.T) {
	for n, want := range map[int]time.Duration{
		1: 5 * time.Minute, 2: 10 * time.Minute, 3: 20 * time.Minute, 7: 320 * time.Minute, 8: 6 * time.Hour, 1 << 30: 6 * time.Hour,
	} {
		if got := delays.Backoff(n); got != want {
			t.Errorf("after %d: %s, want %s", n, got, want)
		}
	}
}
