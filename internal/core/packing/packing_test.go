// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
)

const (
	midnight = 1_767_225_600 // of a day in UTC
	cores    = 16
	gib      = 1 << 30
)

func never() bool { return false }

func random() func(int, func(i, j int)) { return rand.New(rand.NewPCG(1, 1)).Shuffle }

var shape = Shape{CPU: cores, Memory: 64 * gib, Pods: 110, Copies: 1}

// A machine is a workload with a pod whose usage is the same in each interval, except in some.
type machine struct {
	cpu, memory float64 // cores, GiB
	peaks       map[int]float64
	changes     []replay.Change
	pods        int // 0: one
}

// comparisonOf returns a comparison of one recommender. The learning days are the first two.
func comparisonOf(days int, machines ...machine) *replay.Comparison {
	c := &replay.Comparison{
		Learning: 2, Recommenders: []recommend.Profile{{Name: "first"}},
		From: time.Unix(midnight, 0), To: time.Unix(midnight+int64(days)*daySeconds-interval, 0),
	}
	for i, m := range machines {
		w := &replay.Workload{Key: cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprint("vm-", i)}, Containers: []string{"main"}}
		for range max(1, m.pods) {
			w.Pods = append(w.Pods, fmt.Sprint("vm-", i, "-", len(w.Pods)))
		}
		for at := range days * perDay {
			for p := range w.Pods {
				s := replay.Sample{At: midnight + int64(at)*interval, CPU: m.cpu, Memory: m.memory * gib, Pod: int32(p), Has: cluster.Both}
				if peak, ok := m.peaks[at]; ok {
					s.Memory = peak * gib
				}
				w.Samples = append(w.Samples, s)
			}
		}
		c.Workloads = append(c.Workloads, replay.WorkloadResult{Workload: w, Changes: [][]replay.Change{m.changes}})
	}
	return c
}

// requested returns changes to requests of cores and GiB at a time after the first midnight.
func requested(at time.Duration, cpu, memory float64) []replay.Change {
	when := midnight + int64(at/time.Second)
	return []replay.Change{{At: when, Resource: cluster.CPU, Request: int64(cpu * 1000)}, {At: when, Resource: cluster.Memory, Request: int64(memory * gib)}}
}

func TestMeasure_constantUsage_countsNodes(t *testing.T) {
	var all []machine
	for range 12 {
		all = append(all, machine{cpu: 1, memory: 10, changes: requested(0, 1, 16)})
	}
	r := Of(comparisonOf(4, all...)).Measure(shape, random(), never)
	if r.Days != 2 || r.Pods != 12 || len(r.LeftOut) != 0 {
		t.Fatalf("%d days, %d pods, %d left out", r.Days, r.Pods, len(r.LeftOut))
	}
	got := r.Results[0]
	if got.Nodes != 3 || got.FirstFit != 3 || got.DayMaximum != 3 || got.NodeDays != 6 || got.Ratio != 1 || got.RatioFrom != 1 || got.RatioTo != 1 {
		t.Errorf("got %+v, want 3 nodes", got)
	}
	if *got.Short != 0 || *got.Saturated != 0 || *got.KillFreeProportional != 1 || *got.KillFreePeaks != 1 || got.Culprits != nil {
		t.Errorf("got %+v, want no harm", got)
	}
}

func TestMeasure_podsOfAWorkload_areSpread(t *testing.T) {
	c := comparisonOf(3, machine{cpu: 0.1, memory: 1, pods: 2, changes: requested(0, 0.1, 1)})
	four := shape
	four.Copies = 2
	got := Of(c).Measure(four, random(), never).Results[0]
	if got.FirstFit != 4 {
		t.Errorf("first fit: %g nodes for 4 pods, each on a node of its own", got.FirstFit)
	}
	if got.Nodes != 1 {
		t.Errorf("%g nodes; as few nodes as hold the pods are one", got.Nodes)
	}
	small := four
	small.Pods = 1
	if got := Of(c).Measure(small, random(), never).Results[0]; got.Nodes != 4 {
		t.Errorf("%g nodes with one pod per node, want 4", got.Nodes)
	}
}

func TestMeasure_usageAboveRequest_nodeIsShortAndNamesTheWorkload(t *testing.T) {
	c := comparisonOf(4,
		machine{cpu: 9, memory: 31, changes: requested(0, 1, 31)},
		machine{cpu: 9, memory: 30, peaks: map[int]float64{2*perDay + 7: 31.5, 3*perDay + 7: 31}, changes: requested(0, 1, 30)})
	large := shape
	large.CPU = 2 * cores
	got := Of(c).Measure(large, random(), never).Results[0]
	if got.NodeDays != 2 || *got.Short != 0.5 || *got.ShortFit != 0.5 || len(got.Culprits) != 1 {
		t.Fatalf("got %+v, want one of two node-days short because of one workload", got)
	}
	want := Culprit{"shop/Deployment/vm-1", 1, []ShortNode{{Day: "2026-01-03", Node: 1, Used: 62.5 / 64}}}
	if !reflect.DeepEqual(got.Culprits[0], want) {
		t.Errorf("the node is short because of %+v, want %+v", got.Culprits[0], want)
	}
	if *got.Saturated != 0 {
		t.Errorf("CPU saturated %g", *got.Saturated)
	}
	fair := shape
	fair.CPU = 18.5
	if got := Of(c).Measure(fair, random(), never).Results[0].Saturated; *got != 0 {
		t.Errorf("18 of 18.5 cores: CPU saturated %g", *got)
	}
	c = comparisonOf(3, machine{cpu: 6, memory: 1, changes: requested(0, 1, 1)}, machine{cpu: 6, memory: 1, changes: requested(0, 1, 1)}, machine{cpu: 6, memory: 1, changes: requested(0, 1, 1)})
	if got := Of(c).Measure(shape, random(), never).Results[0].Saturated; *got != 1 {
		t.Errorf("18 of 16 cores: CPU saturated %g, want 1", *got)
	}
}

// Halves of machines that differ have other ratios, and other shares of short nodes, than all machines.
func TestMeasure_machinesThatDiffer_halvesHaveAWiderRange(t *testing.T) {
	var all []machine
	for i := range 16 {
		m := machine{cpu: 0.1, memory: 1, changes: requested(0, 0.1, 16)}
		if i%2 == 1 {
			m.memory, m.peaks = 18, map[int]float64{2*perDay + 7: 22} // three of them on a node exceed it
		}
		all = append(all, m)
	}
	c := comparisonOf(4, all...)
	c.Recommenders = append(c.Recommenders, recommend.Profile{Name: "second"})
	for i := range c.Workloads {
		c.Workloads[i].Changes = append(c.Workloads[i].Changes, requested(0, 0.1, float64(1+18*(i%2))))
	}
	r := Of(c).Measure(shape, random(), never)
	first, second := r.Results[0], r.Results[1]
	if first.RatioFrom != 1 || first.RatioTo != 1 {
		t.Errorf("the ratio to itself is %g–%g", first.RatioFrom, first.RatioTo)
	}
	if second.Ratio != 0.75 || second.RatioFrom != 0.5 || second.RatioTo != 1 || *second.Short != 1.0/3 || *second.ShortTo != 0.5 {
		t.Errorf("got ratio %g, %g–%g, short %g, at most %g; want 0.75, 0.5–1, short a third and a half",
			second.Ratio, second.RatioFrom, second.RatioTo, *second.Short, *second.ShortTo)
	}
}

// A pod goes to the node of which the smallest part is requested, as the mean of CPU and memory, and not to the first with room, nor to the one with the
// smallest largest part.
func TestLeastAllocated_nodeIsChosenByMeanOfCPUAndMemory(t *testing.T) {
	p := &packer{shape: shape, stop: never}
	pod := func(workload int, cpu, memory float64) placed {
		return placed{workload: workload, request: load{cpu * cores, memory * 64 * gib}}
	}
	for name, c := range map[string]struct {
		second placed // the first requests 0.75 of the CPU and 0.1 of the memory of a node
		want   int
	}{
		"less CPU and less in sum":    {pod(1, 0.3, 0.5), 1},
		"less CPU, but more in sum":   {pod(1, 0.3, 0.6), 0},
		"less memory and less in sum": {pod(1, 0.7, 0.05), 1},
	} {
		pods := []placed{pod(0, 0.75, 0.1), c.second, pod(2, 0.1, 0.1)}
		if nodes := leastAllocated(p, pods); len(nodes) != 2 || nodes[c.want].copies(2) != 1 {
			t.Errorf("%s: not on node %d", name, c.want)
		}
		if nodes := firstFit(p, pods); len(nodes) != 2 || nodes[0].copies(2) != 1 {
			t.Errorf("%s: first fit does not use the first node", name)
		}
	}
}

func TestMeasure_orderOfPacking_hasShortNodesOfItsOwn(t *testing.T) {
	got := Of(comparisonOf(3,
		machine{cpu: 1, memory: 32, changes: requested(0, 9, 40)},
		machine{cpu: 1, memory: 10, changes: requested(0, 8, 10)},
		machine{cpu: 1, memory: 10, peaks: map[int]float64{2*perDay + 7: 31}, changes: requested(0, 1, 10)},
	)).Measure(shape, random(), never).Results[0]
	if got.Nodes != 2 || got.FirstFit != 2 || *got.Short != 0 || *got.ShortFit != 0.5 {
		t.Errorf("short %g, and %g with first fit; want 0, and one of two nodes", *got.Short, *got.ShortFit)
	}
}

// A profile that sizes pods for nodes with other memory is not measured.
func TestMeasure_profileForOtherNodes_isLeftOut(t *testing.T) {
	c := comparisonOf(4, machine{cpu: 1, memory: 10, changes: requested(0, 1, 16)})
	c.Recommenders = []recommend.Profile{packs(16 * gib), packs(64 * gib), {Name: "other"}}
	c.Workloads[0].Changes = [][]replay.Change{nil, requested(0, 1, 16), requested(0, 1, 60)}
	r := Of(c).Measure(Shape{CPU: cores, Memory: 64 * gib, Pods: 110, Copies: 4}, random(), never).Results
	if len(r) != 2 || r[0].Ratio != 1 || r[0].Nodes != 1 || r[1].Recommender != "other" || r[1].Ratio != 4 || r[1].RatioFrom != 4 {
		t.Errorf("got %+v, want 1 node for the profile of this size, and 4 for the other", r)
	}
}

func TestMeasure_requestRisesAtNoon_isPackedFromTheNextDay(t *testing.T) {
	rising := slices.Concat(requested(0, 1, 10), requested(60*time.Hour, 1, 40)) // noon of the first measured day
	c := comparisonOf(4, machine{cpu: 1, memory: 8, changes: rising}, machine{cpu: 1, memory: 8, changes: rising})
	got := Of(c).Measure(shape, random(), never).Results[0]
	if got.Nodes != 1.5 || got.DayMaximum != 2 {
		t.Errorf("%g nodes, by the largest request %g; want 1.5 and 2", got.Nodes, got.DayMaximum)
	}
}

func TestMeasure_largePods_areLeftOut(t *testing.T) {
	c := comparisonOf(3, machine{cpu: 1, memory: 33}, machine{cpu: 8.5, memory: 1}, machine{cpu: 8, memory: 32, changes: requested(0, 1, 1)})
	r := Of(c).Measure(shape, random(), never)
	if want := []string{"shop/Deployment/vm-0", "shop/Deployment/vm-1"}; !slices.Equal(r.LeftOut, want) || r.Pods != 1 {
		t.Errorf("left out %v, %d pods; want %v", r.LeftOut, r.Pods, want)
	}
}

func TestMeasure_usageAboveLimit_isAKill(t *testing.T) {
	c := comparisonOf(6, machine{cpu: 1, memory: 4, peaks: map[int]float64{
		2*perDay + 1: 7,  // 1.5 × 4 GiB is less, 2 × the peak of 4 is more
		3*perDay + 1: 15, // 2 × the peak of 7 is less
		4*perDay + 1: 6,
	}, changes: requested(0, 1, 4)})
	got := Of(c).Measure(shape, random(), never).Results[0]
	if *got.KillFreeProportional != 0.5 || *got.KillFreePeaks != 0.75 {
		t.Errorf("kill-free %g and %g, want 0.5 and 0.75", *got.KillFreeProportional, *got.KillFreePeaks)
	}
	if got := Of(comparisonOf(3, machine{cpu: 1, memory: 4})).Measure(shape, random(), never).Results[0]; *got.KillFreeProportional != 1 {
		t.Errorf("no request, no limit: kill-free %g", *got.KillFreeProportional)
	}
	small := comparisonOf(3, machine{cpu: 1, memory: 0.1, peaks: map[int]float64{2 * perDay: 1}, changes: requested(0, 1, 0.1)})
	if got := Of(small).Measure(shape, random(), never).Results[0]; *got.KillFreePeaks != 1 {
		t.Errorf("less than 1 GiB above the peak: kill-free %g", *got.KillFreePeaks)
	}
}

func TestOf_missingSamples_areFilledBrieflyOnly(t *testing.T) {
	c := comparisonOf(3, machine{cpu: 2, memory: 4, changes: requested(0, 1, 1)})
	w := c.Workloads[0].Workload
	gap := func(from, to int) {
		w.Samples = slices.DeleteFunc(w.Samples, func(s replay.Sample) bool {
			at := int(s.At-midnight) / interval
			return at >= from && at < to
		})
	}
	gap(2*perDay+10, 2*perDay+12)
	gap(2*perDay+20, 2*perDay+33)
	day := Of(c).workloads[0].pods[0][2]
	for at, want := range map[int]float64{9: 2, 10: 2, 11: 2, 19: 2, 20: 0, 32: 0, 33: 2} {
		if day[at].cpu != want {
			t.Errorf("interval %d: %g cores, want %g", at, day[at].cpu, want)
		}
	}
}

func TestOf_severalSamplesPerInterval_meanOfCPUAndLargestMemory(t *testing.T) {
	c := comparisonOf(3, machine{cpu: 1, memory: 1})
	w := c.Workloads[0].Workload
	w.Samples = append(w.Samples, replay.Sample{At: midnight + 2*daySeconds + 60, CPU: 3, Memory: 5 * gib, Has: cluster.Both})
	w.Sort()
	if got := Of(c).workloads[0].pods[0][2][0]; got != (load{2, 5 * gib}) {
		t.Errorf("got %v, want 2 cores and 5 GiB", got)
	}
}

func TestOf_workloadStartsLater_hasLearningDaysOfItsOwn(t *testing.T) {
	c := comparisonOf(8, machine{cpu: 1, memory: 1, changes: requested(0, 1, 40)}, machine{cpu: 1, memory: 1, changes: requested(0, 1, 40)})
	late := c.Workloads[1].Workload
	*late = late.Between(midnight+3*daySeconds+3600, 1<<62)
	got := Of(c).Measure(shape, random(), never).Results[0]
	if want := 8.0 / 6; got.Nodes != want { // in the last 2 of 6 days there are two pods
		t.Errorf("%g nodes, want %g", got.Nodes, want)
	}
}

func TestMeasure_nothingKnown_isNotZero(t *testing.T) {
	if r := Of(comparisonOf(2, machine{cpu: 1, memory: 4})).Measure(shape, random(), never); r.Days != 0 || r.Pods != 0 || r.Results == nil || len(r.Results) > 0 {
		t.Errorf("without a day after the learning days: %+v", r)
	}
	c := comparisonOf(4, machine{cpu: 1, changes: requested(0, 1, 0)})
	for i := range c.Workloads[0].Samples {
		c.Workloads[0].Samples[i].Has = cluster.Of(cluster.CPU)
	}
	r := Of(c).Measure(shape, random(), never).Results[0]
	if r.Nodes != 1 || r.KillFreePeaks != nil || r.KillFreeProportional != nil || r.Short != nil || r.ShortFit != nil || r.ShortTo != nil || *r.Saturated != 0 {
		t.Errorf("without samples of memory: %+v, want one node and no figures of memory", r)
	}
	for i := range c.Workloads[0].Samples {
		c.Workloads[0].Samples[i].Has = cluster.Of(cluster.Memory)
	}
	if r := Of(c).Measure(shape, random(), never).Results[0]; r.Saturated != nil || r.Short == nil {
		t.Errorf("without samples of CPU: %+v, want only figures of memory", r)
	}
}

// packs returns the profile packed for nodes with an amount of memory.
func packs(node int64) recommend.Profile {
	p, _ := recommend.Builtin("packed")
	return p.For(criticality.Declared{}, fleet.NodeSizes{Memory: node})
}

func TestPacked_replay_requestsFollowTheRule(t *testing.T) {
	c := comparisonOf(12, machine{cpu: 1, memory: 4, peaks: map[int]float64{9*perDay + 3: 12}})
	var last replay.Change
	for _, change := range replay.Run(c.Workloads[0].Workload, packs(64*gib)) {
		if change.Resource == cluster.Memory {
			last = change
		}
	}
	if want := (4 + 0.2*8) / 0.85; last.Request < int64(want*gib) || last.Request > int64(1.01*want*gib) {
		t.Errorf("the last request is %.2f GiB, want %.2f", float64(last.Request)/gib, want)
	}
}

func TestOf_cpuAndMemoryInRowsOfTheirOwn_areBothRead(t *testing.T) {
	m := machine{cpu: 6, memory: 1, changes: requested(0, 1, 1)}
	c := comparisonOf(3, m, m, m)
	for i := range c.Workloads {
		w := c.Workloads[i].Workload
		var split []replay.Sample
		for _, s := range w.Samples {
			cpu, memory := s, s
			cpu.Has, cpu.Memory = cluster.Of(cluster.CPU), 0
			memory.Has, memory.CPU, memory.At = cluster.Of(cluster.Memory), 0, s.At+60
			split = append(split, cpu, memory)
		}
		w.Samples = split
	}
	if got := Of(c).Measure(shape, random(), never).Results[0].Saturated; *got != 1 {
		t.Errorf("18 of 16 cores: CPU saturated %g, want 1", *got)
	}
}

func TestOf_memoryMissingInOneInterval_isThatOfTheIntervalBefore(t *testing.T) {
	c := comparisonOf(3, machine{cpu: 1, memory: 30, changes: requested(0, 1, 10)})
	for i := range c.Workloads[0].Samples {
		if s := &c.Workloads[0].Samples[i]; s.At == midnight+(2*perDay+7)*interval {
			s.Has, s.Memory = cluster.Of(cluster.CPU), 0
		}
	}
	if got := Of(c).workloads[0].pods[0][2][7]; got != (load{1, 30 * gib}) {
		t.Errorf("got %v, want 1 core and 30 GiB", got)
	}
}

func TestMeasure_podsOneAfterAnother_areOnePod(t *testing.T) {
	c := comparisonOf(3, machine{cpu: 1, memory: 10, changes: requested(0, 1, 10)})
	w := c.Workloads[0].Workload
	w.Pods = nil
	for i := range w.Samples {
		w.Pods = append(w.Pods, fmt.Sprint("job-", i))
		w.Samples[i].Pod = int32(i)
	}
	r := Of(c).Measure(shape, random(), never)
	if got := r.Results[0]; r.Pods != 1 || got.Nodes != 1 || got.FirstFit != 1 {
		t.Errorf("%d pods, %g nodes, first fit %g, for one pod at a time; want 1", r.Pods, got.Nodes, got.FirstFit)
	}
}

func TestMeasure_daysAndPods_areThoseThatWereMeasured(t *testing.T) {
	machines := []machine{
		{cpu: 1, memory: 40, changes: requested(0, 1, 10)}, // left out
		{cpu: 1, memory: 10, changes: requested(0, 1, 10)}, // measured on the last of 6 days
		{cpu: 1, memory: 10, changes: requested(0, 1, 10)}, // still learning
	}
	c := comparisonOf(6, machines...)
	for i, from := range []int{0, 3, 5} {
		w := c.Workloads[i].Workload
		w.Samples = w.Samples[from*perDay:]
	}
	if r := Of(c).Measure(shape, random(), never); r.Pods != 1 || r.Days != 1 || r.Results[0].NodeDays != 1 {
		t.Errorf("%d pods on %d days, %d node-days; want 1 each", r.Pods, r.Days, r.Results[0].NodeDays)
	}
}

// A row of 1970 makes the trace 20,000 days long.
func TestMeasure_strayEarlySample_costsNoDays(t *testing.T) {
	c := comparisonOf(4, machine{cpu: 1, memory: 10, changes: requested(0, 1, 10)}, machine{cpu: 1, memory: 10, changes: requested(0, 1, 10)})
	c.From = time.Unix(0, 0)
	w := c.Workloads[0].Workload
	w.Samples = slices.Insert(w.Samples, 0, replay.Sample{CPU: 1, Memory: gib, Has: cluster.Both})
	trace := Of(c)
	if n := len(trace.workloads[0].requests[0]); n != 4 || len(trace.days) != 4 {
		t.Errorf("requests of %d days, %d days; want 4", n, len(trace.days))
	}
	if got := trace.Measure(shape, random(), never).Results[0]; got.Nodes != 1 || *got.KillFreePeaks != 1 {
		t.Errorf("got %+v, want 1 node", got)
	}
}

func TestMeasure_containerWithoutHistory_hasNoLimitByPeaks(t *testing.T) {
	c := comparisonOf(4, machine{cpu: 1, memory: 10, changes: requested(0, 1, 10)})
	w := c.Workloads[0].Workload
	w.Containers = append(w.Containers, "sidecar")
	for _, s := range w.Samples[3*perDay:] {
		s.Container, s.Memory = 1, 2*gib
		w.Samples = append(w.Samples, s)
	}
	w.Sort()
	if got := *Of(c).Measure(shape, random(), never).Results[0].KillFreePeaks; got != 1 {
		t.Errorf("kill-free %g, want 1", got)
	}
}

func TestMeasure_requestAboveNode_podsAreCounted(t *testing.T) {
	four := shape
	four.Copies = 4
	got := Of(comparisonOf(4, machine{cpu: 1, memory: 10, changes: requested(0, 40, 200)})).Measure(four, random(), never).Results[0]
	if got.TooLarge != 4 || got.Nodes != 4 {
		t.Errorf("%d pods are larger than a node, on %g nodes; want 4 and 4", got.TooLarge, got.Nodes)
	}
}

func TestMeasure_allBelowTheirRequests_noneIsTheCulprit(t *testing.T) {
	m := machine{cpu: 1, memory: 31.5, changes: requested(0, 1, 32)}
	if got := Of(comparisonOf(4, m, m)).Measure(shape, random(), never).Results[0]; *got.Short != 1 || got.Culprits != nil {
		t.Errorf("short %g because of %v, want 1 and nobody", *got.Short, got.Culprits)
	}
}

func TestMeasure_samplesEveryHour_fillTheHourAndFewerAreReported(t *testing.T) {
	m := machine{cpu: 6, memory: 30, changes: requested(0, 1, 1)}
	for step, sparse := range map[int]int{6: 0, 12: 0, 36: 3} {
		c := comparisonOf(4, m, m, m)
		for i := range c.Workloads {
			w := c.Workloads[i].Workload
			var few []replay.Sample
			for k, s := range w.Samples {
				if k%step == i || k == 0 {
					few = append(few, s)
				}
			}
			w.Samples = few
		}
		r := Of(c).Measure(shape, random(), never)
		if got := r.Results[0]; r.Sparse != sparse || sparse == 0 && (*got.Saturated < 0.97 || *got.Short != 1) {
			t.Errorf("every %d intervals: %d workloads are sparse, want %d; CPU saturated %g, short %g", step, r.Sparse, sparse, *got.Saturated, *got.Short)
		}
	}
}

func TestMeasure_stopped_packsNothing(t *testing.T) {
	m := machine{cpu: 1, memory: 10, changes: requested(0, 1, 10)}
	if got := Of(comparisonOf(4, m)).Measure(shape, random(), func() bool { return true }).Results[0]; got.NodeDays != 0 {
		t.Errorf("%d node-days after it was stopped", got.NodeDays)
	}
}

// Three pods of a workload share a node on 9 of 10 days, and two on one day: three are reported.
func TestMeasure_podsOfAWorkloadShareANode_mostAreReported(t *testing.T) {
	for _, onNode := range []int{1, 2} {
		c := comparisonOf(12, machine{cpu: 1, memory: 1, pods: 3, changes: requested(0, 1, 1)})
		w := c.Workloads[0].Workload
		w.Samples = slices.DeleteFunc(w.Samples, func(s replay.Sample) bool {
			return s.Pod == 2 && (s.At-midnight)/daySeconds == 6
		})
		s := Shape{CPU: cores, Memory: 64 * gib, Pods: 110, Copies: 1, OnNode: onNode}
		p, _ := recommend.Builtin("packed")
		c.Recommenders = []recommend.Profile{p}
		r := Of(c).Measure(s, random(), never).Results
		if len(r) != 1 || r[0].Copies != 3 {
			t.Errorf("sized for %d: %d copies are reported, want 3 (%.1f nodes)", onNode, r[0].Copies, r[0].Nodes)
		}
	}
}
