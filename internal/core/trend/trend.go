// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trend detects steady growth of memory, and keeps the state of a suspected leak.
package trend

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
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

// Steady reports whether memory seems to leak, and when it will reach a bound in bytes (0: none). The peaks x of six hours each, at
// times t, have to grow: the later one is higher in nearly every pair (Kendall's τ, 1938), and the total growth is at least
// a quarter:
//
//	τ     = (pairs that grow − pairs that do not) / pairs ≥ 0.7
//	slope = median of (x_j − x_i)/(t_j − t_i) over all i < j        slope · (t_n − t_1) ≥ 0.25 · min x
//	full  = now + (bound − x_n)/slope
//
// The median of the slopes of all pairs (Theil 1950, Sen 1968) is robust against a restart or a spike.
func Steady(p *hourly.Peaks, bound float64, now time.Time) (Growth, bool) {
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
	g.Full = g.Reaches(bound-value[count-1], bound, now)
	return g, true
}

// Reaches returns when a bound is reached, where left is the distance to it; zero if not within a year, or if there is no bound.
func (g *Growth) Reaches(left, bound float64, now time.Time) time.Time {
	if days := max(left, 0) / g.PerDay; bound > 0 && days < 366 {
		return now.Add(time.Duration(days * 24 * float64(time.Hour)))
	}
	return time.Time{}
}

// A Suspicion is a suspected memory leak.
type Suspicion struct {
	Growth
	Since time.Time // start of the growth, or of the history if that is later
	Last  time.Time // when growth was last detected
	Most  float64   // bytes: bound of the request; 0: no bound
}

// A Leak is the state of a suspected leak. It is reported, and the request follows the growth. If a profile sets LeakBound, the request is
// bounded at LeakBound times the request when growth was first detected. Suspicion and bound end when memory has neither grown steadily nor
// come near the bound for leakOver. Times are Unix seconds.
type Leak struct {
	Since  int64   // first suspected; 0: no leak is suspected
	Seen   int64   // last suspected
	Last   int64   // last suspected, or last near the bound
	Bound  float64 // bytes: bound of the request; 0: no bound
	PerDay float64 // the growth when it was last suspected
	Peak   float64 // the newest peak then
	From   int64   // start of the growth
}

const (
	leakNear = 0.95 // of the bound
	// growthAhead is the number of days of growth that a request provides for.
	growthAhead = 1.5
	leakOver    = 14 * daySeconds
	daySeconds  = 24 * 3600
)

// Judge checks the peaks of a container for a leak, once a day. A new suspicion keeps the bound in bytes; 0 means no bound. A suspicion ends
// leakOver after it was last confirmed.
func (l *Leak) Judge(peaks *hourly.Peaks, bound float64, now int64) {
	if bound == 0 { // the profile has no bound any more
		l.Bound = 0
	}
	if g, suspected := Steady(peaks, 0, time.Unix(now, 0)); suspected {
		if l.Since == 0 {
			l.Since = now
			l.Bound = bound
			l.From = now - int64(g.Days)*daySeconds
		}
		l.Seen = now
		l.Last = now
		l.PerDay = g.PerDay
		l.Peak = peaks.Max(int(now/3600)-6, int(now/3600)+1).Amount()
		return
	}
	if now-l.Last > leakOver {
		*l = Leak{}
	}
}

// Bounds reports whether a suspicion bounds the request.
func (l *Leak) Bounds() bool { return l.Since != 0 && l.Bound > 0 }

// Ahead returns the request for steady growth: the peak of the last 24 hours and the growth of the next days; 0 if memory does not
// grow. The growth of a day is the slope, or that of the last day if it is more, at most three slopes.
func (l *Leak) Ahead(days []hourly.Level, now int64) float64 {
	if l.Since == 0 || now-l.Seen > 2*daySeconds || len(days) < 2 {
		return 0
	}
	today := days[0].Amount()
	before := days[1].Amount()
	return today + growthAhead*min(max(today-before, l.PerDay), 3*l.PerDay)
}

// Used records usage near the bound.
func (l *Leak) Used(v float64, now int64) {
	if l.Bounds() && v >= leakNear*l.Bound {
		l.Last = max(l.Last, now)
	}
}

// Suspicion returns what is suspected, and when a bound in bytes (0: none) will be reached; false if nothing is.
func (l *Leak) Suspicion(bound float64, now time.Time) (Suspicion, bool) {
	if l.Since == 0 {
		return Suspicion{}, false
	}
	s := Suspicion{Since: time.Unix(l.From, 0).UTC(), Last: time.Unix(l.Seen, 0).UTC(), Most: l.Bound}
	s.PerDay = l.PerDay
	s.Days = int((now.Unix() - l.From) / daySeconds)
	s.Full = s.Reaches(bound-l.Peak, bound, s.Last)
	return s, true
}

// Message describes the growth of a container's memory, and when it reaches a bound: a field with an amount in bytes. Amounts are rounded, so the message
// changes rarely.
func (s *Suspicion) Message(container, field string, bound int64, now time.Time) string {
	var b strings.Builder
	perDay := cluster.Format(cluster.Memory, rounded(s.PerDay))
	if growing := now.Sub(s.Last) < 48*time.Hour; growing {
		fmt.Fprintf(&b, "Memory of container %s has grown by about %s a day since %s", container, perDay, s.Since.Format(time.DateOnly))
		if !s.Full.IsZero() {
			fmt.Fprintf(&b, ", and at this rate reaches its %s of %s about %s", field, cluster.Format(cluster.Memory, bound), s.Full.Format(time.DateOnly))
		}
	} else {
		fmt.Fprintf(&b, "Memory of container %s grew by about %s a day from %s to %s", container, perDay, s.Since.Format(time.DateOnly), s.Last.Format(time.DateOnly))
	}
	if s.Most > 0 {
		fmt.Fprintf(&b, "; leakBound of its profile limits its recommendation to %s until two weeks after the growth has stopped. If this growth is intended, raise leakBound or set minAllowed",
			cluster.Format(cluster.Memory, rounded(s.Most)))
	}
	return b.String() + "."
}

// rounded rounds bytes to two significant digits, in whole MiB from 1 MiB on.
func rounded(bytes float64) int64 {
	const mib = 1 << 20
	value := bytes
	unit := 1.0
	if bytes >= mib {
		value = bytes / mib
		unit = mib
	}
	step := math.Pow(10, max(math.Floor(math.Log10(max(value, 1)))-1, 0))
	return int64(math.Round(value/step) * step * unit)
}

// Code encodes or decodes a suspicion: nothing, when memory is not suspected to leak. It has to be the last of what is stored.
func (l *Leak) Code(c *codec.Coder) {
	if c.Decoding() {
		*l = Leak{}
	}
	if absent := c.Decoding() && c.Len() == 0 || !c.Decoding() && l.Since == 0; absent {
		return
	}
	for _, at := range [...]*int64{&l.Since, &l.Seen, &l.Last, &l.From} {
		codec.Varint(c, "time of a suspected leak", at, 0, codec.MaxTime)
	}
	c.Float64("bound of a suspected leak", &l.Bound, 0, codec.MaxNumber)
	c.Float64("growth of a suspected leak", &l.PerDay, 0, codec.MaxNumber)
	c.Float64("peak of a suspected leak", &l.Peak, 0, codec.MaxNumber)
	if l.Since == 0 || l.Seen < l.Since || l.Last < l.Seen || l.From > l.Since {
		c.Fail("times of a suspected leak are not in order")
	}
}

// Latest returns the time of the newest observation.
func (l *Leak) Latest() int64 { return max(l.Since, l.Seen, l.Last) }
