// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// slowAccepting compares a pod with each node.
func slowAccepting(w *World, names []string, p *cluster.Pod) []acceptor {
	tolerations, _ := cluster.TolerationsOf(w.Tolerations, p.Tolerance)
	var out []acceptor
	for i := range w.Nodes {
		n := &w.Nodes[i]
		at := int(p.Place) - int(cluster.Selected)
		if at >= 0 && (at >= len(w.Selectors) || !n.Matches(w.Selectors[at])) || n.Tainted && !tolerations.Tolerate(n.Taints) {
			continue
		}
		a, known := slices.BinarySearchFunc(out, names[i], func(a acceptor, name string) int { return strings.Compare(a.pool, name) })
		if !known {
			out = slices.Insert(out, a, acceptor{pool: names[i]})
		}
		out[a].add(acceptor{most: n.Allocatable, unknown: n.Allocatable.CPU <= 0 || n.Allocatable.Memory <= 0})
	}
	return out
}

func TestNodeIndex_randomClusters_samePoolsAsComparisonWithEachNode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	for range 300 {
		w := &World{}
		var names []string
		for i := range 1 + r.IntN(12) {
			n := nodeOf(fmt.Sprint("n", i), "host=n"+fmt.Sprint(i), pick("zone=a", "zone=b", "zone=c"), pick("disk=ssd", "disk=hdd", "gpu="))
			n.Allocatable = cluster.Amounts(int64(r.IntN(4))*1000, int64(r.IntN(4))*gib)
			if r.IntN(3) == 0 {
				n.Tainted, n.Taints = true, []cluster.Taint{{Key: pick("team", "gpu"), Value: pick("x", "y"), Effect: "NoSchedule"}}
			}
			w.Nodes, names = append(w.Nodes, n), append(names, pick("p", "q", "r"))
		}
		w.Tolerations = []cluster.Tolerations{{{Key: "team", Value: "x"}}, {{Key: "gpu", Exists: true}}}
		for range 20 {
			var s cluster.NodeSelector
			for range r.IntN(3) {
				s.Labels = append(s.Labels, pick("zone=a", "zone=b", "disk=ssd", "gpu=", "host=n0", "host=n1", "host=n99", "none=x"))
			}
			slices.Sort(s.Labels)
			if r.IntN(3) == 0 {
				s.Terms = []cluster.NodeTerm{{{Prefix: pick("zone=", "host=", ""), Op: cluster.SelectorOp(r.IntN(4)), Values: []string{pick("a", "n0", "n1")}}}}
			}
			w.Selectors = append(w.Selectors, s)
		}
		x := newNodeIndex(w, names)
		for place := range len(w.Selectors) + 3 {
			for tolerance := range cluster.FirstListed + 3 {
				p := &cluster.Pod{Place: cluster.Place(place), Tolerance: tolerance}
				if got, want := x.accepting(p), slowAccepting(w, names, p); !slices.Equal(got, want) {
					t.Fatalf("place %d, tolerance %d: %+v, want %+v", place, tolerance, got, want)
				}
			}
		}
	}
}

// Tenants can create as many selectors as are kept. Each is compared with few of 10,000 nodes.
func TestNodeIndex_4096SelectorsAnd10000Nodes_fewComparisons(t *testing.T) {
	w := &World{}
	var names, common []string
	for i := range 12 {
		common = append(common, fmt.Sprintf("label-%02d=x", i))
	}
	for i := range 10_000 {
		w.Nodes = append(w.Nodes, nodeOf(fmt.Sprint("n", i), append([]string{fmt.Sprint("host=n", i), fmt.Sprint("zone=", i%3)}, common...)...))
		names = append(names, fmt.Sprint("pool-", i%10))
	}
	for i := range 4096 { // all subsets of what all nodes have
		var s cluster.NodeSelector
		for k, label := range common {
			if i>>k&1 == 1 {
				s.Labels = append(s.Labels, label)
			}
		}
		w.Selectors = append(w.Selectors, s)
	}
	x := newNodeIndex(w, names)
	for i := range w.Selectors {
		if n := len(x.accepting(&cluster.Pod{Place: cluster.Selected + cluster.Place(i)})); n != 10 {
			t.Fatalf("%d pools, want 10", n)
		}
	}
	if most := 30 * len(w.Selectors); x.compared > most {
		t.Errorf("%d comparisons, want at most %d", x.compared, most)
	}
}
