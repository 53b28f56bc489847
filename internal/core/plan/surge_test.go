// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

func surgingDeployment(replicas, pods int32, surge *cluster.Surge) *cluster.Deployment {
	return &cluster.Deployment{Replicas: replicas, Pods: pods, Updated: pods, Observed: true, Recorded: surge != nil, Surge: surge}
}

// surgePods returns ready pods of a Deployment: "old" with the lowest deletion cost, and others.
func surgePods(names ...string) []*cluster.Pod {
	var out []*cluster.Pod
	for _, name := range names {
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Node: "n", Phase: cluster.Running, Ready: true, ReadySince: noon.Add(-time.Minute)}
		if name == "old" {
			p.DeletionCost = cluster.LowestDeletionCost
		}
		out = append(out, p)
	}
	return out
}

func TestNextSurge_eachState_hasItsStep(t *testing.T) {
	record := cluster.Surge{Replicas: 2, Pod: "old", UID: "old", Cost: 5, Deadline: noon.Add(5 * time.Minute)}
	lowered := record
	lowered.Lowered, lowered.Deadline = true, noon.Add(time.Minute)
	for name, c := range map[string]struct {
		replicas int32
		record   cluster.Surge
		pods     []*cluster.Pod
		change   func(*cluster.Deployment, []*cluster.Pod)
		scaled   bool
		late     bool
		want     SurgeStep
		unmark   bool
		failed   string
		kind     RefusalKind
	}{
		"no deletion cost yet": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeMark,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].DeletionCost = 5 }},
		"all are ready":            {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeLower},
		"no new pod yet":           {replicas: 3, record: record, pods: surgePods("old", "a"), want: SurgeWait},
		"the new pod is not ready": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeWait, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Ready = false }},
		"another pod is not ready: the ReplicaSet would remove that one": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeWait,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[1].Ready = false }},
		"the old pod is not ready: the ReplicaSet removes it first": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeLower,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].Ready = false }},
		"the updater was away until after the deadline": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: SurgeLower},
		"late, and the deletion cost cannot be set": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: SurgeTakeBack, failed: "deletion cost", kind: Denied,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].DeletionCost = 5 }},
		"the strategy is Recreate now": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeTakeBack, unmark: true, failed: "strategy", kind: Unsupported,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Exclusive = true }},
		"another client wrote the record": {replicas: 3, record: record, pods: surgePods("a", "new"), want: SurgeForget, failed: "another client", kind: ServerBusy,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Foreign = true }},
		"not ready for minReadySeconds": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeWait,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.MinReady = time.Hour }},
		"a pod terminates slowly: the ReplicaSet does not count it": {replicas: 3, record: record, pods: surgePods("old", "a", "new", "leaving"), want: SurgeLower,
			change: func(d *cluster.Deployment, ps []*cluster.Pod) { d.Pods, d.Updated, ps[3].Deleting = 3, 3, true }},
		"one of the others terminates": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeWait,
			change: func(d *cluster.Deployment, ps []*cluster.Pod) { ps[1].Deleting = true }},
		"the old pod is gone":        {replicas: 3, record: record, pods: surgePods("a", "new"), want: SurgeTakeBack},
		"the old pod terminates":     {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeTakeBack, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].Deleting = true }},
		"the Deployment is deleted":  {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeWait, change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Deleting = true }},
		"others scaled up":           {replicas: 9, record: record, pods: surgePods("old", "a", "new"), want: SurgeForget, unmark: true, failed: "from 3 to 9", kind: ServerBusy},
		"others restored the number": {replicas: 2, record: record, pods: surgePods("old", "a"), want: SurgeForget, unmark: true, failed: "from 3 to 2", kind: ServerBusy},
		"an HPA":                     {replicas: 3, record: record, pods: surgePods("old", "a", "new"), scaled: true, want: SurgeTakeBack, unmark: true, failed: "HorizontalPodAutoscaler", kind: Unsupported},
		"a rollout by the status": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeTakeBack, unmark: true, failed: "rollout", kind: ServerBusy,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Updated = 1 }},
		"a rollout by the pods": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeTakeBack, unmark: true, failed: "rollout", kind: ServerBusy,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Controller.Name = "web-2" }},
		"the status is older than the spec": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: SurgeWait,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Observed, d.Updated = false, 0 }},
		"late, and no new pod":     {replicas: 3, record: record, pods: surgePods("old", "a"), late: true, want: SurgeTakeBack, unmark: true, failed: "no additional pod", kind: DeniedByQuota},
		"late, and without node":   {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: SurgeTakeBack, unmark: true, failed: "no node has room", kind: DeniedByNode, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Node, ps[2].Ready = "", false }},
		"late, but ready":          {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: SurgeLower},
		"late, and not ready":      {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: SurgeTakeBack, unmark: true, failed: "not all pods were ready within 10m", kind: NotReadyInTime, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Ready = false }},
		"lowered, the pod lives":   {replicas: 2, record: lowered, pods: surgePods("old", "a", "new"), want: SurgeWait},
		"lowered, the pod leaves":  {replicas: 2, record: lowered, pods: surgePods("old", "a", "new"), want: SurgeForget, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].Deleting = true }},
		"lowered, another is gone": {replicas: 2, record: lowered, pods: surgePods("old", "a"), late: true, want: SurgeForget, unmark: true, failed: "removed another pod", kind: ServerBusy},
		"lowered, others scaled":   {replicas: 5, record: lowered, pods: surgePods("old", "a", "new"), want: SurgeForget, unmark: true, failed: "from 2 to 5", kind: ServerBusy},
	} {
		t.Run(name, func(t *testing.T) {
			d := surgingDeployment(c.replicas, int32(len(c.pods)), &c.record)
			if c.change != nil {
				c.change(d, c.pods)
			}
			now := noon
			if c.late {
				now = noon.Add(5 * time.Minute)
			}
			m := NextSurge(now, d, c.pods, c.scaled)
			if m.Do != c.want || m.Unmark != c.unmark || (m.Failed != nil) != (c.failed != "") {
				t.Fatalf("got step %d, unmark %t, failed %v", m.Do, m.Unmark, m.Failed)
			}
			if m.Failed != nil && (m.Failed.Kind != c.kind || !strings.Contains(m.Failed.Text, c.failed)) {
				t.Errorf("failed with kind %d: %s", m.Failed.Kind, m.Failed.Text)
			}
		})
	}
}

// A deadline that is too far in the future does not keep a replica for ever.
func TestNextSurge_deadlineFarInTheFuture_isTakenBack(t *testing.T) {
	record := cluster.Surge{Replicas: 1, UID: "old", Deadline: noon.Add(1000 * time.Hour)}
	if m := NextSurge(noon, surgingDeployment(2, 1, &record), surgePods("old"), false); m.Do != SurgeTakeBack {
		t.Errorf("step %d", m.Do)
	}
}

func TestStartSurge_deploymentThatCannotSurge_isRefused(t *testing.T) {
	p := surgePods("a")[0]
	for name, change := range map[string]func(*cluster.Deployment){
		"another controller owns it": func(d *cluster.Deployment) { d.Owned = true },
		"no additional pod allowed":  func(d *cluster.Deployment) { d.Exclusive = true },
		"another surge":              func(d *cluster.Deployment) { d.Recorded = true },
		"deleted":                    func(d *cluster.Deployment) { d.Deleting = true },
		"a rollout":                  func(d *cluster.Deployment) { d.Updated = 1 },
		"paused with a new template": func(d *cluster.Deployment) { d.Updated = 0 },
		"scaling":                    func(d *cluster.Deployment) { d.Pods = 2 },
		"not observed":               func(d *cluster.Deployment) { d.Observed = false },
		"scaled to zero":             func(d *cluster.Deployment) { d.Replicas, d.Pods, d.Updated = 0, 0, 0 },
	} {
		d := surgingDeployment(3, 3, nil)
		if _, refusal := StartSurge(noon, d, p); refusal != nil {
			t.Fatalf("refused: %v", refusal)
		}
		change(d)
		if _, refusal := StartSurge(noon, d, p); refusal == nil || refusal.Text == "" {
			t.Errorf("%s: not refused", name)
		}
	}
}

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
		Governed: Gather([]*cluster.Autoscaler{advise("b", 700), advise("c", 500)}, pods, false),
		Scales:   map[cluster.Workload]cluster.Scale{}, Pods: pods, Ledger: NewLedger(), Surges: &Surges{},
		Nodes: []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(1000, 1<<30), Ready: true}, {Name: "n2", Allocatable: cluster.Amounts(4000, 1<<30), Ready: true}},
	}
	for _, p := range pods {
		w.Scales[p.Controller] = cluster.Scale{Known: true, Replicas: 2}
	}
	b := DefaultBudget()
	b.MakeRoom = room.Move
	return w, b
}

func decisionOf(ds []Decision, name string) Decision {
	for _, d := range ds {
		if d.Pod.Name == name {
			return d
		}
	}
	return Decision{}
}

func TestPlan_moveForRoom_isASurgeWhereOneIsPossible(t *testing.T) {
	c := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "c"}
	for name, tc := range map[string]struct {
		change func(*World, *Budget)
		want   Act
	}{
		"by default":            {func(*World, *Budget) {}, Surge},
		"--mover=evict":         {func(_ *World, b *Budget) { b.Mover = MoveByEviction }, Evict},
		"annotation":            {func(w *World, _ *Budget) { w.Governed[1].Autoscaler.Mover = "evict" }, Evict},
		"surges are unknown":    {func(w *World, _ *Budget) { w.Surges = nil }, Evict},
		"an HPA":                {func(w *World, _ *Budget) { w.Surges.Scaled = map[cluster.Workload]bool{c: true} }, Evict},
		"a surge found no room": {func(w *World, _ *Budget) { w.Ledger.SurgeFailed(noon, w.Pods[2], Refusal{Kind: DeniedByNode}) }, Evict},
		"a surge was not ready": {func(w *World, _ *Budget) { w.Ledger.SurgeFailed(noon, w.Pods[2], Refusal{Kind: NotReadyInTime}) }, Leave},
		"the pod is surged already": {func(w *World, _ *Budget) {
			w.Surges.Active = map[cluster.Workload]cluster.Surge{c: {UID: "c-0", Pod: "c-0"}}
		}, Leave},
		"another pod is surged": {func(w *World, _ *Budget) {
			w.Surges.Active = map[cluster.Workload]cluster.Surge{c: {UID: "c-1", Pod: "c-1"}}
		}, Leave},
		"the record of a surge is not known": {func(w *World, _ *Budget) {
			w.Surges.Active = map[cluster.Workload]cluster.Surge{c: {}}
		}, Leave},
		"a rollout was in progress": {func(w *World, _ *Budget) { w.Ledger.SurgeFailed(noon, w.Pods[2], Refusal{Kind: ServerBusy}) }, Leave},
		"few replicas":              {func(w *World, b *Budget) { b.MinReplicas = 5 }, Surge},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := roomToMove()
			tc.change(&w, &b)
			pass := Begin(noon, w, b)
			d := decisionOf(pass.Decisions(), "c-0")
			if d.Do != tc.want {
				t.Fatalf("%s %s, want %s; rooms %v", d.Do, d.Reason, tc.want, pass.Rooms())
			}
			if d.Do == Surge && (d.Reason.Code != MovesForRoom || d.roomFor == nil || d.roomFor.UID != "b-0" || d.taken) {
				t.Errorf("%s, taken %t", d.Reason, d.taken)
			}
			if other := decisionOf(pass.Decisions(), "b-0"); tc.want != Leave && other.Do != Leave {
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
	w.Surges.Active = map[cluster.Workload]cluster.Surge{d.Pod.Top: {UID: "c-0", Pod: "c-0", Deadline: noon.Add(surgeFor)}}
	for i := range 9 {
		now := noon.Add(time.Duration(i) * time.Minute)
		for _, d := range Plan(now, w, b) {
			if d.Do == Surge || d.Do == Evict && d.Reason.Code == MovesForRoom {
				t.Fatalf("%s: %s %s", d.Pod.Key, d.Do, d.Reason)
			}
		}
	}
	if n := w.Ledger.lacking["b-0"].moves; n != 1 {
		t.Errorf("%d moves are recorded, want 1", n)
	}
}

// A new leader does not repeat a surge whose additional pod was not ready, before the end of its back-off.
func TestLedger_surgeFailed_backoffSurvivesARestart(t *testing.T) {
	for _, kind := range []RefusalKind{NotReadyInTime, ServerBusy, DeniedByQuota} {
		w, _ := shrinking(1)
		p := w.Governed[0].Pods[0]
		for i := range 5 {
			w.Ledger.SurgeFailed(noon.Add(time.Duration(i)*time.Minute), p, Refusal{Kind: kind, Text: "not all pods were ready"})
		}
		want, _ := w.Ledger.refusal(p, Surge)
		got, ok := restored(noon.Add(10*time.Minute), w.Ledger, DefaultBudget()).refusal(p, Surge)
		if !ok || got.Kind != want.Kind || got.n != want.n || !got.at.Equal(want.at) {
			t.Errorf("kind %d: got %+v, want %+v", kind, got, want)
		}
	}
}
