// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// Workloads are the workloads whose usage is being read.
type Workloads map[cluster.Workload]*Index

// Of returns the Index of a workload, and adds the workload if it is new.
func (w Workloads) Of(key cluster.Workload) *Index {
	if w[key] == nil {
		w[key] = &Index{Workload: replay.Workload{Key: key}, pods: map[string]int32{}, containers: map[string]int16{}}
	}
	return w[key]
}

// Sorted returns the workloads with usage sorted by key, with their samples sorted.
func (w Workloads) Sorted() []replay.Workload {
	var out []replay.Workload
	for _, x := range w {
		if len(x.Samples) > 0 {
			x.Sort()
			out = append(out, x.Workload)
		}
	}
	slices.SortFunc(out, func(a, b replay.Workload) int { return a.Key.Compare(b.Key) })
	return out
}

// An Index is a workload whose usage is being read.
type Index struct {
	replay.Workload
	pods       map[string]int32 // indices into Pods
	containers map[string]int16 // indices into Containers
}

// PodIndex returns the index of a pod, and adds the pod if it is new.
func (x *Index) PodIndex(name string) int32 { return indexOf(x.pods, &x.Pods, name) }

// ContainerIndex returns the index of a container, and adds the container if it is new. It returns false if there are too
// many.
func (x *Index) ContainerIndex(name string) (int16, bool) {
	if _, known := x.containers[name]; !known && len(x.Containers) == math.MaxUint8 {
		return 0, false
	}
	return indexOf(x.containers, &x.Containers, name), true
}

// indexOf returns the index of a name, and adds the name if it is new.
func indexOf[I int16 | int32](known map[string]I, names *[]string, name string) I {
	i, ok := known[name]
	if !ok {
		i = I(len(*names))
		known[name] = i
		*names = append(*names, name)
	}
	return i
}
