// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// scaleIntoPodRange scales recommendations so that the sum over the pod is within the pod LimitRange: separately for each resource,
// and for the target, the upper and the lower bound.
func scaleIntoPodRange(f fitting) []Fitted {
	r := f.l.Range.Pod
	if r == (cluster.Range{}) {
		return f.fits
	}
	for _, res := range cluster.All {
		scaleSum(r, f.p, f.fits, res, func(e *cluster.Estimate) *cluster.Resources { return &e.Upper })
		scaleSum(r, f.p, f.fits, res, func(e *cluster.Estimate) *cluster.Resources { return &e.Lower })
		scaleSum(r, f.p, f.fits, res, func(e *cluster.Estimate) *cluster.Resources { return &e.Target })
	}
	f.looked.after(f.fits, PodRange, r.Max.Or(r.Min))
	return f.fits
}

// scaleSum scales one part of the estimates. Let R be the sum of the requests and L the sum of the limits that are
// derived from them. If L and R are at least Min and L is at most Max, nothing changes. If R is below Min, each request is scaled by
// Min/R: CPU rounded up, memory down. Otherwise each request is scaled by Min/L or Max/L, rounded down. If no container has a
// limit, nothing is scaled, because L is not defined.
//
// Amounts without recommendation count with the request of the container in the sum of the target, and do not count in the sums of
// the bounds. They are not written: an absent amount stays absent (W-11 in docs/migrate.md).
func scaleSum(
	podRange cluster.Range, pod *cluster.Pod, fits []Fitted, res cluster.Resource, part func(*cluster.Estimate) *cluster.Resources,
) {
	low := podRange.Min.Amount(res)
	high := podRange.Max.Amount(res)
	level := pod.PodLevel // replaces the sums over the containers, see admissible.Adjust
	if low <= 0 && high <= 0 || level != nil && (level.Requests.Has|level.Limits.Has).Has(res) {
		return
	}
	var sumR, sumL int64
	for i := range fits {
		fit := &fits[i]
		container := pod.Container(fit.Container)
		requests, limits := container.Running()
		v, ok := part(&fit.Estimate).Get(res)
		if !ok && part(&fit.Estimate) == &fit.Estimate.Target {
			v = requests.Amount(res)
		}
		limit, _, _ := proportionalLimit(limits.Amount(res), requests.Amount(res), v, podRange.Default.Amount(res))
		sumR, sumL = integer.Sum(sumR, v), integer.Sum(sumL, limit)
	}
	if sumL == 0 || low <= sumL && low <= sumR && (high <= 0 || high >= sumL) {
		return
	}
	numerator := low
	denominator := sumL
	round := integer.Scaled
	switch {
	case low > sumR:
		denominator = sumR
		if res == cluster.CPU {
			round = integer.ScaledUp
		}
	case high > 0 && high < sumL:
		numerator = high
	}
	for i := range fits {
		q := part(&fits[i].Estimate)
		if v, ok := q.Get(res); ok {
			v, _ = round(v, numerator, denominator)
			*q = q.Set(res, v)
		}
	}
}
