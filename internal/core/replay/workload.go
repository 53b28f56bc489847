// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A Workload is the recorded usage of one workload.
type Workload struct {
	Key        cluster.Workload
	Pods       []string // names
	Containers []string // names
	Samples    []Sample // sorted by time
}

// A Sample is the usage of one container of one pod at one time.
type Sample struct {
	At          int64   // Unix seconds
	CPU, Memory float64 // cores and bytes
	Pod         int32   // index into Pods
	Container   int16   // index into Containers
	Has         cluster.Set
}

// Used returns the usage of one resource, in cores or bytes.
func (s *Sample) Used(res cluster.Resource) float64 { return cluster.Pick(res, s.CPU, s.Memory) }

// Sort sorts the samples by time, then by pod and container.
func (w *Workload) Sort() {
	order := func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	}
	if !slices.IsSortedFunc(w.Samples, order) {
		slices.SortFunc(w.Samples, order)
	}
}

// Between returns the workload with only the samples at or after from and before before. Containers and pods keep their
// indices. The samples are shared, not copied.
func (w *Workload) Between(from, before int64) Workload {
	at := func(s Sample, t int64) int { return cmp.Compare(s.At, t) }
	first, _ := slices.BinarySearchFunc(w.Samples, from, at)
	end, _ := slices.BinarySearchFunc(w.Samples, before, at)
	out := *w
	out.Samples = w.Samples[min(first, end):end]
	return out
}

// Usage yields the samples of the workload, sorted by time, with CPU in whole millicores, as the Metrics API reports it.
func (w *Workload) Usage() iter.Seq[usage.Sample] {
	return func(yield func(usage.Sample) bool) {
		for i := range w.Samples {
			s := &w.Samples[i]
			sample := usage.Sample{
				Pod: w.podKey(s.Pod), Container: w.Containers[s.Container], At: time.Unix(s.At, 0).UTC(),
				CPU: wholeMillicores(s.CPU), Memory: s.Memory, Has: s.Has,
			}
			if !yield(sample) {
				return
			}
		}
	}
}

func (w *Workload) podKey(pod int32) cluster.Key {
	return cluster.Key{Namespace: w.Key.Namespace, Name: w.Pods[pod]}
}

// A Change is a new request of a container, which holds until the next Change.
type Change struct {
	At        int64 // Unix seconds
	Container int16 // index into the Workload's Containers
	Resource  cluster.Resource
	Request   int64 // millicores or bytes
}

// ChangesOf returns the changes of one resource of one container.
func ChangesOf(all []Change, container int, res cluster.Resource) []Change {
	return slices.DeleteFunc(slices.Clone(all), func(c Change) bool { return int(c.Container) != container || c.Resource != res })
}

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
