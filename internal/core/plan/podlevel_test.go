// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A pod reserves its pod-level request on the node. So it has the recommended size only if that request has it, too.
func TestPlan_podLevelRequestAboveWhatContainersNeed_isLowered(t *testing.T) {
	need, level := cluster.Amounts(413, 517<<20), cluster.Amounts(1000, 1<<30)
	for name, requests := range map[string]cluster.Resources{
		"pod-level resources only":             {},
		"the container has its target already": need,
	} {
		t.Run(name, func(t *testing.T) {
			for mode, act := range map[cluster.Mode]decision.Act{cluster.InPlaceOrRecreate: decision.Resize, cluster.Recreate: decision.Evict} {
				w, b := podLevelWorld(mode, requests, level, need)
				d := Plan(noon, w, b)[0]
				if d.Do != act {
					t.Fatalf("%s: %s because %s, want %s", mode, d.Do, d.Reason, act)
				}
				if got := admissible.PodLevelOf(d.Pod, d.With).Requests; got != need {
					t.Errorf("%s: pod-level requests %v, want %v", mode, got, need)
				}
				if change.Grows(d.Pod, d.With) || !change.Shrinks(d.Pod, d.With) {
					t.Errorf("%s: the pod counts as one that grows on its node", mode)
				}
			}
		})
	}
}

func TestPlan_podLevelRequestWithinRange_podIsLeft(t *testing.T) {
	need := cluster.Amounts(413, 517<<20)
	w, b := podLevelWorld(cluster.Recreate, need, cluster.Amounts(420, 520<<20), need)
	w.Governed[0].Autoscaler.Advice[0].Upper = cluster.Amounts(500, 600<<20)
	if d := Plan(noon, w, b)[0]; d.Do != decision.Leave || d.Reason.Code != decision.SmallChange {
		t.Errorf("%s because %s", d.Do, d.Reason)
	}
}

func podLevelWorld(mode cluster.Mode, requests, level, need cluster.Resources) (World, Budget) {
	top := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "cart"}
	pod := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, UID: "1", Controller: top, Top: top, Node: "n",
		Phase: cluster.Running, Ready: true, QoS: cluster.Burstable, Created: noon.AddDate(0, 0, -2), Started: noon.AddDate(0, 0, -2),
		ReadySince: noon.AddDate(0, 0, -1), PodLevel: &cluster.PodResources{Requests: level},
		Containers: []cluster.Container{{Name: "app", Requests: requests}},
	}
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: top, Mode: mode, Created: noon.Add(-48 * time.Hour),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: need, Target: need, Upper: need}}},
	}
	b := DefaultBudget()
	b.MinReplicas, b.InPlace = 1, true
	return World{
		Governed: []cluster.Governed{{Autoscaler: a, Pods: []*cluster.Pod{pod}}},
		Scales:   map[cluster.Workload]cluster.Scale{top: {Known: true, Replicas: 1}},
	}, b
}

// The containers have their targets, and the pod needs less as a whole: running pods change in place, others are replaced.
func TestPlan_podNeedsLessThanTheSumOfItsTargets_getsWhatItNeedsAsAWhole(t *testing.T) {
	target := cluster.Amounts(400, 400<<20)
	for mode, act := range map[cluster.Mode]decision.Act{cluster.InPlaceOrRecreate: decision.Resize, cluster.Recreate: decision.Evict} {
		w, b := podLevelWorld(mode, target, cluster.Amounts(800, 800<<20), target)
		p, a := w.Governed[0].Pods[0], w.Governed[0].Autoscaler
		p.Containers = append(p.Containers, cluster.Container{Name: "cache", Index: 1, Requests: target})
		a.Advice[0].Shared = cluster.Amounts(250, 250<<20)
		a.Advice = append(a.Advice, a.Advice[0])
		a.Advice[1].Container = "cache"
		d := Plan(noon, w, b)[0]
		if level := admissible.PodLevelOf(d.Pod, d.With).Requests; d.Do != act || level != cluster.Amounts(500, 500<<20) {
			t.Errorf("%s: %s because %s, pod-level requests %v", mode, d.Do, d.Reason, level)
		}
		// An OOM kill ends the sharing of memory: the pod grows by more than the container.
		p.PodLevel.Requests = cluster.Amounts(500, 500<<20)
		for i := range p.Containers {
			p.Containers[i].Requests = cluster.Amounts(250, 250<<20)
			a.Advice[i].Shared = cluster.Amounts(250, 0).Only(cluster.Of(cluster.CPU))
		}
		a.Advice[0].Estimate = cluster.Estimate{Target: cluster.Amounts(400, 500<<20), Lower: cluster.Amounts(400, 500<<20), Upper: cluster.Amounts(400, 500<<20)}
		p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: noon.Add(-time.Hour), Finished: noon.Add(-time.Minute)}
		d = Plan(noon, w, b)[0]
		if level := admissible.PodLevelOf(d.Pod, d.With).Requests; d.Do != act || level != cluster.Amounts(500, 900<<20) {
			t.Errorf("%s: %s because %s, pod-level requests %v after a kill", mode, d.Do, d.Reason, level)
		}
	}
}

func TestPlan_endedInitContainerHasAnotherRecommendation_podIsLeft(t *testing.T) {
	target := cluster.Amounts(400, 400<<20)
	for _, mode := range []cluster.Mode{cluster.InPlaceOrRecreate, cluster.Recreate} {
		w, b := podLevelWorld(mode, target, target, target)
		p, a := w.Governed[0].Pods[0], w.Governed[0].Autoscaler
		p.PodLevel = nil
		p.Containers = append(p.Containers, cluster.Container{Name: "migrate", Index: 0, Role: cluster.Init, Requests: cluster.Amounts(50, 50<<20)})
		a.Advice = append(a.Advice, a.Advice[0])
		a.Advice[1].Container = "migrate"
		p.Containers[1].Exit = &cluster.Exit{OOM: true, Started: noon.Add(-time.Hour), Finished: noon.Add(-time.Minute)}
		if d := Plan(noon, w, b)[0]; d.Do != decision.Leave || d.Wanted.Code != decision.Fits {
			t.Errorf("%s: %s because %s; only new pods get the size of an init container", mode, d.Do, d.Wanted)
		}
	}
}
