// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/series"
	"podfit.dev/podfit/internal/core/usage"
)

// The examples in docs/algorithm.md that have no test elsewhere.

func TestTheExampleOfTheHistogram(t *testing.T) {
	p := DefaultParams()
	b := newBench(DefaultProfile("a", "", p))
	for end := b.now.Add(7 * day); !b.now.After(end); b.now = b.now.Add(time.Minute) {
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: b.now, CPU: 0.3, Has: cluster.Of(cluster.CPU)})
	}
	// The bucket of 0.3 cores ends at 0.2·(1.05¹⁹ − 1) = 0.3054.
	if e := b.estimate(); e.Target.CPU != 305+45 || e.Upper.CPU != 350*8/7 {
		t.Errorf("a week of 0.3 cores gets %dm, at most %dm; want 350m and 400m", e.Target.CPU, e.Upper.CPU)
	}
}

func TestTheExampleOfTheMargin(t *testing.T) {
	r := Balanced().Memory
	up, down := r.Step*(1-r.Budget), r.Step*r.Budget
	if math.Abs(up-0.049) > 1e-9 || math.Abs(up/down-49) > 1e-9 {
		t.Errorf("a day above adds %g, a day without takes %g; want 0.049, and that 49 days take it back", up, down)
	}
}

func TestTheExampleOfTwoLevels(t *testing.T) {
	r := Balanced().Memory
	p, now := peaksOf(14, func(h int) float64 {
		if at := (12 + h) % 24; at == 1 || at == 2 { // it begins at noon
			return 1000 * mib
		}
		return 200 * mib
	})
	hour := int(now.Unix()/3600) - 1
	base := r.base(p, hour)
	var days peaksOfDays
	days.read(p, hour, r.Long)
	usual := r.level(days.all(), base)
	low := r.plan(p, hour, usual, base)
	if low.from != 4 || low.length != 20 || !low.contain(22*3600) || low.contain(23*3600) {
		t.Errorf("the low hours are %d from %d o'clock on, want 20 from 4, and that the request is raised at 23", low.length, low.from)
	}
	high, lowered := series.Amount(usual+r.Margin*series.PerNat)/mib, series.Amount(float64(low.base)+r.Margin*series.PerNat)/mib
	mean := (20*lowered + 4*high) / 24
	if math.Abs(high-1435) > 3 || math.Abs(lowered-249) > 1 || math.Abs(mean-447) > 2 || math.Abs(200/mean-200/high-0.31) > 0.005 {
		t.Errorf("%.0f MiB all day, or %.0f in the low hours, a mean of %.0f, a gain of %.3f", high, lowered, mean, 200/mean-200/high)
	}
}

func TestTheExampleOfTheCPULevel(t *testing.T) {
	r := Balanced().CPU
	for peak, want := range map[float64]float64{4: 3.69, 0.1: 0.140} {
		if got := r.level(peak); math.Abs(got-want) > 0.005 {
			t.Errorf("a peak of %g cores calls for %.3f, want %g", peak, got, want)
		}
	}
}

func TestTheExampleOfTheTimeOfDay(t *testing.T) {
	b := newBench(builtin(t, "time-of-day"))
	nightly := func(at time.Time) (float64, float64) { return 0.1, 200*mib + 800*mib*b2f(at.Hour() == 3) }
	b.use(15*day, nightly)
	for range 24 {
		b.use(time.Hour, nightly)
		want, h := 230.0, b.now.Add(-time.Minute).Hour()
		if h < 9 {
			want = 1150
		}
		b.now = b.now.Add(-time.Minute)
		if got := b.memory(); math.Abs(got-want) > 2 {
			t.Errorf("at %d o'clock the request is %.0f MiB, want %.0f", h, got, want)
		}
		b.now = b.now.Add(time.Minute)
	}
}
