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

	// Values that are computed when they are needed (cluster.Memo). If many autoscalers reference one workload, a value is computed once for the
	// workload and not once for each autoscaler.
	electing map[cluster.Workload]*cluster.Autoscaler // elected
	applied  map[cluster.Workload]*cluster.Autoscaler // of all autoscalers, the one that is applied to the pods
	podsSeen map[cluster.Workload]podsSeen
	limits   map[usage.Ref]int64 // memoryLimit
}

type podsSeen struct {
	live    int            // number of live pods
	begun   bool           // a pod is not pending
	looping []*cluster.Pod // live pods with a container in an OOM kill loop, at most maxLooping
}
