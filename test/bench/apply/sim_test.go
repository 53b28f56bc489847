// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/room"
)

func size(cpu, memory int64) cluster.Resources { return cluster.Amounts(cpu, memory*gib) }

// rules returns the budget with a rule set of the table.
func rules(t *testing.T, name string) plan.Budget {
	for _, r := range ruleSets {
		if r.name == name {
			return r.budget()
		}
	}
	t.Fatalf("no rule set %s", name)
	return plan.Budget{}
}

func makeRoom(a room.Allowed) plan.Budget {
	b := plan.DefaultBudget()
	b.MakeRoom = a
	return b
}

// needOf returns the first replica that needs more: the one that was on node n1 at the start.
func needOf(t *testing.T, s *simulation) *replica {
	for _, r := range s.replicas {
		if r.needs {
			return r
		}
	}
	t.Fatal("no replica needs more")
	return nil
}

// fullNode is a node that is full: A requests twice what it needs, B needs 50 % more. The second replicas are on another node.
func fullNode(b plan.Budget) *simulation {
	s := newSimulation(b)
	s.nodes = []cluster.Node{{Name: "n1", Allocatable: size(4000, 16), Ready: true}, {Name: "n2", Allocatable: size(16000, 64), Ready: true}}
	s.add("a", size(3000, 8), size(1500, 4), 20, "n1", "n2")
	s.add("b", size(1000, 8), size(1500, 12), 20, "n1", "n2")
	return s
}

func TestApply_fullNode_neighbourShrinksAndNothingRestarts(t *testing.T) {
	s := fullNode(makeRoom(room.Split))
	s.run(10 * time.Minute)
	if b := needOf(t, s); b.satisfied == 0 || b.satisfied > 30*time.Second || s.disruptions != 0 {
		t.Errorf("satisfied after %v with %d evictions, want at most 30s and none", b.satisfied, s.disruptions)
	}
	upstream := fullNode(rules(t, "upstream's rules"))
	upstream.run(10 * time.Minute)
	if b := needOf(t, upstream); b.satisfied < 5*time.Minute || upstream.disruptions == 0 {
		t.Errorf("with upstream's rules: satisfied after %v with %d evictions, want an eviction after 5m", b.satisfied, upstream.disruptions)
	}
}

// fragmented is a cluster of two nodes whose free room would be enough for the need, but each of them has only a part of it.
func fragmented(b plan.Budget) *simulation {
	s := newSimulation(b)
	s.nodes = []cluster.Node{{Name: "n1", Allocatable: size(4000, 16), Ready: true}, {Name: "n2", Allocatable: size(4000, 16), Ready: true}}
	s.add("a", size(1000, 4), size(1000, 4), 20, "n1", "n1")
	s.add("b", size(1500, 4), size(2500, 4), 20, "n1")
	s.add("c", size(1500, 4), size(1500, 4), 20, "n2", "n2")
	s.budget.MinReplicas = 1
	return s
}

func TestApply_twoNodesFragmented_needsOneMove(t *testing.T) {
	s := fragmented(makeRoom(room.Move))
	s.run(10 * time.Minute)
	if b := needOf(t, s); b.satisfied == 0 || b.satisfied > 2*time.Minute || s.disruptions != 1 {
		t.Errorf("satisfied after %v with %d evictions, want at most 2m and one", b.satisfied, s.disruptions)
	}
	if b := needOf(t, s); b.pod.Created.After(s.start) {
		t.Error("the pod that needs more was evicted; a replacement takes longer than the eviction of a pod of a")
	}
	// Upstream evicts the pod that needs more, and its replacement fits on no node.
	upstream := fragmented(rules(t, "upstream's rules"))
	upstream.run(10 * time.Minute)
	for _, r := range upstream.replicas {
		if r.needs && r.satisfied > 0 {
			t.Errorf("with upstream's rules: satisfied after %v", r.satisfied)
		}
	}
}

// With any rules, no pod is patched to the same size more than twice: once by itself, and once after a part of it.
func TestApply_randomClusters_noSizeIsPatchedAgainAndAgain(t *testing.T) {
	for _, r := range ruleSets {
		for seed := range 8 {
			s := random(r.budget(), uint64(seed))
			s.run(simulated)
			for patch, n := range s.patches {
				if n > 2 {
					t.Errorf("%s, seed %d: %s was patched %d times", r.name, seed, patch, n)
				}
			}
			for _, n := range s.nodes {
				if !s.has(&n, cluster.Resources{}) && !s.waits(n.Name) {
					t.Errorf("%s, seed %d: node %s is overcommitted", r.name, seed, n.Name)
				}
			}
		}
	}
}

// waits reports whether a pod on the node waits for room: the scheduler counts its new size.
func (s *simulation) waits(node string) bool {
	for _, r := range s.replicas {
		if r.pod.Node == node && r.pod.Resize != nil {
			return true
		}
	}
	return false
}

func TestApply_randomClusters_podfitIsFasterWithFewerEvictions(t *testing.T) {
	const seeds = 12
	upstream, split, move := simulate(ruleSets[0], seeds), simulate(ruleSets[2], seeds), simulate(ruleSets[3], seeds)
	for name, ours := range map[string]result{"split": split, "move": move} {
		if len(ours.seconds) < len(upstream.seconds) || ours.mean() >= upstream.mean() || ours.disruptions >= upstream.disruptions || ours.unmet >= upstream.unmet {
			t.Errorf("%s: %d satisfied after %.0fs with %d evictions; upstream's rules: %d after %.0fs with %d evictions", name,
				len(ours.seconds), ours.mean(), ours.disruptions, len(upstream.seconds), upstream.mean(), upstream.disruptions)
		}
	}
	var out strings.Builder
	report(&out, 1)
	if lines := strings.Count(out.String(), "\n"); lines != 1+len(ruleSets) {
		t.Errorf("the table has %d lines:\n%s", lines, out.String())
	}
}
