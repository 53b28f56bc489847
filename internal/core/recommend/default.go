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
// with P_j the percentiles of the histogram. Pods within the bounds are not changed. With little history the bounds are
// far apart: the confidence c is the length of history in days, or the number of samples divided by those of a day at one a
// minute, whichever is less.
//
// Three differences from upstream: a resource without samples gets no recommendation, while upstream recommends the floor (W-01).
// Each resource has the confidence of its own samples, while upstream uses that of CPU for both (W-06).
// lower ≤ target ≤ upper holds for all parameters.
func Default(p Params) Estimator { return &byPercentile{p} }

type byPercentile struct{ p Params }

func (d *byPercentile) Estimate(s *usage.ContainerHistory, floor cluster.Resources, _ time.Time) cluster.Estimate {
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

// withMargin converts usage to an amount and adds the margin. It truncates to whole units after each step.
func (d *byPercentile) withMargin(used, unit float64) int64 {
	base := amount(float64(used * unit))
	return base + scale(base, d.p.Margin)
}

// confidence returns the amount of history in days (or intervals) of one sample a minute.
func confidence(n usage.Span, interval time.Duration) float64 {
	length := float64(n.Last.Sub(n.First)) / float64(interval)
	samples := float64(n.Count) / interval.Minutes()
	return math.Min(length, samples)
}

// scale multiplies an amount and truncates the result.
func scale(v int64, factor float64) int64 { return amount(float64(v) * factor) }
