// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "podfit.dev/podfit/internal/core/cluster"

// The range of target utilizations that podfit sets, in percent of the request. Below, pods are too idle for the request to mean
// anything; above, a pod has no room until the HPA has started another one. If the owner of the HPA has set a target outside of the
// range, the range extends to that target.
const (
	LowestPercent  = 50
	HighestPercent = 90
)

// A RequestRange is the range of the request of a pod within which the scale point can be preserved.
type RequestRange struct{ Low, High int64 }

// contains reports whether the range contains an amount, up to a rounding error of one unit for each container.
func (r RequestRange) contains(v int64, containers int) bool {
	slack := int64(containers)
	return v >= r.Low-slack && v <= r.High+slack
}

// RequestsAt returns the range of the request for a scale point. The scale point, target × request, is fixed, so the range of the
// target bounds the request. The request is bounded and not the target, because a target that does not follow its request moves the
// scale point: that would cause a scale event.
func RequestsAt(p *cluster.ScalePoint) RequestRange {
	low, high := percentRange(p)
	// The lowest request belongs to the highest target.
	least, _ := scaledUp(p.Base, int64(p.Percent), int64(high))
	most, _ := scaled(p.Base, int64(p.Percent), int64(low))
	return RequestRange{least, most}
}

func percentRange(p *cluster.ScalePoint) (low, high int32) {
	return min(LowestPercent, p.Percent), max(HighestPercent, p.Percent)
}

// PercentAt returns the target utilization that preserves a scale point if pods have the given average request. It is rounded up, so
// that the HPA does not scale up because of the rounding, and within the range of targets.
func PercentAt(p *cluster.ScalePoint, average int64) int32 {
	low, high := percentRange(p)
	if average <= 0 {
		return min(max(p.Set, low), high)
	}
	v, _ := scaledUp(p.Base, int64(p.Percent), average)
	return int32(min(max(v, int64(low)), int64(high)))
}
