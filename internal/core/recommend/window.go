// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
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
		target := max(amount(math.Ceil(peak.Amount()*(1+w.margin)*unit)), least)
		estimate = withBand(estimate, r, target, least)
	}
	set(cluster.CPU, &state.CPU, 1000)
	set(cluster.Memory, &state.Memory, 1)
	return estimate
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
