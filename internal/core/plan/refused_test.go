// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

func TestPlan_replacementWouldBeRefused_leavesPod(t *testing.T) {
	cpu := func(milli int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, milli) }
	top := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "cart"}
	// The init container needs more than the LimitRange of pods allows since. No size of the other container mends that.
	limits := policy.Limits{Range: cluster.LimitRange{Pod: cluster.Range{Max: cpu(500)}}}
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate, cluster.InPlace} {
		pod := &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, UID: "1", Controller: top, Top: top, Node: "n",
			Phase: cluster.Running, Ready: true, QoS: cluster.Burstable, Started: noon.AddDate(0, 0, -2),
			Containers: []cluster.Container{
				{Name: "app", Requests: cpu(100), Limits: cpu(200)},
				{Name: "setup", Role: cluster.Init, Requests: cpu(900), Limits: cpu(900)},
			},
		}
		want := cpu(300)
		a := &cluster.Autoscaler{
			Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: top, Mode: mode,
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: want, Target: want, Upper: want}}},
		}
		b := DefaultBudget()
		b.MinReplicas, b.InPlace = 1, true
		w := World{
			Governed: []cluster.Governed{{Autoscaler: a, Pods: []*cluster.Pod{pod}}},
			Scales:   map[cluster.Workload]cluster.Scale{top: {Known: true, Replicas: 1}},
		}
		if d := Plan(noon, w, b)[0]; d.Do == decision.Leave {
			t.Fatalf("%s: without a LimitRange the pod is left: %s", mode, d.Reason)
		}
		w.Limits = map[string]policy.Limits{"shop": limits}
		d := Plan(noon, w, b)[0]
		left := decision.Reason{Code: decision.ReplacementRefused, Text: "the cpu limit 900m of the pod is above the maximum 500m of a LimitRange"}
		if d.Do != decision.Leave || d.Reason != left {
			t.Errorf("%s: %s because %s", mode, d.Do, d.Reason)
		}
	}
}

func TestQoSOf_podLevelResources_ignoresContainers(t *testing.T) {
	size := cluster.Amounts(100, 1<<20)
	pod := &cluster.Pod{
		PodLevel:   &cluster.PodResources{Requests: size, Limits: size},
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(50, 1<<20)}},
	}
	if q := admissible.QoSOf(policy.Limits{}, pod, nil); q != cluster.Guaranteed {
		t.Errorf("class %d", q)
	}
	if got := change.Total(pod, nil); got != size {
		t.Errorf("the total is %v", got)
	}
	pod.PodLevel.Limits = pod.PodLevel.Limits.Unset(cluster.Memory)
	if q := admissible.QoSOf(policy.Limits{}, pod, nil); q != cluster.Burstable {
		t.Errorf("class %d", q)
	}
}

// A pod whose resize was refused waits for the budget that another pod has. It gets it when that one is refused, too, in the same pass.
func TestPass_refusedResizeWaitsForBudget_getsWhatAnotherPodGivesBack(t *testing.T) {
	w, a := shrinking(3)
	a.Mode, a.MinReplicas = cluster.InPlaceOrRecreate, 1
	for i, p := range w.Governed[0].Pods[:2] {
		p.Resize = &cluster.Resize{State: cluster.ResizeInfeasible, Since: noon.Add(-time.Hour)}
		p.Containers[0].Requests.CPU = 5000 - int64(i)
	}
	b := DefaultBudget()
	b.SkipInPlace, b.Tolerance = true, 0
	p := Begin(noon, w, b)
	p.Learn()
	did := map[string]decision.Decision{}
	for _, d := range p.Decisions() {
		did[fmt.Sprint(d.Pod.Name, " ", d.Do)] = d
	}
	first, evicts := did["db-0 evict"]
	resized, resizes := did["db-2 resize"]
	if !evicts || !resizes || resized.Fallback {
		t.Fatalf("decisions %v, want an eviction of db-0 and a resize of db-2 without an eviction instead", did)
	}
	denied := decision.Refusal{Kind: decision.Denied, Text: "no"}
	second := p.Refused(first, denied)
	if len(second) != 1 || second[0].Pod.Name != "db-1" {
		t.Fatalf("%v, want the eviction of db-1", second)
	}
	if next := p.Refused(resized, denied); len(next) != 0 {
		t.Fatalf("%v, want none: db-1 has the budget", next)
	}
	if next := p.Refused(second[0], denied); len(next) != 1 || next[0].Pod.Name != "db-2" || next[0].Do != decision.Evict {
		t.Errorf("%v, want the eviction of db-2", next)
	}
}
