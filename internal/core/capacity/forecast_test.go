// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const total = 192_000 // capacity in millicores

// now is the time of the tests.
var now = today.Time().Add(12 * time.Hour)

// line returns days until today that end at a value and grow by an amount per day, with a little noise.
func line(days int, last, perDay float64) []Point {
	r := rand.New(rand.NewPCG(7, 7))
	var out []Point
	for i := range days {
		age := float64(days - 1 - i)
		out = append(out, Point{today - Day(age), last - perDay*age + 500*r.NormFloat64(), total})
	}
	return out
}

// outlookOf returns the outlook of an input, as Assess does.
func outlookOf(in Input) Outlook {
	lines := linesOf(&in)
	return lines.against(&in)
}

func forecast(points []Point, change func(*Input)) Outlook {
	in := Input{Points: points, Capacity: total, Thresholds: []float64{0.7, 1}, LeadTime: 14, Now: now}
	if len(points) > 0 {
		in.Requested = points[len(points)-1].Requested
	}
	if change != nil {
		change(&in)
	}
	return outlookOf(in)
}

func TestForecast_steadyGrowth_dateIsWhereTheLineReachesTheCapacity(t *testing.T) {
	o := forecast(line(60, 150_000, 1000), nil)
	c := o.Crossing(1)
	if c.State != Ahead || c.Expected < today+39 || c.Expected > today+45 || c.Earliest >= c.Expected || c.Latest <= c.Expected || c.Latest-c.Earliest > 20 {
		t.Errorf("100 %%: %+v, expected %v", c, c.Expected-today)
	}
	if want := c.Earliest - 14 - 3; o.OrderBy != want {
		t.Errorf("order by %s, want %s", o.OrderBy, want)
	}
	if above := o.Crossing(0.7); above.State != Above || today-above.Since < 10 || today-above.Since > 20 {
		t.Errorf("70 %%: %+v", above)
	}
	if o.Slope < 950 || o.Slope > 1050 {
		t.Errorf("slope %v", o.Slope)
	}
}

func TestForecast_noGrowth_noDate(t *testing.T) {
	o := forecast(line(60, 100_000, 0), nil)
	for _, c := range o.Crossings {
		if c.State != NotWithin || c.Earliest != 0 {
			t.Errorf("%+v", c)
		}
	}
	if o.OrderBy != 0 {
		t.Errorf("order by %s", o.OrderBy)
	}
}

func TestForecast_step_isTakenOutAndListed(t *testing.T) {
	points := line(60, 110_000, 200)
	for i := range points {
		if i >= 40 {
			points[i].Requested += 30_000
		}
	}
	o := forecast(points, nil)
	if len(o.Steps) != 1 || o.Steps[0].Day != points[40].Day || math.Abs(o.Steps[0].Amount-30_000) > 2500 {
		t.Errorf("steps %+v", o.Steps)
	}
	if o.Slope < 100 || o.Slope > 300 {
		t.Errorf("slope %v with a step, want 200", o.Slope)
	}
}

func TestForecast_knownStep_isNotReportedTwice(t *testing.T) {
	points := line(60, 110_000, 200)
	for i := range points {
		if i >= 40 {
			points[i].Requested += 30_000
		}
	}
	known := []Step{{points[40].Day, 30_000}}
	o := forecast(points, func(in *Input) { in.Steps = known })
	if !slices.Equal(o.Steps, known) {
		t.Errorf("steps %+v, want %+v", o.Steps, known)
	}
}

func TestForecast_outlierOfOneDay_isNoStep(t *testing.T) {
	points := line(60, 110_000, 200)
	points[30].Requested += 60_000
	if o := forecast(points, nil); len(o.Steps) != 0 {
		t.Errorf("steps %+v", o.Steps)
	}
}

func TestForecast_lowerWeekends_areNoSteps(t *testing.T) {
	points := line(60, 110_000, 200)
	for i := range points {
		if w := points[i].Day.Time().Weekday(); w == time.Saturday || w == time.Sunday {
			points[i].Requested -= 25_000
		}
	}
	o := forecast(points, nil)
	if len(o.Steps) != 0 {
		t.Errorf("steps %+v", o.Steps)
	}
	if o.Slope < 100 || o.Slope > 300 {
		t.Errorf("slope %v, want 200", o.Slope)
	}
}

func TestForecast_badInput_hasNoDate(t *testing.T) {
	gaps := line(60, 150_000, 1000)
	for name, c := range map[string]struct {
		points []Point
		change func(*Input)
		want   Shortage
	}{
		"nothing":                      {nil, nil, TooFewDays},
		"5 days":                       {line(5, 150_000, 1000), nil, TooFewDays},
		"13 days":                      {line(13, 150_000, 1000), nil, TooFewDays},
		"no capacity":                  {line(60, 150_000, 1000), func(in *Input) { in.Capacity = 0 }, NoCapacity},
		"negative capacity":            {line(60, 150_000, 1000), func(in *Input) { in.Capacity = -1 }, NoCapacity},
		"NaN capacity":                 {line(60, 150_000, 1000), func(in *Input) { in.Capacity = math.NaN() }, NoCapacity},
		"infinite capacity":            {line(60, 150_000, 1000), func(in *Input) { in.Capacity = math.Inf(1) }, NoCapacity},
		"all NaN":                      {line(60, math.NaN(), 0), nil, TooFewDays},
		"clock 3 weeks ahead":          {line(60, 150_000, 1000), func(in *Input) { in.Now = in.Now.AddDate(0, 0, 21) }, Outdated},
		"clock before the first value": {line(60, 150_000, 1000), func(in *Input) { in.Now = in.Now.AddDate(-1, 0, 0) }, TooFewDays},
		"clock at zero":                {line(60, 150_000, 1000), func(in *Input) { in.Now = time.Time{} }, TooFewDays},
		"only 4 of the last 28 days":   {slices.Concat(gaps[:30], gaps[56:]), nil, TooManyGaps},
		"gap until 8 days ago":         {gaps[:51], nil, Outdated},
	} {
		o := forecast(c.points, c.change)
		if o.Shortage != c.want {
			t.Errorf("%s: %q, want %q", name, o.Shortage, c.want)
		}
		for _, x := range o.Crossings {
			if x.State == Ahead || x.Earliest != 0 || x.Expected != 0 || x.Latest != 0 {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if full := o.Crossing(1); o.OrderBy != 0 && full.State != Above {
			t.Errorf("%s: order by %s", name, o.OrderBy)
		}
	}
}

func TestForecast_damagedValues_areLeftOut(t *testing.T) {
	points := line(60, 150_000, 1000)
	want := forecast(points, nil).Crossing(1)
	damaged := slices.Clone(points)
	damaged = append(damaged, points[10], Point{today + 400, 1e9, total}, Point{-5, 1, total}, Point{today - 3, math.NaN(), total}, Point{today - 3, math.Inf(1), total}, Point{today - 3, -4, total})
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(damaged), func(i, k int) { damaged[i], damaged[k] = damaged[k], damaged[i] })
	o := forecast(damaged, func(in *Input) { in.Requested = points[59].Requested })
	if got := o.Crossing(1); got != want || o.Days != 60 {
		t.Errorf("%+v with damaged values, %+v without; %d days", got, want, o.Days)
	}
}

func TestForecast_gapsOfDays_widenTheBand(t *testing.T) {
	points := line(60, 150_000, 1000)
	full := forecast(points, nil).Crossing(1)
	sparse := slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Day%3 != 0 && p.Day != today })
	c := forecast(sparse, nil).Crossing(1)
	if c.State != Ahead || c.Expected < full.Expected-6 || c.Expected > full.Expected+6 {
		t.Errorf("with gaps %+v, without %+v", c, full)
	}
	if c.Latest != 0 && c.Latest-c.Earliest < full.Latest-full.Earliest {
		t.Errorf("the band with gaps, %d days, is narrower than without, %d days", c.Latest-c.Earliest, full.Latest-full.Earliest)
	}
}

func TestForecast_evenSeries_bandHasAWidth(t *testing.T) {
	var points []Point
	for i := range 60 {
		points = append(points, Point{today - Day(59-i), 91_000 + 1000*float64(i), total})
	}
	if c := forecast(points, nil).Crossing(1); c.Earliest >= c.Expected {
		t.Errorf("%+v", c)
	}
}

func TestForecast_unfinishedToday_countsOnlyIfItIsHigher(t *testing.T) {
	points := line(60, 150_000, 1000)
	want := forecast(points[:59], func(in *Input) { in.Requested = 150_000 }).Crossing(1)
	points[59].Requested = 3000 // shortly after midnight
	if got := forecast(points, func(in *Input) { in.Requested = 150_000 }).Crossing(1); got != want {
		t.Errorf("%+v with a low value of today, %+v without", got, want)
	}
}

func TestForecast_lessRequested_dateIsLater(t *testing.T) {
	points := line(60, 150_000, 1000)
	a, b := forecast(points, nil).Crossing(1), forecast(points, func(in *Input) { in.Less = 20_000 }).Crossing(1)
	if later := b.Expected - a.Expected; later < 18 || later > 22 {
		t.Errorf("the date is %d days later with 20 cores less, want 20", later)
	}
}

func TestForecast_fullPool_orderNow(t *testing.T) {
	o := forecast(line(60, 200_000, 1000), nil)
	if c := o.Crossing(1); c.State != Above || o.OrderBy != today {
		t.Errorf("%+v, order by %s", c, o.OrderBy)
	}
}

func TestForecast_shortHistory_looksAheadLess(t *testing.T) {
	for days, want := range map[int]int{14: 42, 20: 60, 40: 90, 90: 90} {
		if o := forecast(line(days, 100_000, 10), nil); o.Reach != want {
			t.Errorf("%d days of history: looks %d days ahead, want %d", days, o.Reach, want)
		}
	}
}

// Whatever is in the history, a forecast does not panic, and its dates are in order.
func FuzzForecast_anyValues_datesAreInOrder(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, int64(1000), uint8(3))
	f.Add([]byte{0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 0, 255, 255, 1}, int64(0), uint8(0))
	f.Fuzz(func(t *testing.T, values []byte, capacity int64, skip uint8) {
		var points []Point
		for i, v := range values[:min(len(values), 120)] {
			if skip > 0 && i%(int(skip)+1) == 0 {
				continue
			}
			points = append(points, Point{today - Day(len(values)-1-i), float64(v) * 1000, float64(capacity)})
		}
		o := outlookOf(Input{Points: points, Capacity: float64(capacity), Requested: 5, Thresholds: []float64{0.7, 1}, LeadTime: 14, Now: now})
		for _, c := range o.Crossings {
			if c.State != Ahead {
				continue
			}
			if c.Earliest <= today || c.Expected != 0 && c.Expected < c.Earliest || c.Latest != 0 && c.Latest < c.Expected || c.Latest > today+Horizon {
				t.Errorf("%+v", c)
			}
		}
		for i := range o.High {
			if !(o.Low[i] <= o.Middle[i] && o.Middle[i] <= o.High[i]) {
				t.Errorf("day %d: %v, %v, %v", i+1, o.Low[i], o.Middle[i], o.High[i])
			}
		}
	})
}

// Days are compared with the calendar.
func TestDay_dates_areThoseOfTheCalendar(t *testing.T) {
	for _, text := range []string{"1969-12-31", "1970-01-02", "2000-02-29", "2026-11-22"} {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, hours := range []int{0, 1, 23} {
			d := DayOf(at.Add(time.Duration(hours) * time.Hour))
			if d.String() != text {
				t.Errorf("%s + %d h is day %s", text, hours, d)
			}
			if got, ok := ParseDay(text); !ok || got != d {
				t.Errorf("%s is parsed as %s", text, got)
			}
		}
	}
	if _, ok := ParseDay("2026-13-01"); ok {
		t.Error("an invalid date is accepted")
	}
}
