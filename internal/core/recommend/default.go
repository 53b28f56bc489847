// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/usage"
)

// Default is upstream's algorithm, to the unit:
//
//	target = max(floor, P_90·(1+margin))
//	lower  = max(floor, P_50·(1+margin)·(1 + 0.001/c)^−2)
//	upper  = max(floor, P_95·(1+margin)·(1 + 1/c))
//
// with P_j the percentiles of the histogram. The bounds are where a running pod is left alone. With little history they
// are far apart: c, the confidence, is the history's length in days, or its number of samples in days of one a minute,
// whichever is less.
//
// Three things differ. A resource without samples gets no number, where upstream recommends the floor (W-01).
// Each resource has the confidence of its own samples, where upstream takes that of CPU for both (W-06).
// The order lower ≤ target ≤ upper holds whatever the parameters are.
func Default(p Params) Estimator { return &byPercentile{p} }

type byPercentile struct{ p Params }

func (d *byPercentile) Estimate(s *usage.Series, floor cluster.Resources, _ time.Time) cluster.Estimate {
	var e cluster.Estimate
	if !s.CPU.IsEmpty() {
		conf := confidence(s.Seen(cluster.CPU), d.p.CPUConfidence)
		d.estimate(&e, cluster.CPU, &s.CPU, d.p.CPU, conf, floor)
	}
	if !s.Memory.IsEmpty() {
		conf := confidence(s.Seen(cluster.Memory), d.p.MemoryConfidence)
		d.estimate(&e, cluster.Memory, &s.Memory, d.p.Memory, conf, floor)
	}
	return e
}

// estimate sets one resource of an estimate.
func (d *byPercentile) estimate(out *cluster.Estimate, resource cluster.Resource, h *histogram.Histogram, at Percentiles, conf float64, floor cluster.Resources) {
	unit := 1.0
	if resource == cluster.CPU {
		unit = 1000 // a histogram of cores, an estimate in millicores
	}
	target := d.withMargin(h.Percentile(at.Target), unit)
	lower := scale(d.withMargin(h.Percentile(at.Lower), unit), math.Pow(1+0.001/conf, -2))
	upper := scale(d.withMargin(h.Percentile(at.Upper), unit), 1+1/conf)
	least := floor.Amount(resource)
	target = max(target, least)
	out.Target = out.Target.Set(resource, target)
	out.Lower = out.Lower.Set(resource, min(max(lower, least), target))
	out.Upper = out.Upper.Set(resource, max(upper, least, target))
}

// withMargin turns usage into an amount and adds the margin. Both are cut to whole units, one after the other.
func (d *byPercentile) withMargin(used, unit float64) int64 {
	base := amount(float64(used * unit))
	return base + scale(base, d.p.Margin)
}

// confidence measures how much history there is: n for n days (n times the interval) of a sample a minute.
func confidence(n usage.Span, interval time.Duration) float64 {
	length := float64(n.Last.Sub(n.First)) / float64(interval)
	samples := float64(n.Count) / interval.Minutes()
	return math.Min(length, samples)
}

// scale multiplies an amount and cuts the result to one.
func scale(v int64, factor float64) int64 { return amount(float64(v) * factor) }
