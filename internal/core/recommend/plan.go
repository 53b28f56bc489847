// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/series"
)

// maxDays is how many days a rule can look back.
const maxDays = 28

// peaksOfDays are the highest levels of the last days, 24 hours each, the newest first. 0 ends them.
type peaksOfDays [maxDays]series.Level

// read fills in up to n days that end with an hour. Only the newest may be incomplete; days without samples are left out.
func (d *peaksOfDays) read(p *series.Peaks, hour, n int) {
	k := 0
	for i := range min(n, maxDays) {
		from := hour + 1 - 24*(i+1)
		if i > 0 && from < p.Since() {
			break
		}
		if l := p.Max(from, from+24); l > 0 {
			d[k] = l
			k++
		}
	}
}

func (d *peaksOfDays) all() []series.Level {
	n := slices.Index(d[:], 0)
	if n < 0 {
		n = maxDays
	}
	return d[:n]
}

// level is the formula of Adaptive without the margin, from peaks of days (newest first) and the base.
func (r *MemoryRule) level(days []series.Level, base float64) float64 {
	var x1, x2, y1, y2 series.Level // the highest and second of the short past, and of the long one
	for i, l := range days {
		if i < r.Days {
			if l > x1 {
				x1, x2 = l, x1
			} else if l > x2 {
				x2 = l
			}
		}
		if l > y1 {
			y1, y2 = l, y1
		} else if l > y2 {
			y2 = l
		}
	}
	if x2 == 0 {
		x2 = x1
	}
	if y2 == 0 {
		y2 = y1
	}
	x := float64(x1)
	return x + r.Second*(float64(x2)-x) + r.LongSecond*(float64(y2)-x) + r.Spread*max(0, x-base)
}

// base returns the level that a share of the last week's hours stayed below.
func (r *MemoryRule) base(p *series.Peaks, hour int) float64 {
	var room [7 * 24]series.Level
	hours := p.AppendHours(room[:0], hour+1-len(room), hour+1)
	if len(hours) == 0 {
		return 0
	}
	slices.Sort(hours)
	return float64(hours[int(r.Base*float64(len(hours)-1))])
}

// A PlanRule says when a day gets two levels.
type PlanRule struct {
	Gain   float64       // two levels must save so much of the request a day, relative; 0 or less: never
	Days   int           // how much history it takes
	Every  time.Duration // how often it is thought over
	Jitter int           // hours by which peaks may come earlier or later
	Extra  float64       // margin on top in the low hours
	Recent int           // hours whose peak the low level stays above
	Ban    time.Duration // after usage above the low level, there are no low hours
}

// lowHours are the hours of a day (UTC) in which usage stays low, and the level of that without margin.
type lowHours struct {
	from, length uint8 // length 0: none
	base         float32
}

func (l lowHours) any() bool { return l.length > 0 }

// lead is how long before the low hours end the request is raised.
const lead = 3600

// contain reports whether a time lies in the low hours.
func (l lowHours) contain(at int64) bool {
	return l.has(int(at/3600%24)) && l.has(int((at+lead)/3600%24))
}

func (l lowHours) has(hour int) bool { return (hour-int(l.from)+24)%24 < int(l.length) }

// shortest is how many hours the low hours last at least.
const shortest = 4

// plan finds the hours of the day that are worth a lower request: those for which
//
//	gain = b/mean(two levels) − b/level
//
// is largest, where b is the base as an estimate of what is used. It returns none when the largest gain is less than
// a day of two changes more has to bring.
func (r *MemoryRule) plan(p *series.Peaks, hour int, usual, base float64) lowHours {
	var best lowHours
	if r.Plan.Gain <= 0 {
		return best
	}
	var room peaksOfDays
	n := min(r.Long, (hour+1-p.Since())/24, maxDays)
	if !wellKnown(p, hour, r.Plan.Days) {
		return best // it may only seem low
	}
	// peaks[d][h] is the peak around the hour h of the day, d days ago: between 24·d and 24·(d+1) hours before now.
	var peaks [maxDays][24]series.Level
	for d := range n {
		for k := range 24 {
			at := hour - 24*d - k
			peaks[d][((at%24)+24)%24] = p.Max(at-r.Plan.Jitter, at+r.Plan.Jitter+1)
		}
	}
	nats := func(position float64) float64 { return position / series.PerNat }
	margin := r.Margin * series.PerNat
	high := math.Exp(nats(base - usual - margin)) // what is used, relative to the usual level
	gain := r.Plan.Gain
	for from := range 24 {
		var days peaksOfDays
		for length := 1; length <= 22; length++ {
			top := series.Level(0)
			for d := range n {
				days[d] = max(days[d], peaks[d][(from+length-1)%24])
				top = max(top, days[d])
			}
			if length < shortest {
				continue
			}
			if float64(top) > usual+margin {
				break
			}
			seen := days.seen(room[:0], n)
			if len(seen) < r.Plan.Days {
				continue
			}
			low := r.level(seen, base) + r.Plan.Extra*series.PerNat
			part := float64(length) / 24
			mean := part*math.Exp(nats(low-usual)) + 1 - part // relative to the usual level
			if g := high/mean - high; g > gain {
				gain = g
				best = lowHours{from: uint8(from), length: uint8(length), base: float32(low)}
			}
		}
	}
	return best
}

// seen appends those of the first n days that have samples.
func (d *peaksOfDays) seen(to []series.Level, n int) []series.Level {
	for _, l := range d[:n] {
		if l > 0 {
			to = append(to, l)
		}
	}
	return to
}

// wellKnown reports whether there are samples of three quarters of the hours of the last days.
func wellKnown(p *series.Peaks, hour, days int) bool {
	known := 0
	for h := hour + 1 - 24*days; h <= hour; h++ {
		if p.At(h) > 0 {
			known++
		}
	}
	return known >= 24*days*3/4
}
