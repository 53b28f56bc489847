// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
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

// acting returns workloads as actions on them are announced.
func acting(workloads []cluster.Workload) []ledger.ActingWorkload {
	var out []ledger.ActingWorkload
	for _, w := range workloads {
		out = append(out, ledger.ActingWorkload{Workload: w})
	}
	return out
}

func (b *burst) namespace() []ledger.ActingGroup {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return b.store.objects[ledger.NamespaceState("shop")].Acting
}

func (b *burst) want(writes, objects int, when string) {
	b.t.Helper()
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if b.store.writes != writes || len(b.store.objects) != objects {
		b.t.Errorf("%s: %d writes and %d objects, want %d and %d", when, b.store.writes, len(b.store.objects), writes, objects)
	}
}

func TestBatch_passesFollowEachOther_oneAnnouncementCountsForSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 20)
		for range 25 {
			b.pass(t.Context())
			time.Sleep(time.Second)
		}
		b.want(1, 1, "after 25 passes in 25s")
		time.Sleep(10 * time.Second)
		b.pass(t.Context())
		b.want(2, 1, "after another one, 35s after the first")
		if got := b.namespace(); len(got) != 1 || time.Since(got[0].Since) > 10*time.Second {
			t.Errorf("announced are %+v, want the last pass", got)
		}
	})
}

// Nothing was done to a workload, so its announcement is removed by the next one of its namespace. Then it does not count any more.
func TestBatch_announcementWasRemoved_workloadIsAnnouncedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 10)
		idle, others := b.workloads[:5], b.workloads[5:]
		announce := func(workloads []cluster.Workload) {
			b.r.Begin(time.Now(), b.record, delays, acting(workloads))
			for _, w := range workloads {
				b.r.Announce(t.Context(), time.Now(), w)
			}
		}
		announce(idle)
		b.r.Save(t.Context(), time.Now(), b.record, delays, false)
		time.Sleep(15 * time.Second)
		announce(others)
		announce(idle)
		stored := map[cluster.Workload]bool{}
		for _, g := range b.namespace() {
			for _, w := range g.Workloads {
				stored[w.Workload] = true
			}
		}
		for _, w := range b.workloads {
			if !stored[w] && b.store.objects[w].ActingSince.IsZero() {
				t.Errorf("the updater acts on %s, and no stored object shows it", w.Name)
			}
		}
	})
}

// Without another pass, for example with a long interval, the outcomes are stored when the announcement is not enough any more.
func TestBatch_noPassFollows_outcomesAreStoredAfterTheSettleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 20)
		b.pass(t.Context())
		time.Sleep(ledger.SettleTime - time.Second)
		synctest.Wait()
		b.want(1, 1, "before the settle time")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.want(21, 21, "after the settle time")
	})
}

// The outcomes of other actions are stored as soon as without an announcement of the namespace.
func TestBatch_evictionIsRefused_isStoredSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 20)
		b.pass(t.Context())
		w := b.workloads[0]
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: w.Name}, UID: "other", Top: w, Controller: w}
		b.record.Refused(time.Now(), ledger.Attempt{Pod: p, Do: decision.Evict}, decision.Refusal{Kind: decision.Denied, Text: "no"}, 0)
		b.r.Save(t.Context(), time.Now(), b.record, delays, false)
		time.Sleep(saveDelay + time.Second)
		synctest.Wait()
		b.want(2, 2, "after the refusal")
		if s := b.store.objects[w]; len(s.Pods) != 2 {
			t.Errorf("stored is %+v, want the evicted pod and the refused eviction", s)
		}
	})
}

// At the end of a term, the outcomes are stored, and the next updater need not wait.
func TestBatch_endOfTerm_outcomesReplaceTheAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 20)
		ctx, end := context.WithCancel(t.Context())
		b.pass(ctx)
		end()
		b.r.Save(ctx, time.Now(), b.record, delays, true)
		b.want(21, 20, "at the end")
	})
}

// If not all outcomes can be stored at the end of a term, the announcement of the others is kept.
func TestBatch_endOfTermWithoutEnoughTime_announcementIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 40)
		late := &lateStates{memoryStates: b.store, t: t, busy: map[cluster.Workload]bool{}}
		b.pass(t.Context())
		b.r.store = &limitedStates{late, 25}
		b.r.Save(t.Context(), time.Now(), b.record, delays, true)
		stored := len(b.store.objects) - 1
		if got := b.namespace(); len(got) != 1 || len(got[0].Workloads) != len(b.workloads)-stored || stored == 0 {
			t.Errorf("%d outcomes are stored, announced are %+v; want the others", stored, got)
		}
	})
}

// limitedStates refuses the states of workloads after a number of writes.
type limitedStates struct {
	*lateStates
	left int
}

func (l *limitedStates) Write(ctx context.Context, now time.Time, s *ledger.State) (bool, error) {
	l.mu.Lock()
	l.left--
	refuse := l.left < 0 && !s.IsOfNamespace()
	l.mu.Unlock()
	if refuse {
		return false, context.DeadlineExceeded
	}
	return l.lateStates.Write(ctx, now, s)
}

// prunedStates is a store whose CRD has no field for announcements.
type prunedStates struct {
	*memoryStates
	tried int
}

func (s *prunedStates) Write(ctx context.Context, now time.Time, state *ledger.State) (bool, error) {
	if !state.IsOfNamespace() {
		return s.memoryStates.Write(ctx, now, state)
	}
	empty := ledger.State{Workload: state.Workload}
	s.tried++
	_, _ = s.memoryStates.Write(ctx, now, &empty)
	return false, fmt.Errorf("write: %w", checkpoint.ErrPruned)
}

func TestBatch_crdIsOfAnOlderVersion_eachWorkloadIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 20)
		pruned := &prunedStates{memoryStates: b.store}
		b.r.store = pruned
		for range 30 {
			b.pass(t.Context())
			time.Sleep(time.Minute)
		}
		if n := strings.Count(b.log.String(), "Announcements of a namespace cannot be stored"); n != 1 || pruned.tried != 1 || !b.r.IsActive() {
			t.Errorf("logged %d times after %d attempts, want once:\n%s", n, pruned.tried, b.log.String())
		}
		synctest.Wait()
		if _, left := b.store.objects[ledger.NamespaceState("shop")]; left || len(b.store.objects) != len(b.workloads) {
			t.Errorf("%d objects, of the namespace: %v; want one for each workload", len(b.store.objects), left)
		}
	})
}

// Workloads and namespaces are created and deleted. The recorder keeps a bounded number of announcements.
func TestBatch_manyWorkloads_memoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 10)
		for i := range 60 {
			for j := range b.workloads {
				b.workloads[j].Namespace, b.workloads[j].Name = fmt.Sprint("ns-", i), fmt.Sprintf("web-%d-%d", i, j)
			}
			b.pass(t.Context())
			time.Sleep(10 * time.Second)
		}
		most := 10 * int(attempt.WatchDelay/(10*time.Second)+2)
		if n := len(b.r.batched); n > most {
			t.Errorf("%d announcements are remembered, want at most %d", n, most)
		}
	})
}

// A pass found that the pod was gone, and a later one acts on the workload under the same announcement.
func TestBatch_actionHasNoOutcome_announcementStaysWhileItCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurst(t, 40)
		all := b.workloads
		now := time.Now()
		b.r.Begin(now, b.record, delays, acting(all[:20]))
		for _, w := range all[:20] {
			b.r.Announce(t.Context(), now, w)
		}
		b.r.Save(t.Context(), now, b.record, delays, false)
		time.Sleep(5 * time.Second)
		b.workloads = all[20:]
		b.pass(t.Context())
		b.workloads = all[:20]
		b.pass(t.Context())
		stored := map[cluster.Workload]bool{}
		for _, g := range b.namespace() {
			for _, w := range g.Workloads {
				stored[w.Workload] = true
			}
		}
		if len(stored) != len(all) {
			t.Errorf("%d workloads are announced, want all %d, because pods of all are evicted", len(stored), len(all))
		}
	})
}
