// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package packing measures what the requests of a backtest mean for nodes: how many of one size a cluster needs, how often the usage of the pods on
// a node exceeds it, and how often a container exceeds its memory limit.
//
// Pods are placed once a day, by the requests that are known at the start of the day. Packing by the largest request of the coming day would use
// knowledge of the future; it is reported beside it, because a cluster must have the nodes for it.
package packing

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

const (
	// ShortAt is the fraction of a node's allocatable memory above which it is short of memory.
	ShortAt = 0.97

	// DefaultPods is how many pods the kubelet runs on a node by default.
	DefaultPods = 110

	halves     = 10  // random halves of the workloads, each pod twice
	mostOfNode = 0.5 // of a node's memory or CPU; pods that have used more are left out
)

// A Shape is the allocatable resources of a node: cores, bytes, and the number of pods; how often each pod of the recording runs; and how many pods of a
// workload profile packed expects on a node. None is 0.
type Shape struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   int     `json:"pods"`
	Copies int     `json:"replicas"`
	OnNode int     `json:"copies"`
}

// Sizes returns the node for which profile packed sizes pods.
func (s Shape) Sizes() fleet.NodeSizes {
	return fleet.NodeSizes{Memory: int64(s.Memory), Copies: s.OnNode}
}

// A Result is the figures of one recommender.
type Result struct {
	Recommender string `json:"recommender"`
	index       int    // of the recommender in the comparison

	Nodes      float64 `json:"nodes"`             // placed as the scheduler does (least allocated) on as few nodes as hold the requests at the start of the day; mean over the days
	FirstFit   float64 `json:"nodes_first_fit"`   // the largest pods first, each on the first node with room
	DayMaximum float64 `json:"nodes_day_maximum"` // as Nodes, by the largest requests of each day
	Ratio      float64 `json:"ratio"`             // Nodes to those of the first recommender
	RatioFrom  float64 `json:"ratio_from"`        // smallest and largest ratio of all workloads, and of random halves of them with the pods doubled
	RatioTo    float64 `json:"ratio_to"`
	NodeDays   int     `json:"node_days"`           // nodes on all days together
	TooLarge   int     `json:"too_large,omitempty"` // most pods on one day with a request above a node; each counts as one node

	// They are nil without samples of the resource.
	Short     *float64 `json:"short,omitempty"`           // part of the node-days in which the memory usage of the pods exceeded 97 % of the node at least once
	ShortFit  *float64 `json:"short_first_fit,omitempty"` // the same for FirstFit
	ShortTo   *float64 `json:"short_to,omitempty"`        // the largest Short, as RatioTo
	Saturated *float64 `json:"cpu_saturated,omitempty"`   // part of the 5-minute intervals in which the CPU usage of the pods exceeded the node

	// The part of the container-days without memory usage above 1.5 × the request at the start of the day, and above the limit by the highest usage at
	// that time (recommend.MemoryLimit), at most the node. They are nil without samples of memory, and for profiles that keep limits.
	KillFreeProportional *float64 `json:"kill_free_proportional,omitempty"`
	KillFreePeaks        *float64 `json:"kill_free_peaks,omitempty"`

	Copies   int       `json:"most_copies,omitempty"` // half of the node-days have so many pods of a workload, or more, if that is more than they are sized for
	Culprits []Culprit `json:"culprits,omitempty"`    // that made nodes short, most often first
}

// A Culprit is a workload whose usage exceeded its request by the most when nodes were short of memory.
type Culprit struct {
	Workload string      `json:"workload"`
	NodeDays int         `json:"node_days"`
	Short    []ShortNode `json:"short"` // the node-days, in order of time
}

// A ShortNode is a node that was short of memory on a day.
type ShortNode struct {
	Day  string  `json:"day"`  // such as 2026-03-01, in UTC
	Node int     `json:"node"` // its number on this day, from 1
	Used float64 `json:"used"` // most memory usage of its pods, relative to the node
}

// Report is the figures of several recommenders for one shape of nodes.
type Report struct {
	Shape   Shape    `json:"node"`
	Days    int      `json:"days"`               // on which a pod was measured
	Pods    int      `json:"pods"`               // measured; a pod that followed another one of its workload is not counted again
	LeftOut []string `json:"left_out,omitempty"` // workloads whose peak exceeds half of a node
	Sparse  int      `json:"sparse,omitempty"`   // workloads whose samples are mostly more than an hour apart
	Results []Result `json:"recommenders"`       // in the order of the comparison; none if no pod was measured
}

// A packer places the pods of a trace on nodes of a shape, until it has to stop.
type packer struct {
	*Trace
	shape Shape
	stop  func() bool
}

// Measure packs the pods of a comparison on nodes of a shape. Workloads whose peak exceeds half of a node are left out, and so are recommenders that size
// pods for nodes with other memory. shuffle draws the random halves; it is that of math/rand. If stop returns true, Measure returns soon, and the report
// is not complete.
func (t *Trace) Measure(shape Shape, shuffle func(n int, swap func(i, j int)), stop func() bool) Report {
	out := Report{Shape: shape, Results: []Result{}}
	var fit []int
	days := map[int]bool{}
	for i, w := range t.workloads {
		if w.peak.cpu > mostOfNode*shape.CPU || w.peak.memory > mostOfNode*shape.Memory {
			out.LeftOut = append(out.LeftOut, w.name)
			continue
		}
		fit = append(fit, i)
		out.Pods += w.measured(days) * shape.Copies
		if 2*w.alone > w.readings {
			out.Sparse++
		}
	}
	out.Days = len(days)
	if out.Days == 0 {
		return out
	}
	p := &packer{Trace: t, shape: shape, stop: stop}
	for k := range t.recommenders {
		if of := t.recommenders[k].PackedFor(); of.Memory != 0 && of != shape.Sizes() {
			continue
		}
		r := p.result(k, fit)
		if len(out.Results) > 0 {
			r.Ratio = r.Nodes / out.Results[0].Nodes
		}
		r.RatioFrom, r.RatioTo = r.Ratio, r.Ratio
		out.Results = append(out.Results, r)
	}
	p.shape.Copies *= 2
	for range halves {
		half := slices.Clone(fit)
		shuffle(len(half), func(i, j int) { half[i], half[j] = half[j], half[i] })
		p.widen(out.Results, half[:(len(half)+1)/2])
	}
	return out
}

// widen extends the ranges of the results to those of some workloads.
func (p *packer) widen(results []Result, workloads []int) {
	base := 0.0
	for i := range results {
		r := &results[i]
		days := p.pack(r.index, workloads, leastAllocated, atStart)
		if i == 0 {
			base = days.mean()
		}
		if base > 0 { // else no pod of these workloads was measured
			r.RatioFrom, r.RatioTo = min(r.RatioFrom, days.mean()/base), max(r.RatioTo, days.mean()/base)
		}
		if short := days.short(); short != nil {
			r.ShortTo = new(max(*r.ShortTo, *short))
		}
	}
}

func (p *packer) result(k int, workloads []int) Result {
	scheduled, fitted := p.pack(k, workloads, leastAllocated, atStart), p.pack(k, workloads, firstFit, atStart)
	most := p.pack(k, workloads, leastAllocated, largest)
	r := Result{
		Recommender: p.recommenders[k].Name, index: k, Ratio: 1,
		Nodes: scheduled.mean(), FirstFit: fitted.mean(), DayMaximum: most.mean(), NodeDays: scheduled.nodes, TooLarge: scheduled.tooLarge,
		Short: scheduled.short(), ShortFit: fitted.short(), ShortTo: scheduled.short(),
		Saturated: scheduled.share(cluster.CPU, scheduled.saturated, perDay),
	}
	slices.Sort(scheduled.copies)
	if n := len(scheduled.copies); n > 0 && p.recommenders[k].Packs() && scheduled.copies[n/2] > p.shape.OnNode {
		r.Copies = scheduled.copies[n/2]
	}
	for _, w := range slices.SortedFunc(maps.Keys(scheduled.culprits), func(a, b int) int {
		return cmp.Or(cmp.Compare(len(scheduled.culprits[b]), len(scheduled.culprits[a])), cmp.Compare(a, b))
	}) {
		r.Culprits = append(r.Culprits, Culprit{p.workloads[w].name, len(scheduled.culprits[w]), scheduled.culprits[w]})
	}
	r.KillFreeProportional, r.KillFreePeaks = p.killFree(k, workloads)
	return r
}

const proportional = 1.5 // limit to request

// killFree returns Result.KillFreeProportional and KillFreePeaks. A container without a limit is not killed. The limits of a profile that keeps them are
// those of the pods, which a trace does not have.
func (p *packer) killFree(k int, workloads []int) (byRequest, byPeaks *float64) {
	all, free := 0, [2]int{}
	for _, i := range workloads {
		w := p.workloads[i]
		for container, peaks := range w.peaks {
			for day, peak := range peaks {
				if day < w.first || peak == 0 { // not measured, or not running
					continue
				}
				all++
				for i, limit := range [...]float64{proportional * w.requests[k][day].memory[container], min(float64(w.limits[container][day]), p.shape.Memory)} {
					if limit == 0 || peak <= limit {
						free[i]++
					}
				}
			}
		}
	}
	if all == 0 || p.recommenders[k].MemoryLimits.Keep {
		return nil, nil
	}
	return new(float64(free[0]) / float64(all)), new(float64(free[1]) / float64(all))
}

// days is what happens on the nodes in all days.
type days struct {
	days, nodes int   // node-days
	shortages   int   // node-days
	saturated   int   // node-intervals
	tooLarge    int   // most pods on one day whose request exceeds a node
	copies      []int // by node-day: the most pods of a workload
	culprits    map[int][]ShortNode
	has         cluster.Set // resources with samples
}

func (d *days) mean() float64   { return float64(d.nodes) / float64(max(1, d.days)) }
func (d *days) short() *float64 { return d.share(cluster.Memory, d.shortages, 1) }

// share returns n as a part of the node-days, or of so many intervals of each, nil without samples of the resource.
func (d *days) share(res cluster.Resource, n, intervals int) *float64 {
	if !d.has.Has(res) {
		return nil
	}
	return new(float64(n) / float64(max(1, d.nodes*intervals)))
}

// atStart and largest select the requests of a day.
func atStart(r requests) load { return r.start }
func largest(r requests) load { return r.most }

// pack places the pods of some workloads every day and measures their usage on the nodes.
func (p *packer) pack(k int, workloads []int, place func(*packer, []placed) []*node, of func(requests) load) *days {
	out := &days{culprits: map[int][]ShortNode{}}
	for _, day := range p.days {
		if p.stop() {
			break
		}
		var pods []placed
		tooLarge := 0
		for _, i := range workloads {
			w := p.workloads[i]
			for _, pod := range w.pods {
				if usage := pod[day]; usage != nil {
					pods = append(pods, slices.Repeat([]placed{{workload: i, request: of(w.requests[k][day]), usage: usage}}, p.shape.Copies)...)
					out.has |= w.has
				}
			}
		}
		if len(pods) == 0 {
			continue
		}
		slices.SortStableFunc(pods, func(a, b placed) int { return cmp.Compare(b.request.share(p.shape), a.request.share(p.shape)) })
		for tooLarge < len(pods) && pods[tooLarge].request.share(p.shape) > 1 {
			tooLarge++
		}
		out.tooLarge = max(out.tooLarge, tooLarge)
		out.days++
		date := time.Unix(p.origin+int64(day)*daySeconds, 0).UTC().Format(time.DateOnly)
		for i, node := range place(p, pods) {
			together := 1
			for i := range node.pods {
				together = max(together, node.copies(node.pods[i].workload))
			}
			out.copies = append(out.copies, together)
			out.observe(p.shape, node.pods, ShortNode{Day: date, Node: i + 1})
		}
	}
	return out
}

// observe measures the usage of the pods of a node on one day.
func (d *days) observe(shape Shape, pods []placed, node ShortNode) {
	d.nodes++
	var sums [perDay]load
	for p := range pods {
		for i, used := range pods[p].usage {
			sums[i] = sums[i].plus(used)
		}
	}
	worst, at := 0.0, 0
	for i, sum := range sums {
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
	if over[culprit] > 0 {
		node.Used = worst / shape.Memory
		d.culprits[culprit] = append(d.culprits[culprit], node)
	}
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
func firstFit(p *packer, pods []placed) (nodes []*node) {
	for i := range pods {
		to := slices.IndexFunc(nodes, func(n *node) bool { return n.holds(p.shape, &pods[i], 1) })
		if to < 0 {
			to = len(nodes)
			nodes = append(nodes, &node{})
		}
		nodes[to].add(&pods[i])
	}
	return nodes
}

// leastAllocated places each pod on the node of which the smallest part is requested, the mean of CPU and memory, as the scheduler's
// NodeResourcesFit scores by default. The pods of a workload are spread. There are as few nodes as hold all pods.
func leastAllocated(p *packer, pods []placed) []*node {
	s := p.shape
	sum, of := load{}, map[int]int{}
	for i := range pods {
		sum = sum.plus(pods[i].request)
		of[pods[i].workload]++
	}
	for n := max(1, int(math.Ceil(sum.share(s))), (len(pods)+s.Pods-1)/s.Pods); n < len(pods) && !p.stop(); n++ {
		if nodes, ok := placeOn(n, s, pods, of); ok {
			return nodes
		}
	}
	return cluster.Each(pods, func(p *placed) *node { return &node{pods: []placed{*p}} })
}

// placeOn places pods on n nodes; false if they do not fit. of is the number of pods of each workload.
func placeOn(n int, s Shape, pods []placed, of map[int]int) ([]*node, bool) {
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
	return nodes, true
}

func (n *node) allocated(s Shape) float64 { return n.used.cpu/s.CPU + n.used.memory/s.Memory }
