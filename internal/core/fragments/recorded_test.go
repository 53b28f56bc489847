// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/trace"
)

// days are what a workload requests on each day. A day without usage has no request.
type days []room.Amount

// A recording is the workloads of a trace.
type recording struct {
	name      string
	workloads []days
}

// recordingOf returns the workloads of a trace. A day's request is the 95th percentile of its usage of CPU, and the highest of memory, each plus 15 %.
func recordingOf(path string) (recording, error) {
	workloads, err := trace.Read(path)
	r := recording{name: strings.TrimSuffix(filepath.Base(path), ".csv.gz")}
	for i := range workloads {
		r.workloads = append(r.workloads, daysOf(&workloads[i]))
	}
	return r, err
}

func daysOf(w *replay.Workload) (out days) {
	const day = 24 * 60 * 60
	start := w.Samples[0].At
	cpu := map[int64][]float64{}
	memory := map[int64]float64{}
	for i := range w.Samples {
		s := &w.Samples[i]
		d := (s.At - start) / day
		cpu[d] = append(cpu[d], s.CPU)
		memory[d] = max(memory[d], s.Memory)
	}
	for d := range (w.Samples[len(w.Samples)-1].At-start)/day + 1 {
		var size room.Amount
		if all := cpu[d]; len(all) > 0 {
			slices.Sort(all)
			size = room.Amount{CPU: 10 * int64(math.Ceil(115*all[len(all)*95/100])), Memory: gi / 64 * int64(math.Ceil(1.15*memory[d]/(gi/64)))}
		}
		out = append(out, size)
	}
	return out
}

// syntheticRecording returns workloads whose requests change from day to day by up to a third, and sometimes by a factor.
func syntheticRecording() recording {
	r := rand.New(rand.NewPCG(27, 2))
	out := recording{name: "synthetic"}
	for range 24 {
		cpu, memory := math.Exp(2.2*r.NormFloat64()-1), math.Exp(1.2*r.NormFloat64()) // cores and GiB
		var d days
		for range 40 {
			if r.IntN(15) == 0 {
				cpu *= []float64{0.4, 2}[r.IntN(2)]
			}
			d = append(d, room.Amount{CPU: 10 * int64(1+100*min(cpu, 6)*(0.7+0.6*r.Float64())), Memory: gi / 64 * int64(1+64*min(memory, 24)*(0.7+0.6*r.Float64()))})
		}
		out.workloads = append(out.workloads, d)
	}
	return out
}

// pairs returns days, each with a later one. The last ones are the day with the highest requests of the first 20, and the lowest one after it.
func (r *recording) pairs() [][2]int {
	node := &cluster.Node{Allocatable: cluster.Amounts(1000, 4*gi)}
	sum := func(day int) (out room.Amount) {
		for _, d := range r.workloads {
			if day < len(d) {
				out = out.Add(d[day])
			}
		}
		return out
	}
	const middle, last = 20, 40
	high := 1
	for d := high; d < middle; d++ {
		if share(sum(d), node) > share(sum(high), node) {
			high = d
		}
	}
	low := high + 1
	for d := low; d < last; d++ {
		if share(sum(d), node) < share(sum(low), node) {
			low = d
		}
	}
	return [][2]int{{8, 15}, {15, 29}, {high, low}}
}

// drifted returns a pool of nodes that was packed by the requests of a day, first fit by falling size, and whose pods were then resized in place to
// those of a later day. Where a pod does not fit, it keeps its size, as a deferred resize does.
func (r *recording) drifted(cores, memory int64, replicas, day, later int) *world {
	w := input()
	node := cluster.Node{Allocatable: cluster.Amounts(1000*cores, memory*gi)}
	type pod struct {
		name      string
		now, then room.Amount
		node      int
	}
	var pods []pod
	for i, d := range r.workloads {
		if later >= len(d) || d[day] == (room.Amount{}) || d[later] == (room.Amount{}) || share(d[day], &node) > 0.5 {
			continue
		}
		for k := range replicas {
			pods = append(pods, pod{name: fmt.Sprintf("m%d-%d", i, k), now: d[day], then: d[later]})
		}
	}
	slices.SortStableFunc(pods, func(a, b pod) int { return larger(a.now, b.now, &node) })
	var free []room.Amount
	for i := range pods {
		p := &pods[i]
		p.node = slices.IndexFunc(free, func(f room.Amount) bool { return f.Holds(p.now) })
		if p.node < 0 {
			p.node = len(free)
			free = append(free, room.Of(node.Allocatable))
		}
		free[p.node] = free[p.node].Sub(p.now)
	}
	for range 2 { // what shrinks makes room for what grows
		for i := range pods {
			p := &pods[i]
			if left := free[p.node].Add(p.now).Sub(p.then); left.CPU >= 0 && left.Memory >= 0 {
				free[p.node], p.now = left, p.then
			}
		}
	}
	for i := range free {
		w.node(fmt.Sprintf("n%03d", i), cores, memory)
	}
	for i := range pods {
		p := w.pod(pods[i].name, w.Nodes[pods[i].node].Name, pods[i].now.CPU, 0)
		p.Containers[0].Requests = cluster.Amounts(pods[i].now.CPU, pods[i].now.Memory)
	}
	return w
}

// least returns a lower bound of the nodes that hold the pods, by volume, and how many nodes first fit by falling size needs. The optimum is between them.
func (w *world) least() (volume, firstFit int) {
	node := &w.Nodes[0]
	var sum room.Amount
	var sizes, free []room.Amount
	for _, p := range w.pods {
		size := room.Of(p.Containers[0].Requests)
		sum = sum.Add(size)
		sizes = append(sizes, size)
	}
	slices.SortFunc(sizes, func(a, b room.Amount) int { return larger(a, b, node) })
	for _, size := range sizes {
		i := slices.IndexFunc(free, func(f room.Amount) bool { return f.Holds(size) })
		if i < 0 {
			i = len(free)
			free = append(free, room.Of(node.Allocatable))
		}
		free[i] = free[i].Sub(size)
	}
	return int(math.Ceil(share(sum, node))), len(free)
}

// recordings returns the traces in PODFIT_TRACES, which has their paths, separated by spaces. Without it, the workloads are synthetic.
func recordings(t *testing.T) (out []recording) {
	t.Helper()
	for _, path := range strings.Fields(os.Getenv("PODFIT_TRACES")) {
		r, err := recordingOf(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		out = append(out, syntheticRecording())
	}
	return out
}

// Plans that free nodes are carried out until there is none. Each can be carried out and frees a node, and no more than 10 % more nodes are left than first
// fit by falling size needs for the same pods. make fragments-pools runs it with traces.
func TestMeasure_recordedPools_plansLeaveFewNodes(t *testing.T) {
	t.Logf("%-12s %-10s %8s %-6s %5s %6s %5s %6s %9s %5s %11s", "workloads", "node", "replicas", "days", "pods", "before", "after", "volume", "first fit", "moves", "least moves")
	freed := 0
	for _, r := range recordings(t) {
		for _, cores := range []int64{4, 16} {
			for _, replicas := range []int{4, 12} {
				for _, days := range r.pairs() {
					w := r.drifted(cores, 4*cores, replicas, days[0], days[1])
					volume, firstFit := w.least()
					moves, least := w.freeAll(t)
					before, after := len(w.Nodes), len(unique(twinOf(w).start))
					freed += before - after
					t.Logf("%-12s %-10s %8d %-6s %5d %6d %5d %6d %9d %5d %11d", r.name, fmt.Sprintf("%d×%d GiB", cores, 4*cores), replicas,
						fmt.Sprintf("%d→%d", days[0], days[1]), len(w.pods), before, after, volume, firstFit, moves, least)
					if 10*after > 11*firstFit || after < volume {
						t.Errorf("%d nodes are left, first fit needs %d, and at least %d are necessary", after, firstFit, volume)
					}
				}
			}
		}
	}
	if freed < 20 {
		t.Errorf("%d nodes are freed: the test shows little", freed)
	}
}

// freeAll carries out plans until there is none. It returns the number of moves, and a lower bound of those that free one node after the other: the fewest
// pods on a node, each time.
func (w *world) freeAll(t *testing.T) (moves, least int) {
	t.Helper()
	for {
		plan := &Measure(w.settle())[0].Empty
		if plan.Node == "" {
			return moves, least
		}
		tw := twinOf(w)
		if problem := tw.check(plan, room.Amount{}); problem != "" {
			t.Fatalf("%s in %s", problem, text(plan))
		}
		pods := cluster.GroupBy(tw.start, func(node int) int { return node })
		fewest := math.MaxInt
		for _, all := range pods {
			fewest = min(fewest, len(all))
		}
		moves += len(plan.Moves)
		least += fewest
		for _, m := range plan.Moves {
			w.pods[slices.IndexFunc(w.pods, func(p *cluster.Pod) bool { return p.String() == m.Pod })].Node = m.To
		}
	}
}

// In small pools, a search of all sequences of moves finds no plan with fewer moves.
func TestMeasure_smallRecordedPools_plansAreShortest(t *testing.T) {
	const most = 4
	found := 0
	for _, r := range recordings(t) {
		for i := 0; i+6 <= len(r.workloads); i += 3 {
			some := recording{r.name, r.workloads[i : i+6]}
			for _, days := range r.pairs() {
				w := some.drifted(4, 16, 2, days[0], days[1])
				if len(w.Nodes) < 2 || len(w.Nodes) > 4 {
					continue
				}
				w.For = room.Amount{CPU: 2500, Memory: 4 * gi}
				pool := Measure(w.settle())[0]
				tw := twinOf(w)
				for want, plan := range map[room.Amount]*Plan{{}: &pool.Empty, w.For: pool.Room} {
					best := tw.fewest(want, most)
					if plan.Node != "" {
						found++
						if problem := tw.check(plan, want); problem != "" {
							t.Errorf("workloads from %d on, days %v, room for %v: %s in %s", i, days, want, problem, text(plan))
						}
					}
					if n := len(plan.Moves); best >= 0 && (plan.Node == "" || n != best) || plan.Node != "" && n <= most && best < 0 {
						t.Errorf("workloads from %d on, days %v, room for %v: %d moves are possible, found %s", i, days, want, best, text(plan))
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("%d plans are found: the test shows little", found)
	}
}
