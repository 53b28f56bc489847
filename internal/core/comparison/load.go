// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
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
type LoadPercentile struct{}

// The parameters of LoadPercentile.
const (
	loadShare    = 0.95           // j
	loadHalfLife = 12 * time.Hour // t½
)

// load is the model state of LoadPercentile. It has no peaks of CPU.
type load struct {
	window
	weights hourly.Weights // of CPU
	hour    int64
	now     float64 // the target of this hour, in cores
	before  float64 // of the hour before
}

// Extend creates the model state of a container (usage.Store.Extend).
func (LoadPercentile) Extend() usage.Extension { return &load{window: newWindow(windowDays)} }

// Amount returns the percentile of load of CPU, or the maximum of memory, with the margin.
func (LoadPercentile) Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*load)
	switch {
	case !ok:
		return 0
	case r == cluster.Memory:
		return amount(highest(&m.memory, windowDays, int(now.Unix()/3600), to), r, to)
	case max(m.now, m.before) <= 0:
		return 0
	}
	v := to.Value(derivation.StepPercentile, m.now)
	if to != nil {
		*to.Evidence() = derivation.Evidence{Share: loadShare, HalfLife: loadHalfLife}
	}
	v = to.Raise(derivation.StepHourBefore, v, m.before)
	return to.Ceil(withMargin(to.ToMillicores(v, 1000), to))
}

// Observe adds a sample.
func (m *load) Observe(sample usage.Sample, taken cluster.Set) {
	m.window.Observe(sample, taken.Without(cluster.CPU))
	if !taken.Has(cluster.CPU) {
		return
	}
	hour := sample.At.Unix() / 3600
	m.weights.Observe(int(hour), sample.CPU, loadHalfLife.Hours())
	v := m.weights.LoadPercentile(loadShare)
	if hour > m.hour {
		m.hour = hour
		m.before = m.now
		m.now = v
	}
	m.now = max(m.now, v)
}
