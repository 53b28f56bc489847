// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

// holds returns the causes that keep a cluster autoscaler from removing a node.
func holds(n *Node) string {
	var out []string
	for _, h := range n.Holds {
		out = append(out, h.Cause)
	}
	return strings.Join(out, " ")
}

// A pod that stays keeps its node, also from being freed by moves. What only a cluster autoscaler asks does not prevent moves.
func TestMeasure_podThatStays_keepsItsNode(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, p *cluster.Pod)
		holds  string
		moves  bool
	}{
		"nothing": {func(*world, *cluster.Pod) {}, "", true},
		"annotation": {func(_ *world, p *cluster.Pod) {
			p.Marks.Protection = "cluster-autoscaler.kubernetes.io/safe-to-evict: false"
		}, "Protected", false},
		"no controller":        {func(_ *world, p *cluster.Pod) { p.Controller = cluster.Workload{} }, "NoController", false},
		"local storage":        {func(_ *world, p *cluster.Pod) { p.LocalData = true }, "LocalStorage", false},
		"local storage, safe":  {func(_ *world, p *cluster.Pod) { p.LocalData, p.Marks.Evictable = true, true }, "", false},
		"tied":                 {func(_ *world, p *cluster.Pod) { p.Tied = true }, "Constraints", false},
		"affinity not known":   {func(_ *world, p *cluster.Pod) { p.Place = cluster.Somewhere }, "Constraints", false},
		"tolerations unlisted": {func(_ *world, p *cluster.Pod) { p.Tolerance = cluster.Unlisted }, "Constraints", false},
		"overhead":             {func(_ *world, p *cluster.Pod) { p.Overhead = true }, "Constraints", false},
		"no room for it":       {func(_ *world, p *cluster.Pod) { p.Containers[0].Requests = cluster.Amounts(3500, gi) }, "NoRoom", false},
		"job":                  {func(_ *world, p *cluster.Pod) { p.Controller.Kind, p.Controller.Group = "Job", "batch" }, "", false},
		"not ready":            {func(_ *world, p *cluster.Pod) { p.Ready = false }, "", false},
		"resize in progress":   {func(_ *world, p *cluster.Pod) { p.Resize = &cluster.Resize{State: cluster.ResizeInProgress} }, "", false},
		"system priority":      {func(_ *world, p *cluster.Pod) { p.Priority = 2_000_000_000 }, "", false},
		"too few replicas":     {func(w *world, _ *cluster.Pod) { w.pods = w.pods[:len(w.pods)-1] }, "", false},
		"replicas not known":   {func(w *world, p *cluster.Pod) { delete(w.scales, p.Controller) }, "", false},
		"other replica is down": {func(w *world, _ *cluster.Pod) {
			w.pods[len(w.pods)-1].Ready = false
		}, "", false},
		"kube-system": {func(w *world, p *cluster.Pod) {
			w.scales[cluster.Workload{}], p.Namespace = cluster.Scale{}, "kube-system"
		}, "SystemPod", true},
		"kube-system with a budget": {func(w *world, p *cluster.Pod) {
			p.Namespace = "kube-system"
			w.Budgets["kube-system"] = []cluster.DisruptionBudget{{Name: "b", Healthy: 2, Desired: 1, Current: true}}
		}, "", true},
		"budget is spent": {func(w *world, _ *cluster.Pod) {
			w.Budgets["shop"] = []cluster.DisruptionBudget{{Name: "b", Healthy: 2, Desired: 2, Current: true, Selector: selecting("app=cart")}}
		}, "NoEviction", false},
		"budget of other pods": {func(w *world, _ *cluster.Pod) {
			w.Budgets["shop"] = []cluster.DisruptionBudget{{Name: "b", Healthy: 2, Desired: 2, Current: true, Selector: selecting("app=other")}}
		}, "", true},
		"several budgets": {func(w *world, _ *cluster.Pod) {
			w.Budgets["shop"] = []cluster.DisruptionBudget{{Name: "a", Healthy: 2, Desired: 1, Current: true}, {Name: "b", Healthy: 2, Desired: 1, Current: true}}
		}, "NoEviction", false},
		"status of the budget is old": {func(w *world, _ *cluster.Pod) {
			w.Budgets["shop"] = []cluster.DisruptionBudget{{Name: "b", Healthy: 2, Desired: 1}}
		}, "BudgetsUnknown", false},
		"budgets not known": {func(w *world, _ *cluster.Pod) { w.Budgets = nil }, "BudgetsUnknown", true},
	} {
		w := input()
		w.node("n1", 4, 32)
		w.node("n2", 4, 32).Cordoned = false
		w.pod("web-1", "n1", 1000, 1).Tied = true
		p := w.pod("cart-1", "n2", 1000, 1)
		w.pod("cart-2", "gone", 1000, 1)
		tt.change(w, p)
		pool := Measure(w.pack())[0]
		if got := holds(&pool.Nodes[1]); got != tt.holds {
			t.Errorf("%s: the autoscaler is held by %q, want %q", name, got, tt.holds)
		}
		if moves := pool.Empty.Node == "n2"; moves != tt.moves {
			t.Errorf("%s: %s, want moves: %t", name, text(&pool.Empty), tt.moves)
		}
	}
}

// A DaemonSet, a static pod and a pod that terminates neither hold a node nor move, but take room.
func TestMeasure_daemonsAndTerminatingPods_onlyTakeRoom(t *testing.T) {
	w := input()
	w.node("n1", 4, 32)
	w.pod("log-1", "n1", 500, 1).Controller.Kind = "DaemonSet"
	w.pod("proxy-1", "n1", 500, 1).Static = true
	w.pod("old-1", "n1", 500, 1).Deleting = true
	w.pod("done-1", "n1", 500, 1).Phase = cluster.Succeeded
	pool := Measure(w.settle())[0]
	if n := pool.Nodes[0]; n.Pods != 0 || len(n.Holds) > 0 || pool.Free.CPU != 2500 || pool.Empty.Node != "" {
		t.Errorf("%+v", pool)
	}
}

// A node without pods could be removed, so none is moved to it.
func TestMeasure_emptyNode_getsNoPods(t *testing.T) {
	w := three()
	w.node("n4", 64, 256)
	if p := Measure(w.settle())[0]; text(&p.Empty) != "found=true proven=true n3, cart-1 n3→n1" || holds(&p.Nodes[3]) != "" {
		t.Errorf("%s, %+v", text(&p.Empty), p.Nodes[3])
	}
	w.Nodes = w.Nodes[2:]
	w.Pools = w.Pools[2:]
	if p := Measure(w.settle())[0]; p.Empty.Node != "" || holds(&p.Nodes[0]) != "NoRoom" {
		t.Errorf("%s, %+v", text(&p.Empty), p.Nodes[0])
	}
}

func TestMeasure_wellUsedNode_isKeptByDefault(t *testing.T) {
	w := three()
	w.pod("cart-2", "n3", 1000, 1)
	p := Measure(w.settle())[0]
	if holds(&p.Nodes[2]) != "WellUsed" {
		t.Errorf("%s, %+v", text(&p.Empty), p.Nodes[2])
	}
}

func TestMeasure_stranded_isWhatUsualPodsLeave(t *testing.T) {
	w := input()
	w.node("n1", 8, 8)
	w.node("n2", 4, 64)
	w.node("n3", 8, 64).Ready = false
	w.node("n4", 8, 64)
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		w.pod(name, "n1", 1000, 2)
	}
	w.pod("rare-1", "n2", 100, 1)
	w.pod("kata-1", "n4", 100, 1).Overhead = true
	pool := Measure(w.settle())[0]
	// n1: 5 cores and 2 GiB are free, one pod of 1 core and 2 GiB fits. n2: 3.9 cores and 63 GiB, three fit. n3 takes no pods, and n4 is not known.
	if pool.Free != (room.Amount{CPU: 8900, Memory: 65 * gi}) || pool.Stranded != (room.Amount{CPU: 4900, Memory: 57 * gi}) {
		t.Errorf("free %v, stranded %v", pool.Free, pool.Stranded)
	}
}

func TestMeasure_maximumOfPods_isRespected(t *testing.T) {
	w := three()
	for i := range w.Nodes {
		w.Nodes[i].MaxPods = 2
	}
	w.For = room.Amount{CPU: 100, Memory: gi}
	p := Measure(w.settle())[0]
	if p.Empty.Node != "" || text(p.Room) != "found=true proven=true n3" || p.Stranded.CPU != 11_000-3000 {
		t.Errorf("%s, %s, stranded %v", text(&p.Empty), text(p.Room), p.Stranded)
	}
}

func TestMeasure_severalPools_eachHasItsNodes(t *testing.T) {
	w := three()
	w.Pools[2] = "blue"
	in := w.settle()
	in.Names = []string{"blue", "worker"}
	pools := Measure(in)
	if len(pools) != 2 || pools[0].Name != "blue" || len(pools[0].Nodes) != 1 || len(pools[1].Nodes) != 2 || pools[0].Empty.Node != "n3" {
		t.Errorf("%+v", pools)
	}
}
