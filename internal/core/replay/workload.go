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
