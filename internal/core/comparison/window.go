// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package comparison has the algorithms that only a backtest uses, to compare others with. Their model state is not stored.
package comparison

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// margin is what all algorithms add to usage, as a fraction of it.
const margin = 0.15

// WindowMax recommends the maximum of the last days and a margin: Autopilot's S_max (3.2.2). KRR sizes memory like this,
// Kruize both resources. It is the simple rule that other algorithms are compared with.
//
//	target = max over the window × (1 + margin)
type WindowMax struct{}

// windowDays are the days of WindowMax, and of LoadPercentile for memory.
const windowDays = 7

type window struct {
	usage.Unstored
	cpu, memory hourly.Peaks
}

func newWindow(days int) window {
	return window{cpu: hourly.NewPeaks(24 * days), memory: hourly.NewPeaks(24 * days)}
}

// Extend creates the model state of a container (usage.Store.Extend).
func (WindowMax) Extend() usage.Extension { return new(newWindow(windowDays)) }

// Amount returns the maximum of the window with the margin.
func (WindowMax) Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*window)
	if !ok {
		return 0
	}
	return amount(highest(m.Peaks(r), windowDays, int(now.Unix()/3600), to), r, to)
}

// highest begins with the maximum of a number of days, 0 if there are no samples.
func highest(p *hourly.Peaks, days, hour int, to *derivation.Recorder) float64 {
	hours := 24 * days
	peak := p.Last(hours, hour)
	if peak == 0 {
		return 0
	}
	v := to.Value(derivation.StepWindowMax, peak.Amount())
	if to != nil {
		e := to.Evidence()
		e.Days = float64(days)
		e.HourOf(p, peak, hour+1-hours, hour+1)
		if e.From.IsZero() {
			e.HourOf(p, peak, p.Newest()+1-hours, p.Newest()+1)
		}
	}
	return v
}

// amount adds the margin to an amount in cores or bytes, and rounds it up; 0 stays.
func amount(v float64, r cluster.Resource, to *derivation.Recorder) int64 {
	if v == 0 {
		return 0
	}
	v = withMargin(v, to)
	if r == cluster.CPU {
		v = to.ToMillicores(v, 1000)
	}
	return to.Ceil(v)
}

func withMargin(v float64, to *derivation.Recorder) float64 {
	v = to.Multiply(derivation.StepSafetyMargin, v, 1+margin)
	if to != nil {
		to.Evidence().Margin = margin
	}
	return v
}

// Peaks returns the hourly peaks of a resource.
func (m *window) Peaks(r cluster.Resource) *hourly.Peaks { return cluster.Pick(r, &m.cpu, &m.memory) }

// Observe adds a sample.
func (m *window) Observe(s usage.Sample, taken cluster.Set) {
	hour := int(s.At.Unix() / 3600)
	if taken.Has(cluster.CPU) {
		m.cpu.Observe(hour, s.CPU)
	}
	if taken.Has(cluster.Memory) {
		m.memory.Observe(hour, s.Memory)
	}
}

// ObserveOOM adds the memory that an OOM kill showed to be needed as a peak.
func (m *window) ObserveOOM(o usage.OOM, needed int64) {
	m.memory.Observe(int(o.At.Unix()/3600), float64(needed))
}
