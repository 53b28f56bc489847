// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trend

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
)

const mib = 1 << 20

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// rising returns the peaks of days of memory that grows by an amount a day from 500 MiB on, and the hour after them.
func rising(days int, perDay float64) (*hourly.Peaks, time.Time) {
	p := hourly.NewPeaks(14 * 24)
	for h := range days * 24 {
		p.Observe(int(start.Unix()/3600)+h, (500+perDay*float64(h)/24)*mib)
	}
	return &p, start.Add(time.Duration(days) * 24 * time.Hour)
}

func TestSteady_growth_hasItsSlopeAndEnd(t *testing.T) {
	for name, c := range map[string]struct {
		days   int
		perDay float64
		bound  float64 // MiB
		want   bool
		left   float64 // days until the bound; 0: none
	}{
		"grows":                          {10, 50, 0, true, 0},
		"grows, with a bound":            {10, 50, 1500, true, 10},
		"grows, the bound is far away":   {10, 50, 1e6, true, 0},
		"grows, above the bound already": {10, 50, 800, true, 0},
		"three days only":                {3, 50, 1500, false, 0},
		"does not grow":                  {10, 0, 1500, false, 0},
		"shrinks":                        {10, -20, 1500, false, 0},
		"grows by less than a quarter":   {10, 5, 1500, false, 0},
	} {
		p, now := rising(c.days, c.perDay)
		g, ok := Steady(p, c.bound*mib, now)
		if ok != c.want || ok && math.Abs(g.PerDay/mib-c.perDay) > 1 {
			t.Errorf("%s: %v, %.1f MiB a day", name, ok, g.PerDay/mib)
		}
		if c.left > 0 && math.Abs(g.Full.Sub(now).Hours()/24-c.left) > 0.5 || c.bound >= 1e6 && !g.Full.IsZero() {
			t.Errorf("%s: full at %v, want in %g days", name, g.Full, c.left)
		}
	}
}

func TestLeak_growthBeginsAndStops_isSuspectedForTwoMoreWeeks(t *testing.T) {
	var l Leak
	p, now := rising(10, 50)
	if _, suspected := l.Suspicion(0, now); suspected || l.Bounds() || l.Ahead([]hourly.Level{2, 1}, now.Unix()) != 0 {
		t.Error("nothing was observed, and a leak is suspected")
	}
	l.Judge(p, 2000*mib, now.Unix())
	s, suspected := l.Suspicion(1500*mib, now)
	if !suspected || s.Most != 2000*mib || s.Days != 10 || math.Abs(s.Full.Sub(now).Hours()/24-10) > 0.5 || l.Bound != 2000*mib || !l.Bounds() {
		t.Errorf("suspicion %v %+v, bound %g", suspected, s, l.Bound/mib)
	}
	days := []hourly.Level{hourly.LevelOf(1000 * mib), hourly.LevelOf(950 * mib)}
	if got := l.Ahead(days, now.Unix()) / mib; math.Abs(got-1075) > 3 {
		t.Errorf("the request for a growth of 50 MiB a day is %.0f MiB, want 1000 and one and a half days", got)
	}
	flat, _ := rising(1, 0)
	later := now.Add(13 * 24 * time.Hour)
	if l.Judge(flat, 2000*mib, later.Unix()); l.Ahead(days, later.Unix()) != 0 || l.Since == 0 {
		t.Errorf("13 days after the end of the growth: %+v", l)
	}
	l.Used(1000*mib, later.Unix())
	if l.Last != now.Unix() {
		t.Error("usage far from the bound prolongs the suspicion")
	}
	if l.Used(1950*mib, later.Unix()); l.Last != later.Unix() || l.Latest() != later.Unix() {
		t.Error("usage near the bound does not prolong the suspicion")
	}
	if l.Judge(flat, 0, later.Unix()); l.Bounds() {
		t.Error("the profile has no bound any more, and the request is bounded")
	}
	if l.Judge(flat, 0, later.Add(15*24*time.Hour).Unix()); l.Since != 0 {
		t.Errorf("two weeks later a leak is suspected: %+v", l)
	}
}

// state is a Leak alone, as codec.State.
type state struct{ Leak }

func TestLeak_stored_isReadBackOrRefused(t *testing.T) {
	for name, c := range map[string]struct {
		l     Leak
		valid bool
	}{
		"none":                           {Leak{}, true},
		"a leak":                         {Leak{Since: 100, Seen: 200, Last: 300, From: 50, Bound: 5e8, PerDay: 1e6, Peak: 3e8}, true},
		"seen before it was suspected":   {Leak{Since: 100, Seen: 99, Last: 300, From: 50}, false},
		"begins after it was suspected":  {Leak{Since: 100, Seen: 200, Last: 300, From: 150}, false},
		"near the bound, and never seen": {Leak{Since: 100, Seen: 200, Last: 199, From: 50}, false},
	} {
		data, err := codec.Append(nil, &state{c.l})
		var got state
		if err == nil {
			err = codec.Read(data, &got)
		}
		if (err == nil) != c.valid || c.valid && got.Leak != c.l {
			t.Errorf("%s: read %+v, error %v", name, got.Leak, err)
		}
	}
}

func TestMessage_growth_namesRateBoundAndRemedy(t *testing.T) {
	now := time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	since, full := now.Add(-10*24*time.Hour), now.Add(20*24*time.Hour)
	for name, tt := range map[string]struct {
		leak Suspicion
		want string
	}{
		"grows": {Suspicion{Growth: Growth{PerDay: 20 * mib}, Since: since, Last: now},
			"Memory of container app has grown by about 20Mi a day since 2026-03-10."},
		"reaches its limit": {Suspicion{Growth: Growth{PerDay: 20 * mib, Full: full}, Since: since, Last: now},
			"Memory of container app has grown by about 20Mi a day since 2026-03-10, and at this rate reaches its limit of 1Gi about 2026-04-09."},
		"has grown until two days ago": {Suspicion{Growth: Growth{PerDay: 20 * mib, Full: full}, Since: since, Last: now.Add(-48 * time.Hour)},
			"Memory of container app grew by about 20Mi a day from 2026-03-10 to 2026-03-18."},
		"recommendation is bounded": {Suspicion{Growth: Growth{PerDay: 20 * mib}, Since: since, Last: now, Most: 300 * mib},
			"Memory of container app has grown by about 20Mi a day since 2026-03-10; leakBound of its profile limits its recommendation to 300Mi until two weeks after the growth has stopped. " +
				"If this growth is intended, raise leakBound or set minAllowed."},
	} {
		if got := tt.leak.Message("app", "limit", 1<<30, now); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestRounded_bytes_haveTwoSignificantDigits(t *testing.T) {
	for bytes, want := range map[float64]int64{0: 0, 7: 7, 123: 120, mib - 1: 1_000_000, mib: mib, 12.6 * mib: 13 * mib, 126 * mib: 130 * mib} {
		if got := rounded(bytes); got != want {
			t.Errorf("%v bytes: got %d, want %d", bytes, got, want)
		}
	}
}
