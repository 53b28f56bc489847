// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

// Limits contains the bounds of the namespace of a pod.
type Limits struct {
	Range  cluster.LimitRange // of the pod's namespace
	Quotas *cluster.Quotas    // of the namespace of the pod; nil if there are none or they are not known
	Nodes  *fleet.Sizes       // of the nodes that may take the pod; nil if the size of a pod is not scaled down to what fits

	QuotasUnknown bool // Quotas is nil because they cannot be read, or the watch is out of date
}

// Fitted is the size that one container of a pod should have.
type Fitted struct {
	Container string
	Index     int // its index in spec.containers, or in spec.initContainers for a sidecar
	Sidecar   bool
	Estimate  cluster.Estimate // the recommendation, bounded for this pod; lower ≤ target ≤ upper if the bounds are set
	Requests  cluster.Resources
	Limits    cluster.Resources // only those to set: in proportion to the requests, none if limits are kept
	Notes     []Note

	// LimitsKept is true if the policy keeps the limits of the container.
	LimitsKept bool

	// PodLevel contains the pod-level resources to set; it is the same in all Fitted of a pod. It contains only changes, and is nil
	// if there are none (see Adjust).
	PodLevel *cluster.PodResources

	// Inserted is true if the container has no recommendation. It is included with its own requests because the pod LimitRange
	// bounds the sum over all containers, and may change this one, too. It has no bounds.
	Inserted bool
}

// PodLevelOf returns the pod-level resources of a pod with fits set on it; nil if it has none.
func PodLevelOf(p *cluster.Pod, fits []Fitted) *cluster.PodResources {
	if p.PodLevel == nil || len(fits) == 0 || fits[0].PodLevel == nil {
		return p.PodLevel
	}
	to := fits[0].PodLevel
	return &cluster.PodResources{Requests: to.Requests.Or(p.PodLevel.Requests), Limits: to.Limits.Or(p.PodLevel.Limits)}
}
