// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

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
