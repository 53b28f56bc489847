// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"iter"
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/scalepoint"
)

// A HorizontalState is how podfit treats a request that a HorizontalPodAutoscaler (HPA) uses for scaling, as a clause.
type HorizontalState string

// The states. podfit changes the request only with NotScaled and ScalePointPreserved.
const (
	NotScaled           HorizontalState = "" // no HPA depends on the request
	LeftToHPA           HorizontalState = "another request moves the scale point. To change both, annotate the VPA with podfit.dev/hpa=preserve-scale-point"
	SeveralMetrics      HorizontalState = "several metrics depend on the request"
	ScalePointMissing   HorizontalState = "podfit has not recorded its scale point yet"
	ScalePointStopped   HorizontalState = "others overwrite its target"
	TargetNotWritten    HorizontalState = "podfit could not write its target"
	ScalePointPreserved HorizontalState = "podfit changes its target with the request"
)

// IsLeft reports whether podfit does not change the request.
func (s HorizontalState) IsLeft() bool { return s != NotScaled && s != ScalePointPreserved }

// HorizontalOf returns what podfit does with the request of a container, and the first metric that depends on it.
//
// An HPA with a target utilization compares usage with the request. If podfit changed the request, the HPA would change the number of
// replicas, the usage of each pod would change, and so would the recommendation. By default, podfit does not change such a request. A
// pod without the request is no exception: the HPA cannot compute a utilization of such pods, and would start to scale if podfit set
// the request.
func HorizontalOf(a *cluster.Autoscaler, container string, res cluster.Resource) (HorizontalState, cluster.Horizontal) {
	first, n := a.ScaledBy(container, res)
	switch {
	case n == 0:
		return NotScaled, first
	case !a.PreserveScalePoint:
		return LeftToHPA, first
	case n > 1:
		return SeveralMetrics, first
	}
	point := first.HPA.Of(first.Metric)
	switch {
	case point == nil:
		return ScalePointMissing, first
	case point.Stopped():
		return ScalePointStopped, first
	case first.HPA.Unwritable:
		return TargetNotWritten, first
	}
	return ScalePointPreserved, first
}

// leftToHPA returns the resources of a container that podfit does not change because an HPA scales by them.
func leftToHPA(a *cluster.Autoscaler, container string) cluster.Set {
	var left cluster.Set
	if len(a.Horizontal) == 0 {
		return left
	}
	for _, res := range cluster.All {
		if state, _ := HorizontalOf(a, container, res); state.IsLeft() {
			left = left.With(res)
		}
	}
	return left
}

// scalePoints iterates over the metrics with a scale point, with the requests of a pod at which it can be preserved.
func scalePoints(a *cluster.Autoscaler) iter.Seq2[*cluster.UtilizationTarget, scalepoint.Range] {
	return func(yield func(*cluster.UtilizationTarget, scalepoint.Range) bool) {
		for _, h := range a.Horizontal {
			for i := range h.Utilization {
				u := &h.Utilization[i]
				point := h.Of(u)
				if a.PreserveScalePoint && point != nil && !point.Stopped() && !yield(u, scalepoint.RequestsAt(point)) {
					return
				}
			}
		}
	}
}

// holdScalePoints keeps the targets within the range in which the scale point can be preserved. If the bounds of the containers do not
// allow that, the request is left alone. It returns the remaining fits.
func holdScalePoints(f fitting) []Fitted {
	if !f.a.PreserveScalePoint || len(f.a.Horizontal) == 0 {
		return f.fits
	}
	for u, r := range scalePoints(f.a) {
		f.holdScalePoint(u, r)
	}
	fits := slices.DeleteFunc(f.fits, func(f Fitted) bool { return f.Estimate.Target.Has.Empty() })
	if !slices.ContainsFunc(fits, func(f Fitted) bool { return !f.Inserted }) {
		fits = nil
	}
	f.looked.after(fits, ScalePoint, cluster.Resources{})
	return fits
}

// holdScalePoint scales the targets of the containers on which a metric depends into a range of their sum.
func (f fitting) holdScalePoint(u *cluster.UtilizationTarget, r scalepoint.Range) {
	p := f.p
	fits := f.fits
	fixed, sized := splitRequests(p, fits, u)
	to := min(max(integer.Sum(fixed, sized), r.Low), r.High) - fixed
	if sized == 0 || to == sized {
		return
	}
	round := integer.Scaled
	if to > sized {
		round = integer.ScaledUp
	}
	for i := range fits {
		fit := &fits[i]
		if v, ok := fit.Estimate.Target.Get(u.Resource); ok && !fit.Inserted && u.Concerns(fit.Container) {
			v, _ = round(v, max(to, 0), sized)
			b := f.boundsOf(fit.Container, targetLeast)
			fit.Estimate.Target = fit.Estimate.Target.Set(u.Resource, b.amount(u.Resource, v))
			fit.Notes = append(fit.Notes, Note{Resource: u.Resource, Kind: admissible.HeldToScalePoint})
		}
	}
	if fixed, sized = splitRequests(p, fits, u); to > 0 && r.Contains(integer.Sum(fixed, sized), len(fits)) {
		return
	}
	for i := range fits {
		if f := &fits[i]; !f.Inserted && u.Concerns(f.Container) {
			e := &f.Estimate
			e.Lower, e.Target, e.Upper = e.Lower.Unset(u.Resource), e.Target.Unset(u.Resource), e.Upper.Unset(u.Resource)
		}
	}
}

// keepsScalePoints reports whether each request that fits change together with the target of an HPA is in the range of its scale point.
func keepsScalePoints(a *cluster.Autoscaler, p *cluster.Pod, fits []Fitted) bool {
	for u, r := range scalePoints(a) {
		if ChangesRequest(u, p, fits) && !r.Contains(podRequest(u, p, fits), len(fits)) {
			return false
		}
	}
	return true
}

// splitRequests returns the sum of the requests on which a metric depends: those that podfit does not set, and those that it sets.
func splitRequests(p *cluster.Pod, fits []Fitted, u *cluster.UtilizationTarget) (fixed, sized int64) {
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == cluster.Init || !u.Concerns(c.Name) {
			continue
		}
		at := slices.IndexFunc(fits, func(f Fitted) bool { return f.Container == c.Name && !f.Inserted })
		if at >= 0 {
			if v, ok := fits[at].Estimate.Target.Get(u.Resource); ok {
				sized = integer.Sum(sized, v)
				continue
			}
		}
		fixed = integer.Sum(fixed, c.Requests.Amount(u.Resource))
	}
	return fixed, sized
}

// PreservesScalePoint reports whether an autoscaler is to change the requests on which a metric of an HPA depends: the user has opted in, no
// other metric depends on them, and there is a recommendation for at least one of them.
func PreservesScalePoint(a *cluster.Autoscaler, u *cluster.UtilizationTarget) bool {
	if a == nil || !a.PreserveScalePoint || !a.Mode.Applies() {
		return false
	}
	for i := range a.Advice {
		c := &a.Advice[i]
		if _, advised := c.Target.Get(u.Resource); !advised || !u.Concerns(c.Container) || !a.Policy(c.Container).Controls().Has(u.Resource) {
			continue
		}
		if _, n := a.ScaledBy(c.Container, u.Resource); n == 1 {
			return true
		}
	}
	return false
}

// AverageOf returns the average request of live pods. changes are the sizes that pods are about to get, by UID. The CPU of a startup
// boost does not count, because it ends soon.
func AverageOf(u *cluster.UtilizationTarget, pods []*cluster.Pod, changes map[string][]Fitted) scalepoint.Average {
	var n, current, lowest int64
	for _, p := range pods {
		if !p.Live() {
			continue
		}
		from := podRequest(u, p, nil)
		to := podRequest(u, p, changes[p.UID])
		if from <= 0 {
			continue
		}
		n++
		current = integer.Sum(current, from)
		lowest = integer.Sum(lowest, min(from, to))
	}
	if n == 0 {
		return scalepoint.Average{}
	}
	return scalepoint.Average{Now: current / n, Lowest: lowest / n}
}

// podRequest returns the request of a pod on which a metric depends, with fits set on it. As for the HPA, the spec counts.
func podRequest(u *cluster.UtilizationTarget, p *cluster.Pod, fits []Fitted) int64 {
	var total int64
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == cluster.Init || !u.Concerns(c.Name) {
			continue
		}
		v := c.Requests.Amount(u.Resource)
		if c.Boosted != nil {
			v = c.Boosted.Requests.Amount(u.Resource)
		}
		for j := range fits {
			if to, ok := fits[j].Requests.Get(u.Resource); ok && fits[j].Container == c.Name {
				v = to
			}
		}
		total = integer.Sum(total, v)
	}
	return total
}

// ChangesRequest reports whether fits change the request of a pod on which a metric depends.
func ChangesRequest(u *cluster.UtilizationTarget, p *cluster.Pod, fits []Fitted) bool {
	return podRequest(u, p, nil) != podRequest(u, p, fits)
}
