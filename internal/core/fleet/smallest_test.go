// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestSmallestNode_selectorsAndTaints_areRespected(t *testing.T) {
	node := func(name string, cores int64, labels ...string) cluster.Node {
		return cluster.Node{Name: name, Allocatable: cluster.Amounts(1000*cores, 64<<30), Ready: true, Labels: labels}
	}
	young, cordoned, control := node("young", 0), node("cordoned", 1), node("control", 2, "pool=control")
	cordoned.Cordoned, control.Tainted = true, true
	nodes := NewNodes([]cluster.Node{young, cordoned, control, node("a", 4, "arch=arm64", "pool=small"), node("b", 16, "arch=amd64", "pool=large")},
		[]cluster.NodeSelector{{Labels: []string{"pool=large"}}, {Labels: []string{"arch=amd64", "pool=large"}}, {Labels: []string{"arch=arm64", "pool=large"}}, {Labels: []string{"pool=control"}}})
	places := map[string]cluster.Place{"": cluster.Anywhere, "affinity": cluster.Somewhere, "pool=large": 2, "arch=amd64,pool=large": 3,
		"arch=arm64,pool=large": 4, "pool=control": 5, "one that has just come": 6}
	pod := func(on, selector string) *cluster.Pod {
		return &cluster.Pod{Node: on, Place: places[selector], Phase: cluster.Running}
	}
	gone := pod("a", "")
	gone.Phase = cluster.Succeeded
	for name, tt := range map[string]struct {
		pods []*cluster.Pod
		want int64
	}{
		"no selector":                        {[]*cluster.Pod{pod("b", "")}, 4000},
		"a selector":                         {[]*cluster.Pod{pod("b", "pool=large")}, 16000},
		"a selector of two labels":           {[]*cluster.Pod{pod("", "arch=amd64,pool=large")}, 16000},
		"a selector that nothing satisfies":  {[]*cluster.Pod{pod("", "arch=arm64,pool=large")}, 0},
		"on a node with a taint":             {[]*cluster.Pod{pod("control", "")}, 2000},
		"only on a node with a taint":        {[]*cluster.Pod{pod("control", "pool=control")}, 2000},
		"two pods, one of them anywhere":     {[]*cluster.Pod{pod("b", "pool=large"), pod("b", "")}, 4000},
		"an affinity":                        {[]*cluster.Pod{pod("b", "affinity")}, 16000},
		"an affinity, not scheduled yet":     {[]*cluster.Pod{pod("", "affinity")}, 0},
		"a selector that has just come":      {[]*cluster.Pod{pod("b", "one that has just come")}, 16000},
		"no pods":                            {nil, 0},
		"only pods that have ended":          {[]*cluster.Pod{gone}, 0},
		"on a node that is not known so far": {[]*cluster.Pod{pod("new", "pool=large")}, 16000},
	} {
		if got := nodes.Smallest(tt.pods); got.Allocatable != tt.want || got.Capacity != tt.want {
			t.Errorf("%s: %+v, want %d", name, got, tt.want)
		}
	}
	if got := NewNodes(nil, nil).Smallest([]*cluster.Pod{pod("b", "")}); got != (NodeSizes{Copies: 1}) {
		t.Errorf("without nodes: %+v", got)
	}
}

// A node that is not ready for a minute changes no request.
func TestSmallestNode_nodeIsNotReady_isIncluded(t *testing.T) {
	pods := []*cluster.Pod{{Node: "large", Place: cluster.Anywhere, Phase: cluster.Running}}
	for _, ready := range []bool{true, false} {
		nodes := NewNodes([]cluster.Node{
			{Name: "large", Allocatable: cluster.Amounts(16000, 64<<30), Ready: true},
			{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: ready},
		}, nil)
		if got := nodes.Smallest(pods); got.Allocatable != 4000 {
			t.Errorf("ready %v: %+v", ready, got)
		}
	}
}

// Pods of a workload that share a node peak together. Cordoned nodes count, pods without a node do not.
func TestSmallest_copies_areTheMostPodsOnANode(t *testing.T) {
	var all []cluster.Node
	for _, name := range []string{"a", "b", "cordoned", "tainted"} {
		all = append(all, cluster.Node{Name: name, Allocatable: cluster.Amounts(4000, 16<<30), Cordoned: name == "cordoned", Tainted: name == "tainted"})
	}
	for name, c := range map[string]struct {
		nodes []string
		want  int
	}{
		"one on each":           {[]string{"a", "b", "cordoned", "tainted"}, 1},
		"two on one":            {[]string{"a", "b", "a"}, 2},
		"three on a taint":      {[]string{"tainted", "tainted", "tainted", "a"}, 3},
		"a cordoned node":       {[]string{"cordoned", "cordoned"}, 2},
		"none has a node":       {[]string{"", "", ""}, 0},
		"some are not placed":   {[]string{"a", "", ""}, 1},
		"a node that is not up": {[]string{"new", "new"}, 2},
	} {
		var pods []*cluster.Pod
		for _, node := range c.nodes {
			pods = append(pods, &cluster.Pod{Node: node, Place: cluster.Anywhere, Phase: cluster.Running})
		}
		if got := NewNodes(all, nil).Smallest(pods); got.Copies != c.want || got.Memory != 16<<30 {
			t.Errorf("%s: %+v, want %d pods on a node", name, got, c.want)
		}
	}
}
