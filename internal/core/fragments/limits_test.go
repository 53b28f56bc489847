// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"fmt"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

// The tolerations of a pod with many are not listed, so it is not known whether it tolerates a taint. The updater does not move it either.
func TestMeasure_moreTolerationsThanAreListed_podStays(t *testing.T) {
	w := three()
	w.pods[len(w.pods)-1].Tolerance = cluster.AnyTaint
	p := Measure(w.settle())[0]
	if p.Empty.Node == "n3" || holds(&p.Nodes[2]) != "Constraints" {
		t.Errorf("%s, %+v", text(&p.Empty), p.Nodes[2])
	}
}

// Nodes with much memory and no CPU do not hide those that have both.
func TestMeasure_manyNodesWithoutCPU_nodeWithRoomIsFound(t *testing.T) {
	w := input()
	for i := range maxSpots + 10 {
		w.node(fmt.Sprintf("full%03d", i), 8, 64)
		w.pod(fmt.Sprintf("full%03d-1", i), fmt.Sprintf("full%03d", i), 8000, 1).Tied = true
	}
	w.node("half", 8, 64)
	w.pod("half-1", "half", 4000, 32).Tied = true
	w.node("small", 8, 64)
	w.pod("small-1", "small", 1000, 4)
	p := Measure(w.settle())[0]
	if got := text(&p.Empty); got != "found=true proven=true small, small-1 small→half" {
		t.Error(got)
	}
}

// With more nodes than are considered for a pod, fewer moves may be possible than those that were found.
func TestMeasure_moreNodesThanAreConsidered_fewestMovesAreNotProven(t *testing.T) {
	w := input()
	for i := range maxSpots + 10 {
		w.node(fmt.Sprintf("n%03d", i), 8, 64)
		w.pod(fmt.Sprintf("keep%03d-1", i), fmt.Sprintf("n%03d", i), 6500, 8).Tied = true
	}
	w.node("wide", 8, 64)
	w.pod("wide-1", "wide", 3000, 8).Tied = true
	w.pod("wide-2", "wide", 1500, 8)
	w.pod("wide-3", "wide", 1500, 8)
	w.node("free", 8, 64)
	w.pod("free-1", "free", 3500, 8)
	p := Measure(w.settle())[0]
	if got := text(&p.Empty); got != "found=true proven=false free, wide-2 wide→n000, free-1 free→wide" {
		t.Error(got)
	}
}

// Pods that no node accepts cost work, too.
func TestMeasure_podsThatNoNodeAccepts_searchEndsAtItsLimit(t *testing.T) {
	w := hopeless(60)
	w.selectors = []cluster.NodeSelector{{Labels: []string{"absent=true"}}}
	for i := range 40 {
		name := fmt.Sprintf("old%d", i)
		w.node(name, 64, 256).Cordoned = true
		for k := range 100 {
			p := w.podOf(fmt.Sprintf("old-%d-%d", i, k), name, 600, 1)
			p.Place = cluster.Selected
			w.scales[p.Controller] = cluster.Scale{Known: true, Replicas: w.scales[p.Controller].Replicas + 1}
		}
	}
	w.pack()
	s := newSearch(&w.Input)
	s.measure("worker")
	if perNode := s.visits / len(w.Nodes); perNode > 4*tryVisits {
		t.Errorf("%d comparisons for each node", perNode)
	}
}

func TestMeasure_nodesThatDoNotCount_areCounted(t *testing.T) {
	w := three()
	w.pods[0].Overhead = true
	w.Nodes[1].Cordoned = true
	if p := Measure(w.settle())[0]; p.Counted != 1 || p.Free != (room.Amount{CPU: 5000, Memory: 28 * gi}) {
		t.Errorf("%d nodes count, with %v", p.Counted, p.Free)
	}
}

// A pod without tolerations does not start on a node that an autoscaler is about to delete.
func TestMeasure_taintedNode_isNoRoomUnlessAllAre(t *testing.T) {
	w := three()
	w.For = room.Amount{CPU: 5000, Memory: gi}
	w.Nodes[2].Tainted = true
	if got := text(Measure(w.settle())[0].Room); got != "found=true proven=true n1, web-1 n1→n2" && got != "found=true proven=true n1, web-2 n1→n2" {
		t.Error(got)
	}
	w.Nodes[0].Tainted, w.Nodes[1].Tainted = true, true
	if got := text(Measure(w.settle())[0].Room); got != "found=true proven=true n3" {
		t.Error(got)
	}
}

func TestMeasure_nodeWithoutAllocatable_isFull(t *testing.T) {
	w := three()
	w.Nodes[2].Allocatable = cluster.Resources{}
	if p := Measure(w.settle())[0]; p.Nodes[2].Requested != 1 || p.Free.CPU != 6000 {
		t.Errorf("%+v", p)
	}
}

func TestMeasure_annotationOfNode_keepsIt(t *testing.T) {
	w := three()
	w.Nodes[2].Kept = true
	if p := Measure(w.settle())[0]; holds(&p.Nodes[2]) != "NodeProtected" || p.Nodes[2].Holds[0].Pods != 0 {
		t.Errorf("%+v", p.Nodes[2])
	}
}

// A pod that waits for a node could take what a pod of another node leaves, and the pod for which that one moves would have no node.
func TestMeasure_podWaits_noPodOfAnotherNodeMoves(t *testing.T) {
	w := input()
	for _, p := range []struct {
		name string
		cpu  int64
		tied bool
	}{{"free-1", 3500, false}, {"wide-1", 3000, true}, {"wide-2", 2000, false}, {"keep-1", 6000, true}} {
		node, _, _ := strings.Cut(p.name, "-")
		if len(w.Nodes) == 0 || w.Nodes[len(w.Nodes)-1].Name != node {
			w.node(node, 8, 64)
		}
		w.pod(p.name, node, p.cpu, 1).Tied = p.tied
	}
	for waiting, want := range map[bool]string{false: "found=true proven=true free, wide-2 wide→keep, free-1 free→wide", true: "found=false proven=false "} {
		w.Waiting = waiting
		if got := text(&Measure(w.settle())[0].Empty); got != want {
			t.Errorf("a pod waits %t: %s, want %s", waiting, got, want)
		}
	}
}

// A new pod without a node takes one of the places for pods, too.
func TestMeasure_roomTakenForNewPods_placesAreTaken(t *testing.T) {
	w := three()
	w.Nodes[0].MaxPods = 3
	p := w.pod("new-1", "", 0, 0)
	p.Phase, p.Created = cluster.Pending, now
	in := w.settle()
	in.Rooms.TakeForNew(now, w.pods)
	if got := text(&Measure(in)[0].Empty); got != "found=true proven=true n3, cart-1 n3→n2" {
		t.Error(got)
	}
}
