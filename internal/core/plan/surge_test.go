// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/surge"
)

// roomToMove returns a full node "n1" on which pod "b" waits for room, and a pod "c" of a Deployment that fits on node "n2".
func roomToMove() (World, Budget) {
	pod := func(workload, name, node string, cpu int64) *cluster.Pod {
		rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: workload + "-1"}
		top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: workload}
		return &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: rs, Top: top, Node: node, Phase: cluster.Running, QoS: cluster.Burstable, Ready: true,
			Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), ReadySince: noon.Add(-time.Hour + 10*time.Second),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, 1<<20)}},
		}
	}
	advise := func(name string, cpu int64) *cluster.Autoscaler {
		return &cluster.Autoscaler{
			Key: cluster.Key{Namespace: "shop", Name: name}, Target: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}, Mode: cluster.InPlaceOrRecreate,
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(cpu-50, 1<<20), Target: cluster.Amounts(cpu, 1<<20), Upper: cluster.Amounts(cpu+50, 1<<20)}}},
		}
	}
	needs := pod("b", "b-0", "n1", 700)
	needs.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(500, 1<<20)}
	needs.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: noon.Add(-time.Minute)}
	pods := []*cluster.Pod{needs, pod("b", "b-1", "n2", 700), pod("c", "c-0", "n1", 500), pod("c", "c-1", "n2", 500)}
	w := World{
		Governed: cluster.Gather([]*cluster.Autoscaler{advise("b", 700), advise("c", 500)}, pods, false),
		Scales:   map[cluster.Workload]cluster.Scale{}, Pods: pods, Ledger: ledger.New(), Surges: &surge.State{},
		Nodes: []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(1000, 1<<30), Ready: true}, {Name: "n2", Allocatable: cluster.Amounts(4000, 1<<30), Ready: true}},
	}
	for _, p := range pods {
		w.Scales[p.Controller] = cluster.Scale{Known: true, Replicas: 2}
	}
	b := DefaultBudget()
	b.MakeRoom = room.Move
	return w, b
}

func decisionOf(ds []decision.Decision, name string) decision.Decision {
	for _, d := range ds {
		if d.Pod.Name == name {
			return d
		}
	}
	return decision.Decision{}
}

func TestPlan_moveForRoom_isASurgeWhereOneIsPossible(t *testing.T) {
	c := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "c"}
	for name, tc := range map[string]struct {
		change func(*World, *Budget)
		want   decision.Act
	}{
		"by default":         {func(*World, *Budget) {}, decision.Surge},
		"--mover=evict":      {func(_ *World, b *Budget) { b.Mover = surge.ByEviction }, decision.Evict},
		"annotation":         {func(w *World, _ *Budget) { w.Governed[1].Autoscaler.Mover = "evict" }, decision.Evict},
		"surges are unknown": {func(w *World, _ *Budget) { w.Surges = nil }, decision.Evict},
		"an HPA":             {func(w *World, _ *Budget) { w.Surges.Scaled = map[cluster.Workload]bool{c: true} }, decision.Evict},
		"a surge found no room": {func(w *World, _ *Budget) {
			w.Ledger.SurgeFailed(noon, w.Pods[2], decision.Refusal{Kind: decision.DeniedByNode})
		}, decision.Evict},
		"a surge was not ready": {func(w *World, _ *Budget) {
			w.Ledger.SurgeFailed(noon, w.Pods[2], decision.Refusal{Kind: decision.NotReadyInTime})
		}, decision.Leave},
		"the pod is surged already": {func(w *World, _ *Budget) {
			w.Surges.Active = map[cluster.Workload]cluster.Surge{c: {UID: "c-0", Pod: "c-0"}}
		}, decision.Leave},
		"another pod is surged": {func(w *World, _ *Budget) {
			w.Surges.Active = map[cluster.Workload]cluster.Surge{c: {UID: "c-1", Pod: "c-1"}}
		}, decision.Leave},
		"the record of a surge is not known": {func(w *World, _ *Budget) {
			w.Surges.Active = map[cluster.Workload]cluster.Surge{c: {}}
		}, decision.Leave},
		"a rollout was in progress": {func(w *World, _ *Budget) {
			w.Ledger.SurgeFailed(noon, w.Pods[2], decision.Refusal{Kind: decision.ServerBusy})
		}, decision.Leave},
		"an annotation forbids to end the pod": {func(w *World, _ *Budget) { w.Pods[2].Marks = protected }, decision.Leave},
		"it forbids that for an eviction, too": {func(w *World, b *Budget) { w.Pods[2].Marks, b.Mover = protected, surge.ByEviction }, decision.Leave},
		"the VPA ignores the annotation of the pod": {func(w *World, _ *Budget) {
			w.Pods[2].Marks, w.Governed[1].Autoscaler.Rules.IgnoreProtection = protected, "always"
		}, decision.Surge},
		"few replicas": {func(w *World, b *Budget) { b.MinReplicas = 5 }, decision.Surge},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := roomToMove()
			tc.change(&w, &b)
			pass := Begin(noon, w, b)
			d := decisionOf(pass.Decisions(), "c-0")
			if d.Do != tc.want {
				t.Fatalf("%s %s, want %s; rooms %v", d.Do, d.Reason, tc.want, pass.Rooms)
			}
			if own := pass.entryOf(d.Pod); d.Do == decision.Surge && (d.Reason.Code != decision.MovesForRoom || own.roomFor == nil || own.roomFor.UID != "b-0" || own.taken) {
				t.Errorf("%s, taken %t", d.Reason, own.taken)
			}
			if other := decisionOf(pass.Decisions(), "b-0"); tc.want != decision.Leave && other.Do != decision.Leave {
				t.Errorf("b-0: %s", other.Do)
			}
		})
	}
}

// While a surge is in progress, nothing else moves on the node, and the pod is moved only once.
func TestPlan_surgeForRoomInProgress_nothingElseMoves(t *testing.T) {
	w, b := roomToMove()
	pass := Begin(noon, w, b)
	d := decisionOf(pass.Decisions(), "c-0")
	pass.Done(d)
	w.Surges.Active = map[cluster.Workload]cluster.Surge{d.Pod.Top: {UID: "c-0", Pod: "c-0", Deadline: noon.Add(surge.Within)}}
	for i := range 9 {
		now := noon.Add(time.Duration(i) * time.Minute)
		for _, d := range Plan(now, w, b) {
			if d.Do == decision.Surge || d.Do == decision.Evict && d.Reason.Code == decision.MovesForRoom {
				t.Fatalf("%s: %s %s", d.Pod.Key, d.Do, d.Reason)
			}
		}
	}
	if n := w.Ledger.LackOfRoom(&cluster.Pod{UID: "b-0"}).Moves; n != 1 {
		t.Errorf("%d moves are recorded, want 1", n)
	}
}

// A new leader does not repeat a surge whose additional pod was not ready, before the end of its back-off.
func TestLedger_surgeFailed_backoffSurvivesARestart(t *testing.T) {
	for _, kind := range []decision.RefusalKind{decision.NotReadyInTime, decision.ServerBusy, decision.DeniedByQuota} {
		w, _ := shrinking(1)
		p := w.Governed[0].Pods[0]
		for i := range 5 {
			w.Ledger.SurgeFailed(noon.Add(time.Duration(i)*time.Minute), p, decision.Refusal{Kind: kind, Text: "not all pods were ready"})
		}
		want, _ := w.Ledger.LastFailure(p, decision.Surge)
		got, ok := restored(noon.Add(10*time.Minute), w.Ledger, DefaultBudget()).LastFailure(p, decision.Surge)
		if !ok || got.Kind != want.Kind || got.Attempts != want.Attempts || !got.At.Equal(want.At) {
			t.Errorf("kind %d: got %+v, want %+v", kind, got, want)
		}
	}
}
