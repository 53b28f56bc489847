// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Workload is what was recorded of one workload.
type Workload struct {
	Key        cluster.Workload
	Pods       []string // names
	Containers []string // names
	Samples    []Sample // sorted by time
}

// A Sample is what one container of one pod used at a time.
type Sample struct {
	At          int64   // Unix seconds
	CPU, Memory float64 // cores and bytes
	Pod         int32   // index into Pods
	Container   int16   // index into Containers
	Has         cluster.Set
}

// Sort orders the samples by time; those of one time by pod and container.
func (w *Workload) Sort() {
	order := func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	}
	if !slices.IsSortedFunc(w.Samples, order) {
		slices.SortFunc(w.Samples, order)
	}
}

// Between returns the workload with only the samples from one time on and before another. Containers and pods keep
// their places. It shares the samples.
func (w *Workload) Between(from, before int64) Workload {
	at := func(s Sample, t int64) int { return cmp.Compare(s.At, t) }
	lo, _ := slices.BinarySearchFunc(w.Samples, from, at)
	hi, _ := slices.BinarySearchFunc(w.Samples, before, at)
	out := *w
	out.Samples = w.Samples[min(lo, hi):hi]
	return out
}

// A Change is a request from a time on.
type Change struct {
	At        int64 // Unix seconds
	Container int16 // index into the Workload's Containers
	Resource  cluster.Resource
	Request   int64 // millicores or bytes
}
