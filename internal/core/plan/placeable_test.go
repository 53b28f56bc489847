// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A recommendation that is only a little smaller than the pod decides whether a node can hold it. If replacements do not get it, for example
// because the admission controller does not know the nodes, they are not evicted again and again.
func TestPlan_replacementsOfUnscheduledPodsStayTooLarge_evictionsBackOff(t *testing.T) {
	b := DefaultBudget()
	w := World{
		Ledger: ledger.New(),
		Nodes:  []cluster.Node{{Name: "n1", Ready: true, Allocatable: cluster.Amounts(960, 8<<30)}},
		Scales: map[cluster.Workload]cluster.Scale{},
	}
	controller := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	w.Scales[controller] = cluster.Scale{Known: true, Replicas: 1}
	target := cluster.Amounts(930, 1<<30)
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: top, Mode: cluster.Recreate, Created: noon.Add(-48 * time.Hour),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}}},
	}
	evictions := 0
	name := 0
	pod := func(now time.Time) *cluster.Pod {
		name++
		return &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: "web-" + string(rune('a'+name%26))}, UID: time.Duration(name).String(), Controller: controller, Top: top,
			Created: now, Phase: cluster.Pending,
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30)}},
		}
	}
	current := pod(noon)
	for now := noon; now.Before(noon.Add(3 * time.Hour)); now = now.Add(time.Minute) {
		w.Governed = []cluster.Governed{{Autoscaler: a, Pods: []*cluster.Pod{current}}}
		p := Begin(now, w, b)
		p.Learn()
		for _, d := range p.Decisions() {
			if d.Do == decision.Evict {
				evictions++
				p.Done(d)
				current = pod(now.Add(time.Second))
			}
		}
	}
	if evictions < 2 || evictions > 4 {
		t.Errorf("%d evictions in three hours, want 2 to 4", evictions)
	}
}
