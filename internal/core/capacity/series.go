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

// A fit is the model of a series: a line, and a deviation for each day of the week.
type fit struct {
	origin Day        // the day at which the line has the value level
	level  float64    // in millicores or bytes
	slope  float64    // per day
	season [7]float64 // by weekday
	noise  float64    // spread of the residuals
}

// at returns the value that the model expects on a day.
func (f *fit) at(d Day) float64 {
	return f.level + float64(f.slope*float64(d-f.origin)) + f.season[d.weekday()]
}

// fitTo fits the model to the last fitDays days of points. The slope is the median of the slopes of all pairs of points (Theil–Sen), and the
// season the median of the residuals of each weekday. Both are repeated once, because each disturbs the other.
func fitTo(points []Point) fit {
	last := points[len(points)-1].Day
	recent := since(points, last-fitDays+1)
	f := fit{origin: last}
	for range 2 {
		f.line(recent)
		if last-recent[0].Day < 2*7-1 {
			break // one value per weekday cannot be told from noise
		}
		f.weekdays(recent)
	}
	f.line(recent)
	f.noise = spread(cluster.Each(recent, func(p *Point) float64 { return p.Requested - f.at(p.Day) }))
	return f
}

func (f *fit) line(points []Point) {
	values := cluster.Each(points, func(p *Point) float64 { return p.Requested - f.season[p.Day.weekday()] })
	slopes := make([]float64, 0, len(points)*(len(points)-1)/2)
	for i := range points {
		for k := i + 1; k < len(points); k++ {
			slopes = append(slopes, (values[k]-values[i])/float64(points[k].Day-points[i].Day))
		}
	}
	f.slope = median(slopes)
	for i := range points {
		values[i] -= float64(f.slope * float64(points[i].Day-f.origin))
	}
	f.level = median(values)
}

// weekdays fits the season to the residuals of the line. A weekday with one value has no deviation.
func (f *fit) weekdays(points []Point) {
	var residuals [7][]float64
	for i := range points {
		d := points[i].Day
		line := f.level + float64(f.slope*float64(d-f.origin))
		residuals[d.weekday()] = append(residuals[d.weekday()], points[i].Requested-line)
	}
	var known []float64
	for w := range residuals {
		f.season[w] = 0
		if len(residuals[w]) >= 2 {
			f.season[w] = median(residuals[w])
			known = append(known, f.season[w])
		}
	}
	centre := median(slices.Clone(known))
	for w := range residuals {
		if len(residuals[w]) >= 2 {
			f.season[w] -= centre
		}
	}
}
