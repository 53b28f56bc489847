// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

const gib = 1 << 30

// podOn returns a running pod with one container that requests CPU and memory.
func podOn(node string, cpu, memory int64) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "web", Node: node, Phase: cluster.Running,
		Controller: cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web"},
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, memory)}},
	}
}

func nodeOf(name string, cpu, memory int64) cluster.Node {
	return cluster.Node{Name: name, Ready: true, Allocatable: cluster.Amounts(cpu, memory)}
}

// A small node with much memory, a large one with little, and one that takes no pods.
func nodes() []cluster.Node {
	cordoned := nodeOf("cordoned", 64000, 64*gib)
	cordoned.Cordoned = true
	return []cluster.Node{nodeOf("a", 2000, 16*gib), nodeOf("b", 8000, 4*gib), cordoned}
}

func TestSizes_fit_onNodesThatAcceptThePod(t *testing.T) {
	daemon, elsewhere := podOn("a", 100, gib), podOn("a", 100, gib)
	daemon.Controller.Kind = "DaemonSet"
	elsewhere.Place = cluster.Somewhere
	s := SizesOf(nodes(), nil, nil, nil)
	for name, c := range map[string]struct {
		pod         *cluster.Pod
		cpu, memory int64
		want        bool
	}{
		"another node has the CPU":              {podOn("a", 100, gib), 8000, 4 * gib, true},
		"no node has both":                      {podOn("a", 100, gib), 4000, 8 * gib, false},
		"only a cordoned node has it":           {podOn("a", 100, gib), 32000, gib, false},
		"a DaemonSet stays on its node":         {daemon, 4000, gib, false},
		"its own node is enough":                {daemon, 2000, 16 * gib, true},
		"the nodes for it are not known":        {elsewhere, 4000, gib, false},
		"its own node is known to take it":      {elsewhere, 1000, gib, true},
		"the node is gone, so nothing is known": {podOn("gone", 100, gib), 100, gib, true},
	} {
		if got, _ := s.Fit(c.pod, cluster.Amounts(c.cpu, c.memory)); got != c.want {
			t.Errorf("%s: fits %v, want %v", name, got, c.want)
		}
	}
	unknown := SizesOf(nil, nil, nil, nil)
	if fits, _ := unknown.Fit(podOn("a", 1, 1), cluster.Amounts(1e9, 1e15)); !unknown.Unknown || !fits {
		t.Error("without nodes, a pod does not count as placeable")
	}
}

func TestRooms_take_eachRoomIsGivenOnce(t *testing.T) {
	all := nodes()
	s := SizesOf(all, nil, nil, nil)
	own := podOn("a", 1500, gib)
	rooms := RoomsOf(all, []*cluster.Pod{own, podOn("b", 7000, gib)}, s)
	large := room.Amount{CPU: 1900, Memory: gib}
	if !rooms.Take(own, large) {
		t.Error("the own node has no room, although the eviction frees some")
	}
	if left := rooms.Nodes["a"].Open.CPU; left != 100 {
		t.Errorf("%dm of the own node are free, want 100m", left)
	}
	tied := podOn("b", 7000, gib)
	tied.Tied = true
	if rooms.Take(tied, room.Amount{CPU: 9000, Memory: gib}) {
		t.Error("a pod got more than its node has")
	}
	other := podOn("cordoned", 100, gib)
	if !rooms.Take(other, room.Amount{CPU: 600, Memory: gib}) || rooms.Take(other, room.Amount{CPU: 600, Memory: gib}) {
		t.Error("600m of 1,000m were not given exactly once")
	}
	if got := rooms.Usable(other.Reach()); len(got) != 2 || got[0].Node.Name != "a" {
		t.Errorf("%d nodes take pods, want a and b", len(got))
	}
	if RoomsOf(all, nil, s).Known {
		t.Error("the room is known without pods")
	}
}

// The scheduler gives room to pods that wait already. One that has waited for long may wait for something else.
// A node with as many pods as it may have takes the replacement of one of them, and no other pod.
func TestRooms_maxPods_holdsForOtherNodes(t *testing.T) {
	all := nodes()
	all[0].MaxPods, all[1].MaxPods = 1, 2
	own, other := podOn("a", 100, gib), podOn("b", 100, gib)
	rooms := RoomsOf(all, []*cluster.Pod{own, other}, SizesOf(all, nil, nil, nil))
	small := room.Amount{CPU: 100, Memory: 1 << 20}
	waits := podOn("", 100, gib)
	if !rooms.Take(own, small) {
		t.Error("the node with one pod of one does not take its replacement")
	}
	if got := rooms.Beside(rooms.Nodes["b"]).For(other); len(got) != 0 {
		t.Errorf("%d spots on full nodes", len(got))
	}
	if !rooms.Take(waits, small) || rooms.Take(waits, small) {
		t.Error("the one slot of b was not given exactly once")
	}
}

func TestRooms_newPodsHaveNoNode_haveRoomBeforeOthers(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	all := nodes()
	for name, c := range map[string]struct {
		change func(*cluster.Pod)
		want   bool // room is left for another pod
	}{
		"new":         {func(*cluster.Pod) {}, false},
		"old":         {func(p *cluster.Pod) { p.Created = now.Add(-time.Hour) }, true},
		"terminating": {func(p *cluster.Pod) { p.Deleting = true }, true},
		"has a node":  {func(p *cluster.Pod) { p.Node = "cordoned" }, true},
	} {
		waits := podOn("", 6000, gib)
		waits.Created = now.Add(-time.Minute)
		c.change(waits)
		pods := []*cluster.Pod{podOn("a", 1500, gib), waits}
		rooms := RoomsOf(all, pods, SizesOf(all, nil, nil, nil))
		rooms.TakeForNew(now, pods)
		if got := rooms.Take(podOn("a", 100, gib), room.Amount{CPU: 3000, Memory: gib}); got != c.want {
			t.Errorf("%s: room is left: %v, want %v", name, got, c.want)
		}
	}
}

// While a resize waits, the kubelet holds the old requests, and the scheduler counts the larger ones.
func TestRooms_resizeWaits_kubeletAndSchedulerCountDifferently(t *testing.T) {
	p := podOn("a", 1500, gib)
	p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(500, gib)}
	for state, want := range map[cluster.ResizeState][2]int64{
		cluster.ResizeDeferred: {500, 1500}, cluster.ResizeInfeasible: {500, 500}, cluster.ResizeInProgress: {1500, 1500},
	} {
		p.Resize = &cluster.Resize{State: state}
		if held, counted := Held(p).CPU, Counted(p).CPU; held != want[0] || counted != want[1] {
			t.Errorf("%v: %dm held and %dm counted, want %v", state, held, counted, want)
		}
	}
	p.Resize, p.Overhead, p.Deleting = &cluster.Resize{State: cluster.ResizeInProgress}, true, true
	r := RoomsOf(nodes(), []*cluster.Pod{p}, SizesOf(nodes(), nil, nil, nil)).Nodes["a"]
	if !r.Unknown || !r.Leaving || r.Free.CPU != 500 || r.Open.CPU != 500 {
		t.Errorf("room %+v", r)
	}
}

func TestSizes_taintsAndSelectors_areRespected(t *testing.T) {
	all := nodes()
	p := podOn("b", 100, gib)
	p.Place = cluster.Selected
	s := SizesOf(all, []cluster.NodeSelector{{}}, nil, nil)
	if accepts, known := s.Accepting(p.Reach()); !known || !accepts(&all[1]) {
		t.Errorf("an empty selector: known %v", known)
	}
	p.Place = cluster.Selected + 7
	if accepts, known := s.Accepting(p.Reach()); known || accepts(&all[1]) {
		t.Error("a selector that is not listed accepts a node")
	}
	if !s.MayReturn(p, &all[1]) {
		t.Error("a pod may not return to its own node, although its selector is not known")
	}
}

func TestSpots_for_otherNodesThatAcceptThePod(t *testing.T) {
	many := nodes()
	for i := range int64(maxSpots) {
		many = append(many, nodeOf(fmt.Sprint("n", i), 100+i, gib))
	}
	own, overhead := podOn("a", 100, gib), podOn("n1", 100, gib)
	overhead.Overhead = true
	rooms := RoomsOf(many, []*cluster.Pod{own, overhead}, SizesOf(many, nil, nil, nil))
	s := rooms.Beside(rooms.Nodes["a"])
	found := map[string]bool{}
	for _, i := range s.For(own) {
		found[s.All[i].Node] = true
	}
	if len(found) != maxSpots || !found["b"] || found["a"] || found["cordoned"] || found["n1"] {
		t.Errorf("%d spots: %v", len(found), found)
	}
	s.For(own)
	if s.Visits() != len(many) {
		t.Errorf("%d nodes were looked at, want each of %d once", s.Visits(), len(many))
	}
}
