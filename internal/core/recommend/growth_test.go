// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// drip is a leaking container whose limit equals its request: it grows every day, is killed at its limit, and restarts.
type drip struct {
	*bench
	used   float64 // MiB
	most   float64 // the highest request there was, MiB
	killed int
}

func (d *drip) live(days int, perDay float64) {
	if d.used == 0 {
		d.used = 300
	}
	for range days * 24 * 12 {
		d.used += perDay / 24 / 12
		if d.sample() {
			d.used = 300
		}
	}
}

// hour is an hour of the same usage.
func (d *drip) hour() {
	for range 12 {
		d.sample()
	}
}

// sample is five minutes, and whether there is a kill in them.
func (d *drip) sample() (killed bool) {
	limit := d.memory()
	p := podOf(cart, "cart-1", "app")
	p.Containers[0].Limits = cluster.Amounts(1000, int64(limit*mib))
	d.book.Track(p)
	if limit > 0 && d.used > limit {
		d.book.ObserveOOM(usage.OOM{Pod: d.pod, Container: "app", At: d.now, Memory: int64(limit * mib)})
		d.killed++
		killed = true
	}
	d.use(5*time.Minute, always(0.1, d.used*mib))
	d.most = max(d.most, d.memory())
	return killed
}

// bounded returns profiles that bound a suspected leak at twice the request when it was first suspected.
func bounded() map[string]Profile {
	bound := func(a AdaptiveParams) AdaptiveParams { a.Memory.LeakBound = 2; return a }
	busy := Busiest()
	busy.Memory.LeakBound = 2
	return map[string]Profile{
		"balanced": AdaptiveProfile("balanced", "", bound(Balanced())), "cost": AdaptiveProfile("cost", "", bound(Cost())),
		"critical": AdaptiveProfile("critical", "", bound(Critical())), "busy-hours": BusyHoursProfile("busy-hours", "", busy),
	}
}

func TestLeak_withoutBound_isFollowedAndReported(t *testing.T) {
	for name, p := range adaptiveProfiles() {
		d := &drip{bench: newBench(p)}
		d.live(12, 60)
		if s, leaks := LeakOf(d.book.Series(cart, "app"), 0, d.now); !leaks || s.Most != 0 {
			t.Errorf("%s: after 12 days: %v %+v", name, leaks, s)
		}
		early := d.killed
		d.live(60, 60)
		if d.killed > early || d.memory() < d.used {
			t.Errorf("%s: killed %d times in 60 days of growth; %.0f MiB are used, %.0f given", name, d.killed-early, d.used, d.memory())
		}
	}
}

// Without the step of the growth, usage would be above the request each day before the next decision.
func TestLeak_fastSteadyGrowth_requestIncludesTheGrowthOfTheNextDay(t *testing.T) {
	const perDay = 3000 // MiB
	for name, p := range adaptiveProfiles() {
		d := &drip{bench: newBench(p)}
		for d.now.Sub(noon) < 9*day {
			d.used = 300 + perDay*d.now.Sub(noon).Hours()/24
			d.hour()
		}
		s, leaks := LeakOf(d.book.Series(cart, "app"), 0, d.now)
		if !leaks || s.PerDay < 0.9*perDay*mib || s.PerDay > 1.1*perDay*mib {
			t.Errorf("%s: after 9 days: %v %+v, want a growth of %d MiB a day", name, leaks, s, perDay)
		}
		if got := d.memory(); got < d.used+perDay {
			t.Errorf("%s: %.0f MiB are used and grow by %d a day, the request is %.0f MiB", name, d.used, perDay, got)
		}
	}
}

func TestLeak_withBound_stopsRaisingTheRequest(t *testing.T) {
	var told []string
	for name, p := range bounded() {
		d := &drip{bench: newBench(p)}
		d.live(6, 60)
		s, leaks := LeakOf(d.book.Series(cart, "app"), 0, d.now)
		if !leaks || s.PerDay < 50*mib || s.PerDay > 70*mib || s.Since.Before(noon.Add(-day)) || s.Since.After(noon.Add(day)) {
			t.Fatalf("%s: after 6 days: %v %+v", name, leaks, s)
		}
		most := s.Most / mib
		if name == "balanced" && (most < 1150 || most > 1300) {
			t.Errorf("bounded at %.0f MiB, docs/algorithm.md says about 1.2 GiB", most)
		}
		d.live(200, 60)
		if d.most > most*1.001 {
			t.Errorf("%s: the request grew to %.0f MiB, bounded at %.0f", name, d.most, most)
		}
		if name == "balanced" {
			told = []string{fmt.Sprintf("about %.1f GiB", most/1024), fmt.Sprintf("about every %.0f weeks", 200/7/float64(d.killed))}
		}
		t.Logf("%s: at most %.0f MiB, killed %d times in 200 days", name, most, d.killed)
		if d.killed < 5 {
			t.Errorf("%s: killed %d times in 200 days: the leak was fed", name, d.killed)
		}
		if _, leaks := LeakOf(d.book.Series(cart, "app"), 0, d.now); !leaks {
			t.Errorf("%s: it still leaks, and is no longer suspected", name)
		}
	}
	example(t, told...)
}

func TestLeak_growthEnds_endsTheSuspicion(t *testing.T) {
	d := &drip{bench: newBench(bounded()["balanced"])}
	d.live(6, 60)
	high := d.used
	if _, leaks := LeakOf(d.book.Series(cart, "app"), 0, d.now); !leaks {
		t.Fatal("it was not suspected")
	}
	d.live(30, 0)
	if s, leaks := LeakOf(d.book.Series(cart, "app"), 0, d.now); leaks {
		t.Errorf("it has not grown for a month: %+v", s)
	}
	d.use(day, always(0.1, 4*high*mib)) // it needs more now, and gets it
	if got := d.memory(); got < 4*high {
		t.Errorf("%.0f MiB are used, %.0f given", 4*high, got)
	}
}

func TestLeak_restart_keepsTheSuspicion(t *testing.T) {
	d := &drip{bench: newBench(bounded()["balanced"])}
	d.live(12, 60)
	before, leaks := LeakOf(d.book.Series(cart, "app"), 2000*mib, d.now)
	if !leaks || before.Full.IsZero() {
		t.Fatalf("%v %+v", leaks, before)
	}
	// 300 + 60·12 MiB of 2000 are used: 16 days are left from the midnight of the last check.
	if left := before.Full.Sub(d.now).Hours() / 24; left < 14 || left > 18 {
		t.Errorf("full in %.1f days", left)
	}
	data, err := d.memo().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := newBench(bounded()["balanced"])
	again.use(time.Hour, always(0.1, 300*mib))
	if err := again.memo().UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if after, leaks := LeakOf(again.book.Series(cart, "app"), 2000*mib, d.now); !leaks || after != before {
		t.Errorf("%v %+v, before %+v", leaks, after, before)
	}
}
