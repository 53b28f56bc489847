// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
)

// pods is the number of pods that a container runs in, as a step function of time: from at[i] on there are count[i] pods.
// Before the first step, and where there are no samples, the number is 1: the request stays while nothing is measured.
type pods struct {
	at    []int64
	count []int32
	sum   []float64 // pod-seconds from at[0] to at[i]
}

// silentPod is the longest gap between two samples, in seconds, during which a pod counts as running. If samples are less
// frequent, it is twice their interval.
const silentPod = 3600

// podsOf returns the number of pods of each container of a workload. A pod runs from each of its samples to the next, unless
// the gap is longer than silentPod and than twice the median interval.
func podsOf(workload *Workload) []pods {
	type key struct{ container, pod int32 }
	times := map[key][]int64{}
	for i := range workload.Samples {
		sample := &workload.Samples[i]
		k := key{int32(sample.Container), sample.Pod}
		times[k] = append(times[k], sample.At)
	}
	type edge struct {
		at    int64
		delta int32
	}
	edges := make([][]edge, len(workload.Containers))
	for k, at := range times {
		step := medianStep(at)
		gap := max(silentPod, 2*step)
		from := at[0]
		for i := 1; i <= len(at); i++ {
			if i < len(at) && at[i]-at[i-1] <= gap {
				continue
			}
			edges[k.container] = append(edges[k.container], edge{from, 1}, edge{at[i-1] + step, -1})
			if i < len(at) {
				from = at[i]
			}
		}
	}
	out := make([]pods, len(workload.Containers))
	for container, changes := range edges {
		slices.SortFunc(changes, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
		running := int32(0)
		for _, e := range changes { // of several at the same time, the last counts
			running += e.delta
			out[container].add(e.at, max(running, 1))
		}
	}
	return out
}

func (p *pods) add(at int64, count int32) {
	sum := 0.0
	if k := len(p.at) - 1; k >= 0 {
		sum = p.sum[k] + float64(p.count[k])*float64(at-p.at[k])
	}
	p.at = append(p.at, at)
	p.count = append(p.count, count)
	p.sum = append(p.sum, sum)
}

// medianStep returns the median interval between sorted times, 0 if there are fewer than two.
func medianStep(at []int64) int64 {
	if len(at) < 2 {
		return 0
	}
	steps := make([]int64, 0, len(at)-1)
	for i := 1; i < len(at); i++ {
		steps = append(steps, at[i]-at[i-1])
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

func (p *pods) seconds(from, to int64) float64 { return p.until(to) - p.until(from) }

// until returns the pod-seconds from the first step to a time. Before the first step they are negative.
func (p *pods) until(at int64) float64 {
	if len(p.at) == 0 {
		return float64(at)
	}
	k, found := slices.BinarySearch(p.at, at)
	if !found {
		k--
	}
	if k < 0 {
		return float64(at - p.at[0])
	}
	return p.sum[k] + float64(p.count[k])*float64(at-p.at[k])
}
