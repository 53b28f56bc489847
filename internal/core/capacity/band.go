// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"math"
	"slices"
)

// A band is the range of errors of a forecast, by the number of days ahead: index 0 is the first day. The lower end is at most 0, the upper
// end at least 0, and neither becomes narrower with more days.
type band struct{ low, high []float64 }

// The quantiles of past errors that bound the band, and the fewest errors that count.
const (
	lowQuantile  = 0.10
	highQuantile = 0.90
	leastErrors  = 6
)

// errorMargin widens the band, because past errors overlap and are few for many days ahead. With 1, slightly fewer than 80 % of the synthetic
// series of the test with 14 days are inside of the band.
const errorMargin = 1.15

// bandOf returns the band for a number of days ahead, from the errors that the model made on its own past: it is fitted to the days until
// each past day, without the steps that it finds there, and compared with the days after it. So steps that happen often widen the band. It returns false if there are too few errors.
func bandOf(points []Point, days int, f *fit) (band, bool) {
	errors := pastErrors(points)
	out := band{make([]float64, days), make([]float64, days)}
	reached := 0 // the most days ahead with enough errors
	var low, high float64
	for h := 1; h <= days; h++ {
		near := nearErrors(errors, h)
		if len(near) >= leastErrors {
			reached = h
			low, high = min(low, quantile(near, lowQuantile)), max(high, quantile(near, highQuantile))
		}
		if reached == 0 {
			continue
		}
		factor := errorMargin * float64(h) / float64(reached) // an error of the slope grows with the days
		floor := f.uncertainty(h, min(len(points), fitDays))
		out.low[h-1] = min(low*factor, -floor)
		out.high[h-1] = max(high*factor, floor)
	}
	for h := 2; h <= days; h++ {
		out.low[h-1] = min(out.low[h-1], out.low[h-2])
		out.high[h-1] = max(out.high[h-1], out.high[h-2])
	}
	return out, reached > 0
}

// leastNoise is the least noise that is assumed, as a share of the level. A series that has grown evenly will not do so forever.
const leastNoise = 0.005

// uncertainty returns half of the range in which 80 % of the values are h days ahead, if the noise of n days is independent. Past errors of
// long forecasts overlap, so they alone are too few.
func (f *fit) uncertainty(h, n int) float64 {
	const normal = 1.2816 // 90 % quantile of the normal distribution
	days := float64(n)
	ahead := float64(h) + days/2
	noise := max(f.noise, leastNoise*f.level)
	return normal * noise * math.Sqrt(1+1/days+12*ahead*ahead/(days*days*days))
}

// pastErrors returns the errors of the model by the number of days ahead.
func pastErrors(points []Point) map[int][]float64 {
	out := map[int][]float64{}
	least := max(leastFit, min(fitDays, len(points)/2))
	for origin := least; origin < len(points); origin++ {
		past := points[:origin]
		f := fitTo(level(past, findSteps(past)))
		for _, p := range points[origin:] {
			h := int(p.Day - f.origin)
			out[h] = append(out[h], p.Requested-f.at(p.Day))
		}
	}
	return out
}

// nearErrors returns the errors of forecasts of about h days, sorted.
func nearErrors(errors map[int][]float64, h int) []float64 {
	var out []float64
	for k := h - h/5; k <= h+h/5; k++ {
		out = append(out, errors[k]...)
	}
	slices.Sort(out)
	return out
}
