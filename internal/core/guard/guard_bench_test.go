// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// newFleet returns nodes of 100 GiB with 20 pods each, that use 80 GiB, and a number of moves from each in the last minutes.
func newFleet(nodes, moves int) *scene {
	s := &scene{samples: map[cluster.Key]Sample{}, watched: map[string]bool{}}
	for i := range nodes {
		name := fmt.Sprint("n", i)
		s.nodes = append(s.nodes, cluster.Node{Name: name, Allocatable: cluster.Amounts(64000, 100*gi)})
		s.watched[name] = true
		for j := range 20 {
			p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("web-", i, "-", j)}, Top: workload(i), Node: name, Phase: cluster.Running, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour)}
			s.pods = append(s.pods, p)
			s.samples[p.Key] = Sample{noon, 4 * gi}
		}
	}
	s.look(0)
	for i := range nodes {
		for j := range moves {
			s.moved(noon, workload(nodes+i), gi, fmt.Sprint("n", i), fmt.Sprint("n", (i+j+1)%nodes))
		}
	}
	return s
}

// pass is what a pass needs: the alarms, and whether pods of some nodes may move to some other ones.
func (s *scene) pass() {
	s.look(time.Second)
	for i := range 10 * 20 * 32 {
		s.mayMove(workload(i), gi, "n1")
	}
}

// The time for a pod must not grow with the number of moves. With a look at all moves of the hour for each pod, 20,000 pods took 1.6 s after 3,000 moves
// instead of 23 ms.
func BenchmarkBook(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		for _, moves := range []int{0, MostMoves} {
			b.Run(fmt.Sprintf("pods=%d,moves=%d", 20*nodes, nodes*moves), func(b *testing.B) {
				s := newFleet(nodes, moves)
				for b.Loop() {
					s.pass()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(20*nodes), "ns/pod")
			})
		}
	}
}

// A pass looks at the moves of the node of a pod only, and these are at most as many as a node may have in an hour, whatever the number of nodes.
func TestBook_manyMoves_eachNodeHasItsOwn(t *testing.T) {
	for _, nodes := range []int{10, 1000} {
		s := newFleet(nodes, MostMoves)
		s.pass()
		for name, moves := range s.moves {
			if len(moves) != MostMoves {
				t.Fatalf("%d nodes: node %s has %d moves, want %d", nodes, name, len(moves), MostMoves)
			}
		}
		if len(s.moves) != nodes {
			t.Errorf("moves of %d nodes are kept, want %d", len(s.moves), nodes)
		}
	}
}

// What is counted of the moves is what a look at each of them gives.
func TestBook_randomMoves_countsAreThoseOfAllMoves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newScene(4)
	s.pods[1].Node = "other"
	var all []move
	for step := range 2000 {
		after := time.Duration(step) * 20 * time.Second
		s.observe(after, 100) // 75 and 25 GiB
		of, to := workload(r.IntN(5)), []string{"n", "other"}[r.IntN(2)]
		moves, left := 0, 85*gi-map[string]int64{"n": 75, "other": 25}[to]*gi
		for _, m := range all {
			if ago := noon.Add(after).Sub(m.at); ago < Rest && m.Of == of {
				moves++
			}
			if ago := noon.Add(after).Sub(m.at); ago < settling && m.To == to {
				left -= m.Bytes
			}
		}
		bytes := r.Int64N(70) * gi
		if got, want := s.mayMove(of, bytes, to), moves < MostMoves && bytes <= left; got != want {
			t.Fatalf("step %d: %v may move to %s with %d GiB: %v, want %v", step, of, to, bytes/gi, got, want)
		}
		if r.IntN(20) == 0 {
			s.moved(noon.Add(after), of, bytes, "n", to)
			all = append(all, move{Move{Of: of, Bytes: bytes, To: to}, noon.Add(after)})
		}
	}
}
