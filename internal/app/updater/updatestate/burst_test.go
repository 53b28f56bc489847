// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A burst is a recorder with a ledger and workloads, from each of which passes evict a pod.
type burst struct {
	t         *testing.T
	r         *Recorder
	store     *memoryStates
	record    *ledger.Ledger
	workloads []cluster.Workload
	log       bytes.Buffer
	evicted   int
}

func newBurst(t *testing.T, workloads int) *burst {
	b := &burst{t: t, store: newMemoryStates(), record: ledger.New()}
	b.r = New(b.store, true, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(&b.log, nil)))
	for i := range workloads {
		b.workloads = append(b.workloads, cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("web-%02d", i)})
	}
	return b
}

// pass evicts a pod of each workload.
func (b *burst) pass(ctx context.Context) {
	now := time.Now()
	b.record.Learn(now, ledger.View{}, nil)
	b.r.Begin(now, b.record, delays, acting(b.workloads))
	for _, w := range b.workloads {
		b.r.Announce(ctx, now, w)
		b.evicted++
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: w.Name}, UID: fmt.Sprint(w.Name, b.evicted), Top: w, Controller: w}
		b.record.Done(now, ledger.Attempt{Pod: p, Do: decision.Evict})
	}
	b.r.Save(ctx, now, b.record, delays, false)
}

// acting returns workloads for Begin, without the creation times of their pods.
func acting(workloads []cluster.Workload) map[cluster.Workload]time.Time {
	out := map[cluster.Workload]time.Time{}
	for _, w := range workloads {
		out[w] = time.Time{}
	}
	return out
}

func (b *burst) want(writes, objects int, when string) {
	b.t.Helper()
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if b.store.writes != writes || len(b.store.objects) != objects {
		b.t.Errorf("%s: %d writes and %d objects, want %d and %d", when, b.store.writes, len(b.store.objects), writes, objects)
	}
}

func TestBurst_passesFollowEachOther_announcementsAndOutcomesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 20)
		for range 9 {
			b.pass(t.Context())
			time.Sleep(time.Second)
		}
		b.want(20, 20, "after 9 passes in 9s, which one announcement of each workload covers")
		time.Sleep(saveDelay)
		synctest.Wait()
		b.want(40, 20, "after the outcomes are stored")
		for w, s := range b.store.objects {
			if !s.ActingSince.IsZero() || len(s.Pods) != 9 {
				t.Errorf("stored of %s is %+v, want 9 evicted pods", w, s)
			}
		}
	})
}

// The outcomes that cannot be stored at the end of a term stay announced.
func TestBurst_endOfTermWithoutEnoughTime_announcementIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 40)
		b.pass(t.Context())
		b.r.store = &limitedStates{&lateStates{memoryStates: b.store, t: t, busy: map[cluster.Workload]bool{}}, 25}
		b.r.Save(t.Context(), time.Now(), b.record, delays, true)
		announced := 0
		for _, s := range b.store.objects {
			if !s.ActingSince.IsZero() {
				announced++
			}
		}
		if announced != len(b.workloads)-25 {
			t.Errorf("%d of %d workloads are announced after 25 writes, want the others", announced, len(b.workloads))
		}
	})
}

// limitedStates refuses writes after a number of them.
type limitedStates struct {
	*lateStates
	left int
}

func (l *limitedStates) Write(ctx context.Context, now time.Time, s *ledger.State) (bool, error) {
	l.mu.Lock()
	l.left--
	refuse := l.left < 0
	l.mu.Unlock()
	if refuse {
		return false, context.DeadlineExceeded
	}
	return l.lateStates.Write(ctx, now, s)
}
