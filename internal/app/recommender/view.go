// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

// A view contains the input of a pass that all steps use.
type view struct {
	*cluster.Snapshot
	served      []*cluster.Autoscaler
	governing   map[cluster.Workload]*cluster.Autoscaler // the elected autoscaler of each target of a served one
	assignments sizing.Assignments                       // of the same workloads
	fleet       *fleet.Fleet                             // the sizes of the nodes

	electing memo[cluster.Workload, *cluster.Autoscaler] // elected
	applied  memo[cluster.Workload, *cluster.Autoscaler] // of all autoscalers, the one that is applied to the pods
	podsSeen memo[cluster.Workload, podsSeen]
	limits   memo[usage.Ref, int64] // memoryLimit
}

type podsSeen struct {
	live    int            // number of live pods
	begun   bool           // a pod is not pending
	looping []*cluster.Pod // live pods with a container in an OOM kill loop, at most maxLooping
}

// A memo contains values of a view that are computed when they are needed. If many autoscalers reference one workload, a value is computed
// once for the workload and not once for each autoscaler.
type memo[K comparable, V any] map[K]V

// get returns the value of a key, and computes it if the memo does not contain it.
func (m *memo[K, V]) get(key K, compute func() V) V {
	v, ok := (*m)[key]
	if !ok {
		v = compute()
		cluster.Put(m, key, v)
	}
	return v
}
