// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// today is the present day of the tests.
var today = DayOf(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))

// A synthetic is a series with a known future.
type synthetic struct {
	history  []Point
	truth    Day // the first day with requests of at least the capacity
	capacity float64
}

// generate returns a series of days until today whose requests reach the capacity 5 to 80 days later: trend × season × steps. With
// futureSteps, the level also changes after today.
func generate(r *rand.Rand, days int, futureSteps bool) synthetic {
	for {
		const capacity, ahead = 192_000, 160
		trend := capacity * (0.001 + 0.006*r.Float64())
		var season [7]float64
		amplitude := capacity * 0.06 * r.Float64()
		for i := range season {
			season[i] = amplitude * (r.Float64() - 0.5)
		}
		if r.IntN(2) == 0 { // weekends are lower
			season[2] -= amplitude
			season[3] -= amplitude
		}
		noise := capacity * (0.002 + 0.012*r.Float64())
		steps := map[int]float64{}
		last := days
		if futureSteps {
			last = days + ahead
		}
		for range r.IntN(4) * last / days {
			size := capacity * (0.03 + 0.09*r.Float64())
			if r.IntN(3) == 0 {
				size = -size
			}
			steps[1+r.IntN(last-1)] += size
		}
		values := make([]float64, days+ahead)
		level := 0.0
		for i := range values {
			level += steps[i]
			values[i] = level + trend*float64(i) + season[(today-Day(days)+1+Day(i)).weekday()] + noise*r.NormFloat64()
		}
		target := days + 5 + r.IntN(75)
		shift := capacity - values[target]
		out := synthetic{capacity: capacity}
		for i := range values {
			v := max(values[i]+shift, 0)
			day := today - Day(days) + 1 + Day(i)
			if i < days {
				out.history = append(out.history, Point{day, v, capacity})
			}
			if v >= capacity && out.truth == 0 {
				out.truth = day
			}
		}
		if out.truth > today && slices.MinFunc(out.history, func(a, b Point) int { return int(a.Requested - b.Requested) }).Requested > 0 {
			return out
		}
	}
}

// A score is how well forecasts of synthetic series do.
type score struct {
	inside float64 // share whose true date is in the band, or beyond the reach of a forecast that has no date
	early  float64 // share whose true date is before the band
	open   float64 // share of bands without an end
	width  float64 // median length of the others, in days
}

func scoreOf(t *testing.T, n, days int, futureSteps bool) score {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(days)))
	var widths []float64
	var s score
	for range n {
		x := generate(r, days, futureSteps)
		o := outlookOf(Input{Points: x.history, Capacity: x.capacity, Requested: x.history[days-1].Requested, Thresholds: []float64{1}, Now: today.Time().Add(23 * time.Hour)})
		c := o.Crossings[0]
		switch {
		case c.State == NotWithin && x.truth > today+Day(o.Reach), c.State == Ahead && x.truth >= c.Earliest && (c.Latest == 0 || x.truth <= c.Latest):
			s.inside += 1 / float64(n)
		case c.State == Ahead && x.truth < c.Earliest, c.State == NotWithin:
			s.early += 1 / float64(n)
		}
		if c.State == Ahead && c.Latest == 0 {
			s.open += 1 / float64(n)
		} else if c.State == Ahead {
			widths = append(widths, float64(c.Latest-c.Earliest))
		}
	}
	s.width = median(widths)
	t.Logf("%d days, steps after today %t: inside %.3f, before the band %.3f, open %.3f, median width %.0f days", days, futureSteps, s.inside, s.early, s.open, s.width)
	return s
}

func TestForecast_syntheticSeries_trueDateIsInsideItsBand(t *testing.T) {
	for _, c := range []struct {
		days        int
		futureSteps bool
		want        score
	}{
		{14, false, score{inside: 0.75, early: 0.10, open: 0.80, width: 30}},
		{30, false, score{inside: 0.80, early: 0.10, open: 0.60, width: 30}},
		{60, false, score{inside: 0.80, early: 0.10, open: 0.30, width: 25}},
		{90, false, score{inside: 0.80, early: 0.10, open: 0.20, width: 25}},
		// No forecast knows of a workload that arrives later. The steps of the past widen the band, so these are not too many.
		{60, true, score{inside: 0.60, early: 0.35, open: 0.40, width: 25}},
		{90, true, score{inside: 0.70, early: 0.25, open: 0.30, width: 25}},
	} {
		n := 100
		if c.days == 60 {
			n = 200
		}
		got := scoreOf(t, n, c.days, c.futureSteps)
		if got.inside < c.want.inside {
			t.Errorf("%d days: %.3f of the true dates are in the band, want %.2f", c.days, got.inside, c.want.inside)
		}
		if got.early > c.want.early {
			t.Errorf("%d days: %.3f of the true dates are before the band, want at most %.2f", c.days, got.early, c.want.early)
		}
		if got.open > c.want.open || got.width > c.want.width {
			t.Errorf("%d days: %.3f of the bands have no end, and the others have a median of %.0f days, want at most %.2f and %.0f", c.days, got.open, got.width, c.want.open, c.want.width)
		}
	}
}
