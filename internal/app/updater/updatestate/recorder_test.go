// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rollout"
)

// delays are those of an updater with the default flags.
var delays = plan.DefaultBudget().Delays

// lateStates is a store whose requests take a second. It checks that there is one request for an object at a time.
type lateStates struct {
	*memoryStates
	t          *testing.T
	busy       map[cluster.Workload]bool
	announcing sync.WaitGroup
}

func (l *lateStates) take(w cluster.Workload, do func()) {
	l.mu.Lock()
	if l.busy[w] {
		l.t.Errorf("two requests for the object of %v at the same time", w)
	}
	l.busy[w] = true
	l.mu.Unlock()
	time.Sleep(time.Second)
	l.mu.Lock()
	l.busy[w] = false
	l.mu.Unlock()
	do()
}

func (l *lateStates) Write(ctx context.Context, now time.Time, s *ledger.State) (wrote bool, err error) {
	l.take(s.Workload, func() { wrote, err = l.memoryStates.Write(ctx, now, s) })
	return wrote, err
}

func (l *lateStates) Delete(ctx context.Context, w cluster.Workload) (err error) {
	l.take(w, func() { err = l.memoryStates.Delete(ctx, w) })
	return err
}

// newLateStates returns a Recorder with a late store, and a ledger with a refused eviction for each of some workloads.
func newLateStates(t *testing.T, workloads int) (*Recorder, *lateStates, *ledger.Ledger, []cluster.Workload) {
	store := &lateStates{memoryStates: newMemoryStates(), t: t, busy: map[cluster.Workload]bool{}}
	r := New(store, true, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	record := ledger.New()
	var all []cluster.Workload
	for i := range workloads {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("web-%02d", i)}
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: w.Name + "-1"}, UID: w.Name, Top: w, Controller: w}
		record.Refused(time.Now(), ledger.Attempt{Pod: p, Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget, Text: "no"}, 0)
		all = append(all, w)
	}
	r.acting = map[cluster.Workload]*announcement{}
	return r, store, record, all
}

// announceAll announces actions of another pass on all workloads.
func (l *lateStates) announceAll(r *Recorder, workloads []cluster.Workload) {
	r.acting = map[cluster.Workload]*announcement{}
	for _, w := range workloads {
		l.announcing.Go(func() { r.Announce(l.t.Context(), time.Now(), w) })
	}
}

func (l *lateStates) checkAnnounced(workloads []cluster.Workload) {
	l.t.Helper()
	l.announcing.Wait()
	for _, w := range workloads {
		if l.objects[w].ActingSince.IsZero() {
			l.t.Errorf("the object of %v does not show that the updater acts", w)
		}
	}
}

func TestStates_nextPassActsBeforeTheWrites_oneWriteIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, record, workloads := newLateStates(t, 3*maxWrites)
		began := time.Now()
		r.Save(t.Context(), began, record, delays, false)
		if took := time.Since(began); took != 0 {
			t.Errorf("the next pass waits for %v, want no wait", took)
		}
		store.announceAll(r, workloads)
		r.saving.Wait()
		store.checkAnnounced(workloads)
		store.announceAll(r, workloads) // of a third pass
		store.announcing.Wait()
		if store.writes != len(workloads) {
			t.Errorf("%d writes, want one for each of %d workloads", store.writes, len(workloads))
		}
		r.Save(t.Context(), time.Now(), record, delays, false)
		r.saving.Wait()
		if !store.objects[workloads[0]].ActingSince.IsZero() || store.writes != 2*len(workloads) || len(r.turns.slots) != 0 {
			t.Errorf("%d writes, acting since %v, %d objects with pending writes; want %d, never and 0", store.writes, store.objects[workloads[0]].ActingSince, len(r.turns.slots), 2*len(workloads))
		}
		store.announceAll(r, workloads)
		store.checkAnnounced(workloads)
	})
}

// An announcement is not lost under the writes after the last pass.
func TestStates_nextPassActsDuringTheWrites_announcementIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, record, workloads := newLateStates(t, 3*maxWrites)
		r.Save(t.Context(), time.Now(), record, delays, false)
		time.Sleep(saveDelay + time.Second/2) // ten writes are in progress, the others are pending
		store.announceAll(r, workloads)
		r.saving.Wait()
		store.checkAnnounced(workloads)
		if store.writes != 4*maxWrites {
			t.Errorf("%d writes, want %d: those that were pending are dropped", store.writes, 4*maxWrites)
		}
	})
}

// An object is not deleted after an announcement that was decided on later.
func TestStates_nextPassActsDuringDeletions_announcementIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, _, workloads := newLateStates(t, 2*maxWrites)
		for _, w := range workloads {
			store.objects[w] = ledger.State{Workload: w}
		}
		r.Save(t.Context(), time.Now(), ledger.New(), delays, false)
		time.Sleep(saveDelay + time.Second/2)
		store.announceAll(r, workloads)
		r.saving.Wait()
		store.checkAnnounced(workloads)
		if store.deletes != maxWrites {
			t.Errorf("%d deletions, want %d: those that were pending are dropped", store.deletes, maxWrites)
		}
	})
}

// Passes that follow each other do not put off the writes for longer than saveDelay.
func TestStates_passEachSecond_outcomesAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, record, workloads := newLateStates(t, maxWrites)
		for range 12 {
			r.Save(t.Context(), time.Now(), record, delays, false)
			time.Sleep(time.Second)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		if len(store.objects) != len(workloads) || store.writes != len(workloads) {
			t.Errorf("%d objects are stored after %d writes, want %d", len(store.objects), store.writes, len(workloads))
		}
	})
}

// At the end of a term, everything is stored before the lease is released.
func TestStates_endOfTerm_everythingIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, record, workloads := newLateStates(t, 2*maxWrites)
		began := time.Now()
		r.Save(t.Context(), began, record, delays, false)
		r.Save(t.Context(), began, record, delays, true)
		if took := time.Since(began); len(store.objects) != len(workloads) || took > 2*time.Second {
			t.Errorf("%d objects are stored after %v, want %d after 2s", len(store.objects), took, len(workloads))
		}
	})
}

func TestMayWait_statesThatOthersDependOn_areWrittenAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		state ledger.State
		want  bool
	}{
		"an attempt":         {ledger.State{Pods: []ledger.PodState{{UID: "u"}}}, true},
		"a canary":           {ledger.State{Canary: &rollout.State{Phase: rollout.Held}}, false},
		"a deletion":         {ledger.State{Deletion: &ledger.DeletionState{}}, false},
		"a limited change":   {ledger.State{Changes: []rollout.Change{{}}}, false},
		"an evicted pod":     {ledger.State{LastEviction: time.Now(), Replacements: []ledger.PendingState{{}}}, true},
		"an empty state":     {ledger.State{}, true},
		"a pod on full node": {ledger.State{Shortages: []ledger.ShortageState{{}}}, true},
	} {
		if got := mayWait(&c.state); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A reverted size must be stored before the pod with it is evicted, because the admission controller would give it to the replacement.
func TestStates_canaryIsAnnouncedAgain_isWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, _, workloads := newLateStates(t, 1)
		store.announceAll(r, workloads)
		store.announcing.Wait()
		r.exported = map[cluster.Workload]ledger.State{workloads[0]: {Workload: workloads[0], Canary: &rollout.State{Phase: rollout.Held}}}
		store.announceAll(r, workloads)
		store.announcing.Wait()
		if canary := store.objects[workloads[0]].Canary; canary == nil || store.writes != 2 {
			t.Errorf("the stored canary is %v after %d writes, want it after 2", canary, store.writes)
		}
	})
}

// The next updater needs the outcomes of earlier actions, too, if this one is killed after the announcement.
func TestRecorder_announcement_keepsTheStateBeforeThePass(t *testing.T) {
	store := newMemoryStates()
	r, _ := logged(store)
	r.Begin(time.Now(), refusedOnce(), delays, map[cluster.Workload]time.Time{web: {}})
	r.Announce(t.Context(), time.Now(), web)
	if s := store.objects[web]; s.ActingSince.IsZero() || len(s.Pods) != 1 {
		t.Errorf("stored is %+v, want the announcement and the refused eviction", s)
	}
}
