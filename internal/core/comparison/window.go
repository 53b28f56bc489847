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

// WindowMax recommends the maximum of the last days and a margin: Autopilot's S_max (3.2.2). KRR sizes memory like this,
// Kruize both resources. It is the simple rule that other algorithms are compared with.
//
//	target = max over the window × (1 + margin)
type WindowMax struct{}

// The parameters of WindowMax.
const (
	windowHours = 7 * 24
	margin      = 0.15 // a fraction of usage
)

type window struct {
	usage.Unstored
	cpu, memory hourly.Peaks
}

// Extend creates the model state of a container (usage.Store.Extend).
func (WindowMax) Extend() usage.Extension {
	return &window{cpu: hourly.NewPeaks(windowHours), memory: hourly.NewPeaks(windowHours)}
}

// Amount returns the maximum of the window with the margin, 0 if there are no samples.
func (WindowMax) Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*window)
	if !ok {
		return 0
	}
	peaks, end := m.Peaks(r), int(now.Unix()/3600)+1
	peak := peaks.Last(windowHours, end-1)
	if peak == 0 {
		return 0
	}
	v := to.Value(derivation.StepWindowMax, peak.Amount())
	if to != nil {
		e := to.Evidence()
		e.Days = windowHours / 24
		e.HourOf(peaks, peak, end-windowHours, end)
		if e.From.IsZero() {
			e.HourOf(peaks, peak, peaks.Newest()+1-windowHours, peaks.Newest()+1)
		}
	}
	v = to.Multiply(derivation.StepSafetyMargin, v, 1+margin)
	if to != nil {
		to.Evidence().Margin = margin
	}
	if r == cluster.CPU {
		v = to.ToMillicores(v, 1000)
	}
	return to.Ceil(v)
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
