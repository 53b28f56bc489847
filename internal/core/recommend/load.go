// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// LoadPercentile is Autopilot's moving-window recommender (Rzadca et al., EuroSys 2020, 3.2.2):
//
//	(1) w[τ] = 2^(−τ/t½)                                           t½ = 12 h for CPU
//	(3) h[t][k] = b[k]·Σ_τ w[τ]·s[t−τ][k],  S_pj[t] = P_j(h[t])       CPU: a percentile of load, not of time
//	    S_max[t] = the highest bucket that is not empty                memory, over some days
//
// then a margin, and for CPU the maximum of the last hour. Equation 2, the mean, which Autopilot uses for batch jobs, is left out,
// because usage exceeds the mean about half of the time.
func LoadPercentile(p LoadParams) Estimator { return &loadPercentile{p} }

// LoadParams are the parameters of LoadPercentile.
type LoadParams struct {
	Percentile float64       // j, as a share
	HalfLife   time.Duration // t½
	Margin     float64
	Days       int // of memory
}

type loadPercentile struct{ p LoadParams }

// Load is the model state of LoadPercentile.
type Load struct {
	unstored
	p      *LoadParams
	cpu    hourly.Weights
	memory hourly.Peaks
	hour   int64
	now    float64 // the target of this hour, in cores
	before float64 // of the hour before
}

// Extend creates the model state of a container (usage.Store.Extend).
func (l *loadPercentile) Extend() usage.Extension {
	return &Load{p: &l.p, memory: hourly.NewPeaks(24 * l.p.Days)}
}

func (l *loadPercentile) Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time) cluster.Estimate {
	return l.Explain(s, floor, now, nil)
}

// Explain implements Estimator.
func (l *loadPercentile) Explain(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *Record) cluster.Estimate {
	var estimate cluster.Estimate
	m, ok := s.Extension().(*Load)
	if !ok {
		return estimate
	}
	if max(m.now, m.before) > 0 {
		least := floor.Amount(cluster.CPU)
		steps := record(to.Of(cluster.CPU).target(), 1000)
		v := steps.value(StepPercentile, m.now)
		if steps != nil {
			*steps.evidence() = Evidence{Share: l.p.Percentile, HalfLife: l.p.HalfLife}
		}
		v = steps.raise(StepHourBefore, v, m.before)
		target := steps.raiseWhole(StepFloor, steps.ceil(steps.withMargin(steps.toMillicores(v, 1000), l.p.Margin)), least)
		estimate = withBand(estimate, cluster.CPU, target, least, to.Of(cluster.CPU))
	}
	hour := int(now.Unix() / 3600)
	if peak := m.memory.Last(24*l.p.Days, hour); peak > 0 {
		least := floor.Amount(cluster.Memory)
		steps := record(to.Of(cluster.Memory).target(), 1)
		v := windowPeak(&m.memory, peak, 24*l.p.Days, hour, steps)
		target := steps.raiseWhole(StepFloor, steps.ceil(steps.withMargin(v, l.p.Margin)), least)
		estimate = withBand(estimate, cluster.Memory, target, least, to.Of(cluster.Memory))
	}
	return estimate
}

// Observe adds a sample.
func (m *Load) Observe(sample usage.Sample, taken cluster.Set) {
	hour := sample.At.Unix() / 3600
	if taken.Has(cluster.CPU) {
		m.cpu.Observe(int(hour), sample.CPU, m.p.HalfLife.Hours())
		v := m.cpu.LoadPercentile(m.p.Percentile)
		if hour > m.hour {
			m.hour = hour
			m.before = m.now
			m.now = v
		}
		m.now = max(m.now, v)
	}
	if taken.Has(cluster.Memory) {
		m.memory.Observe(int(hour), sample.Memory)
	}
}

// ObserveOOM adds the memory that an OOM kill showed to be needed as a peak.
func (m *Load) ObserveOOM(o usage.OOM, needed int64) {
	m.memory.Observe(int(o.At.Unix()/3600), float64(needed))
}
