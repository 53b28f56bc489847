// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Horizon is how far a forecast looks ahead at most, in days.
const Horizon = 90

// Input is what a forecast is computed from. All amounts have one unit: millicores or bytes.
type Input struct {
	Points     []Point   // one per day; the order does not matter
	Steps      []Step    // known changes of the level; others are found in the points
	Capacity   float64   // present capacity
	Requested  float64   // present sum of requests
	Thresholds []float64 // shares of the capacity, such as 0.70 and 1.00
	LeadTime   int       // days from an order of nodes until they serve pods
	Less       float64   // amount that the requests are assumed to fall by today
	Now        time.Time
}

// A Shortage is the reason why there is no forecast, for people.
type Shortage string

// The shortages.
const (
	NoShortage  Shortage = ""
	TooFewDays  Shortage = "not enough history: a forecast needs 14 days"
	Outdated    Shortage = "not enough history: the last 7 days have no values"
	NoCapacity  Shortage = "no schedulable capacity"
	TooManyGaps Shortage = "not enough history: most of the last 28 days have no values"
)

// An Outlook is the forecast of a resource of a pool.
type Outlook struct {
	Shortage  Shortage
	Days      int     // days with values
	Slope     float64 // growth per day, without steps
	Steps     []Step  // that are taken out, sorted
	Reach     int     // the forecast covers this many days from today
	Low       []float64
	Middle    []float64 // expected requests by day, from tomorrow on
	High      []float64
	Crossings []Crossing // one per threshold
	OrderBy   Day        // 0: none is needed within the reach, or it is not known
}

// A State is the relation of requests to a threshold.
type State string

// The states.
const (
	Unknown   State = "Unknown"   // there is no forecast
	Above     State = "Above"     // requests are at the threshold or above it
	Ahead     State = "Ahead"     // requests reach it on a day of the range
	NotWithin State = "NotWithin" // requests do not reach it within the reach of the forecast
)

// A Crossing is when requests reach a threshold.
type Crossing struct {
	Threshold float64 // share of the capacity
	State     State
	Since     Day // Above: the first day at or above it without interruption; 0 if it is not known
	Earliest  Day // Ahead: the first day on which the upper end of the band reaches it
	Expected  Day // the first day on which the expected value reaches it; 0 if not within the reach
	Latest    Day // the first day on which the lower end of the band reaches it; 0 if not within the reach
}

// linesOf returns the outlook without crossings, for requests that do not fall. It returns no date that the points do not support.
func linesOf(in *Input) Outlook {
	today := DayOf(in.Now)
	points := usable(in.Points, today)
	out := Outlook{Days: len(points), Shortage: shortageOf(points, today, hasCapacity(in))}
	if out.Shortage == NoShortage {
		out.predict(complete(points, today), in.Steps, today)
	}
	return out
}

func hasCapacity(in *Input) bool { return in.Capacity > 0 && !math.IsInf(in.Capacity, 0) }

// against returns the outlook with lines that are lower by in.Less, and with its crossings and the order-by date.
func (o Outlook) against(in *Input) Outlook {
	today := DayOf(in.Now)
	o.Low, o.Middle, o.High = lowered(o.Low, in.Less), lowered(o.Middle, in.Less), lowered(o.High, in.Less)
	for _, share := range in.Thresholds {
		c := Crossing{Threshold: share, State: Unknown}
		limit := share * in.Capacity
		switch {
		case hasCapacity(in) && in.Requested-in.Less >= limit:
			c.State, c.Since = Above, aboveSince(usable(in.Points, today), in, share, today)
		case o.Shortage == NoShortage:
			c.Earliest, c.Expected, c.Latest = firstAt(o.High, limit, today), firstAt(o.Middle, limit, today), firstAt(o.Low, limit, today)
			c.State = NotWithin
			if c.Earliest != 0 {
				c.State = Ahead
			}
		}
		o.Crossings = append(o.Crossings, c)
	}
	o.order(in.LeadTime, today)
	return o
}

// lowered returns a line that is lower by an amount, but not below 0.
func lowered(line []float64, less float64) []float64 {
	return cluster.Each(line, func(v *float64) float64 { return max(*v-less, 0) })
}

func shortageOf(points []Point, today Day, hasCapacity bool) Shortage {
	switch {
	case !hasCapacity:
		return NoCapacity
	case len(points) < leastDays:
		return TooFewDays
	case today-points[len(points)-1].Day > mostStale:
		return Outdated
	case len(since(points, points[len(points)-1].Day-fitDays+1)) < leastFit:
		return TooManyGaps
	}
	return NoShortage
}

// aboveSince returns the first day from which on all values are at a threshold or above it.
func aboveSince(points []Point, in *Input, share float64, today Day) Day {
	since := today
	for i := len(points) - 1; i >= 0; i-- {
		c := points[i].Capacity
		if c <= 0 || math.IsNaN(c) {
			c = in.Capacity
		}
		if points[i].Requested-in.Less < share*c {
			break
		}
		since = min(since, points[i].Day)
	}
	return since
}

func (o *Outlook) predict(points []Point, known []Step, today Day) {
	first := points[0].Day
	last := points[len(points)-1].Day
	o.Steps = merged(known, findSteps(level(points, known)), first, last)
	f := fitTo(level(points, o.Steps))
	o.Slope = f.slope
	behind := int(today - last)
	reach := min(Horizon, reachRatio*o.Days)
	b, ok := bandOf(points, reach+behind, &f)
	if !ok {
		o.Shortage = TooManyGaps
		return
	}
	o.Reach = reach
	for h := 1; h <= reach; h++ {
		middle := f.at(today + Day(h))
		at := h + behind - 1
		o.Low = append(o.Low, middle+b.low[at])
		o.Middle = append(o.Middle, middle)
		o.High = append(o.High, middle+b.high[at])
	}
}

// firstAt returns the first day on which a line reaches a limit, or 0.
func firstAt(line []float64, limit float64, today Day) Day {
	for i, v := range line {
		if v >= limit {
			return today + Day(i) + 1
		}
	}
	return 0
}

// order sets the order-by date: the first day on which the pool may be full, minus the lead time, minus 3 days.
func (o *Outlook) order(leadTime int, today Day) {
	const orderMargin = 3 // the time between the order-by date and the latest day for an order, in days: time to decide and to install
	for _, c := range o.Crossings {
		if c.Threshold < 1 {
			continue
		}
		switch c.State {
		case Above:
			o.OrderBy = today
		case Ahead:
			o.OrderBy = c.Earliest - Day(leadTime) - orderMargin
		case Unknown, NotWithin:
		}
		return
	}
}

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
		var near []float64 // of forecasts of about h days
		for k := h - h/5; k <= h+h/5; k++ {
			near = append(near, errors[k]...)
		}
		slices.Sort(near)
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

// uncertainty returns half of the range in which 80 % of the values are h days ahead, if the noise of n days is independent. Past errors of
// long forecasts overlap, so they alone are too few.
func (f *fit) uncertainty(h, n int) float64 {
	const leastNoise = 0.005 // the least noise that is assumed, as a share of the level. A series that has grown evenly will not do so forever
	const normal = 1.2816    // 90 % quantile of the normal distribution
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
