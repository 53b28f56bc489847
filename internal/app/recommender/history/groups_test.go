// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// withGroup returns a bench with a VPA whose pods are sized by their role, and a checkpointer with usage of the leader.
func withGroup(now time.Time) (*bench, *Checkpointer, *cluster.Autoscaler, cluster.Workload) {
	b := newBench()
	a := b.autoscale("db", b.deployment("db", "app"))
	a.Mode, a.Rules.RoleLabel = cluster.InPlace, "role"
	k := b.checkpointer()
	leader := a.Target.InGroup("leader")
	k.groups.Tick(now)
	k.groups.Configure(leader, nil)
	pod := *b.pods[0]
	pod.Top = leader
	observe(k.groups, now, &pod, 90)
	return b, k, a, leader
}

func TestGroups_storedAndLoaded_historyIsRestored(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b, k, a, leader := withGroup(now)
	k.Save(t.Context(), now, b.autoscalers)
	if len(b.modelStates.stored[leader]) != 1 || len(b.stored) != 0 {
		t.Fatalf("stored %v, and checkpoints %v, want one history of the group", b.modelStates.stored, b.stored)
	}
	follower := a.Target.InGroup("follower")
	b.modelStates.stored[follower] = b.modelStates.stored[leader] // has no group any more

	next := b.checkpointer()
	if err := next.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := next.StoredRoles(a.Target); !slices.Contains(got, "leader") || len(got) != 2 || len(next.loadedModelStates) != 0 {
		t.Errorf("roles %v, model states %v", got, next.loadedModelStates)
	}
	next.groups.Tick(now)
	next.groups.Configure(leader, nil)
	if !next.needed(b.autoscalers, b.autoscalers).Has(follower) {
		t.Error("a loaded history is deleted before it is restored")
	}
	next.Restore(now, b.autoscalers)
	if s := next.groups.Series(leader, "app"); s == nil || s.Seen(cluster.CPU).Count != 90 {
		t.Errorf("restored %v", s)
	}
	if next.groups.Series(follower, "app") != nil || len(next.StoredRoles(a.Target)) != 0 {
		t.Error("the history of a role without a group is restored")
	}
	needed := next.needed(b.autoscalers, b.autoscalers)
	if !needed.Has(leader) || needed.Has(follower) || !next.needed(b.autoscalers, nil).Has(follower) {
		t.Error("want the histories of groups, and of all roles of VPAs that another recommender serves")
	}
}

// The time of a pass suffices for some writes only. Groups are written by the same workers as workloads, and what was stored longest ago is first.
func TestGroups_timeIsShort_eachIsWrittenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		b, k, a, leader := withGroup(now)
		follower := a.Target.InGroup("follower")
		k.groups.Configure(follower, nil)
		pod := *b.pods[0]
		pod.Top, pod.Name = follower, "db-1"
		observe(k.groups, now, &pod, 90)
		k.usageStore.Configure(a.Target, nil)
		k.usageStore.Tick(now)
		observe(k.usageStore, now, b.pods[0], 90)

		b.modelStates.stall = true
		k.Flush(t.Context(), now, b.autoscalers)
		if len(b.modelStates.writes) != 3 {
			t.Errorf("written at the same time: %v, want the workload and both groups", b.modelStates.writes)
		}
		b.modelStates.stall, b.modelStates.writes = false, nil
		k.config.Workers = 1
		observe(k.usageStore, now.Add(time.Minute), b.pods[0], 1)
		k.savedAt[usage.Ref{Workload: a.Target, Container: "app"}] = now.Add(-90 * time.Minute)
		k.savedAt[usage.Ref{Workload: follower, Container: "app"}] = now.Add(-time.Hour)
		k.savedAt[usage.Ref{Workload: leader, Container: "app"}] = now.Add(-2 * time.Hour)
		k.Flush(t.Context(), now.Add(time.Minute), b.autoscalers)
		if got := b.modelStates.writes; !slices.Equal(got, []cluster.Workload{leader, {Name: "db"}, follower}) {
			t.Errorf("written %v, want what was stored longest ago first", got)
		}
	})
}

func TestGroups_cannotBeStoredOrRead_isLoggedAndTheNextPassRetries(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b, k, a, leader := withGroup(now)
	b.modelStates.err = errors.New("away")
	k.Save(t.Context(), now, b.autoscalers)
	b.modelStates.err = nil
	k.Save(t.Context(), now.Add(time.Minute), b.autoscalers)
	if len(b.modelStates.stored[leader]) != 1 {
		t.Error("the history is not stored after a failure")
	}

	next := b.checkpointer()
	var log bytes.Buffer
	next.log = slog.New(slog.NewTextHandler(&log, nil))
	next.keepLoaded(map[cluster.Workload][]usage.History{leader: {{Container: "app", Form: "unknown/1"}}})
	next.groups.Configure(leader, nil)
	a.Mode = cluster.Off
	next.Restore(now, b.autoscalers)
	if len(next.StoredRoles(a.Target)) != 1 {
		t.Error("restored although roles have no effect")
	}
	a.Mode = cluster.InPlace
	next.Restore(now, b.autoscalers)
	if !strings.Contains(log.String(), "Cannot restore the usage history of a group of pods") {
		t.Errorf("logged %q", log.String())
	}
}
