// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// addable returns a kind of node with 8 cores and 16 GiB that a group can add some times.
func addable(name string, more int) cluster.NewNode {
	return cluster.NewNode{Size: amountsOf(8, 16), NodeGroup: cluster.NodeGroup{Name: name, Counted: true, More: more}}
}

func podNamed(i int) *cluster.Pod { return &cluster.Pod{UID: fmt.Sprint("pod-", i)} }

// How many of the same pods can rely on the nodes that groups can add.
func TestGrowth_manyPods_shareWhatGroupsCanAdd(t *testing.T) {
	room := func(more cluster.Resources) cluster.NewNode {
		return cluster.NewNode{Size: amountsOf(8, 16), NodeGroup: cluster.NodeGroup{Name: "pool", Room: more}}
	}
	both := room(amountsOf(100, 200))
	both.Counted, both.More = true, 3
	away := addable("away", 5)
	away.BackedOff = true
	const all = 20
	for name, c := range map[string]struct {
		groups   []cluster.NewNode
		requests cluster.Resources
		want     int
	}{
		"no groups":                  {nil, amountsOf(5, 1), 0},
		"one more":                   {[]cluster.NewNode{addable("a", 1)}, amountsOf(5, 1), 1},
		"two fit on one":             {[]cluster.NewNode{addable("a", 1)}, amountsOf(4, 1), 2},
		"ten fit on one":             {[]cluster.NewNode{addable("a", 1)}, cluster.Amounts(800, 1), 10},
		"memory decides":             {[]cluster.NewNode{addable("a", 2)}, amountsOf(1, 6), 4},
		"none more":                  {[]cluster.NewNode{addable("a", 0)}, amountsOf(5, 1), 0},
		"fewer than none":            {[]cluster.NewNode{addable("a", -3)}, amountsOf(5, 1), 0},
		"two groups":                 {[]cluster.NewNode{addable("a", 1), addable("b", 3)}, amountsOf(5, 1), 4},
		"two with the same name":     {[]cluster.NewNode{addable("a", 1), addable("a", 3)}, amountsOf(5, 1), 4},
		"one backs off":              {[]cluster.NewNode{away, addable("b", 3)}, amountsOf(5, 1), 3},
		"not known how many":         {[]cluster.NewNode{addable("a", 1), {Size: amountsOf(8, 16)}}, amountsOf(5, 1), all},
		"as many as can be":          {[]cluster.NewNode{addable("a", 100_000)}, amountsOf(5, 1), all},
		"room for three pods":        {[]cluster.NewNode{room(amountsOf(15, 200))}, amountsOf(5, 1), 3},
		"room in memory":             {[]cluster.NewNode{room(cluster.Resources{}.Set(cluster.Memory, 9<<30))}, amountsOf(5, 2), 4},
		"no room":                    {[]cluster.NewNode{room(amountsOf(-4, 200))}, amountsOf(5, 1), 0},
		"the most negative room":     {[]cluster.NewNode{room(cluster.Amounts(math.MinInt64, 1))}, amountsOf(5, 1), 0},
		"the count is below it":      {[]cluster.NewNode{both}, amountsOf(5, 1), 3},
		"the pod requests nothing":   {[]cluster.NewNode{addable("a", 1)}, cluster.Resources{}, all},
		"larger than every node":     {[]cluster.NewNode{addable("a", 9)}, amountsOf(9, 1), 0},
		"as large as can be written": {[]cluster.NewNode{addable("a", 9)}, cluster.Amounts(math.MaxInt64, math.MaxInt64), 0},
	} {
		g := NewGrowth(New(Config{New: c.groups}))
		got := 0
		for i := range all {
			if now, _ := g.CanAdd(podNamed(i), c.requests); now {
				got++
			}
			g.Take(podNamed(i), c.requests)
		}
		if got != c.want {
			t.Errorf("%s: %d pods, want %d", name, got, c.want)
		}
	}
}

// What counts for a pod does not block the pod itself, also with another size, and returns to the group.
func TestGrowth_podIsCountedOnce_untilItIsReleased(t *testing.T) {
	g := NewGrowth(New(Config{New: []cluster.NewNode{addable("a", 1)}}))
	one, other := podNamed(1), podNamed(2)
	can := func(p *cluster.Pod) bool { now, _ := g.CanAdd(p, amountsOf(5, 1)); return now }
	for range 3 {
		g.Take(one, amountsOf(7, 1))
		g.Take(other, amountsOf(5, 1))
	}
	if !can(one) || can(other) {
		t.Errorf("counted: %t and %t", can(one), can(other))
	}
	g.Take(one, amountsOf(3, 1))
	if can(other) {
		t.Error("the rest of the node is too small for the other pod")
	}
	g.Take(one, amountsOf(99, 1)) // does not fit any more
	if !can(other) {
		t.Error("a pod that fits on no node is counted")
	}
	g.Take(one, amountsOf(5, 1))
	g.Release(one)
	g.Release(one)
	if g.Take(other, amountsOf(5, 1)); can(one) || !can(other) {
		t.Errorf("released: %t and %t", can(one), can(other))
	}
}

// The order in which the API server lists groups does not matter.
func TestGrowth_groupsShuffled_sameAnswers(t *testing.T) {
	groups := []cluster.NewNode{addable("c", 2), addable("a", 2), addable("b", 5), {Size: amountsOf(4, 64), NodeGroup: cluster.NodeGroup{Name: "d", Room: amountsOf(12, 99)}}}
	answers := func() (out string) {
		g := NewGrowth(New(Config{New: groups}))
		for i := range 60 {
			requests := amountsOf(1+int64(i*7%8), 1+int64(i*5%20))
			now, ever := g.CanAdd(podNamed(i), requests)
			g.Take(podNamed(i), requests)
			out += fmt.Sprint(now, ever, " ")
		}
		return out
	}
	want := answers()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		if got := answers(); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// A cluster autoscaler compares the selector of a pod with a node of the group, or else with the labels that the group declares.
func TestGrowth_nodeSelectors_areComparedWithTheLabelsOfGroups(t *testing.T) {
	const group = "MachineDeployment/prod/md-0"
	gpu := []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	member := func(name string, taints []cluster.Taint, labels ...string) cluster.Node {
		return cluster.Node{Name: name, Allocatable: amountsOf(1, 1), Group: group, Labels: labels, Taints: taints}
	}
	blue, linux, here, unknown := cluster.Selected, cluster.Selected+1, cluster.Selected+2, cluster.Selected+3
	config := Config{
		Selectors: []cluster.NodeSelector{{Labels: []string{"pool=blue"}}, {Labels: []string{"kubernetes.io/os=linux"}}, {Labels: []string{"kubernetes.io/hostname=n1"}}},
	}
	declared := []string{"kubernetes.io/os=linux", "pool=blue"}
	none := []string{"kubernetes.io/os=linux"}
	for name, c := range map[string]struct {
		nodes  []cluster.Node
		labels []string
		place  cluster.Place
		want   bool
	}{
		"declared":                     {nil, declared, blue, true},
		"every pod":                    {nil, declared, cluster.Anywhere, true},
		"not declared":                 {nil, none, blue, false},
		"not declared, every pod":      {nil, none, cluster.Anywhere, true},
		"the operating system":         {nil, none, linux, true},
		"labels of Karpenter":          {nil, nil, blue, true},
		"a node has it":                {[]cluster.Node{member("n1", nil, "pool=blue")}, none, blue, true},
		"a node has another":           {[]cluster.Node{member("n1", nil, "pool=red")}, declared, blue, false},
		"the first node counts":        {[]cluster.Node{member("n2", nil, "pool=red"), member("n1", nil, "pool=blue"), member("n3", nil)}, none, blue, true},
		"a node of another group":      {[]cluster.Node{{Name: "n1", Allocatable: amountsOf(1, 1), Group: "MachineDeployment/prod/md", Labels: []string{"pool=blue"}}}, none, blue, false},
		"the only node with this name": {[]cluster.Node{member("n1", nil, "kubernetes.io/hostname=n1")}, none, here, false},
		"a node has a taint":           {[]cluster.Node{member("n1", gpu, "pool=blue")}, declared, blue, false},
		"the selector is not known":    {nil, declared, unknown, false},
	} {
		config.Nodes = c.nodes
		n := addable(group, 3)
		n.Labels = c.labels
		config.New = []cluster.NewNode{n}
		now, ever := NewGrowth(New(config)).CanAdd(&cluster.Pod{Place: c.place}, amountsOf(5, 1))
		if now != c.want || ever != c.want {
			t.Errorf("%s: now %t, ever %t", name, now, ever)
		}
	}
}

// Many pods that fit on no node, and many groups.
func BenchmarkGrowth_manyGroupsAndPods(b *testing.B) {
	var c Config
	for i := range 1000 {
		n := addable(fmt.Sprint("MachineDeployment/prod/md-", i), 5)
		n.Labels = []string{"kubernetes.io/os=linux"}
		c.New = append(c.New, n)
	}
	for i := range 5000 {
		c.Nodes = append(c.Nodes, cluster.Node{Name: fmt.Sprint("n", i), Allocatable: amountsOf(4, 8), Group: c.New[i%1000].Name, Labels: []string{"kubernetes.io/os=linux"}})
	}
	for b.Loop() {
		g := NewGrowth(New(c))
		for i := range 6000 {
			g.Take(podNamed(i), amountsOf(5, 1))
		}
	}
}
