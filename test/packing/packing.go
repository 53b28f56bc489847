// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

const (
	// ShortAt is the fraction of a node's allocatable memory above which it is short of memory.
	ShortAt = 0.97

	halves     = 10  // random halves of the workloads, each pod twice
	mostOfNode = 0.5 // of a node's memory or CPU; pods that have used more are left out
	seed       = 1
)

// A Shape is the allocatable resources of a node: cores, bytes, and the number of pods; and how often each pod of the recording runs.
type Shape struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   int     `json:"pods"`
	Copies int     `json:"replicas"`
}

// A Result is the figures of one recommender.
type Result struct {
	Nodes      float64 `json:"nodes"`             // placed as the scheduler does (least allocated) on as few nodes as hold the requests at the start of the day; mean over the days
	FirstFit   float64 `json:"nodes_first_fit"`   // the largest pods first, each on the first node with room
	DayMaximum float64 `json:"nodes_day_maximum"` // as Nodes, by the largest requests of each day
	Ratio      float64 `json:"ratio"`             // Nodes to those of the first recommender
	RatioFrom  float64 `json:"ratio_from"`        // smallest and largest ratio of random halves of the workloads with the pods doubled
	RatioTo    float64 `json:"ratio_to"`
	NodeDays   int     `json:"node_days"`
	Short      float64 `json:"short"`           // part of the node-days in which the memory usage of the pods exceeded 97 % of the node at least once
	ShortFit   float64 `json:"short_first_fit"` // the same for FirstFit
	ShortTo    float64 `json:"short_to"`        // the largest Short of the random halves
	Saturated  float64 `json:"cpu_saturated"`   // part of the 5-minute intervals in which the CPU usage of the pods exceeded the node

	KillFreeProportional float64 `json:"kill_free_proportional"` // part of the container-days without memory usage above 1.5 × the request at the start of the day
	KillFreePeaks        float64 `json:"kill_free_peaks"`        // the same for max(2 × peak, peak + 1 GiB) of the 14 days before, at most the node

	Culprits []Culprit `json:"culprits,omitempty"` // that made nodes short, most often first
}

// A Culprit is a workload whose usage exceeded its request by the most when nodes were short of memory.
type Culprit struct {
	Workload string `json:"workload"`
	NodeDays int    `json:"node_days"`
}

// Report is the figures of several recommenders for one shape of nodes.
type Report struct {
	Shape   Shape    `json:"node"`
	Days    int      `json:"days"` // measured
	Pods    int      `json:"pods"`
	LeftOut []string `json:"left_out,omitempty"` // workloads whose peak exceeds half of a node
	Results []Result `json:"results"`            // one per recommender; none if no pod was measured
}

// Measure packs the pods of a comparison on nodes of a shape. Workloads whose peak exceeds half of a node are left out.
func (t *Trace) Measure(shape Shape) Report {
	out := Report{Shape: shape, Days: max(0, t.days-t.from)}
	var fit []int
	for i, w := range t.workloads {
		if w.peak.cpu > mostOfNode*shape.CPU || w.peak.memory > mostOfNode*shape.Memory {
			out.LeftOut = append(out.LeftOut, w.name)
			continue
		}
		fit = append(fit, i)
		out.Pods += len(w.pods) * shape.Copies
	}
	for k := range t.recommenders {
		out.Results = append(out.Results, t.result(k, shape, fit))
	}
	if out.Results[0].NodeDays == 0 {
		out.Results = nil
		return out
	}
	doubled := shape
	doubled.Copies *= 2
	for k := range out.Results {
		out.Results[k].Ratio = out.Results[k].Nodes / out.Results[0].Nodes
		out.Results[k].RatioFrom, out.Results[k].RatioTo = out.Results[k].Ratio, out.Results[k].Ratio
	}
	random := rand.New(rand.NewPCG(seed, seed))
	for range halves {
		half := slices.Clone(fit)
		random.Shuffle(len(half), func(i, j int) { half[i], half[j] = half[j], half[i] })
		half = half[:(len(half)+1)/2]
		base := 0.0
		for k := range out.Results {
			r := &out.Results[k]
			days := t.pack(k, doubled, half, leastAllocated, atStart)
			if k == 0 {
				base = days.mean()
			}
			if base > 0 { // else no pod of this half was measured
				r.RatioFrom, r.RatioTo = min(r.RatioFrom, days.mean()/base), max(r.RatioTo, days.mean()/base)
			}
			r.ShortTo = max(r.ShortTo, days.short())
		}
	}
	return out
}

func (t *Trace) result(k int, shape Shape, workloads []int) Result {
	scheduled, fitted := t.pack(k, shape, workloads, leastAllocated, atStart), t.pack(k, shape, workloads, firstFit, atStart)
	most := t.pack(k, shape, workloads, leastAllocated, largest)
	r := Result{
		Nodes: scheduled.mean(), FirstFit: fitted.mean(), DayMaximum: most.mean(), NodeDays: scheduled.nodes,
		Short: scheduled.short(), ShortFit: fitted.short(), ShortTo: scheduled.short(),
		Saturated: float64(scheduled.saturated) / float64(max(1, scheduled.nodes*perDay)),
	}
	for _, w := range slices.SortedFunc(maps.Keys(scheduled.culprits), func(a, b int) int {
		return cmp.Or(cmp.Compare(scheduled.culprits[b], scheduled.culprits[a]), cmp.Compare(a, b))
	}) {
		r.Culprits = append(r.Culprits, Culprit{t.workloads[w].name, scheduled.culprits[w]})
	}
	r.KillFreeProportional = t.killFree(workloads, func(w *workload, container, day int) float64 {
		return proportional * w.requests[k][day].memory[container]
	})
	r.KillFreePeaks = t.killFree(workloads, func(w *workload, container, day int) float64 {
		peak := slices.Max(w.peaks[container][max(0, day-peakDays):day])
		return min(max(2*peak, peak+gib), shape.Memory)
	})
	return r
}

const (
	gib          = 1 << 30
	proportional = 1.5 // limit to request
	peakDays     = 14
)

// killFree returns the part of the container-days without memory usage above a limit that is known at the start of the day, NaN without samples of
// memory. A container without a limit is not killed.
func (t *Trace) killFree(workloads []int, limit func(w *workload, container, day int) float64) float64 {
	free, all := 0, 0
	for _, i := range workloads {
		w := t.workloads[i]
		for container, peaks := range w.peaks {
			for day := max(t.from, w.first); day < t.days; day++ {
				if peaks[day] == 0 { // not running
					continue
				}
				all++
				if most := limit(w, container, day); most == 0 || peaks[day] <= most {
					free++
				}
			}
		}
	}
	return float64(free) / float64(all)
}

// days is what happens on the nodes in all days.
type days struct {
	days, nodes int // node-days
	shortages   int // node-days
	saturated   int // node-intervals
	culprits    map[int]int
}

func (d *days) mean() float64  { return float64(d.nodes) / float64(max(1, d.days)) }
func (d *days) short() float64 { return float64(d.shortages) / float64(max(1, d.nodes)) }

// atStart and largest select the requests of a day.
func atStart(r *requests) load { return r.start }
func largest(r *requests) load { return r.most }

// pack places the pods of some workloads every day and measures their usage on the nodes.
func (t *Trace) pack(k int, shape Shape, workloads []int, place func(Shape, []placed) [][]placed, of func(*requests) load) *days {
	out := &days{culprits: map[int]int{}}
	for day := t.from; day < t.days; day++ {
		var pods []placed
		for _, i := range workloads {
			w := t.workloads[i]
			for p := range w.pods {
				if usage := w.pods[p][day]; usage != nil && day >= w.first {
					for range shape.Copies {
						pods = append(pods, placed{workload: i, request: of(&w.requests[k][day]), usage: usage})
					}
				}
			}
		}
		if len(pods) == 0 {
			continue
		}
		slices.SortStableFunc(pods, func(a, b placed) int { return cmp.Compare(b.request.share(shape), a.request.share(shape)) })
		out.days++
		for _, node := range place(shape, pods) {
			out.observe(shape, node)
		}
	}
	return out
}

// observe measures the usage of the pods of a node on one day.
func (d *days) observe(shape Shape, pods []placed) {
	d.nodes++
	worst, at := 0.0, 0
	for i := range perDay {
		sum := load{}
		for p := range pods {
			sum = sum.plus(pods[p].usage[i])
		}
		if sum.cpu > shape.CPU {
			d.saturated++
		}
		if sum.memory > worst {
			worst, at = sum.memory, i
		}
	}
	if worst <= ShortAt*shape.Memory {
		return
	}
	d.shortages++
	over := map[int]float64{}
	for _, p := range pods {
		over[p.workload] += p.usage[at].memory - p.request.memory
	}
	culprit := slices.MaxFunc(slices.Sorted(maps.Keys(over)), func(a, b int) int { return cmp.Compare(over[a], over[b]) })
	d.culprits[culprit]++
}

// A load is an amount of cores and bytes.
type load struct{ cpu, memory float64 }

func (l load) plus(o load) load { return load{l.cpu + o.cpu, l.memory + o.memory} }

// share returns the part of a node that the load takes, of the resource of which it takes more.
func (l load) share(s Shape) float64 { return max(l.cpu/s.CPU, l.memory/s.Memory) }

// placed is a pod with its request and its usage of the day.
type placed struct {
	workload int
	request  load
	usage    []load
}

// A node is what is placed on it.
type node struct {
	used load
	pods []placed
}

func (n *node) copies(workload int) (c int) {
	for i := range n.pods {
		if n.pods[i].workload == workload {
			c++
		}
	}
	return c
}

// holds reports whether a pod fits on the node, beside less than most pods of its workload. A pod alone always fits, so that no pod is left out.
func (n *node) holds(s Shape, p *placed, most int) bool {
	sum := n.used.plus(p.request)
	return len(n.pods) == 0 || sum.cpu <= s.CPU && sum.memory <= s.Memory && len(n.pods) < s.Pods && n.copies(p.workload) < most
}

func (n *node) add(p *placed) {
	n.used = n.used.plus(p.request)
	n.pods = append(n.pods, *p)
}

// firstFit places each pod on the first node with room that has no pod of the workload.
func firstFit(s Shape, pods []placed) [][]placed {
	var nodes []*node
	for i := range pods {
		to := slices.IndexFunc(nodes, func(n *node) bool { return n.holds(s, &pods[i], 1) })
		if to < 0 {
			to = len(nodes)
			nodes = append(nodes, &node{})
		}
		nodes[to].add(&pods[i])
	}
	return podsOf(nodes)
}

// leastAllocated places each pod on the node of which the smallest part is requested, the mean of CPU and memory, as the scheduler's
// NodeResourcesFit scores by default. The pods of a workload are spread. There are as few nodes as hold all pods.
func leastAllocated(s Shape, pods []placed) [][]placed {
	sum, of := load{}, map[int]int{}
	for i := range pods {
		sum = sum.plus(pods[i].request)
		of[pods[i].workload]++
	}
	for n := max(1, int(math.Ceil(sum.share(s))), (len(pods)+s.Pods-1)/s.Pods); n < len(pods); n++ {
		if nodes, ok := placeOn(n, s, pods, of); ok {
			return nodes
		}
	}
	return cluster.Each(pods, func(p *placed) []placed { return []placed{*p} })
}

// placeOn places pods on n nodes; false if they do not fit. of is the number of pods of each workload.
func placeOn(n int, s Shape, pods []placed, of map[int]int) ([][]placed, bool) {
	nodes := make([]*node, n)
	for i := range nodes {
		nodes[i] = &node{}
	}
	for i := range pods {
		var best *node
		most := (of[pods[i].workload] + n - 1) / n
		for _, c := range nodes {
			if (best == nil || c.allocated(s) < best.allocated(s)) && c.holds(s, &pods[i], most) {
				best = c
			}
		}
		if best == nil {
			return nil, false
		}
		best.add(&pods[i])
	}
	return podsOf(nodes), true
}

func (n *node) allocated(s Shape) float64 { return n.used.cpu/s.CPU + n.used.memory/s.Memory }

func podsOf(nodes []*node) [][]placed {
	var out [][]placed
	for _, n := range nodes {
		out = append(out, n.pods)
	}
	return out
}
