// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scalepoint computes how the target of a HorizontalPodAutoscaler (HPA) follows the requests of its pods, so that a change of the
// requests does not make the HPA scale: the scale point, target × request, is the usage at which it does.
//
// Package policy keeps requests in the range that a scale point allows. The updater writes the targets.
package scalepoint

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// The range of target utilizations that podfit sets, in percent of the request. Below it, most of the request is unused. Above it, a pod
// has no reserve until the HPA has started another one. If the owner of the HPA has set a target outside of the range, the range extends
// to that target.
const (
	LowestPercent  = 50
	HighestPercent = 90
)

// A Range is the range of the request of a pod within which the scale point can be preserved.
type Range struct{ Low, High int64 }

// Contains reports whether the range contains an amount, up to a rounding error of one unit for each container.
func (r Range) Contains(v int64, containers int) bool {
	slack := int64(containers)
	return v >= r.Low-slack && v <= r.High+slack
}

// RequestsAt returns the range of the request for a scale point. The scale point, target × request, is fixed, so the range of the
// target bounds the request. The request is bounded and not the target, because a target that does not follow its request moves the
// scale point: that would cause a scale event.
func RequestsAt(p *cluster.ScalePoint) Range {
	low, high := percentRange(p)
	// The lowest request belongs to the highest target.
	least, _ := integer.ScaledUp(p.Base, int64(p.Percent), int64(high))
	most, _ := integer.Scaled(p.Base, int64(p.Percent), int64(low))
	return Range{least, most}
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
	v, _ := integer.ScaledUp(p.Base, int64(p.Percent), average)
	return int32(min(max(v, int64(low)), int64(high)))
}

// A Step is the next change of an HPA.
type Step struct {
	Targets map[int]int32        // the targets to set, in percent by index of the metric
	Points  []cluster.ScalePoint // the records afterwards; if there are none, the annotation is removed
	Stopped bool                 // others have overwritten a target for the last time: podfit stops
}

// IsRecord reports whether the step is the first record on the HPA, which changes no target.
func (s *Step) IsRecord(h *cluster.HorizontalAutoscaler) bool { return len(h.Points) == 0 }

// An Average is the average request of the live pods of a workload on which a metric depends.
type Average struct {
	Now    int64 // 0 if there are no such pods
	Lowest int64 // the lowest value while the changes that are about to be made are carried out in any order
}

// A Request is the average request on which a metric depends, and whether podfit is to change that request.
type Request struct {
	Average
	Wanted bool
	Base   int64 // the request to which the target of an HPA without a record belongs; 0 if it is the present one
}

// Next returns the next change of an HPA, and false if there is none. requests has an element for each metric of h.Utilization.
//
// An HPA wants ceil(replicas × usage / (target × request)) replicas, with the average usage and request of the pods. So it scales when
// the average usage crosses target × request, the scale point. If the scale point is too low, the HPA scales up at once. If it is too high
// for a short time, nothing happens: the HPA ignores differences of up to 10 %, and delays a scale-down by 5 minutes (both are defaults of
// Kubernetes). So the scale point must never be below the recorded one:
//
//	target ≥ recorded target × recorded request / average request
//
// While pods are changed, their requests are mixed, and the average moves from the old to the new request. The target is set once before
// the changes of a pass, for the lowest average that can occur during them. So if requests decrease, the target increases before
// the pods change. If requests increase, the pods change first, and the target decreases in the next pass. A pass changes at most
// as many pods as the disruption budget allows, so the scale point is at most that share too high in the meantime.
//
// The step depends only on the HPA and the pods. So a restart at any point continues correctly: the target follows the average, back to
// the recorded target if the pods were not changed. If podfit is not to change the request any more, the target follows the
// pods until they have the recorded request again, and then the record is removed.
func Next(now time.Time, h *cluster.HorizontalAutoscaler, requests []Request) (Step, bool) {
	step := Step{Targets: map[int]int32{}}
	for i := range h.Utilization {
		u := &h.Utilization[i]
		r := requests[i]
		point := h.Of(u)
		switch {
		case repeats(h, i): // the record belongs to the first of the metrics, and the request is left alone
		case point == nil && (r.Now <= 0 || !r.Wanted):
		case point == nil:
			base := r.Now
			if r.Base > 0 {
				base = r.Base
			}
			step.Points = append(step.Points, cluster.ScalePoint{Resource: u.Resource, Container: u.Container, Base: base, Percent: u.Percent, Set: u.Percent})
		default:
			step.follow(now, u, *point, r.Wanted, r.Average)
		}
	}
	return step, len(step.Targets) > 0 || !slices.Equal(step.Points, h.Points)
}

// repeats reports whether an earlier metric of the HPA depends on the same request.
func repeats(h *cluster.HorizontalAutoscaler, i int) bool {
	u := &h.Utilization[i]
	return slices.ContainsFunc(h.Utilization[:i], func(o cluster.UtilizationTarget) bool {
		return o.Resource == u.Resource && o.Container == u.Container
	})
}

// resetsExpire is the time after which an overwritten target does not count any more.
const resetsExpire = 24 * time.Hour

// follow adds the target and the record of a metric.
//
// If others have changed the target, that is the new target for the recorded request: a manifest refers to the request in the pod template.
// podfit adapts the target again, but stops if that happens often, because two programs must not overwrite each other's target.
func (s *Step) follow(now time.Time, u *cluster.UtilizationTarget, p cluster.ScalePoint, wanted bool, r Average) {
	if p.Stopped() {
		if wanted {
			s.Points = append(s.Points, p)
		}
		return
	}
	if u.Percent != p.Set {
		if now.Sub(p.ResetAt) > resetsExpire {
			p.Resets = 0
		}
		p.Percent, p.Set, p.ResetAt = u.Percent, u.Percent, now
		p.Resets++
		if p.Stopped() {
			s.Stopped = true
			s.Points = append(s.Points, p)
			return
		}
	}
	to := p.Set
	if r.Now > 0 {
		to = PercentAt(&p, r.Lowest)
	}
	if to != u.Percent {
		s.Targets[u.Index] = to
		p.Set = to
	}
	isBack := r.Now <= 0 || PercentAt(&p, r.Now) == p.Percent && to == p.Percent
	if !wanted && isBack {
		if u.Percent != p.Percent {
			s.Targets[u.Index] = p.Percent
		}
		return
	}
	s.Points = append(s.Points, p)
}
