// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/usage"
)

// A Packing is how many nodes the pods of a cluster need.
type Packing struct {
	Known   bool
	Nodes   int     // nodes of the cluster
	Gone    int     // of these, nodes that could go with the recommended requests
	Already int     // of these, nodes that could go with the present requests
	Money   float64 // price of the nodes that could go, in a month
	Short   *int    // of the nodes that stay, most that may be short of memory; nil unless the first profile sizes pods for full nodes
	steps   int     // nodes compared with pods; a test checks that it grows slowly
}

// pack returns how many nodes could go.
func (r *Report) pack() Packing {
	all := map[usage.Ref]wanted{}
	for _, row := range r.Rows {
		if row.Confidence > None {
			all[usage.Ref{Workload: row.Workload, Container: row.Container}] = row.wanted()
		}
	}
	after, on, steps := r.fill(all)
	before, _, more := r.fill(nil)
	out := Packing{Known: true, Nodes: len(r.Nodes), steps: steps + more}
	for i := range r.Nodes {
		if !after[i] {
			out.Gone++
			out.Money += r.Prices.At(r.Nodes[i].Name).Of(r.Nodes[i].Allocatable)
		}
		if !before[i] {
			out.Already++
		}
	}
	if slices.ContainsFunc(r.Rows, func(row *Row) bool { return row.Packs }) {
		out.Short = new(r.short(all, on))
	}
	return out
}

// short returns how many nodes have pods whose highest memory usages on one of the last days exceed the node together, although they may be at
// different times. A usage that is not known counts as the request.
func (r *Report) short(all map[usage.Ref]wanted, on map[*cluster.Pod]int) (n int) {
	used := make([][PeakDays]int64, len(r.Nodes))
	for pod, at := range on {
		for _, c := range pod.Containers {
			requests, _ := c.Running()
			for day, peak := range all[usage.Ref{Workload: pod.Top, Container: c.Name}].peaks {
				used[at][day] += cmp.Or(peak, requests.Memory)
			}
		}
	}
	for i := range used {
		if float64(slices.Max(used[i][:])) > packing.ShortAt*float64(r.Nodes[i].Allocatable.Memory) {
			n++
		}
	}
	return n
}

// wanted is what a container should request.
type wanted struct {
	requests cluster.Resources
	own      map[string]cluster.Resources // by pod, of those whose role has a size of its own
	peaks    [PeakDays]int64              // highest memory usage of the last days, in bytes; 0: not known
}

func (r *Row) wanted() wanted {
	out := wanted{requests: r.Request, peaks: r.Evidence.DayPeaks}
	for i := range r.Places {
		if p := &r.Places[i]; !p.Own.Has.Empty() {
			cluster.Put(&out.own, p.Pod, r.requestIn(p))
		}
	}
	return out
}

// requestsOf returns the requests of a pod that the scheduler counts, with other requests for some containers.
func requestsOf(p *cluster.Pod, all map[usage.Ref]wanted) cluster.Resources {
	sizes := make([]cluster.Resources, len(p.Containers))
	for i := range p.Containers {
		of := all[usage.Ref{Workload: p.Top, Container: p.Containers[i].Name}]
		sizes[i] = of.requests
		if own, has := of.own[p.Name]; has {
			sizes[i] = own
		}
	}
	return RequestsOf(p, sizes)
}

// RequestsOf returns the requests of a pod that the scheduler counts. wanted may have other requests for its containers that are no init
// containers, in their order; a resource that is not set keeps its request.
func RequestsOf(p *cluster.Pod, wanted []cluster.Resources) cluster.Resources {
	total := p.Total(func(i int) cluster.Resources {
		requests, _ := p.Containers[i].Running()
		if wanted != nil && p.Containers[i].IsSized() {
			requests = wanted[i].Or(requests)
		}
		return requests
	})
	if p.PodLevel == nil {
		return total
	}
	own := p.Total(func(i int) cluster.Resources { requests, _ := p.Containers[i].Running(); return requests })
	for _, res := range cluster.All {
		level, ok := p.PodLevel.Requests.Get(res)
		if !ok {
			continue
		}
		changes, complete := false, true // podfit sets the pod-level request to the sum of the containers if all have a request
		for i := range wanted {
			have, _ := p.Containers[i].Running()
			to, known := wanted[i].Get(res)
			isSized := p.Containers[i].IsSized()
			changes = changes || isSized && known && (to != have.Amount(res) || !have.Has.Has(res))
			complete = complete && (!isSized || known || have.Has.Has(res))
		}
		switch sum := total.Amount(res); {
		case !changes:
			total = total.Set(res, level)
		case !complete:
			total = total.Set(res, max(level+sum-own.Amount(res), sum))
		}
	}
	return total
}

// An item is a pod that can be on any node that accepts it.
type item struct {
	pod      *cluster.Pod
	requests cluster.Resources
	share    float64 // the larger of its shares of the largest node
}

// fill assigns pods to nodes, first-fit-decreasing, and returns for each node whether it is needed, the node of each pod, and how many nodes were compared
// with pods.
// Pods of DaemonSets stay on their nodes. So do pods that may not be able to move: those without a controller, with data on the node, or with
// constraints that are not known here. A node with such a pod is needed.
func (c *Config) fill(all map[usage.Ref]wanted) (needed []bool, on map[*cluster.Pod]int, steps int) {
	free := make([]cluster.Resources, len(c.Nodes))
	needed = make([]bool, len(c.Nodes))
	index := make(map[string]int, len(c.Nodes))
	on = make(map[*cluster.Pod]int, len(c.Pods))
	var largest cluster.Resources
	for i := range c.Nodes {
		n := &c.Nodes[i]
		free[i] = cluster.Amounts(n.Allocatable.CPU, n.Allocatable.Memory)
		index[n.Name] = i
		largest = cluster.Amounts(max(largest.CPU, free[i].CPU), max(largest.Memory, free[i].Memory))
		needed[i] = !n.TakesPods() // its pods move for another reason
	}
	var items []item
	for _, pod := range c.Pods {
		if !pod.Live() {
			continue
		}
		requests := requestsOf(pod, all)
		at, known := index[pod.Node]
		isDaemon := pod.Controller.Kind == "DaemonSet"
		switch {
		case !known:
			continue // it waits for a node, or its node is gone
		case isDaemon || stays(pod):
			free[at] = cluster.Amounts(free[at].CPU-requests.CPU, free[at].Memory-requests.Memory)
			needed[at] = needed[at] || !isDaemon
			on[pod] = at
			continue
		}
		share := max(float64(requests.CPU)/float64(max(largest.CPU, 1)), float64(requests.Memory)/float64(max(largest.Memory, 1)))
		items = append(items, item{pod, requests, share})
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(b.share, a.share), a.pod.Compare(b.pod.Key)) })
	tree := newRoom(c.order(needed), free)
	sizes := placement.SizesOf(c.Nodes, c.Selectors, c.Tolerations, nil)
	for i := range items {
		pod := items[i].pod
		accepts, _ := sizes.Accepting(pod.Reach())
		at := tree.place(items[i].requests, func(node int) bool {
			n := &c.Nodes[node]
			return n.TakesPods() && accepts(n) || !n.TakesPods() && n.Name == pod.Node
		})
		if at < 0 {
			at = index[pod.Node] // it fits nowhere else, and runs where it is
		}
		needed[at] = true
		on[pod] = at
	}
	return needed, on, tree.steps
}

// stays reports whether a pod may not be able to move to another node.
func stays(p *cluster.Pod) bool {
	return p.Controller.IsZero() || p.LocalData || p.Tied || p.Place == cluster.Somewhere || p.Tolerance == cluster.Unlisted
}

// order returns the nodes in the order in which they are filled: needed ones first, then the largest.
func (c *Config) order(needed []bool) []int {
	order := make([]int, len(c.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x := &c.Nodes[a]
		y := &c.Nodes[b]
		return cmp.Or(integer.FalseFirst(!needed[a], !needed[b]), cmp.Compare(y.Allocatable.CPU, x.Allocatable.CPU),
			cmp.Compare(y.Allocatable.Memory, x.Allocatable.Memory), cmp.Compare(x.Name, y.Name))
	})
	return order
}

// room is the free room on nodes in an order, as a tree: each inner vertex has the most free CPU and the most free memory below it, so
// that the first node with enough room is found without a look at each node.
type room struct {
	order []int // nodes
	most  []cluster.Resources
	width int // number of leaves
	steps int
}

func newRoom(order []int, free []cluster.Resources) *room {
	width := 1
	for width < len(order) {
		width *= 2
	}
	t := &room{order: order, most: slices.Repeat([]cluster.Resources{cluster.Amounts(-1, -1)}, 2*width), width: width}
	for i, node := range order {
		t.most[width+i] = free[node]
	}
	for v := width - 1; v > 0; v-- {
		t.update(v)
	}
	return t
}

func (t *room) update(v int) {
	t.most[v] = t.most[2*v].Highest(t.most[2*v+1])
}

// place takes requests from the first node that has room and accepts the pod. It returns -1 if there is none.
func (t *room) place(requests cluster.Resources, accepts func(node int) bool) int {
	at := t.first(1, requests, accepts)
	if at < 0 {
		return -1
	}
	leaf := &t.most[t.width+at]
	*leaf = cluster.Amounts(leaf.CPU-requests.CPU, leaf.Memory-requests.Memory)
	for v := (t.width + at) / 2; v > 0; v /= 2 {
		t.update(v)
	}
	return t.order[at]
}

// first returns the position of the first node below a vertex that has room and accepts the pod, or -1.
func (t *room) first(v int, requests cluster.Resources, accepts func(node int) bool) int {
	t.steps++
	if t.most[v].CPU < requests.CPU || t.most[v].Memory < requests.Memory {
		return -1
	}
	if v >= t.width {
		at := v - t.width
		if at < len(t.order) && accepts(t.order[at]) {
			return at
		}
		return -1
	}
	if at := t.first(2*v, requests, accepts); at >= 0 {
		return at
	}
	return t.first(2*v+1, requests, accepts)
}

// HoursPerMonth is the number of hours in a month, by which prices per hour are multiplied.
const HoursPerMonth = 730

// A Price is the price of resources for one hour.
type Price struct{ Core, GiB float64 }

// Of returns the price of an amount for one month.
func (p Price) Of(r cluster.Resources) float64 {
	return (float64(float64(r.CPU)/1000*p.Core) + float64(float64(r.Memory)/(1<<30)*p.GiB)) * HoursPerMonth
}

// AssumedPrice is the on-demand price of a general-purpose machine at a large cloud provider, in US dollars. It ranks waste if no prices
// are known: only its ratio matters.
func AssumedPrice() Price { return Price{Core: 0.031611, GiB: 0.004237} }

// Prices are the prices of the nodes of a cluster.
type Prices struct {
	PriceSource
	Default Price // of pods that are not on one of Nodes
	Nodes   map[string]Price
}

// A PriceSource is where prices are from, as in JSON.
type PriceSource struct {
	Currency string `json:"currency"` // "" if no prices are known or wanted
	From     string `json:"from"`
	Assumed  bool   `json:"assumed"` // they are an assumption: only their ratio has a meaning
}

// Known reports whether there are prices.
func (p *Prices) Known() bool { return p.Currency != "" }

// At returns the price on a node.
func (p *Prices) At(node string) Price {
	if !p.Known() {
		return AssumedPrice()
	}
	if price, known := p.Nodes[node]; known {
		return price
	}
	return p.Default
}
