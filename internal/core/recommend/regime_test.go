// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"
)

// wobble is a deterministic factor around 1 that varies between samples.
func wobble(at time.Time, share float64) float64 {
	return 1 + share*math.Sin(float64(at.Unix()/300%1009)*0.7)
}

func adaptiveProfiles() map[string]Profile {
	return map[string]Profile{
		"balanced": balanced(), "cost": AdaptiveProfile("cost", "", Cost()), "critical": AdaptiveProfile("critical", "", Critical()),
		"busy-hours": BusyHoursProfile("busy-hours", "", Busiest()),
	}
}

func TestMemory_stepDown_isFollowedWithinFiveDays(t *testing.T) {
	told := 0
	for name, p := range adaptiveProfiles() {
		for _, share := range []float64{0.5, 0.3, 0.1} {
			b := newBench(p)
			b.use(20*day, func(at time.Time) (float64, float64) { return 0.1, 1000 * mib * wobble(at, 0.1) })
			high := b.memory()
			took := 0
			for ; took < 14*24 && b.memory() > 1.6*share*high; took++ {
				b.use(time.Hour, func(at time.Time) (float64, float64) { return 0.1, share * 1000 * mib * wobble(at, 0.1) })
			}
			t.Logf("%s: a step to %.1f is followed after %.1f days", name, share, float64(took)/24)
			if took > 5*24 {
				t.Errorf("%s: a step to %.1f is followed after %.1f days, want at most 5", name, share, float64(took)/24)
			}
			if name == "balanced" && share == 0.3 {
				told = took / 24
			}
		}
	}
	example(t, fmt.Sprintf("after %d days", told))
}

// Days differ by a fifth, the most with which a step is detected.
func TestMemory_stepDownOfNoisyDays_isFollowedWithinFiveDays(t *testing.T) {
	levels := []float64{0.82, 1.24, 0.95, 1.1, 0.78, 1.02, 1.3, 0.9, 1.15, 0.86}
	b := newBench(balanced())
	d := 0
	use := func(level float64) {
		b.use(day, func(at time.Time) (float64, float64) {
			return 0.1, level * levels[d%len(levels)] * mib * wobble(at, 0.03)
		})
		d++
	}
	for range 20 {
		use(1000)
	}
	took := 0
	for ; took < 14 && b.memory() > 700; took++ {
		use(300)
	}
	if took > 5 {
		t.Errorf("followed after %d days, want at most 5", took)
	}
}

func TestMemory_returnAfterStepDown_countsOldHistoryAgain(t *testing.T) {
	b := newBench(balanced())
	b.use(20*day, always(0.1, 1000*mib))
	b.use(4*day, always(0.1, 300*mib))
	if got := b.memory(); got > 500 {
		t.Fatalf("4 days after a step to 300 MiB the request is %.0f MiB", got)
	}
	b.use(time.Hour, always(0.1, 900*mib)) // it was no step
	for range 6 {
		b.use(day, always(0.1, 300*mib))
		if got := b.memory(); got < 700 {
			t.Fatalf("after a return to 900 MiB the request falls to %.0f MiB within days", got)
		}
	}
}

func TestMemory_restOnWeekdays_isNoStepDown(t *testing.T) {
	for _, rest := range []int{1, 2, 3, 4} {
		b := newBench(balanced())
		days := 0
		use := func() {
			level := 1000.0
			if days%7 >= 7-rest {
				level = 200
			}
			b.use(day, func(at time.Time) (float64, float64) { return 0.1, level * mib * wobble(at, 0.05) })
			days++
		}
		for range 14 {
			use()
		}
		for range 28 {
			use()
			if got := b.memory(); got < 1000 {
				t.Errorf("%d days of rest a week: after day %d the request is %.0f MiB", rest, days, got)
				break
			}
		}
	}
}

func TestMemory_steadyGrowth_isFollowed(t *testing.T) {
	for name, grow := range map[string]func(days float64) float64{
		"linear":   func(d float64) float64 { return 1 + 0.1*d },
		"compound": func(d float64) float64 { return math.Pow(1.1, d) },
		"fast":     func(d float64) float64 { return 1 + 0.5*d },
	} {
		for profile, p := range adaptiveProfiles() {
			d := &drip{bench: newBench(p)}
			above, days := 0, 0
			for ; d.used < 3000; days++ {
				killed := d.killed
				for range 24 {
					d.used = min(300*grow(d.now.Sub(noon).Hours()/24), 3000)
					d.hour()
				}
				if d.killed > killed && days >= 8 {
					above++
				}
			}
			most := 0.02
			if profile == "cost" {
				most = 0.06
			}
			t.Logf("%s, %s: above the request on %d of %d days", profile, name, above, days-8)
			if float64(above) > math.Ceil(most*float64(days)) {
				t.Errorf("%s: growth (%s) to 10 times is above the request on %d of %d days", profile, name, above, days-8)
			}
			if got := d.memory(); got < 3000 {
				t.Errorf("%s: at 3000 MiB the request is %.0f MiB", profile, got)
			}
		}
	}
}

// patterns are weekly patterns of usage, relative to the maximum. Day 0 is the first.
var patterns = map[string]func(day int, hour float64) float64{
	"weekdays": func(d int, _ float64) float64 { return 1 - 0.8*b2f(d%7 >= 5) },
	"office":   func(d int, h float64) float64 { return 0.2 + 0.8*b2f(d%7 < 5 && h >= 8 && h < 18) },
	"batch":    func(d int, h float64) float64 { return 0.2 + 0.8*b2f(d%7 == 6 && h >= 2 && h < 5) },
	"curve": func(d int, h float64) float64 {
		return 0.2 + (0.8-0.5*b2f(d%7 >= 5))*max(0, math.Sin((h-6)/24*2*math.Pi))
	},
	"ramp": func(d int, _ float64) float64 { return 0.3 + 0.1*float64(d%7) },
}

func TestAdaptive_weeklyPattern_changesSeldom(t *testing.T) {
	for pattern, amount := range patterns {
		for name, p := range adaptiveProfiles() {
			b := newBench(p)
			changes, cpuChanges, above := 0, 0, 0
			const days = 42
			for d := range days {
				missed := false
				for i := range 288 {
					was := b.estimate().Target
					b.use(5*time.Minute, func(at time.Time) (float64, float64) {
						v := amount(d, float64(i)/12)
						missed = missed || d >= 14 && v*1000*mib*wobble(at, 0.03) > float64(was.Memory)
						return v * wobble(at, 0.05), v * 1000 * mib * wobble(at, 0.03)
					})
					now := b.estimate().Target
					changes += int(b2f(d >= 14 && now.Memory != was.Memory))
					cpuChanges += int(b2f(d >= 14 && now.CPU != was.CPU))
				}
				above += int(b2f(missed))
			}
			perDay, cpu := float64(changes)/(days-14), float64(cpuChanges)/(days-14)
			t.Logf("%-10s %-8s memory %.2f, CPU %.2f changes a day, %d days above", name, pattern, perDay, cpu, above)
			if perDay > 0.5 {
				t.Errorf("%s, %s: %.2f changes of memory a day, want at most 0.5", name, pattern, perDay)
			}
			if cpu > 2 {
				t.Errorf("%s, %s: %.2f changes of CPU a day, want at most 2", name, pattern, cpu)
			}
			if above > 0 {
				t.Errorf("%s, %s: a peak that comes every week is above the request on %d days", name, pattern, above)
			}
		}
	}
}

func TestRegime_restart_keepsTheStep(t *testing.T) {
	b := newBench(balanced())
	b.use(20*day, always(0.1, 1000*mib))
	b.use(4*day, always(0.1, 300*mib))
	data, err := b.memo().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := newBench(balanced())
	again.use(time.Hour, always(0.1, 300*mib))
	if err := again.memo().UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if again.memo().regime != b.memo().regime || b.memo().regime.since == 0 {
		t.Errorf("the step is %+v after a restart, was %+v", again.memo().regime, b.memo().regime)
	}
	stored, _ := again.memo().AppendBinary(nil)
	if !bytes.Equal(stored, data) {
		t.Error("stored again it is something else")
	}
}

func TestMemo_version2_isRead(t *testing.T) {
	b := newBench(balanced())
	b.use(9*day, always(0.1, 300*mib))
	data, err := b.memo().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	none := encodedSize((&regime{}).code)
	old := append([]byte{2}, data[1:len(data)-none]...) // there is no leak after it
	again := newBench(balanced())
	again.use(time.Hour, always(0.1, 300*mib))
	if err := again.memo().UnmarshalBinary(old); err != nil {
		t.Fatal(err)
	}
	if stored, _ := again.memo().AppendBinary(nil); !bytes.Equal(stored, data) {
		t.Error("what version 2 has stored is not what was remembered")
	}
	leaking := &drip{bench: newBench(bounded()["balanced"])}
	leaking.live(12, 60)
	m := leaking.memo()
	data, _ = m.AppendBinary(nil)
	tail := encodedSize(m.leak.Code)
	old = append([]byte{2}, data[1:len(data)-tail-encodedSize(m.regime.code)]...)
	old = append(old, data[len(data)-tail:]...)
	if err := again.memo().UnmarshalBinary(old); err != nil {
		t.Fatal(err)
	}
	if s, leaks := LeakOf(again.book.Series(cart, "app"), 0, leaking.now); !leaks || s.Most != 0 {
		t.Errorf("a leak of version 2, whose level was no bound of a profile, is read as %v %+v", leaks, s)
	}
}
