// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
)

// The nodes. A part of each is reserved for the system, as the local cluster does it.
const (
	nodeCount  = 3
	nodeCores  = 8
	nodeMemory = 32 << 30

	allocatableCPU    = nodeCores*1000 - 100     // millicores
	allocatableMemory = nodeMemory - 200*(1<<20) // bytes
)

// The workloads.
const (
	workloadCount = 40
	mostOfNode    = 0.5 // of a node's memory or CPU; workloads that use more are left out, as in a backtest
	historyDays   = 14
	leastSamples  = 0.75 // of the samples of the days before the one that is played, and of the time that is played

	// filled is the part of the nodes that upstream's requests fill at most. The rest is for what does not fit exactly.
	filled                      = 0.95
	smallestScale, largestScale = 3, 10 // fifths

	interval  = 300 // seconds between two samples
	day       = 24 * 3600
	intervals = 30 * 3600 / interval // that are played
)

// A machine is a workload of the trace, with its amounts scaled.
type machine struct {
	replay.Workload
	usage []load // of the intervals that are played
}

// A load is an amount of cores and bytes.
type load struct{ cpu, memory float64 }

// share returns the part of a number of nodes that an amount takes, of the resource of which it takes more.
func share(r cluster.Resources, nodes int) float64 {
	return max(float64(r.CPU)/allocatableCPU, float64(r.Memory)/allocatableMemory) / float64(nodes)
}

// A scene is the workloads, and the day that is played.
type scene struct {
	from     int64 // midnight (UTC), in Unix seconds
	scale    float64
	machines []machine
}

// choose chooses the workloads of a trace, and the day. All amounts are multiplied by one factor: of 0.6, 0.8 … 2, the one with which upstream's requests at
// the start of the day fill the nodes most, but at most 95 %. The workloads are the first ones by name of those whose usage is never above half of a node, with
// one pod and one container, and whose usage is known on 14 days before the day, and in the time that is played. The day is the hardest one for packed, because
// on most days all pods together do not use half of what they request.
func choose(all []replay.Workload) (scene, error) {
	upstream, packed := rules()[0], rules()[1]
	var best scene
	most := 0.0
	for fifths := smallestScale; fifths <= largestScale; fifths++ {
		scale := float64(fifths) / 5
		found := hardestDay(scaled(all, scale), &packed)
		var sum cluster.Resources
		for i := range found.machines {
			r := applied(replay.Run(new(found.machines[i].Between(0, found.from)), upstream.profile), found.from)
			sum = cluster.Amounts(sum.CPU+r.CPU, sum.Memory+r.Memory)
		}
		if part := share(sum, nodeCount); part > most && part <= filled {
			most, best = part, found
			best.scale = scale
		}
	}
	if most*nodeCount <= nodeCount-1 {
		return scene{}, fmt.Errorf("the trace has no day with %d workloads whose requests fill %d nodes", workloadCount, nodeCount)
	}
	return best, nil
}

// scaled returns the workloads with one pod and one container with their amounts multiplied, without those that are too large.
func scaled(all []replay.Workload, scale float64) (out []replay.Workload) {
	for _, w := range all {
		if len(w.Pods) != 1 || len(w.Containers) != 1 || slices.ContainsFunc(out, func(o replay.Workload) bool { return o.Key.Name == w.Key.Name }) {
			continue
		}
		w.Samples = slices.Clone(w.Samples)
		peak := load{}
		for i := range w.Samples {
			s := &w.Samples[i]
			s.CPU, s.Memory = s.CPU*scale, s.Memory*scale
			peak = load{max(peak.cpu, s.CPU), max(peak.memory, s.Memory)}
		}
		if peak.cpu*1000 <= mostOfNode*allocatableCPU && peak.memory <= mostOfNode*allocatableMemory {
			out = append(out, w)
		}
	}
	return out
}

// hardestDay returns the scene of the day on which enough workloads are known, and a node is nearest to being out of memory: the largest pods first are
// placed on the first node with room for their requests by a rule.
func hardestDay(all []replay.Workload, by *rule) (hardest scene) {
	first, last := int64(math.MaxInt64), int64(0)
	changes := make([][]replay.Change, len(all))
	for i := range all {
		s := all[i].Samples
		first, last = min(first, s[0].At), max(last, s[len(s)-1].At)
		changes[i] = replay.Run(&all[i], by.profile)
	}
	most := 0.0
	for start := (first/day + 1 + historyDays) * day; start < last; start += day {
		found := scene{from: start}
		var requests []cluster.Resources
		for i := range all {
			if len(found.machines) < workloadCount && isKnown(&all[i], start) {
				found.machines = append(found.machines, machine{all[i], played(&all[i], start)})
				requests = append(requests, applied(changes[i], start))
			}
		}
		if len(found.machines) < workloadCount {
			continue
		}
		if used := largestUse(found.machines, requests); used > most {
			most, hardest = used, found
		}
	}
	return hardest
}

// largestUse returns the largest part of a node's memory that its pods use, if each pod is on the first node with room for its request, the largest one first.
func largestUse(pods []machine, requests []cluster.Resources) (most float64) {
	order := make([]int, len(pods))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(share(requests[b], 1), share(requests[a], 1)) })
	type node struct {
		requested cluster.Resources
		used      [intervals]float64
	}
	var nodes []*node
	for _, i := range order {
		with := func(n *node) cluster.Resources {
			return cluster.Amounts(n.requested.CPU+requests[i].CPU, n.requested.Memory+requests[i].Memory)
		}
		at := slices.IndexFunc(nodes, func(n *node) bool { return share(with(n), 1) <= 1 })
		if at < 0 {
			at = len(nodes)
			nodes = append(nodes, &node{})
		}
		n := nodes[at]
		n.requested = with(n)
		for k, use := range pods[i].usage {
			n.used[k] += use.memory
			most = max(most, n.used[k]/allocatableMemory)
		}
	}
	return most
}

// isKnown reports whether enough of the usage of a workload is known in the days before a time, and in the time that is played.
func isKnown(w *replay.Workload, start int64) bool {
	return w.Samples[0].At <= start-(historyDays-1)*day && known(w, start-historyDays*day, start) >= leastSamples*historyDays*day/interval &&
		known(w, start, start+intervals*interval) >= leastSamples*intervals
}

// known returns the number of samples of both resources.
func known(w *replay.Workload, from, to int64) (n float64) {
	part := w.Between(from, to)
	for i := range part.Samples {
		if part.Samples[i].Has == cluster.Both {
			n++
		}
	}
	return n
}

// played returns the usage of the intervals: the mean CPU, and the highest memory. A missing sample has the usage of the one before.
func played(w *replay.Workload, start int64) []load {
	out := make([]load, intervals)
	last := load{}
	for i := -day / interval; i < intervals; i++ {
		from := start + int64(i)*interval
		part := w.Between(from, from+interval)
		sum, samples, highest := 0.0, 0.0, 0.0
		for k := range part.Samples {
			s := &part.Samples[k]
			if s.Has.Has(cluster.CPU) {
				sum, samples = sum+s.CPU, samples+1
			}
			highest = max(highest, s.Memory)
		}
		if samples > 0 {
			last.cpu = sum / samples
		}
		if highest > 0 {
			last.memory = highest
		}
		if i >= 0 {
			out[i] = last
		}
	}
	return out
}

// A rule determines the requests and the memory limits.
type rule struct {
	name    string // of the profile
	title   string
	profile recommend.Profile
	peaks   bool // memory limits follow the highest usage; else they are proportional times the request
}

// proportional is the memory limit relative to the request, as in a backtest.
const proportional = 1.5

// rules returns upstream's rule, and that of packed for the nodes.
func rules() []rule {
	upstream, _ := recommend.Builtin("default")
	packed, _ := recommend.Builtin("packed")
	packed = packed.For(criticality.Declared{}, fleet.NodeSizes{Memory: allocatableMemory, Copies: 1})
	return []rule{
		{name: "default", title: "upstream's rule", profile: upstream},
		{name: "packed", title: "packed", profile: packed, peaks: true},
	}
}

// A size is what a rule determines at a time.
type size struct {
	request cluster.Resources // of a running pod
	advice  cluster.Advice
	peak    int64 // highest memory usage of 14 days, in bytes
	limit   int64 // of memory, in bytes
}

// size returns the size of a workload. Only samples before the time count. Requests and recommendations are those of a backtest.
func (r *rule) size(w *replay.Workload, at int64) (out size) {
	past := w.Between(0, at)
	out.request = applied(replay.Run(&past, r.profile), at)
	for when, advice := range replay.Advice(&past, r.profile) {
		if when.After(time.Unix(at, 0)) {
			break
		}
		if len(advice) > 0 {
			out.advice = advice[0]
		}
	}
	recent := past.Between(at-historyDays*day, at)
	for i := range recent.Samples {
		out.peak = max(out.peak, int64(math.Ceil(recent.Samples[i].Memory)))
	}
	out.limit = r.limit(out.request.Memory, out.peak)
	return out
}

// applied returns the request of a running pod at a time.
func applied(changes []replay.Change, at int64) (out cluster.Resources) {
	for _, c := range changes {
		if c.At <= at {
			out = out.Set(c.Resource, c.Request)
		}
	}
	return out
}

// limit returns the memory limit for a request and a highest usage.
func (r *rule) limit(request, peak int64) int64 {
	if !r.peaks {
		return int64(proportional * float64(request))
	}
	return int64(min(policy.LimitOf(float64(peak)), allocatableMemory))
}
