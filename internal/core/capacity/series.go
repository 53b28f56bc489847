// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Point is the value of one day.
type Point struct {
	Day       Day
	Requested float64 // the highest sum of requests on the day, in millicores or bytes
	Capacity  float64 // capacity of schedulable nodes, in the same unit; 0 if it is not known
}

// The bounds of the history that a forecast uses, in days.
const (
	fitDays    = 28 // the trend and the season are fitted to this many days
	leastDays  = 14 // the fewest days with values for a forecast: a fit of leastFit days, and its errors on the following ones
	leastFit   = 7  // the fewest days for a fit
	mostStale  = 7  // the most days without values before today
	reachRatio = 3  // a forecast reaches this many times as far as the history is long
)

// usable returns the points that a forecast can use, sorted, one per day: finite, not negative, and not in the future.
func usable(points []Point, today Day) []Point {
	out := slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return p.Day > today || p.Day <= 0 || math.IsInf(p.Requested, 0) || !(p.Requested >= 0)
	})
	slices.SortStableFunc(out, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(b.Requested, a.Requested))
	})
	return slices.CompactFunc(out, func(a, b Point) bool { return a.Day == b.Day })
}

// complete returns the points without today's, whose maximum is not final, unless it already exceeds yesterday's.
func complete(points []Point, today Day) []Point {
	n := len(points)
	if n > 1 && points[n-1].Day == today && points[n-1].Requested <= points[n-2].Requested {
		return points[:n-1]
	}
	return points
}

func since(points []Point, from Day) []Point {
	i, _ := slices.BinarySearchFunc(points, from, func(p Point, d Day) int { return cmp.Compare(p.Day, d) })
	return points[i:]
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// spread returns a robust estimate of the standard deviation around 0: 1.4826 times the median of the absolute values.
func spread(values []float64) float64 {
	return 1.4826 * median(cluster.Each(values, func(v *float64) float64 { return math.Abs(*v) }))
}

// quantile returns a quantile of sorted values, at position p(n+1). This is at the extreme values if there are few.
func quantile(sorted []float64, p float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	at := p*float64(n+1) - 1
	switch {
	case at <= 0:
		return sorted[0]
	case at >= float64(n-1):
		return sorted[n-1]
	}
	i := int(at)
	return sorted[i] + float64((at-float64(i))*(sorted[i+1]-sorted[i]))
}
