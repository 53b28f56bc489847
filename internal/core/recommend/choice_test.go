// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/usage"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Max(math.Abs(a), math.Abs(b)) }

// The example in docs/algorithm.md: an hour of two samples, 0.5 and 0.9 cores, of a container that has 1 core. The arms
// would have given 1, 1.2 and 0.8 cores, so that the third is above once.
func TestChoice_costExampleOfTheDocs_isCorrect(t *testing.T) {
	b := newBench(balanced())
	b.use(time.Hour, always(0.5, 300*mib))
	m := b.memo()
	hour := int(b.now.Unix() / 3600)
	m.cpuChoice = choice{level: [arms]float32{1, 1.2, 0.8}, period: int32(hour)}
	m.chooseCPU(hour, 0.5, 1)
	m.chooseCPU(hour+1, 0.9, 1) // ends the hour
	// The mean of two samples is 1, 1.2 and (0.8 + 0.8 + 300 × 0.9)/2 = 135.8; of that a fiftieth.
	for a, want := range []float64{0.02 * 1, 0.02 * 1.2, 0.02 * 135.8} {
		if got := float64(m.cpuChoice.cost[a]); !near(got, want) {
			t.Errorf("arm %d costs %g, want %g", a, got, want)
		}
	}
	cost := m.cpuChoice.cost
	example(t, fmt.Sprintf("the mean costs are %.3g, %.3g", cost[0]/0.02, cost[1]/0.02), fmt.Sprintf("= %.1f.", cost[2]/0.02))
	if m.cpuChoice.arm != 0 {
		t.Errorf("arm %d is chosen after two hours of history", m.cpuChoice.arm)
	}
}

func TestChoice_otherArm_hasToBeCheaperByThePenalty(t *testing.T) {
	for _, tt := range []struct {
		cost  [arms]float32
		have  uint8
		known bool
		want  uint8
	}{
		{[arms]float32{1, 0.98, 0.99}, 0, true, 0},
		{[arms]float32{1, 0.96, 0.99}, 0, true, 1},
		{[arms]float32{1, 0.96, 0.99}, 0, false, 0},
		{[arms]float32{1, 0.96, 0.95}, 2, true, 2},
		{[arms]float32{1, 1, 1}, 2, true, 2},
		{[arms]float32{0.5, 1, 1}, 2, true, 0},
	} {
		c := choice{cost: tt.cost, arm: tt.have}
		c.turn(1, [arms]float64{}, tt.known)
		if c.arm != tt.want {
			t.Errorf("costs %v, arm %d: %d is chosen, want %d", tt.cost, tt.have, c.arm, tt.want)
		}
	}
}

func TestChoice_peakEveryOtherDay_choosesTheLongMemory(t *testing.T) {
	missed := func(choose bool) (n int, arm uint8) {
		a := Balanced()
		a.CPU.Plan.Gain = 0
		if !choose {
			a.CPU.Overrun = 0
		}
		b := newBench(AdaptiveProfile("a", "", a))
		start := b.now
		for day := range 40 {
			b.use(24*time.Hour, func(at time.Time) (float64, float64) {
				v := 0.1
				if int(at.Sub(start).Hours())%30 == 29 { // every 30 hours
					v = 1
				}
				if day >= 10 && int64(v*1000) > b.estimate().Target.CPU {
					n++
				}
				return v, 300 * mib
			})
		}
		return n, b.memo().cpuChoice.arm
	}
	without, _ := missed(false)
	with, arm := missed(true)
	if arm != 1 || 4*with > without || without < 20 {
		t.Errorf("with the choice (arm %d) usage is above %d times, without %d times", arm, with, without)
	}
}

func TestChoice_decliningUsage_choosesTheShortMemory(t *testing.T) {
	given := func(choose bool) (sum float64, arm uint8) {
		a := Balanced()
		a.CPU.Plan.Gain = 0
		if !choose {
			a.CPU.Overrun = 0
		}
		b := newBench(AdaptiveProfile("a", "", a))
		start := b.now
		for range 9 * 24 {
			b.use(time.Hour, func(at time.Time) (float64, float64) {
				return 4 * math.Exp2(-at.Sub(start).Hours()/48), 300 * mib // half in two days
			})
			sum += float64(b.estimate().Target.CPU)
		}
		return sum, b.memo().cpuChoice.arm
	}
	without, _ := given(false)
	with, arm := given(true)
	if arm != 2 || with > 0.95*without {
		t.Errorf("with the choice (arm %d) %.0f are given, without %.0f", arm, with, without)
	}
}

func TestChoice_memory_choosesTheCheaperArm(t *testing.T) {
	b := newBench(balanced())
	start := b.now
	b.use(80*day, func(at time.Time) (float64, float64) {
		d := int(at.Sub(start).Hours() / 24)
		if d%10 < 1 { // a day in ten: more than 7 days ago, when it comes again, and once only in 14
			return 0.1, 1000 * mib
		}
		return 0.1, 700 * mib
	})
	if got := b.memo().memoryChoice.arm; got != 1 {
		t.Errorf("arm %d is chosen, at costs %v", got, b.memo().memoryChoice.cost)
	}
	steady := newBench(balanced())
	steady.use(80*day, always(0.1, 700*mib))
	if got := steady.memo().memoryChoice.arm; got == 2 {
		t.Error("of steady usage the arm with the larger margin is chosen")
	}
}

// The example in docs/algorithm.md.
func TestCalibrate_cpuExampleOfTheDocs_isCorrect(t *testing.T) {
	budget := Balanced().CPU.Shortfall
	for _, tt := range []struct{ share, before, want float64 }{
		{0, 0, -0.005},                          // a day without shortfall
		{2 * budget, 0, 0.005},                  // twice the budget
		{50 * budget, 0, 0.025},                 // no more than six budgets count
		{0, minCPUAdjust, minCPUAdjust},         // not below the least
		{1, maxCPUAdjust - 0.001, maxCPUAdjust}, // not above the most
	} {
		b := newBench(balanced())
		b.use(5*day, always(0.5, 300*mib))
		m := b.memo()
		m.cpu.adjust, m.shortfall = tt.before, shortfall{used: 100, over: float32(100 * tt.share)}
		m.calibrate((m.cpu.day+1)*daySeconds, 0.5, 1)
		if got := m.cpu.adjust; math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("a share of %g moves %g to %g, want %g", tt.share, tt.before, got, tt.want)
		}
		if m.shortfall != (shortfall{used: 0.5}) {
			t.Errorf("the new day begins with %+v", m.shortfall)
		}
	}
	example(t, fmt.Sprintf("takes %.1f %% from m", 100*cpuStep), fmt.Sprintf("one of six times or more %.1f %%", 100*cpuStep*(cpuMost-1)))
}

func TestAdaptive_tighterShortfall_givesMore(t *testing.T) {
	given := func(budget float64) float64 {
		a := Balanced()
		a.CPU.Shortfall = budget
		b := newBench(AdaptiveProfile("a", "", a))
		b.use(30*day, func(at time.Time) (float64, float64) { // a peak that grows and shrinks from day to day
			if at.Hour() == 12 {
				return 1 + 0.8*math.Abs(math.Sin(float64(at.Unix()/daySeconds))), 300 * mib
			}
			return 0.3, 300 * mib
		})
		return b.memo().cpu.adjust
	}
	tight, loose := given(0.0001), given(0.5)
	if tight <= 0 || loose != minCPUAdjust {
		t.Errorf("with a budget of 0.01 %% the factor has learnt %g, with one of 50 %% %g", tight, loose)
	}
}

func TestMemo_version1_isRead(t *testing.T) {
	b := newBench(balanced())
	b.use(12*day, officeHours)
	m := b.memo()
	e := codec.NewEncoder([]byte{1})
	m.CPU.Code(e)
	m.cpu.code(e)
	m.Memory.Code(e)
	m.memory.code(e)
	old := e.Data()
	again := newBench(balanced())
	again.book.Observe(usage.Sample{Pod: again.pod, Container: "app", At: b.now, CPU: 1, Has: cluster.Of(cluster.CPU)})
	if err := again.memo().UnmarshalBinary(old); err != nil {
		t.Fatal(err)
	}
	again.now = b.now
	if got, want := again.estimate(), b.estimate(); got != want {
		t.Errorf("read from version 1 the answer is %v, want %v", got, want)
	}
	if c := again.memo().cpuChoice; c != (choice{}) {
		t.Errorf("what version 1 did not know is %+v", c)
	}
	if err := again.memo().UnmarshalBinary(append([]byte{3}, old[1:]...)); err == nil {
		t.Error("a version to come is read")
	}
}
