// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"cmp"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
)

// maxDays is the longest look-back window of a rule, in days.
const maxDays = 28

// peaksOfDays are the highest levels of the last days, about 24 hours each, the newest first. 0 ends them.
type peaksOfDays [maxDays]hourly.Level

// read sets up to n days that end with an hour. None starts before the hour since. Only the newest may be incomplete. Days without
// samples are left out.
//
// If to is not nil, it gets the peaks and the boundaries of the days.
func (d *peaksOfDays) read(peaks *hourly.Peaks, since, hour, n int, to *derivation.Recorder) {
	if to != nil {
		to.Peaks = peaks
	}
	day := 0
	end := hour + 1
	for i := range min(n, maxDays) {
		from := hour + 1 - 24*(i+1)
		if i > 0 && from < since {
			break
		}
		if from >= since {
			from = max(quietest(peaks, from), since)
		}
		if l := peaks.Max(from, end); l > 0 {
			d[day] = l
			if to != nil {
				to.Days = append(to.Days, derivation.Day{From: from, Before: end})
			}
			day++
		}
		end = from
	}
}

// cutWithin is the number of hours by which the boundary between two days may be moved.
const cutWithin = 4

// quiet is the difference of levels up to which an hour is as good a boundary as the lowest one.
const quiet = hourly.Step / 8

// quietest returns the nearest hour whose peak is close to the lowest one around an hour. It becomes the boundary between two days: with
// a boundary in a peak, the peak would count for both days, and the request would rise and fall as the boundary moves.
func quietest(p *hourly.Peaks, hour int) int {
	least := p.At(hour)
	for h := hour - cutWithin; h <= hour+cutWithin; h++ {
		least = min(least, p.At(h))
	}
	for off := range cutWithin + 1 {
		for _, h := range [...]int{hour - off, hour + off} {
			if p.At(h) <= least+quiet {
				return h
			}
		}
	}
	return hour
}

func (d *peaksOfDays) all() []hourly.Level {
	n := slices.Index(d[:], 0)
	if n < 0 {
		n = maxDays
	}
	return d[:n]
}

// level is the formula of Adaptive without the margin, from peaks of days (newest first) and the base.
func (r *MemoryRule) level(days []hourly.Level, base float64, to *derivation.Recorder) float64 {
	highest, second := twoHighest(days[:min(len(days), r.Days)])
	longHighest, longSecond := twoHighest(days)
	top := float64(highest)
	level := to.Level(derivation.StepHighestDay, top)
	level = to.Shift(derivation.StepSecondDay, level, float64(r.Second*(float64(second)-top)))
	level = to.Shift(derivation.StepLongSecond, level, float64(r.LongSecond*(float64(longSecond)-top)))
	level = to.Shift(derivation.StepSpread, level, float64(r.Spread*max(0, top-base)))
	if to != nil {
		r.explainLevel(days, base, [...]hourly.Level{highest, second, longHighest, longSecond}, to)
	}
	return level
}

// twoHighest returns the highest and the second highest peak, which is the highest if there is no other.
func twoHighest(days []hourly.Level) (highest, second hourly.Level) {
	for _, peak := range days {
		if peak > highest {
			second = highest
			highest = peak
		} else if peak > second {
			second = peak
		}
	}
	return highest, cmp.Or(second, highest)
}

// explainLevel sets the evidence of the four steps of level. The peaks are the highest and the second of the short past, and of the long one.
func (r *MemoryRule) explainLevel(days []hourly.Level, base float64, peaks [4]hourly.Level, to *derivation.Recorder) {
	short := days[:min(len(days), r.Days)]
	highest := slices.Index(short, peaks[0])
	longHighest := slices.Index(days, peaks[2])
	dayEvidence(to, 3, len(short), highest, peaks[0])
	dayEvidence(to, 2, len(short), otherDay(short, peaks[1], highest), peaks[1])
	dayEvidence(to, 1, len(days), otherDay(days, peaks[3], longHighest), peaks[3])
	to.Evidence().Amount = to.Amount(hourly.Amount(base))
	to.Evidence().Share = r.Base
}

// otherDay returns the newest day with a peak other than a given day, the given day if there is no other.
func otherDay(days []hourly.Level, peak hourly.Level, not int) int {
	for i, l := range days {
		if l == peak && i != not {
			return i
		}
	}
	return not
}

// dayEvidence sets the peak of a day, its hour, and the number of days of which it was chosen, as evidence of a step before the last one.
func dayEvidence(to *derivation.Recorder, before, among, day int, peak hourly.Level) {
	e := to.EvidenceBefore(before)
	e.Days = float64(among)
	e.Amount = to.Amount(peak.Amount())
	to.HourOfDay(e, day, peak)
}

// base returns the level that a share of the last week's hours, from the hour since on, stayed below.
func (r *MemoryRule) base(p *hourly.Peaks, since, hour int) float64 {
	var room [7 * 24]hourly.Level
	hours := p.AppendHours(room[:0], max(hour+1-len(room), min(since, hour)), hour+1)
	if len(hours) == 0 {
		return 0
	}
	return float64(hourly.Quantile(hours, r.Base))
}

// A PlanRule has the conditions under which a day gets two levels.
type PlanRule struct {
	Gain   float64       // minimum saving of two levels, as a share of the request; 0 or less: one level only
	Days   int           // history that is needed
	Every  time.Duration // time between two plans
	Jitter int           // hours by which peaks may come earlier or later
	Extra  float64       // additional margin in the low hours
	Recent int           // hours whose peak is the minimum of the low level
	Ban    time.Duration // time without low hours after usage above the low level
}

// lowHours are the hours of a day (UTC) with low usage, and their level without margin.
type lowHours struct {
	from, length uint8 // length 0: none
	base         float32
}

func (l lowHours) any() bool { return l.length > 0 }

// lead is the time before the end of the low hours at which the request is raised, in seconds.
const lead = 3600

func (l lowHours) contain(at int64) bool {
	return l.has(int(at/3600%24)) && l.has(int((at+lead)/3600%24))
}

func (l lowHours) has(hour int) bool { return (hour-int(l.from)+24)%24 < int(l.length) }

// shortest is the minimum number of low hours.
const shortest = 4

// plan returns the hours of the day that get a lower request: those for which
//
//	gain = b/mean(two levels) − b/level
//
// is largest, where b, the base, is an estimate of usage. It returns none if the largest gain is less than Gain, or if the higher level is
// needed on some weekdays only: with a weekly pattern, two changes on each day are not worth it.
func (r *MemoryRule) plan(peaks *hourly.Peaks, since, hour int, usual, base float64) lowHours {
	var best lowHours
	if r.Plan.Gain <= 0 {
		return best
	}
	var room peaksOfDays
	count := min(r.Long, (hour+1-since)/24, maxDays)
	if !wellKnown(peaks, hour, r.Plan.Days) {
		return best // not enough samples
	}
	around := peaksAround(peaks, hour, r.Plan.Jitter, count)
	nats := func(position float64) float64 { return position / hourly.PerNat }
	margin := r.Margin * hourly.PerNat
	high := math.Exp(nats(base - usual - margin)) // what is used, relative to the usual level
	gain := r.Plan.Gain
	for from := range 24 {
		var days peaksOfDays
		for length := 1; length <= 22; length++ {
			top := hourly.Level(0)
			for d := range count {
				days[d] = max(days[d], around[d][(from+length-1)%24])
				top = max(top, days[d])
			}
			if length < shortest {
				continue
			}
			if float64(top) > usual+margin {
				break
			}
			seen := slices.DeleteFunc(append(room[:0], days[:count]...), func(l hourly.Level) bool { return l == 0 })
			if len(seen) < r.Plan.Days {
				continue
			}
			low := max(r.level(seen, base, nil), float64(recurring(days[:count]))) + r.Plan.Extra*hourly.PerNat
			part := float64(length) / 24
			mean := part*math.Exp(nats(low-usual)) + 1 - part // relative to the usual level
			if g := high/mean - high; g > gain {
				gain = g
				best = lowHours{from: uint8(from), length: uint8(length), base: float32(low)}
			}
		}
	}
	if best.any() && weekly(best.daysAbove(around[:count], usual)) {
		return lowHours{}
	}
	return best
}

// A dayPeaks holds the peak around each hour of a day (UTC).
type dayPeaks [24]hourly.Level

// peaksAround returns the peaks around the hours of the last days. The element [d][h] is the highest peak at most jitter hours before or
// after the hour h of the day, d days ago: between 24·d and 24·(d+1) hours before now.
func peaksAround(peaks *hourly.Peaks, hour, jitter, days int) *[maxDays]dayPeaks {
	around := new([maxDays]dayPeaks)
	for d := range days {
		for k := range 24 {
			at := hour - 24*d - k
			around[d][((at%24)+24)%24] = peaks.Max(at-jitter, at+jitter+1)
		}
	}
	return around
}

// daysAbove reports for each day, ordered from the newest, whether usage outside of the low hours needed the usual level.
func (l lowHours) daysAbove(days []dayPeaks, usual float64) []bool {
	above := make([]bool, len(days))
	for d := range days {
		high := hourly.Level(0)
		for h := range 24 {
			if !l.has(h) {
				high = max(high, days[d][h])
			}
		}
		above[d] = float64(high) > float64(l.base)+highShare*(usual-float64(l.base))
	}
	return above
}

// highShare is the position between the low and the usual level above which the peak of a day needs the usual level.
const highShare = 0.75

// weekly reports whether a set of days repeats weekly: some of the last 7 days are not in the set, and at most one day differs from the
// same day of the week before. The days are ordered from the newest.
func weekly(days []bool) bool {
	if len(days) < 14 {
		return false
	}
	without := 0
	differ := 0
	for d := range 7 {
		if !days[d] {
			without++
		}
		if days[d] != days[d+7] {
			differ++
		}
	}
	return without > 0 && differ <= 1
}

// wellKnown reports whether three quarters of the hours of the last days have samples.
func wellKnown(p *hourly.Peaks, hour, days int) bool {
	known := 0
	for h := hour + 1 - 24*days; h <= hour; h++ {
		if p.At(h) > 0 {
			known++
		}
	}
	return known >= 24*days*3/4
}
