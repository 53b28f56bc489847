// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

// explainedProfiles returns all profiles, and some with the parameters that a SizingProfile may set.
func explainedProfiles() []Profile {
	leak := Balanced()
	leak.Memory.LeakBound = 2
	leak.Memory.Budget = 0.1
	plain := Cost()
	plain.Memory.Choose = false
	plain.Memory.Plan.Gain = 0
	plain.CPU.Overrun = 0
	plain.CPU.Plan.Gain = 0
	plain.CPU.Shortfall = 0
	busy := Busiest()
	busy.Hours = HoursBetween(8, 18, 2)
	busy.Most = 700
	old := DefaultParams()
	old.WeightByRequest = true
	old.RoundMillicores = 50
	old.RoundBytes = 1 << 20
	old.Humanize = true
	odd := DefaultParams()
	odd.Margin = math.NaN()
	odd.CPU = Percentiles{Lower: 0.99, Target: 0.5, Upper: 0.1}
	odd.Memory = odd.CPU
	odd.CPUConfidence = -1
	labelled := BusyHoursProfile("labelled", "", Busiest()).For(criticality.Declared{Label: 2.5}, fleet.NodeSizes{})
	packed, _ := Builtin(packedName)
	packed = packed.For(criticality.Declared{}, fleet.NodeSizes{Memory: 64 << 30, Copies: 3})
	return append(BacktestProfiles(), packed,
		AdaptiveProfile("leak bound", "", leak), AdaptiveProfile("plain", "", plain), BusyHoursProfile("busy 8 to 18", "", busy),
		DefaultProfile("rounded", "", old), DefaultProfile("odd", "", odd), labelled)
}

func checkRecord(t *rapid.T, name string, e cluster.Estimate, record *derivation.Record) {
	t.Helper()
	for _, r := range cluster.All {
		steps := *record.Of(r)
		want, ok := e.Target.Get(r)
		if ok != (len(steps) > 0) {
			t.Fatalf("%s: the target of %s is set: %v, and has %d steps", name, r, ok, len(steps))
		}
		if !steptest.LeadTo(want, steps) {
			t.Fatalf("%s: the steps of the target of %s do not lead to %d: %+v", name, r, want, steps)
		}
	}
}

func TestExplain_everyProfileOnRandomUsage_foldsToTheEstimate(t *testing.T) {
	for _, p := range explainedProfiles() {
		rapid.Check(t, func(t *rapid.T) {
			b := newBench(p)
			floor := cluster.Amounts(rapid.SampledFrom([]int64{0, 10, 2000}).Draw(t, "floor"), rapid.SampledFrom([]int64{0, 16 * mib, 4096 * mib}).Draw(t, "floor"))
			samples := drawUsage(t)
			for i, s := range samples {
				s.Pod = b.pod
				b.book.Tick(s.At)
				b.book.Observe(s)
				if rapid.IntRange(0, 20).Draw(t, "kill") == 0 {
					b.book.ObserveOOM(usage.OOM{Pod: b.pod, Container: "app", At: s.At, Memory: b.estimate().Target.Memory})
				}
				b.now = s.At.Add(time.Duration(rapid.Int64Range(-3600, 48*3600).Draw(t, "later")) * time.Second)
				if i+1 < len(samples) && rapid.IntRange(0, 7).Draw(t, "skip") > 0 {
					continue
				}
				history := b.book.Series(cart, "app")
				var record derivation.Record
				e := p.Estimate(history, floor, b.now, &record)
				if want := p.Estimate(history, floor, b.now, nil); e != want {
					t.Fatalf("%s: explained %v, estimated %v", p.Name, e, want)
				}
				checkRecord(t, p.Name, e, &record)
				advice, records := Explain(p.Params, p.Estimator, b.book.All(cart), vpa, b.now)
				want := Workload(p.Params, p.Estimator, b.book, vpa, cart, b.now)
				if len(advice) != len(want) || len(records) != len(want) {
					t.Fatalf("%s: %d recommendations with %d records, want %d", p.Name, len(advice), len(records), len(want))
				}
				for i := range want {
					if !advice[i].Equal(want[i]) {
						t.Fatalf("%s: explained %v, recommended %v", p.Name, advice[i], want[i])
					}
					checkRecord(t, p.Name, want[i].Estimate, &records[i])
				}
			}
		})
	}
}

// The last step of an adaptive profile keeps a decided request. At the time of a change there is nothing to keep, so the other steps
// have to lead to the new request.
func TestExplain_requestJustChanged_isNotKept(t *testing.T) {
	for _, p := range explainedProfiles() {
		rapid.Check(t, func(t *rapid.T) {
			b := newBench(p)
			memo, ok := b.book.Series(cart, "app").Extension().(*Memo)
			if !ok {
				return
			}
			for _, s := range drawUsage(t) {
				s.Pod = b.pod
				cpu, memory := memo.cpu.level, memo.memory.level
				b.book.Observe(s)
				if memo.cpu.level == cpu && memo.memory.level == memory {
					continue
				}
				var record derivation.Record
				p.Estimate(b.book.Series(cart, "app"), cluster.Resources{}, s.At, &record)
				kept := func(steps derivation.Steps) (before float64, found bool) {
					for i := range steps {
						if steps[i].Name == derivation.StepKept {
							return steps[i].Evidence.Amount, true
						}
					}
					return 0, false
				}
				if h := &memo.memory; h.level != memory && !h.inLow {
					if _, found := kept(record.Memory); found {
						t.Fatalf("%s: memory was decided now and is kept: %+v", p.Name, record.Memory)
					}
				}
				if h := &memo.cpu; h.level != cpu && !h.inLow {
					// Usage above the request raises the request by more than the peak does. This is not part of the model state.
					if want, found := kept(record.CPU); found && want >= 1000*h.level {
						t.Fatalf("%s: CPU was decided now and is kept: %+v", p.Name, record.CPU)
					}
				}
			}
		})
	}
}

func TestExplain_noRecorder_doesNotAllocate(t *testing.T) {
	for _, p := range explainedProfiles() {
		b := newBench(p)
		b.use(20*day, func(at time.Time) (float64, float64) { return 0.1, float64(200+at.Hour()*20) * mib })
		history := b.book.Series(cart, "app")
		if n := testing.AllocsPerRun(200, func() { p.Estimate(history, cluster.Resources{}, b.now, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", p.Name, n)
		}
		if n := testing.AllocsPerRun(200, func() { Workload(p.Params, p.Estimator, b.book, vpa, cart, b.now) }); n != 1 && !p.Humanize {
			t.Errorf("%s: %v allocations for a workload, want 1", p.Name, n)
		}
	}
}

// The scene of docs/algorithm.md: 1000 MiB on the highest day, 800 MiB on the second, spiky, twice in two weeks.
func TestExplain_exampleOfTheDocs_hasItsFactorsAndTimes(t *testing.T) {
	b := newBench(balanced())
	peaks := map[int]float64{2: 1000, 5: 400, 9: 800, 12: 1000} // by day
	b.use(14*day-time.Hour, func(at time.Time) (float64, float64) {
		if peak := peaks[int(at.Sub(noon)/day)]; peak > 0 && at.Hour() == 19 {
			return 0.1, peak * mib
		}
		return 0.1, 300 * mib
	})
	m := b.memo()
	m.memory.adjust = -0.07
	m.memory.level = 0
	m.memory.hours = lowHours{}
	m.memory.inLow = false
	m.memory.planned = b.now.Unix() // no other plan
	m.memoryChoice = choice{}
	m.memory.bumped = 0
	m.decideMemory(b.now.Unix(), false)
	var record derivation.Record
	e := b.p.Estimate(b.book.Series(cart, "app"), cluster.Resources{}, b.now, &record)
	steps := record.Memory
	factors := map[derivation.StepName]float64{}
	for _, s := range steps {
		if s.Operation == derivation.Multiply {
			factors[s.Name] = s.Factor
		}
	}
	for name, want := range map[derivation.StepName]float64{
		derivation.StepSecondDay: math.Pow(0.8, 0.3), derivation.StepLongSecond: 1, derivation.StepSpread: math.Pow(1000.0/300, 0.15),
		derivation.StepMargin: math.Exp(0.13), derivation.StepWindow: 1,
	} {
		if math.Abs(factors[name]-want) > 0.002 {
			t.Errorf("the factor of %s is %.4f, want %.4f: %+v", name, factors[name], want, steps)
		}
	}
	if got := float64(e.Target.Memory) / mib; math.Abs(got-1276) > 3 {
		t.Errorf("the target is %.1f MiB, want 1276", got)
	}
	first := steps[0]
	if at := first.Evidence.From; first.Name != derivation.StepHighestDay || at.Hour() != 19 || first.Evidence.Days != 7 || !first.Evidence.Until.Equal(at.Add(time.Hour)) {
		t.Errorf("the first step is %+v, want the highest day at 19 h", first)
	}
	if second := steps[1].Evidence; math.Abs(second.Amount/mib-800) > 1 || second.From.Hour() != 19 || second.From.Equal(first.Evidence.From) {
		t.Errorf("the second highest day is %+v, want 800 MiB at 19 h of another day", second)
	}
}

func BenchmarkExplain(b *testing.B) {
	x := newBench(balanced())
	x.use(20*day, always(0.1, 300*mib))
	history := x.book.Series(cart, "app")
	b.Run("without steps", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.p.Estimate(history, cluster.Resources{}, x.now, nil)
		}
	})
	b.Run("with steps", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var record derivation.Record
			x.p.Estimate(history, cluster.Resources{}, x.now, &record)
		}
	})
}
