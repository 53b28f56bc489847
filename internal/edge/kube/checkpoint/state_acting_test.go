// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/test/kubetest"
)

func announcement(workloads int) ledger.State {
	record := ledger.New()
	var all []ledger.ActingWorkload
	for i := range workloads {
		all = append(all, ledger.ActingWorkload{Workload: deployment(fmt.Sprintf("%s-%04d", strings.Repeat("w", 35), i)), Newest: noon.Add(time.Duration(i) * time.Second)})
	}
	record.Announce(noon.Add(-time.Minute), all[:workloads/2])
	return record.Announce(noon, all)["shop"]
}

// A namespace with 1,000 workloads is announced in one object.
func TestStates_announcementOfANamespace_isLoadedEqual(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	want := announcement(1000)
	if n := len(want.Acting); n != 1 || len(want.Acting[0].Workloads) != 1000 {
		t.Fatalf("announced are %d groups, want one with 1,000 workloads", n)
	}
	s := newStates(t, f, StorageOptions{})
	if !mustStore(t, s, want) || mustStore(t, s, want) {
		t.Error("want one write for two equal states")
	}
	loaded := loadStates(t, newStates(t, f, StorageOptions{}))
	if diff := cmp.Diff(want, loaded[ledger.NamespaceState("shop")]); diff != "" {
		t.Error(diff)
	}
	if keys := f.Keys(statesPath); len(keys) != 1 {
		t.Errorf("objects %v, want one", keys)
	}
}

// The API server removes the field if the CRD is of an older version.
func TestStates_crdWithoutAnnouncements_writeHasAnError(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.PruneWrites(func(o map[string]any) {
		if status, ok := o["status"].(map[string]any); ok {
			delete(status, "actingOn")
		}
	})
	s, state := newStates(t, f, StorageOptions{}), announcement(5)
	for range 2 { // a creation and a change
		if _, err := s.Write(t.Context(), noon, &state); !errors.Is(err, ErrPruned) {
			t.Errorf("error %v, want ErrPruned", err)
		}
	}
	if err := s.Delete(t.Context(), state.Workload); err != nil || len(f.Keys(statesPath)) != 0 {
		t.Errorf("error %v, objects %v left; want none", err, f.Keys(statesPath))
	}
	if !mustStore(t, s, ledger.State{Workload: deployment("web"), ActingSince: noon}) {
		t.Error("other states are not stored")
	}
}

// A new updater announces other workloads while the announcements of the one before it count. All of them fit in an object that can be read.
func TestStates_announcementsOfTwoUpdaters_areLoaded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	of := func(prefix string) (all []ledger.ActingWorkload) {
		for i := range 900 {
			all = append(all, ledger.ActingWorkload{Workload: deployment(fmt.Sprintf("%s-%s-%04d", strings.Repeat("w", 30), prefix, i)), Newest: noon})
		}
		return all
	}
	next := ledger.New()
	next.Restore(noon, []ledger.State{ledger.New().Announce(noon, of("old"))["shop"]})
	state := next.Announce(noon, of("new"))["shop"]
	mustStore(t, newStates(t, f, StorageOptions{}), state)
	third := ledger.New()
	third.Restore(noon, []ledger.State{loadStates(t, newStates(t, f, StorageOptions{}))[state.Workload]})
	for _, w := range append(of("old"), of("new")...) {
		_, interrupted := third.Interrupted(noon, w.Workload)
		if announced := !next.Announced(w.Workload).IsZero() || strings.Contains(w.Name, "old"); interrupted != announced {
			t.Fatalf("%s: interrupted %v, want %v", w.Name, interrupted, announced)
		}
	}
}

// Two updaters write by turns, because a request of the one that has lost the lease was delayed.
func TestStates_twoWritersOfAnAnnouncement_lastOneWins(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	first, second := newStates(t, f, StorageOptions{}), newStates(t, f, StorageOptions{})
	for i, s := range []*States{first, second, first, second} {
		state := announcement(5 + i)
		mustStore(t, s, state)
		loaded := loadStates(t, newStates(t, f, StorageOptions{}))[state.Workload]
		if diff := cmp.Diff(state, loaded); diff != "" {
			t.Errorf("write %d: %s", i, diff)
		}
	}
}

// A user of the namespace has changed the object.
func TestStates_brokenAnnouncement_validGroupsAreLoaded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(statesPath, `{"metadata":{"namespace":"shop","name":"x"},"spec":{"target":{"kind":"Namespace","name":"shop"}},
		"status":{"actingOn":[{"since":"yesterday"},{"since":"2026-03-01T12:00:00.000000Z","workloads":[{"kind":"Deployment","group":"apps","name":"web"}]},7]}}`)
	got := loadStates(t, newStates(t, f, StorageOptions{}))[ledger.NamespaceState("shop")]
	if len(got.Acting) != 1 || len(got.Acting[0].Workloads) != 1 || got.Acting[0].Workloads[0] != (ledger.ActingWorkload{Workload: deployment("web")}) {
		t.Errorf("got %+v, want the announcement of web", got)
	}
}
