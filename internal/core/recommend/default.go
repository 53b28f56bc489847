// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
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
// Three differences from upstream, see docs/migrate.md: a resource without samples gets no recommendation, while upstream recommends the
// floor (W-01). Each resource has the confidence of its own samples, while upstream uses that of CPU for both (W-06).
// lower ≤ target ≤ upper holds for all parameters.
func Default(p Params) Estimator { return &byPercentile{p} }

type byPercentile struct{ p Params }

// Estimate implements Estimator.
func (d *byPercentile) Estimate(s *usage.ContainerHistory, floor cluster.Resources, _ time.Time, to *derivation.Record) cluster.Estimate {
	var e cluster.Estimate
	// a histogram of cores, an estimate in millicores
	d.estimate(&e, &byResource{resource: cluster.CPU, h: &s.CPU, at: d.p.CPU, unit: 1000, seen: s.Seen(cluster.CPU)}, d.p.CPUConfidence, floor, to)
	d.estimate(&e, &byResource{resource: cluster.Memory, h: &s.Memory, at: d.p.Memory, unit: 1, seen: s.Seen(cluster.Memory)}, d.p.MemoryConfidence, floor, to)
	return e
}

// byResource is what the estimate of one resource is computed from.
type byResource struct {
	resource cluster.Resource
	h        *histogram.Histogram
	at       Percentiles
	unit     float64 // of the estimate, in the unit of the histogram
	seen     usage.Span
}

// estimate sets one resource of an estimate, if it has samples. interval is the time after which the confidence is 1.
func (d *byPercentile) estimate(out *cluster.Estimate, x *byResource, interval time.Duration, floor cluster.Resources, record *derivation.Record) {
	if x.h.IsEmpty() {
		return
	}
	least := floor.Amount(x.resource)
	steps := record.Of(x.resource).Begin(x.unit)
	target := steps.RaiseWhole(derivation.StepFloor, d.withMargin(x, x.at.Target, steps), least)
	c := confidence(x.seen, interval)
	lower := scaled(d.withMargin(x, x.at.Lower, nil), math.Pow(1+0.001/c, -2))
	upper := scaled(d.withMargin(x, x.at.Upper, nil), 1+1/c)
	out.Target = out.Target.Set(x.resource, target)
	out.Lower = out.Lower.Set(x.resource, min(max(lower, least), target))
	out.Upper = out.Upper.Set(x.resource, max(upper, least, target))
}

// withMargin returns a percentile with the margin. It truncates to whole units after each step.
func (d *byPercentile) withMargin(x *byResource, share float64, to *derivation.Recorder) int64 {
	used := to.Value(derivation.StepPercentile, x.h.Percentile(share))
	*to.Evidence() = derivation.Evidence{Share: share, Samples: x.seen.Count, From: x.seen.First, Until: x.seen.Last, HalfLife: x.h.HalfLife()}
	base := to.Truncate(to.ToMillicores(used, x.unit))
	with := to.AddWhole(derivation.StepSafetyMargin, base, derivation.Whole(float64(base)*d.p.Margin))
	to.Evidence().Margin = d.p.Margin
	return with
}

// confidence returns the amount of history in days (or intervals) of one sample a minute.
func confidence(n usage.Span, interval time.Duration) float64 {
	length := float64(n.Last.Sub(n.First)) / float64(interval)
	samples := float64(n.Count) / interval.Minutes()
	return math.Min(length, samples)
}

// byRequest weights a CPU sample by the CPU request, in cores, at the time of the sample:
//
//	w = max(request, 0.1)
//
// as upstream did until February 2025. Samples at a small request soon have little weight compared to those at a larger one, so a
// container whose request was too small is sized by its usage after the request was raised. Memory peaks are not weighted. There is
// no model state.
type byRequest struct{ usage.Unstored }

const leastWeight = 0.1

// CPUWeight implements usage.Extension.
func (byRequest) CPUWeight(request float64) float64 { return max(request, leastWeight) }

// Observe implements usage.Extension.
func (byRequest) Observe(usage.Sample, cluster.Set) {}

// ObserveOOM implements usage.Extension.
func (byRequest) ObserveOOM(usage.OOM, int64) {}
