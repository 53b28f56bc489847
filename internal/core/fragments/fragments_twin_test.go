// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

// random returns a small pool with pods that may not move: tied ones, and some that a PodDisruptionBudget, an annotation or a priority keeps.
func random(r *rand.Rand) *world {
	w := input()
	w.selectors = []cluster.NodeSelector{{Labels: []string{"disk=ssd"}}}
	w.tolerations = []cluster.Tolerations{{{Key: "gpu", Exists: true}}}
	nodes := 2 + r.IntN(3)
	for i := range nodes {
		n := w.node(fmt.Sprint("n", i), int64(3+r.IntN(3)), int64(6+2*r.IntN(3)))
		if r.IntN(2) == 0 {
			n.Labels = append([]string{"disk=ssd"}, n.Labels...)
		}
		if r.IntN(6) == 0 {
			n.Taints, n.Tainted = []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}, true
		}
		n.Cordoned = r.IntN(10) == 0
		if r.IntN(4) == 0 {
			n.MaxPods = 2 + r.IntN(3)
		}
	}
	w.Budgets["shop"] = []cluster.DisruptionBudget{
		{Name: "tight", Healthy: 2, Desired: 2, Current: true, Selector: selecting("app=w7")},
		{Name: "loose", Healthy: 3, Desired: 2, Current: true, Selector: selecting("app=w1", "app=w2")},
	}
	free := map[string]room.Amount{}
	slots := map[string]int{}
	for i := range w.Nodes {
		free[w.Nodes[i].Name] = room.Of(w.Nodes[i].Allocatable)
		slots[w.Nodes[i].Name] = max(w.Nodes[i].MaxPods, 100*(1-min(w.Nodes[i].MaxPods, 1)))
	}
	for i := range 3 + r.IntN(6) {
		size := room.Amount{CPU: 500 * int64(1+r.IntN(6)), Memory: gi * int64(1+r.IntN(3))}
		n := &w.Nodes[r.IntN(nodes)]
		if !free[n.Name].Holds(size) || slots[n.Name] == 0 {
			continue
		}
		free[n.Name] = free[n.Name].Sub(size)
		slots[n.Name]--
		p := w.pod(fmt.Sprint("w", i, "-0"), n.Name, size.CPU, size.Memory/gi)
		p.Tied = r.IntN(10) == 0
		p.LocalData = r.IntN(15) == 0
		if r.IntN(5) == 0 {
			p.Tolerance = cluster.FirstListed
		}
		if r.IntN(4) == 0 {
			p.Place = cluster.Selected
		}
		if r.IntN(15) == 0 {
			p.Priority = 2_000_001_000
		}
		if r.IntN(5) == 0 {
			cluster.Put(&w.Sizes, p.Key, room.Amount{CPU: 500 * int64(r.IntN(8)), Memory: gi * int64(r.IntN(4))})
		}
	}
	return w
}

func selecting(labels ...string) cluster.Selector {
	q := cluster.Requirement{Prefix: "app="}
	for _, l := range labels {
		q.Values = append(q.Values, l[len("app="):])
	}
	return cluster.Selector{Requirements: []cluster.Requirement{q}}
}

// A twin checks and finds plans in the obvious way.
type twin struct {
	*world
	sizes *placement.Sizes
	all   []*cluster.Pod // on nodes
	start []int          // node of each pod
	used  []bool         // nodes that run pods at first
}

func twinOf(w *world) *twin {
	t := &twin{world: w, sizes: placement.SizesOf(w.Nodes, w.selectors, w.tolerations, nil), used: make([]bool, len(w.Nodes))}
	for _, p := range w.pods {
		for i := range w.Nodes {
			if w.Nodes[i].Name == p.Node {
				t.all, t.start, t.used[i] = append(t.all, p), append(t.start, i), true
			}
		}
	}
	return t
}

func (t *twin) free(at []int, node int) (free room.Amount, slots int) {
	free, slots = room.Of(t.Nodes[node].Allocatable), t.Nodes[node].MaxPods
	if slots == 0 {
		slots = 1000
	}
	for i, n := range at {
		if n == node {
			free, slots = free.Sub(t.sizeAt(i, n)), slots-1
		}
	}
	return free, slots
}

// sizeAt returns what a pod takes of a node. A replacement may be larger.
func (t *twin) sizeAt(pod, node int) room.Amount {
	size := placement.Counted(t.all[pod])
	if next := t.Sizes[t.all[pod].Key]; node != t.start[pod] {
		size = room.Amount{CPU: max(size.CPU, next.CPU), Memory: max(size.Memory, next.Memory)}
	}
	return size
}

// mayMove reports whether a pod may move to a node, while another one is freed.
func (t *twin) mayMove(at []int, pod, to, freed int) bool {
	p := t.all[pod]
	app := p.Marks.Labels
	if p.Tied || p.LocalData || p.Priority > 1_000_000_000 || app == "app=w7" || to == freed || at[pod] != t.start[pod] || to == at[pod] || !t.used[to] {
		return false
	}
	accepts, _ := t.sizes.Accepting(p.Reach())
	free, slots := t.free(at, to)
	return t.Nodes[to].Ready && !t.Nodes[to].Cordoned && accepts(&t.Nodes[to]) && free.Holds(t.sizeAt(pod, to)) && slots > 0
}

func (t *twin) reached(at []int, node int, want room.Amount) bool {
	if want == (room.Amount{}) {
		return t.used[node] && !slices.Contains(at, node)
	}
	free, slots := t.free(at, node)
	reserved := t.Nodes[node].Tainted && slices.ContainsFunc(t.Nodes, func(n cluster.Node) bool { return !n.Tainted })
	return t.Nodes[node].Ready && !t.Nodes[node].Cordoned && !reserved && free.Holds(want) && slots > 0
}

// fewest returns the length of the shortest plan with at most a number of moves, or -1: all sequences of moves, breadth first.
func (t *twin) fewest(want room.Amount, most int) int {
	shortest := -1
	for node := range t.Nodes {
		level := [][]int{t.start}
		seen := map[string]bool{}
		for depth := 0; len(level) > 0 && depth <= most && (shortest < 0 || depth < shortest); depth++ {
			var next [][]int
			for _, at := range level {
				if t.reached(at, node, want) {
					shortest = depth
					break
				}
				for pod := range at {
					for to := range t.Nodes {
						if !t.mayMove(at, pod, to, node) {
							continue
						}
						moved := slices.Clone(at)
						moved[pod] = to
						if key := fmt.Sprint(moved); !seen[key] {
							seen[key] = true
							next = append(next, moved)
						}
					}
				}
			}
			level = next
		}
	}
	return shortest
}

// check reports what is wrong with a plan when its moves are made one after the other.
func (t *twin) check(p *Plan, want room.Amount) string {
	at := slices.Clone(t.start)
	index := func(name string) int {
		return slices.IndexFunc(t.Nodes, func(n cluster.Node) bool { return n.Name == name })
	}
	node := index(p.Node)
	before := len(unique(at))
	for _, m := range p.Moves {
		pod := slices.IndexFunc(t.all, func(o *cluster.Pod) bool { return o.String() == m.Pod })
		if at[pod] != index(m.From) || !t.mayMove(at, pod, index(m.To), node) {
			return fmt.Sprintf("move %+v is not possible", m)
		}
		at[pod] = index(m.To)
	}
	switch after := len(unique(at)); {
	case !t.reached(at, node, want):
		return "its aim is not reached"
	case after > before, want == (room.Amount{}) && after >= before:
		return fmt.Sprintf("%d nodes are used before and %d after", before, after)
	}
	return ""
}

func unique(at []int) map[int]bool {
	return cluster.SetOf(at, func(n int) int { return n })
}

// Each plan can be carried out, uses no more nodes, moves no pod that may not move, and has as few moves as a search of all sequences of moves finds.
func TestMeasure_randomPools_plansAreExecutableAndShortest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found, proven, detours := 0, 0, 0
	for i := range 1500 {
		w := random(r)
		w.For = room.Amount{CPU: 500 * int64(1+r.IntN(10)), Memory: gi * int64(1+r.IntN(6))}
		in := w.settle()
		pool := Measure(in)[0]
		tw := twinOf(w)
		for want, plan := range map[room.Amount]*Plan{{}: &pool.Empty, w.For: pool.Room} {
			const most = 5
			best := tw.fewest(want, most)
			switch {
			case plan.Node != "":
				found++
				if problem := tw.check(plan, want); problem != "" {
					t.Fatalf("pool %d, room for %v: %s in %s", i, want, problem, text(plan))
				}
				if n := len(plan.Moves); n != best && (best >= 0 || n <= most) {
					t.Errorf("pool %d, room for %v: %d moves are possible, found %s", i, want, best, text(plan))
				}
				if plan.Proven {
					proven++
				}
				if slices.ContainsFunc(plan.Moves, func(m Move) bool { return m.From != plan.Node }) {
					detours++
				}
			case best >= 0:
				t.Errorf("pool %d, room for %v: %d moves are possible, found none (%s)", i, want, best, text(plan))
			}
		}
	}
	if found < 500 || 10*proven < 9*found || detours < 20 {
		t.Errorf("%d plans were found, %d of them are proven, and %d move pods of other nodes, too: the test shows little", found, proven, detours)
	}
}
