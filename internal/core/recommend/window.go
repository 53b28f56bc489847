// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// WindowMax recommends the maximum of the last days and a margin: Autopilot's S_max (3.2.2). KRR sizes memory like this,
// Kruize both resources. It is the simple rule that other algorithms are compared with.
//
//	target = max over the window × (1 + margin)
//
// The bounds are 5 % below and 8 % above the target.
func WindowMax(days int, margin float64) Estimator { return &windowMax{days, margin} }

type windowMax struct {
	days   int
	margin float64
}

// Window is the model state of WindowMax.
type Window struct {
	unstored
	CPU, Memory hourly.Peaks
}

// Extend creates the model state of a container (usage.Store.Extend).
func (w *windowMax) Extend() usage.Extension {
	return &Window{CPU: hourly.NewPeaks(24 * w.days), Memory: hourly.NewPeaks(24 * w.days)}
}

func (w *windowMax) Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time) cluster.Estimate {
	return w.Explain(s, floor, now, nil)
}

// Explain implements Estimator.
func (w *windowMax) Explain(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *Record) cluster.Estimate {
	var estimate cluster.Estimate
	state, ok := s.Extension().(*Window)
	if !ok {
		return estimate
	}
	hour := int(now.Unix() / 3600)
	set := func(r cluster.Resource, p *hourly.Peaks, unit float64) {
		peak := p.Last(24*w.days, hour)
		if peak == 0 {
			return
		}
		least := floor.Amount(r)
		steps := record(to.Of(r).target(), unit)
		v := windowPeak(p, peak, 24*w.days, hour, steps)
		target := steps.raiseWhole(StepFloor, steps.ceil(steps.toMillicores(steps.withMargin(v, w.margin), unit)), least)
		estimate = withBand(estimate, r, target, least, to.Of(r))
	}
	set(cluster.CPU, &state.CPU, 1000)
	set(cluster.Memory, &state.Memory, 1)
	return estimate
}

// windowPeak begins with the peak of a number of hours, as Peaks.Last returns it.
func windowPeak(p *hourly.Peaks, peak hourly.Level, hours, hour int, to *recorder) float64 {
	v := to.value(StepWindowMax, peak.Amount())
	if to != nil {
		e := to.evidence()
		e.Days = float64(hours) / 24
		e.hourOf(p, peak, hour+1-hours, hour+1)
		if e.From.IsZero() {
			e.hourOf(p, peak, p.Newest()+1-hours, p.Newest()+1)
		}
	}
	return v
}

// withMargin adds a margin.
func (r *recorder) withMargin(v, margin float64) float64 {
	v = r.multiply(StepSafetyMargin, v, 1+margin)
	if r != nil {
		r.evidence().Margin = margin
	}
	return v
}

// Observe adds a sample.
func (m *Window) Observe(s usage.Sample, taken cluster.Set) {
	hour := int(s.At.Unix() / 3600)
	if taken.Has(cluster.CPU) {
		m.CPU.Observe(hour, s.CPU)
	}
	if taken.Has(cluster.Memory) {
		m.Memory.Observe(hour, s.Memory)
	}
}

// ObserveOOM adds the memory that an OOM kill showed to be needed as a peak.
func (m *Window) ObserveOOM(o usage.OOM, needed int64) {
	m.Memory.Observe(int(o.At.Unix()/3600), float64(needed))
}
