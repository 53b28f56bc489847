// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command apply simulates how full clusters get the requests that their pods need, with podfit's rules and with those of upstream's
// updater on the same clusters. It prints how many seconds pass from the need until the pod is ready with its target, and how many pods
// are evicted for each satisfied need. "Unmet seconds" is the mean over all needs of the seconds until then, each weighted by the part of
// the increase that is missing: a pod with half of its increase lacks half a second per second, and one that is not ready a whole one.
//
// The simulation has the real planner, and a model of the kubelet, the scheduler and the controllers (sim.go). A pass runs each minute,
// and the needs arise at a random time before the first pass. Upstream's rules are those of the planner without steps to make room
// (--make-room=off) and without the check whether a replacement fits on a node: a resize that does not fit waits for five minutes, and
// then the pod is evicted.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/room"
)

func main() {
	seeds := flag.Int("seeds", 50, "number of clusters")
	flag.Parse()
	report(os.Stdout, *seeds)
}

// A rule set is how an updater treats resizes that do not fit.
type ruleSet struct {
	name   string
	change func(*plan.Budget)
}

var ruleSets = []ruleSet{
	{"upstream's rules", func(b *plan.Budget) { b.MakeRoom, b.MustFit = room.Off, false }},
	{"podfit, shrink", func(b *plan.Budget) { b.MakeRoom = room.Shrink }},
	{"podfit, split (default)", func(b *plan.Budget) { b.MakeRoom = room.Split }},
	{"podfit, move", func(b *plan.Budget) { b.MakeRoom = room.Move }},
}

func (r ruleSet) budget() plan.Budget {
	b := plan.DefaultBudget()
	r.change(&b)
	return b
}

// simulated is how long a cluster is simulated.
const simulated = 30 * time.Minute

// report simulates the clusters with each rule set and prints a table.
func report(out io.Writer, seeds int) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rules\tneeds\tsatisfied\tseconds, mean\tp50\tp95\tunmet seconds\tevictions\tper satisfied need\tpending at the end\t")
	for _, rules := range ruleSets {
		r := simulate(rules, seeds)
		fmt.Fprintf(t, "%s\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%.2f\t%d\t\n", rules.name, r.needs, len(r.seconds), r.mean(), r.quantile(0.5), r.quantile(0.95),
			r.unmet/float64(max(r.needs, 1)), r.disruptions, float64(r.disruptions)/float64(max(len(r.seconds), 1)), r.pending)
	}
	t.Flush()
}

// A result is the sum over all clusters.
type result struct {
	needs, disruptions, pending int
	unmet                       float64   // sum over all needs
	seconds                     []float64 // from each satisfied need, sorted
}

func (r *result) mean() float64 {
	sum := 0.0
	for _, s := range r.seconds {
		sum += s
	}
	return sum / float64(max(len(r.seconds), 1))
}

func (r *result) quantile(q float64) float64 {
	if len(r.seconds) == 0 {
		return 0
	}
	return r.seconds[min(int(q*float64(len(r.seconds))), len(r.seconds)-1)]
}

func simulate(rules ruleSet, seeds int) result {
	var out result
	for seed := range seeds {
		s := random(rules.budget(), uint64(seed))
		s.run(simulated)
		out.disruptions += s.disruptions
		for _, r := range s.replicas {
			if r.needs {
				out.needs++
			}
			out.unmet += r.unmet
			if r.satisfied > 0 {
				out.seconds = append(out.seconds, r.satisfied.Seconds())
			}
			if r.pod.Node == "" {
				out.pending++
			}
		}
	}
	slices.Sort(out.seconds)
	return out
}

const gib = 1 << 30

// random returns a cluster of 3 to 6 nodes that are full by 85 to 100 %. A quarter of the workloads need 20 to 80 % more, half of them
// request up to twice what they need, which is within their bounds.
func random(b plan.Budget, seed uint64) *simulation {
	g := rand.New(rand.NewPCG(seed, 1))
	s := newSimulation(b)
	s.firstPass = time.Duration(g.IntN(60)) * time.Second
	free := map[string]cluster.Resources{}
	for i := range 3 + g.IntN(4) {
		n := cluster.Node{Name: fmt.Sprintf("n%d", i), Allocatable: cluster.Amounts(8000, 32*gib), Ready: true}
		s.nodes = append(s.nodes, n)
		fill := 0.85 + 0.15*g.Float64()
		free[n.Name] = cluster.Amounts(int64(8000*fill), int64(32*gib*fill))
	}
	for i := 0; i < 200; i++ {
		size := cluster.Amounts(int64(100+g.IntN(1400)), int64(1+g.IntN(5))*gib)
		var on []string
		for range 2 + g.IntN(4) {
			node := s.nodes[g.IntN(len(s.nodes))].Name
			if f := free[node]; f.CPU >= size.CPU && f.Memory >= size.Memory {
				free[node] = cluster.Amounts(f.CPU-size.CPU, f.Memory-size.Memory)
				on = append(on, node)
			}
		}
		factor := 1.0
		switch g.IntN(4) {
		case 0:
			factor = 1.2 + 0.6*g.Float64()
		case 1, 2:
			factor = 0.5 + 0.5*g.Float64()
		}
		startSeconds := 5 + g.IntN(60)
		if len(on) > 1 {
			s.add(fmt.Sprintf("w%d", i), size, cluster.Amounts(int64(float64(size.CPU)*factor), int64(float64(size.Memory)*factor)), startSeconds, on...)
		}
	}
	return s
}
