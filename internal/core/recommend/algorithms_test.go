// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/trend"
	"podfit.dev/podfit/internal/core/usage"
)

func builtin(t *testing.T, name string) Profile {
	t.Helper()
	p, ok := BacktestProfile(name)
	if !ok {
		t.Fatalf("there is no profile %s", name)
	}
	return p
}

func TestBacktestProfiles_names_areUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range BacktestProfiles() {
		if seen[p.Name] || p.About == "" || p.Estimator == nil {
			t.Errorf("profile %q", p.Name)
		}
		seen[p.Name] = true
	}
	for _, name := range []string{"default", "balanced", "cost", "critical", "busy-hours", "autopilot"} {
		if !seen[name] {
			t.Errorf("there is no profile %s", name)
		}
	}
	if _, ok := BacktestProfile("magic"); ok {
		t.Error("there is a profile magic")
	}
}

func TestComparisons_outsideOfBacktest_areNotBuiltIn(t *testing.T) {
	for _, p := range Comparisons() {
		if _, ok := Builtin(p.Name); ok {
			t.Errorf("%s is a built-in profile", p.Name)
		}
		if _, ok := BacktestProfile(p.Name); !ok {
			t.Errorf("%s is no profile of a backtest", p.Name)
		}
		if data, err := p.Extend().AppendBinary(nil); err != nil || len(data) > 0 {
			t.Errorf("%s stores %d bytes, error %v", p.Name, len(data), err)
		}
	}
	if len(Comparisons()) != 1 {
		t.Errorf("%d comparison profiles, want 1", len(Comparisons()))
	}
}

// The formula's example in docs/algorithm.md.
func TestAdaptive_levelExampleOfTheDocs_isCorrect(t *testing.T) {
	r := Balanced().Memory
	days := []hourly.Level{
		hourly.LevelOf(500 * mib), hourly.LevelOf(1000 * mib), hourly.LevelOf(800 * mib), hourly.LevelOf(400 * mib),
		hourly.LevelOf(400 * mib), hourly.LevelOf(400 * mib), hourly.LevelOf(400 * mib), hourly.LevelOf(1000 * mib),
	}
	level := r.level(days, float64(hourly.LevelOf(300*mib)), nil)
	got := hourly.Amount(level+0.13*hourly.PerNat) / mib
	want := 1000 * math.Exp(0.3*math.Log(0.8)+0.15*math.Log(1000.0/300)+0.13)
	if math.Abs(got-want) > 2 || math.Abs(want-1276) > 1 {
		t.Errorf("%.1f MiB, want %.1f", got, want)
	}
	for i := range days {
		days[i] = hourly.LevelOf(1000 * mib)
	}
	steady := hourly.Amount(r.level(days, float64(days[0]), nil)+0.13*hourly.PerNat) / mib
	if math.Abs(steady-1139) > 2 {
		t.Errorf("%.1f MiB for steady usage, want 1139", steady)
	}
	example(t, fmt.Sprintf("= %.0f MiB.", want), fmt.Sprintf("it would be %.0f MiB", 1000*math.Exp(0.13)))
}

func TestWindowMax_exampleOfTheDocs_isCorrect(t *testing.T) {
	b := newBench(builtin(t, "window-max"))
	b.use(day, always(0.4, 1000*mib))
	b.use(6*day, always(0.2, 300*mib))
	if got := b.memory(); math.Abs(got-1150) > 2 {
		t.Errorf("within 7 days of 1000 MiB the request is %.0f MiB, want 1150", got)
	}
	b.use(2*day, always(0.2, 300*mib))
	if got := b.memory(); math.Abs(got-345) > 1 {
		t.Errorf("later it is %.0f MiB, want 345", got)
	}
	if got := b.estimate().Target.CPU; got < 230 || got > 231 {
		t.Errorf("CPU is %dm, want 1.15 × 200m", got)
	}
	example(t, "1150 MiB for a week, then 345 MiB")
}

func TestEnsemble_changedUsage_isFollowedUpAndDown(t *testing.T) {
	b := newBench(builtin(t, "autopilot"))
	b.use(10*day, always(0.5, 800*mib))
	if got := b.memory(); got < 800 || got > 1300 {
		t.Errorf("a steady 800 MiB gets %.0f MiB", got)
	}
	b.use(5*time.Minute, always(0.5, 2000*mib))
	if got := b.memory(); got < 2000 {
		t.Errorf("a sample of 2000 MiB leaves the request at %.0f MiB", got)
	}
	b.use(60*day, always(0.5, 200*mib))
	if got := b.memory(); got > 500 {
		t.Errorf("two months at 200 MiB leave the request at %.0f MiB", got)
	}
	// Usage above the range of the buckets moves the range.
	b.use(10*day, always(0.5, 200_000*mib))
	if got := b.memory(); got < 200_000 {
		t.Errorf("ten days at 200000 MiB get %.0f MiB", got)
	}
}

func officeHours(at time.Time) (float64, float64) {
	if h := at.Hour(); h >= 8 && h < 18 {
		return 1, 500 * mib
	}
	return 0.05, 500 * mib
}

func TestBusyHours_workInTheDay_sizesByTheBusyHours(t *testing.T) {
	b := newBench(builtin(t, "busy-hours"))
	b.use(10*day, officeHours)
	m := b.book.Series(cart, "app").Extension().(*Busy)
	if office := HoursBetween(8, 18, 0); m.busy&^office != 0 || bits.OnesCount32(uint32(m.busy)) != 9 {
		t.Errorf("the busy hours are %024b, want the 9 that hold 80 %% of the load, of %024b", m.busy, office)
	}
	if got := b.estimate().Target.CPU; got < 1300 || got > 1300*1.12+1 {
		t.Errorf("the request is %dm, want 1.3 cores up to a bucket", got)
	}
	example(t, fmt.Sprintf("is in %d of these hours", bits.OnesCount32(uint32(m.busy))), "the request 1.3 cores")
	// A spike outside the busy hours does not count, one within does.
	at2 := func(at time.Time) (float64, float64) {
		if at.Hour() == 2 {
			return 4, 500 * mib
		}
		return officeHours(at)
	}
	given := Busiest()
	given.Hours = HoursBetween(10, 20, 2)
	p := builtin(t, "busy-hours")
	e := newBusyHours(given)
	p.Estimator, p.Extend = byModelState{e}, e.Extend
	night := newBench(p)
	night.use(10*day, at2)
	if got := night.estimate().Target.CPU; got > 1500 {
		t.Errorf("with given hours, what runs at night makes the request %dm", got)
	}
	given.Most = 700
	e = newBusyHours(given)
	p.Estimator, p.Extend = byModelState{e}, e.Extend
	capped := newBench(p)
	capped.use(2*day, officeHours)
	if got := capped.estimate().Target.CPU; got != 700 {
		t.Errorf("capped at 700m the request is %dm", got)
	}
}

func TestHoursBetween_midnightAndOffsets_areHandled(t *testing.T) {
	night := HoursBetween(22, 6, 3) // 22 to 6 o'clock three hours ahead of UTC: 19 to 3 UTC
	for h := range 24 {
		if want := h >= 19 || h < 3; night.Has(h) != want {
			t.Errorf("%d o'clock: %v", h, !want)
		}
	}
}

func peaksOf(days int, amount func(hour int) float64) (*hourly.Peaks, time.Time) {
	p := hourly.NewPeaks(days * 24)
	first := int(noon.Unix() / 3600)
	for h := range days * 24 {
		if v := amount(h); v > 0 {
			p.Observe(first+h, v)
		}
	}
	return &p, noon.Add(time.Duration(days) * day)
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func TestLeak_steadyGrowth_isDistinguishedFromOtherGrowth(t *testing.T) {
	tests := map[string]struct {
		days   int
		amount func(h int) float64
		want   bool
	}{
		"50 MiB a day":             {10, func(h int) float64 { return (500 + 50*float64(h)/24) * mib }, true},
		"with noise":               {10, func(h int) float64 { return (500 + 50*float64(h)/24 + 20*math.Sin(float64(h*h))) * mib }, true},
		"steady":                   {10, func(h int) float64 { return (500 + 20*math.Sin(float64(h*h))) * mib }, false},
		"one step":                 {10, func(h int) float64 { return (500 + 400*b2f(h > 120)) * mib }, false},
		"a day and a night":        {10, func(h int) float64 { return (500 + 300*math.Sin(float64(h)/24*2*math.Pi)) * mib }, false},
		"a restart every two days": {10, func(h int) float64 { return (500 + 10*float64(h%48)) * mib }, false},
		"too short to tell":        {3, func(h int) float64 { return (500 + 50*float64(h)/24) * mib }, false},
		"slower than is worth it":  {10, func(h int) float64 { return (5000 + 5*float64(h)/24) * mib }, false},
	}
	var told []string
	for name, tt := range tests {
		p, now := peaksOf(tt.days, tt.amount)
		g, got := trend.Steady(p, 1500*mib, now)
		if got != tt.want {
			t.Errorf("%s: %v %+v", name, got, g)
		}
		if name != "50 MiB a day" {
			continue
		}
		if math.Abs(g.PerDay/mib-50) > 1 {
			t.Errorf("%s: %.1f MiB a day", name, g.PerDay/mib)
		}
		// 500 + 50·10 MiB are used, 500 are left: ten days.
		if left := g.Full.Sub(now).Hours() / 24; math.Abs(left-10) > 0.5 {
			t.Errorf("%s: full in %.1f days, want 10", name, left)
		}
		told = []string{fmt.Sprintf("the slope is %.0f MiB a day", g.PerDay/mib), fmt.Sprintf("%.0f days away", g.Full.Sub(now).Hours()/24)}
	}
	example(t, told...)
}

func TestLeakOf_profilesThatKeepPeaks_reportTheLeak(t *testing.T) {
	for _, p := range Builtins() {
		if p.Extend == nil {
			continue
		}
		b := newBench(p)
		b.use(8*day, func(at time.Time) (float64, float64) { return 0.1, (500 + 100*at.Sub(noon).Hours()/24) * mib })
		g, leaks := LeakOf(b.book.Series(cart, "app"), 0, b.now)
		keepsPeaks := p.Name != "autopilot"
		if leaks != keepsPeaks || leaks && math.Abs(g.PerDay/mib-100) > 3 {
			t.Errorf("%s: %v %+v", p.Name, leaks, g)
		}
	}
	b := newBench(balanced())
	b.use(8*day, always(0.1, 500*mib))
	if _, leaks := LeakOf(b.book.Series(cart, "app"), 0, b.now); leaks {
		t.Error("steady usage is reported as a leak")
	}
}

// The model state of a container takes at most 1.5 KiB, in memory and stored.
func TestModelState_everyProfile_staysSmall(t *testing.T) {
	const budget = 1536
	for _, p := range append(Builtins(), largest()...) {
		if p.Extend == nil {
			continue
		}
		b := newBench(p)
		b.use(30*day, func(at time.Time) (float64, float64) { // from 10m to 4 cores and from 100 MiB to 10 GiB
			x := math.Abs(math.Sin(float64(at.Unix() / 300)))
			return 0.01 * math.Pow(400, x), 100 * mib * math.Pow(100, x)
		})
		e := b.book.Series(cart, "app").Extension()
		stored, err := e.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		held := deepSize(reflect.ValueOf(e))
		t.Logf("%-16s %4d bytes in memory, %4d stored", p.Name, held, len(stored))
		if held > budget || len(stored) > budget {
			t.Errorf("%s takes %d bytes, %d stored; at most %d are to be", p.Name, held, len(stored), budget)
		}
	}
}

// largest returns profiles with the largest model state that a SizingProfile may have (api/podfit/v1alpha1).
func largest() []Profile {
	adaptive := Critical()
	adaptive.Memory.Days = 14
	adaptive.Memory.Long = 14
	adaptive.CPU.Window = 72 * time.Hour
	busy := Busiest()
	busy.Memory = adaptive.Memory
	return []Profile{AdaptiveProfile("adaptive, most", "", adaptive), BusyHoursProfile("busy-hours, most", "", busy)}
}

// deepSize returns the size of the value of a pointer in bytes, including its slices, without the parameters, which containers share.
func deepSize(v reflect.Value) int {
	size := int(v.Elem().Type().Size())
	var slices func(v reflect.Value)
	slices = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				slices(v.Field(i))
			}
		case reflect.Slice:
			size += v.Cap() * int(v.Type().Elem().Size())
		case reflect.Map, reflect.String, reflect.Interface:
			panic("what is in there is not measured")
		}
	}
	slices(v.Elem())
	return size
}

func TestEstimate_samplesOfOneResource_sizeOnlyThatResource(t *testing.T) {
	for _, p := range BacktestProfiles() {
		if p.Extend == nil {
			continue
		}
		b := newBench(p)
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: noon, CPU: 0.5, Has: cluster.Of(cluster.CPU)})
		b.now = noon.Add(time.Minute)
		if e := b.estimate(); e.Target.Has != cluster.Of(cluster.CPU) || e.Target.CPU < 400 {
			t.Errorf("%s: one sample of half a core gives %v", p.Name, e.Target)
		}
	}
}
