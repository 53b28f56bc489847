// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

// twoLevels is usage that is higher from 9 to 12 h. Memory has a little noise.
func twoLevels(at time.Time) (float64, float64) {
	noise := 1 + 0.2*math.Abs(math.Sin(float64(at.Unix()/7200)))
	if at.Hour() >= 9 && at.Hour() < 12 {
		return 2, 1000 * noise * mib
	}
	return 0.2, 200 * noise * mib
}

// fixedWindow is the profile balanced, which looks back 24 hours for CPU. Shorter look-back windows need no low hours.
func fixedWindow() Profile {
	p := Balanced()
	p.CPU.Overrun = 0
	return AdaptiveProfile("balanced", "", p)
}

// In low hours, the steps lead to the lower request at the time when it is decided.
func TestExplain_lowHours_leadToTheLowerRequest(t *testing.T) {
	b := newBench(fixedWindow())
	checked := map[cluster.Resource]int{}
	for range 20 * 24 * 12 {
		m := b.memo()
		cpu, memory := m.cpu, m.memory
		b.use(5*time.Minute, twoLevels)
		var record derivation.Record
		e := b.p.Estimate(b.book.Series(cart, "app"), cluster.Resources{}, b.now.Add(-5*time.Minute), &record)
		for _, x := range []struct {
			r             cluster.Resource
			before, after *held
		}{{cluster.CPU, &cpu, &m.cpu}, {cluster.Memory, &memory, &m.memory}} {
			if !x.after.inLow || x.after.low == x.before.low || x.after.low == x.after.level {
				continue
			}
			checked[x.r]++
			steps := *record.Of(x.r)
			if !steptest.LeadTo(e.Target.Amount(x.r), steps) || steps[0].Name != derivation.StepLowHours {
				t.Fatalf("%s: %+v", x.r, steps)
			}
			for _, s := range steps {
				if s.Name == derivation.StepKept {
					t.Fatalf("%s was decided now and is kept: %+v", x.r, steps)
				}
			}
		}
	}
	if checked[cluster.CPU] < 3 || checked[cluster.Memory] < 3 {
		t.Errorf("only %v decisions were in low hours", checked)
	}
}

func TestExplain_lowHours_areNotAboveTheUsualLevel(t *testing.T) {
	b := newBench(balanced())
	b.use(20*day, twoLevels)
	m := b.memo()
	for name, steps := range map[string]func(to *derivation.Recorder){
		"cpu":    func(to *derivation.Recorder) { m.lowCPU(int(b.now.Unix()/3600), 0.01, 0.01, to) },
		"memory": func(to *derivation.Recorder) { m.lowMemory(1e6, b.now.Unix(), to) },
	} {
		var got derivation.Steps
		steps(got.Begin(1))
		last := got[len(got)-1]
		if last.Name != derivation.StepUsual || !last.Changed {
			t.Errorf("%s: the last step is %+v", name, last)
		}
	}
}

func TestAnew_lowHours_givesTheUsualRequest(t *testing.T) {
	b := newBench(fixedWindow())
	b.use(20*day+15*time.Hour, twoLevels) // until 3 h
	history := b.book.Series(cart, "app")
	low := b.estimate().Target
	m := b.memo()
	if !m.memory.inLow || !m.cpu.inLow {
		t.Fatal("no low hours were detected")
	}
	before, _ := m.AppendBinary(nil)
	for name, h := range map[string]*usage.ContainerHistory{"outside of low hours": OutsideLowHours(history), "decided anew": first(Anew(history, b.p))} {
		e := b.p.Estimate(h, cluster.Resources{}, b.now, nil)
		if e.Target.Memory < 3*low.Memory || e.Target.CPU < 2*low.CPU {
			t.Errorf("%s: %v, in low hours %v", name, e.Target, low)
		}
		if e.Target.Memory > 2000*mib || e.Target.CPU > 6000 {
			t.Errorf("%s: %v", name, e.Target)
		}
	}
	if after, _ := m.AppendBinary(nil); string(before) != string(after) {
		t.Error("the model state has changed")
	}
}

func first(h *usage.ContainerHistory, _ cluster.Set) *usage.ContainerHistory { return h }

func TestAnew_profiles_knowWhatTheirModelStateIsEnoughFor(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     cluster.Set
	}{
		{"balanced", "cost", cluster.Both},
		{"critical", "balanced", cluster.Both},
		{"balanced", "default", cluster.Both},
		{"balanced", "busy-hours", cluster.Of(cluster.Memory)},
		{"busy-hours", "balanced", cluster.Of(cluster.Memory)},
		{"busy-hours", "busy-hours", cluster.Both},
		{"autopilot", "autopilot", cluster.Both},
		{"autopilot", "balanced", 0},
		{"balanced", "autopilot", 0},
		{"default", "balanced", 0},
		{"default", "default", cluster.Both},
		{"window-max", "window-max", 0},
	} {
		from := newBench(builtin(t, c.from))
		from.use(10*day, twoLevels)
		to := builtin(t, c.to)
		h, got := Anew(from.book.Series(cart, "app"), to)
		if got != c.want {
			t.Errorf("from %s to %s: %v, want %v", c.from, c.to, got, c.want)
			continue
		}
		e := to.Estimate(h, cluster.Resources{}, from.now, nil)
		for _, r := range cluster.All {
			if c.want.Has(r) && e.Target.Amount(r) <= 0 {
				t.Errorf("from %s to %s: %v", c.from, c.to, e.Target)
			}
		}
	}
	weighted := DefaultParams()
	weighted.WeightByRequest = true
	b := newBench(balanced())
	b.use(day, twoLevels)
	if _, got := Anew(b.book.Series(cart, "app"), DefaultProfile("weighted", "", weighted)); got != 0 {
		t.Errorf("samples without weight are enough for %v", got)
	}
	w := newBench(DefaultProfile("weighted", "", weighted))
	w.use(day, twoLevels)
	if _, got := Anew(w.book.Series(cart, "app"), w.p); got != cluster.Both {
		t.Errorf("samples with weight are enough for %v", got)
	}
}

func TestAnewWithout_dayOfAnOOMKill_dropsTheRaisedRequest(t *testing.T) {
	b := newBench(balanced())
	b.use(10*day, always(0.2, 300*mib))
	b.book.ObserveOOM(usage.OOM{Pod: b.pod, Container: "app", At: b.now, Memory: 800 * mib})
	b.use(time.Hour, always(0.2, 300*mib))
	history := b.book.Series(cart, "app")
	if got := b.memory(); got < 800 {
		t.Fatalf("after the kill the request is %.0f MiB", got)
	}
	today := b.now.Truncate(day)
	h, known := AnewWithout(history, b.p, cluster.Memory, today, today.Add(day))
	if got := float64(b.p.Estimate(h, cluster.Resources{}, b.now, nil).Target.Memory) / mib; known != cluster.Of(cluster.Memory) || got < 300 || got > 400 {
		t.Errorf("without the day of the kill the request is %.0f MiB, known %v", got, known)
	}
	h, _ = AnewWithout(history, b.p, cluster.Memory, today.Add(-2*day), today.Add(-day))
	if got := float64(b.p.Estimate(h, cluster.Resources{}, b.now, nil).Target.Memory) / mib; got < 800 {
		t.Errorf("without another day the request is %.0f MiB", got)
	}
	if _, known := AnewWithout(history, b.p, cluster.Memory, time.Unix(0, 0), today.Add(day)); known != 0 {
		t.Errorf("without any day, %v is known", known)
	}
	if _, known := AnewWithout(history, DefaultProfile("default", "", DefaultParams()), cluster.Memory, today, today.Add(day)); known != 0 {
		t.Errorf("of a histogram, %v is known", known)
	}
}

func TestLeastUsage_storedPeaks_isAtMostTheUsage(t *testing.T) {
	for _, v := range []float64{1e-6, 1, 300 * mib, 1e14} {
		for _, factor := range []float64{1, cutMemory} {
			if got := LeastUsage(hourly.LevelOf(v * factor)); got > v || got < v/cutMemory*0.999 && v > 1 {
				t.Errorf("%g × %g was at least %g", v, factor, got)
			}
		}
	}
	if got := LeastUsage(0); got != 0 {
		t.Errorf("no sample is %g", got)
	}
}
