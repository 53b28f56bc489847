// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// An Index is a workload whose usage is being read.
type Index struct {
	replay.Workload
	pods       map[string]int32 // indices into Pods
	containers map[string]int16 // indices into Containers
}

// NewIndex returns a workload without usage.
func NewIndex(key cluster.Workload) Index {
	return Index{Workload: replay.Workload{Key: key}, pods: map[string]int32{}, containers: map[string]int16{}}
}

// PodIndex returns the index of a pod, and adds the pod if it is new.
func (x *Index) PodIndex(name string) int32 {
	i, ok := x.pods[name]
	if !ok {
		i = int32(len(x.Pods))
		x.pods[name] = i
		x.Pods = append(x.Pods, name)
	}
	return i
}

// ContainerIndex returns the index of a container, and adds the container if it is new. It returns false if there are too
// many.
func (x *Index) ContainerIndex(name string) (int16, bool) {
	i, ok := x.containers[name]
	if ok {
		return i, true
	}
	if len(x.Containers) == math.MaxUint8 {
		return 0, false
	}
	i = int16(len(x.Containers))
	x.containers[name] = i
	x.Containers = append(x.Containers, name)
	return i, true
}

// Sorted returns the workloads sorted by key, with their samples sorted.
func Sorted(read []*Index) []replay.Workload {
	out := make([]replay.Workload, 0, len(read))
	for _, x := range read {
		x.Sort()
		out = append(out, x.Workload)
	}
	slices.SortFunc(out, func(a, b replay.Workload) int { return a.Key.Compare(b.Key) })
	return out
}
