// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// Growth is steady growth of memory.
type Growth struct {
	PerDay float64   // bytes
	Days   int       // of growth so far
	Full   time.Time // when the bound will be reached at this rate; zero if not within a year
}

// Conditions for a leak: memory grows steadily. Memory that grew once, or shrinks in between, does not leak.
const (
	leakDays   = 4    // of history at least
	leakWindow = 10   // days looked at
	leakGrowth = 0.25 // relative growth over the window at least
	leakSteady = 0.85 // share of all pairs of times of which the later has more
)

// Leak reports whether memory seems to leak, and when it will reach a bound in bytes (0: none). The peaks x of six hours each, at
// times t, have to grow: the later one is higher in nearly every pair (Kendall's τ, 1938), and the total growth is at least
// a quarter:
//
//	τ     = (pairs that grow − pairs that do not) / pairs ≥ 0.7
//	slope = median of (x_j − x_i)/(t_j − t_i) over all i < j        slope · (t_n − t_1) ≥ 0.25 · min x
//	full  = now + (bound − x_n)/slope
//
// The median of the slopes of all pairs (Theil 1950, Sen 1968) is robust against a restart or a spike.
func Leak(p *hourly.Peaks, bound float64, now time.Time) (Growth, bool) {
	const block = 6
	hour := int(now.Unix() / 3600)
	var at, value []float64 // days ago (negative), bytes
	for from := hour - leakWindow*24; from < hour; from += block {
		if l := p.Max(from, from+block); l > 0 && from >= p.Since() {
			at = append(at, float64(from+block-hour)/24)
			value = append(value, l.Amount())
		}
	}
	count := len(at)
	if count < leakDays*24/block {
		return Growth{}, false
	}
	later := 0
	slopes := make([]float64, 0, count*(count-1)/2)
	for i := range at {
		for j := i + 1; j < count; j++ {
			if value[j] > value[i] {
				later++
			}
			slopes = append(slopes, (value[j]-value[i])/(at[j]-at[i]))
		}
	}
	slices.Sort(slopes)
	slope := slopes[len(slopes)/2]
	span := at[count-1] - at[0]
	first := slices.Min(value)
	if float64(later) < leakSteady*float64(len(slopes)) || slope*span < leakGrowth*first {
		return Growth{}, false
	}
	g := Growth{PerDay: slope, Days: int(math.Ceil(span))}
	g.Full = g.full(bound-value[count-1], bound, now)
	return g, true
}

// full returns when a bound is reached, where left is the distance to it.
func (g *Growth) full(left, bound float64, now time.Time) time.Time {
	if days := max(left, 0) / g.PerDay; bound > 0 && days < 366 {
		return now.Add(time.Duration(days * 24 * float64(time.Hour)))
	}
	return time.Time{}
}

// LeakOf reports whether the memory of a container looked like it leaks at the last check, which is once a day, and when it
// will reach a bound in bytes (0: none). Only profiles that size memory by Adaptive check for leaks.
func LeakOf(s *usage.ContainerHistory, bound float64, now time.Time) (Suspicion, bool) {
	if m := memoOf(s.Extension()); m != nil {
		return m.leak.suspicion(bound, now)
	}
	return Suspicion{}, false
}

// A Suspicion is a suspected memory leak.
type Suspicion struct {
	Growth
	Since time.Time // start of the growth, or of the history if that is later
	Last  time.Time // when growth was last detected
	Most  float64   // bytes: bound of the request; 0: no bound
}

// leak is the state of a suspected leak. It is reported, and the request follows the growth. If a profile sets LeakBound, the request is
// bounded at LeakBound times the request when growth was first detected. Suspicion and bound end when memory has neither grown steadily nor
// come near the bound for leakOver. Times are Unix seconds.
type leak struct {
	since  int64   // first suspected; 0: no leak is suspected
	seen   int64   // last suspected
	last   int64   // last suspected, or last near the bound
	bound  float64 // bytes: bound of the request; 0: no bound
	perDay float64 // the growth when it was last suspected
	peak   float64 // the newest peak then
	from   int64   // start of the growth
}

const (
	leakNear = 0.95 // of the bound
	// growthAhead is the number of days of growth that a request provides for.
	growthAhead = 1.5
	leakOver    = 14 * daySeconds
)

// judge checks the peaks, once a day. A new suspicion gets a bound (0: none). It ends leakOver after it was last confirmed.
func (l *leak) judge(peaks *hourly.Peaks, bound float64, now int64) {
	if bound == 0 { // the profile has no bound any more
		l.bound = 0
	}
	if g, suspected := Leak(peaks, 0, time.Unix(now, 0)); suspected {
		if l.since == 0 {
			l.since = now
			l.bound = bound
			l.from = now - int64(g.Days)*daySeconds
		}
		l.seen = now
		l.last = now
		l.perDay = g.PerDay
		l.peak = peaks.Max(int(now/3600)-6, int(now/3600)+1).Amount()
		return
	}
	if now-l.last > leakOver {
		*l = leak{}
	}
}

// most returns the bound of the request, infinity without a bound.
func (l *leak) most() float64 {
	if !l.bounds() {
		return math.Inf(1)
	}
	return l.bound
}

// bounds reports whether a suspicion bounds the request.
func (l *leak) bounds() bool { return l.since != 0 && l.bound > 0 }

// ahead returns the request for steady growth: the peak of the last 24 hours and the growth of the next days; 0 if memory does not
// grow. The growth of a day is the slope, or that of the last day if it is more, at most three slopes.
func (l *leak) ahead(days []hourly.Level, now int64) float64 {
	if l.since == 0 || now-l.seen > 2*daySeconds || len(days) < 2 {
		return 0
	}
	today := days[0].Amount()
	before := days[1].Amount()
	return today + growthAhead*min(max(today-before, l.perDay), 3*l.perDay)
}

// used records usage near the bound.
func (l *leak) used(v float64, now int64) {
	if l.bounds() && v >= leakNear*l.bound {
		l.last = max(l.last, now)
	}
}

func (l *leak) suspicion(bound float64, now time.Time) (Suspicion, bool) {
	if l.since == 0 {
		return Suspicion{}, false
	}
	s := Suspicion{Since: time.Unix(l.from, 0).UTC(), Last: time.Unix(l.seen, 0).UTC(), Most: l.bound}
	s.PerDay = l.perDay
	s.Days = int((now.Unix() - l.from) / daySeconds)
	s.Full = s.full(bound-l.peak, bound, s.Last)
	return s, true
}

// code encodes or decodes a suspicion: nothing, when memory is not suspected to leak. It has to be the last of what is stored.
func (l *leak) code(c *codec.Coder) {
	if c.Decoding() {
		*l = leak{}
	}
	if absent := c.Decoding() && c.Len() == 0 || !c.Decoding() && l.since == 0; absent {
		return
	}
	for _, at := range [...]*int64{&l.since, &l.seen, &l.last, &l.from} {
		codec.Varint(c, "time of a suspected leak", at, 0, maxStoredTime)
	}
	c.Float64("bound of a suspected leak", &l.bound, 0, maxStored)
	c.Float64("growth of a suspected leak", &l.perDay, 0, maxStored)
	c.Float64("peak of a suspected leak", &l.peak, 0, maxStored)
	if l.since == 0 || l.seen < l.since || l.last < l.seen || l.from > l.since {
		c.Fail("times of a suspected leak are not in order")
	}
}
