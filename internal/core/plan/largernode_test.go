// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

var (
	smallNode = cluster.Node{Name: "small", Ready: true, Allocatable: cluster.Amounts(4000, 4<<30)}
	largeNode = cluster.Node{Name: "large", Ready: true, Allocatable: cluster.Amounts(16000, 64<<30)}
)

// heldWorld returns a Deployment with two pods that were scaled down to the small node an hour ago.
func heldWorld(nodes ...cluster.Node) World {
	controller := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: top, Mode: cluster.Recreate, Created: noon.Add(-48 * time.Hour),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(1000, 3<<30), Target: cluster.Amounts(2000, 6<<30), Upper: cluster.Amounts(4000, 12<<30),
		}}},
	}
	g := cluster.Governed{Autoscaler: a}
	for i := range 2 {
		g.Pods = append(g.Pods, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}, UID: fmt.Sprint(i), Controller: controller, Top: top, Node: "small",
			Phase: cluster.Running, Ready: true, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), QoS: cluster.Burstable,
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(2000, 4<<30)}},
		})
	}
	w := World{Governed: []cluster.Governed{g}, Scales: map[cluster.Workload]cluster.Scale{controller: {Known: true, Replicas: 2}}, Ledger: ledger.New()}
	w.setNodes(nodes...)
	return w
}

func (w *World) setNodes(nodes ...cluster.Node) {
	w.Nodes, w.Fleet = nodes, fleet.New(fleet.Config{Nodes: nodes})
}

func codes(ds []decision.Decision) (evicted int, left map[decision.ReasonCode]int) {
	left = map[decision.ReasonCode]int{}
	for _, d := range ds {
		if d.Do == decision.Evict {
			evicted++
		} else {
			left[d.Reason.Code]++
		}
	}
	return evicted, left
}

func TestPlan_largerNodeArrives_podThatWasScaledDownIsEvictedAtOnce(t *testing.T) {
	notReady, cordoned := largeNode, largeNode
	notReady.Ready, cordoned.Cordoned = false, true
	young := func(w *World) { w.Governed[0].Autoscaler.Created = noon.Add(-time.Hour) }
	inPlace := func(w *World) { w.Governed[0].Autoscaler.Mode = cluster.InPlace }
	orRecreate := func(w *World) { w.Governed[0].Autoscaler.Mode = cluster.InPlaceOrRecreate }
	free := func(w *World) {
		for _, p := range w.Governed[0].Pods {
			p.Containers[0].Requests = cluster.Amounts(2000, 7<<29) // 3.5Gi of 4Gi
		}
	}
	daemon := func(w *World) {
		for _, p := range w.Governed[0].Pods {
			p.Controller.Kind = "DaemonSet"
		}
	}
	for name, c := range map[string]struct {
		nodes   []cluster.Node
		change  func(*World)
		evicted int
		left    decision.ReasonCode // of at least one pod
	}{
		"no larger node":                   {[]cluster.Node{smallNode}, nil, 0, decision.Fits},
		"a larger node":                    {[]cluster.Node{smallNode, largeNode}, nil, 1, decision.BudgetSpent},
		"a larger node, InPlaceOrRecreate": {[]cluster.Node{smallNode, largeNode}, orRecreate, 1, decision.BudgetSpent},
		"a larger node that is not ready":  {[]cluster.Node{smallNode, notReady}, nil, 0, decision.NoNodeFits},
		"a larger node that is cordoned":   {[]cluster.Node{smallNode, cordoned}, nil, 0, decision.Fits},
		"the VPA is young":                 {[]cluster.Node{smallNode, largeNode}, young, 0, decision.PodTooYoung},
		"the mode does not evict":          {[]cluster.Node{smallNode, largeNode}, inPlace, 0, decision.GateOff},
		"the pod was not scaled down":      {[]cluster.Node{smallNode, largeNode}, free, 0, decision.PodTooYoung},
		"a DaemonSet":                      {[]cluster.Node{smallNode, largeNode}, daemon, 0, decision.Fits},
	} {
		t.Run(name, func(t *testing.T) {
			w := heldWorld(c.nodes...)
			if c.change != nil {
				c.change(&w)
			}
			evicted, left := codes(Plan(noon, w, DefaultBudget()))
			if evicted != c.evicted || left[c.left] == 0 {
				t.Errorf("%d evictions, the others are left for %v", evicted, left)
			}
		})
	}
}

// Replacements land where they fit. If the larger node stays, each pod is evicted once. If it comes and goes, the evictions become rare.
func TestPlan_largerNodeStaysOrComesAndGoes_evictionsAreFew(t *testing.T) {
	for name, c := range map[string]struct {
		flaps bool
		most  int
	}{"stays": {false, 2}, "comes and goes 36 times a day": {true, 16}} {
		t.Run(name, func(t *testing.T) {
			w := heldWorld(smallNode)
			evictions, serial := 0, 0
			for minute := range 24 * 60 {
				now := noon.Add(time.Duration(minute) * time.Minute)
				large := minute >= 20 && (!c.flaps || minute/20%2 == 1)
				nodes := []cluster.Node{smallNode}
				if large {
					nodes = append(nodes, largeNode)
				}
				w.setNodes(nodes...)
				replace := func(i int) {
					serial++
					q := *w.Governed[0].Pods[i]
					q.UID, q.Name, q.Created, q.Started, q.ReadySince = fmt.Sprint("r", serial), fmt.Sprint("web-r", serial), now.Add(time.Second), now.Add(time.Second), now.Add(2*time.Second)
					q.Containers, q.Node = []cluster.Container{{Name: "app"}}, ""
					fits := policy.Fit(w.Governed[0].Autoscaler, w.LimitsOf(&q), &q) // by the webhook
					q.Containers[0].Requests, q.Node = fits[0].Requests, "small"
					if large {
						q.Node = "large"
					}
					w.Governed[0].Pods[i] = &q
				}
				for i, p := range w.Governed[0].Pods {
					if !large && p.Node == "large" {
						replace(i) // the node was drained
					}
				}
				p := Begin(now, w, DefaultBudget())
				p.Learn()
				for _, d := range p.Decisions() {
					if d.Do == decision.Evict {
						evictions++
						replace(slices.IndexFunc(w.Governed[0].Pods, func(q *cluster.Pod) bool { return q.UID == d.Pod.UID }))
						p.Done(d)
					}
				}
			}
			if evictions == 0 || evictions > c.most {
				t.Errorf("%d evictions in a day, want at most %d", evictions, c.most)
			}
		})
	}
}
