// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surge

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

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

func TestNext_eachState_hasItsStep(t *testing.T) {
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
		resumed  bool
		want     Step
		unmark   bool
		failed   string
		kind     decision.RefusalKind
		at       time.Duration // after noon; 0: the next step waits for a change
	}{
		"no deletion cost yet": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Mark,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].DeletionCost = 5 }},
		"all are ready":            {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Lower},
		"no new pod yet":           {replicas: 3, record: record, pods: surgePods("old", "a"), want: Wait},
		"the new pod is not ready": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Ready = false }},
		"another pod is not ready: the ReplicaSet would remove that one": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[1].Ready = false }},
		"the old pod is not ready: the ReplicaSet removes it first": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Lower,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].Ready = false }},
		"the updater was away until after the deadline": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: Lower},
		"late, and the deletion cost cannot be set": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: TakeBack, failed: "deletion cost", kind: decision.Denied,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].DeletionCost = 5 }},
		"late, and the deletion cost was not tried": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, resumed: true, want: Mark,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].DeletionCost = 5 }},
		"the strategy is Recreate now": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: TakeBack, unmark: true, failed: "strategy", kind: decision.Unsupported,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Exclusive = true }},
		"another client wrote the record": {replicas: 3, record: record, pods: surgePods("a", "new"), want: Forget, failed: "another client", kind: decision.ServerBusy,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Foreign = true }},
		"not ready for minReadySeconds": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait, at: 59 * time.Minute,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.MinReady = time.Hour }},
		"not ready for minReadySeconds, no deletion cost yet": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Mark, at: 59 * time.Minute,
			change: func(d *cluster.Deployment, ps []*cluster.Pod) { d.MinReady, ps[0].DeletionCost = time.Hour, 5 }},
		"minReadySeconds, and a pod is not ready": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait,
			change: func(d *cluster.Deployment, ps []*cluster.Pod) { d.MinReady, ps[2].Ready = time.Hour, false }},
		"a pod terminates slowly: the ReplicaSet does not count it": {replicas: 3, record: record, pods: surgePods("old", "a", "new", "leaving"), want: Lower,
			change: func(d *cluster.Deployment, ps []*cluster.Pod) { d.Pods, d.Updated, ps[3].Deleting = 3, 3, true }},
		"one of the others terminates": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait,
			change: func(d *cluster.Deployment, ps []*cluster.Pod) { ps[1].Deleting = true }},
		"the old pod is gone":        {replicas: 3, record: record, pods: surgePods("a", "new"), want: TakeBack},
		"the old pod terminates":     {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: TakeBack, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].Deleting = true }},
		"the Deployment is deleted":  {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait, change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Deleting = true }},
		"others scaled up":           {replicas: 9, record: record, pods: surgePods("old", "a", "new"), want: Forget, unmark: true, failed: "from 3 to 9", kind: decision.ServerBusy},
		"others restored the number": {replicas: 2, record: record, pods: surgePods("old", "a"), want: Forget, unmark: true, failed: "from 3 to 2", kind: decision.ServerBusy},
		"an HPA":                     {replicas: 3, record: record, pods: surgePods("old", "a", "new"), scaled: true, want: TakeBack, unmark: true, failed: "HorizontalPodAutoscaler", kind: decision.Unsupported},
		"a rollout by the status": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: TakeBack, unmark: true, failed: "rollout", kind: decision.ServerBusy,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Updated = 1 }},
		"a rollout by the pods": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: TakeBack, unmark: true, failed: "rollout", kind: decision.ServerBusy,
			change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Controller.Name = "web-2" }},
		"the status is older than the spec": {replicas: 3, record: record, pods: surgePods("old", "a", "new"), want: Wait,
			change: func(d *cluster.Deployment, _ []*cluster.Pod) { d.Observed, d.Updated = false, 0 }},
		"late, and no new pod":     {replicas: 3, record: record, pods: surgePods("old", "a"), late: true, want: TakeBack, unmark: true, failed: "no additional pod", kind: decision.DeniedByQuota},
		"late, and without node":   {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: TakeBack, unmark: true, failed: "no node has room", kind: decision.DeniedByNode, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Node, ps[2].Ready = "", false }},
		"late, but ready":          {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: Lower},
		"late, and not ready":      {replicas: 3, record: record, pods: surgePods("old", "a", "new"), late: true, want: TakeBack, unmark: true, failed: "not all pods were ready within 10m", kind: decision.NotReadyInTime, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[2].Ready = false }},
		"lowered, the pod lives":   {replicas: 2, record: lowered, pods: surgePods("old", "a", "new"), want: Wait},
		"lowered, the pod leaves":  {replicas: 2, record: lowered, pods: surgePods("old", "a", "new"), want: Forget, change: func(_ *cluster.Deployment, ps []*cluster.Pod) { ps[0].Deleting = true }},
		"lowered, another is gone": {replicas: 2, record: lowered, pods: surgePods("old", "a"), late: true, want: Forget, unmark: true, failed: "removed another pod", kind: decision.ServerBusy},
		"lowered, others scaled":   {replicas: 5, record: lowered, pods: surgePods("old", "a", "new"), want: Forget, unmark: true, failed: "from 2 to 5", kind: decision.ServerBusy},
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
			m := Next(now, d, c.pods, c.scaled, c.resumed)
			var at time.Time
			if c.at > 0 {
				at = noon.Add(c.at)
			}
			if !m.At.Equal(at) {
				t.Errorf("the next step is due at %v, want %v", m.At, at)
			}
			if m.Do != c.want || m.Unmark != c.unmark || (m.Failed != nil) != (c.failed != "") {
				t.Fatalf("got step %d, unmark %t, failed %v", m.Do, m.Unmark, m.Failed)
			}
			if m.Failed != nil && (m.Failed.Kind != c.kind || !strings.Contains(m.Failed.Text, c.failed)) {
				t.Errorf("failed with kind %d: %s", m.Failed.Kind, m.Failed.Text)
			}
		})
	}
}

// A surge with a deadline that is too far in the future is reverted, so that its additional replica does not stay.
func TestNext_deadlineFarInTheFuture_surgeIsReverted(t *testing.T) {
	record := cluster.Surge{Replicas: 1, UID: "old", Deadline: noon.Add(1000 * time.Hour)}
	if m := Next(noon, surgingDeployment(2, 1, &record), surgePods("old"), false, true); m.Do != TakeBack {
		t.Errorf("step %d", m.Do)
	}
}

func TestStart_deploymentThatCannotSurge_isRefused(t *testing.T) {
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
		if _, refusal := Start(noon, d, p); refusal != nil {
			t.Fatalf("refused: %v", refusal)
		}
		change(d)
		if _, refusal := Start(noon, d, p); refusal == nil || refusal.Text == "" {
			t.Errorf("%s: not refused", name)
		}
	}
}
