// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

// A HorizontalAutoscaler contains the fields of a HorizontalPodAutoscaler (HPA) that podfit uses.
type HorizontalAutoscaler struct {
	Key
	UID         string
	Target      Workload            // spec.scaleTargetRef without the API version
	Utilization []UtilizationTarget // at most MostMetrics, in the order of the spec
	Points      []ScalePoint        // annotation podfit.dev/scale-point; nil if absent or not readable
	Unwritable  bool                // podfit could not write it, and does not try again now; not part of the object
}

// MostMetrics is the maximum number of metrics of an HPA that podfit reads.
const MostMetrics = 32

// A UtilizationTarget is a metric by which an HPA scales a workload according to its usage divided by its request. Metrics with
// absolute targets and metrics of other sources do not depend on requests. podfit does not read them.
type UtilizationTarget struct {
	Index     int // its index in spec.metrics
	Resource  Resource
	Container string // "" if the metric is the sum over all containers of a pod
	Percent   int32  // usage in percent of the request
}

// Concerns reports whether the metric depends on the request of a container.
func (u *UtilizationTarget) Concerns(container string) bool {
	return u.Container == "" || u.Container == container
}

// A ScalePoint is the record of one metric whose target podfit rewrites. podfit stores it on the HPA before it changes a request, so
// that the original target is known after a restart.
type ScalePoint struct {
	Resource  Resource
	Container string
	Base      int64     // average request of a pod when the record was made
	Percent   int32     // the target that its owner set, in percent of Base
	Set       int32     // the target that podfit wrote last
	Resets    int       // how often others overwrote the target that podfit wrote
	ResetAt   time.Time // when that was last seen; zero if never
}

// Of returns the record for a metric, or nil.
func (h *HorizontalAutoscaler) Of(u *UtilizationTarget) *ScalePoint {
	return Find(h.Points, func(p *ScalePoint) bool { return p.Resource == u.Resource && p.Container == u.Container })
}

// MostResets is how often others may overwrite a target that podfit wrote until podfit stops writing it.
const MostResets = 3

// Stopped reports whether podfit does not write the target any more because others have overwritten it too often.
func (p *ScalePoint) Stopped() bool { return p.Resets >= MostResets }

// A Horizontal is a metric of an HPA that depends on a request that an autoscaler controls.
type Horizontal struct {
	HPA    *HorizontalAutoscaler
	Metric *UtilizationTarget
}

// WithHorizontal returns the autoscaler with the HPAs of its target that depend on requests. HPAs of other workloads are ignored.
// The autoscaler itself is not changed.
func (a *Autoscaler) WithHorizontal(hpas []*HorizontalAutoscaler) *Autoscaler {
	var found []*HorizontalAutoscaler
	for _, h := range hpas {
		if h.Target == a.Target && len(h.Utilization) > 0 {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return a
	}
	b := *a
	b.Horizontal = found
	return &b
}

// ScaledBy returns the first metric by which an HPA scales the pods of the autoscaler according to the request of a container. It
// returns false if there is none. It also returns how many metrics depend on the request.
func (a *Autoscaler) ScaledBy(container string, res Resource) (first Horizontal, n int) {
	for _, h := range a.Horizontal {
		for i := range h.Utilization {
			u := &h.Utilization[i]
			if u.Resource != res || !u.Concerns(container) {
				continue
			}
			if n == 0 {
				first = Horizontal{h, u}
			}
			n++
		}
	}
	return first, n
}
