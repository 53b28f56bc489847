// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
)

// pods is the number of pods that a container runs in, as a step function of time: from at[i] on there are count[i] pods. Before
// the first step, and wherever there are no samples, there is one: its request stays while nothing is measured.
type pods struct {
	at    []int64
	count []int32
	sum   []float64 // pod-seconds from at[0] to at[i]
}

// silentPod is how long a pod may have no sample and still be there, in seconds; longer when samples are rarer than that.
const silentPod = 3600

// podsOf returns the pods of each container of a workload. A pod is there from each of its samples to the next, if that comes within
// silentPod or twice the usual time between two samples.
func podsOf(w *Workload) []pods {
	type key struct{ container, pod int32 }
	times := map[key][]int64{}
	for i := range w.Samples {
		s := &w.Samples[i]
		k := key{int32(s.Container), s.Pod}
		times[k] = append(times[k], s.At)
	}
	type edge struct {
		at    int64
		delta int32
	}
	edges := make([][]edge, len(w.Containers))
	for k, at := range times {
		step := usualStep(at)
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
	out := make([]pods, len(w.Containers))
	for c, es := range edges {
		slices.SortFunc(es, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
		p, n := &out[c], int32(0)
		for i, e := range es {
			n += e.delta
			if i+1 < len(es) && es[i+1].at == e.at {
				continue
			}
			if count := max(n, 1); len(p.count) == 0 || p.count[len(p.count)-1] != count {
				p.step(e.at, count)
			}
		}
	}
	return out
}

func (p *pods) step(at int64, count int32) {
	sum := 0.0
	if k := len(p.at) - 1; k >= 0 {
		sum = p.sum[k] + float64(p.count[k])*float64(at-p.at[k])
	}
	p.at, p.count, p.sum = append(p.at, at), append(p.count, count), append(p.sum, sum)
}

// usualStep returns the median time between two samples, 0 when there are not two. The times are sorted.
func usualStep(at []int64) int64 {
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

// seconds returns the pod-seconds from one time until another.
func (p *pods) seconds(from, to int64) float64 { return p.until(to) - p.until(from) }

// until returns the pod-seconds from the first step until a time; before the first step they are negative.
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
