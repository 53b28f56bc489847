// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

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
