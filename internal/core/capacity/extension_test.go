// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func groupOf(name string, more int) cluster.NewNode {
	return cluster.NewNode{Unsized: true, NodeGroup: cluster.NodeGroup{Name: name, Counted: true, More: more}}
}

// memberOf returns a node of a group in a pool.
func memberOf(name, pool, group string) cluster.Node {
	n := nodeOf(name, "node.kubernetes.io/instance-type="+pool)
	n.Group = group
	return n
}

func TestMeasure_groupsOfNodes_extendTheirPool(t *testing.T) {
	a1, a2, a3, b1 := memberOf("a1", "a", "g1"), memberOf("a2", "a", "g1"), memberOf("a3", "a", "g2"), memberOf("b1", "b", "g3")
	small, young, other := memberOf("a4", "a", "g1"), memberOf("a5", "a", "g1"), memberOf("a6", "a", "")
	small.Capacity = cluster.Amounts(8000, 32*gib)
	young.Capacity, young.Allocatable = cluster.Resources{}, cluster.Resources{}
	room := cluster.NewNode{NodeGroup: cluster.NodeGroup{Name: "g1", Room: cluster.Resources{}.Set(cluster.CPU, 40_000)}}
	unknown := Extension{}
	for name, c := range map[string]struct {
		nodes  []cluster.Node
		groups []cluster.NewNode
		want   Extension // of pool a
	}{
		"no groups are known":        {[]cluster.Node{a1, a2}, nil, unknown},
		"one group":                  {[]cluster.Node{a1, a2, b1}, []cluster.NewNode{groupOf("g1", 3)}, Extension{Known: true, Nodes: 3, Capacity: cluster.Amounts(48_000, 192*gib)}},
		"two groups":                 {[]cluster.Node{a1, a3}, []cluster.NewNode{groupOf("g1", 3), groupOf("g2", 1)}, Extension{Known: true, Nodes: 4, Capacity: cluster.Amounts(64_000, 256*gib)}},
		"at its maximum":             {[]cluster.Node{a1}, []cluster.NewNode{groupOf("g1", 0)}, Extension{Known: true, Capacity: cluster.Amounts(0, 0)}},
		"limit on CPU":               {[]cluster.Node{a1}, []cluster.NewNode{room}, Extension{Known: true, Nodes: 2, Capacity: cluster.Amounts(32_000, 128*gib)}},
		"the smallest node counts":   {[]cluster.Node{a1, small}, []cluster.NewNode{room}, Extension{Known: true, Nodes: 5, Capacity: cluster.Amounts(40_000, 160*gib)}},
		"a node without a size":      {[]cluster.Node{a1, young}, []cluster.NewNode{groupOf("g1", 1)}, unknown},
		"one node has no group":      {[]cluster.Node{a1, other}, []cluster.NewNode{groupOf("g1", 3)}, unknown},
		"one group is not known":     {[]cluster.Node{a1, a3}, []cluster.NewNode{groupOf("g1", 3)}, unknown},
		"one group is not counted":   {[]cluster.Node{a1, a3}, []cluster.NewNode{groupOf("g1", 3), {NodeGroup: cluster.NodeGroup{Name: "g2"}}}, unknown},
		"the group has other pools":  {[]cluster.Node{a1, memberOf("b2", "b", "g1")}, []cluster.NewNode{groupOf("g1", 3)}, unknown},
		"other pools, another order": {[]cluster.Node{memberOf("b2", "b", "g1"), a1}, []cluster.NewNode{groupOf("g1", 3)}, unknown},
	} {
		pools, _ := measure(&World{Nodes: c.nodes, Groups: c.groups})
		if got := pools["a"].Extension; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if pools, _ := measure(&World{Nodes: []cluster.Node{a1, b1}, Groups: []cluster.NewNode{groupOf("g1", 3)}}); pools["b"].Extension != unknown {
		t.Errorf("pool b: %+v", pools["b"].Extension)
	}
	huge := a1
	huge.Capacity = cluster.Amounts(1<<50, 1<<50)
	if pools, _ := measure(&World{Nodes: []cluster.Node{huge}, Groups: []cluster.NewNode{groupOf("g1", 100_000)}}); pools["a"].Extension.Capacity != cluster.Amounts(math.MaxInt64, math.MaxInt64) {
		t.Errorf("huge nodes: %+v", pools["a"].Extension)
	}
}

// The date of the maximum is later than that of the present capacity; without known groups there is none.
func TestAssess_poolCanGrow_maximumIsReachedLater(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	h := &History{}
	for i := range 60 {
		day := DayOf(now) - Day(59-i)
		h.Days = append(h.Days, Record{Day: day, Requested: cluster.Amounts(150_000+200*int64(i), 100*gib), Capacity: cluster.Amounts(170_000, 800*gib)})
	}
	pool := Pool{Name: "a", Nodes: 10, Schedulable: 10, Capacity: cluster.Amounts(170_000, 800*gib), Requested: cluster.Amounts(162_000, 100*gib)}
	crossings := func(e Extension) (full, extended Crossing) {
		pool.Extension = e
		plan := Assess(now, []Pool{pool}, Unplaced{}, map[string]*History{"a": h}, Defaults())
		r := &plan.Pools[0].Resources[0]
		return r.Outlook.Crossing(1), r.Extended.Crossing(1)
	}
	full, extended := crossings(Extension{Known: true, Nodes: 1, Capacity: cluster.Amounts(4000, 16*gib)})
	if full.State != Ahead || extended.State != Ahead || extended.Expected != full.Expected+20 || extended.Earliest <= full.Earliest {
		t.Errorf("full %+v, with the node that can be added %+v, want 20 days later", full, extended)
	}
	if full, extended := crossings(Extension{Known: true, Capacity: cluster.Amounts(0, 0)}); extended != full {
		t.Errorf("at the maximum: full %+v, extended %+v", full, extended)
	}
	if _, extended := crossings(Extension{}); extended != (Crossing{Threshold: 1}) {
		t.Errorf("not known: %+v", extended)
	}
	pool.Requested = cluster.Amounts(180_000, 100*gib)
	if full, extended := crossings(Extension{Known: true, Nodes: 1, Capacity: cluster.Amounts(4000, 16*gib)}); full.State != Above || extended.State != Above || extended.Since != 0 {
		t.Errorf("above: full %+v, extended %+v", full, extended)
	}
}

// A cluster may have thousands of nodes and groups.
func BenchmarkMeasure_manyGroups(b *testing.B) {
	w := &World{Snapshot: cluster.NewSnapshot(nil, nil)}
	for i := range 1000 {
		w.Groups = append(w.Groups, groupOf(fmt.Sprint("g", i), 1))
	}
	for i := range 5000 {
		w.Nodes = append(w.Nodes, memberOf(fmt.Sprint("n", i), "a", fmt.Sprint("g", i%1000)))
	}
	for b.Loop() {
		Measure(w)
	}
}
