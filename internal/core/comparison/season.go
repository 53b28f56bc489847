// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"math/cmplx"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// TimeOfDay recommends for every hour the maximum around that hour of earlier periods, and a margin:
//
//	target(t) = max over periods k = 1 … n and |j| ≤ jitter of x(t − k·P + j), and of the last hours × (1 + margin)
//
// where the period P is a day or a week if usage repeats with it (Period). Without a period it is WindowMax. This is the
// forecast of Crane's predictor with "maxValue": a peak of every night, or every Monday, is provided for at that time only.
type TimeOfDay struct{}

// The parameters of TimeOfDay.
const (
	seasonDays   = 14 // of history
	seasonJitter = 1  // hours
	seasonRecent = 6  // hours whose maximum is always provided for
	seasonAhead  = 4  // length of the blocks of hours that share one request
)

type seasons struct {
	window
	cpuPeriod    int8 // the period in days, as detected today; 0: none
	memoryPeriod int8
	checked      int64 // the day of the last detection
}

// Extend creates the model state of a container (usage.Store.Extend).
func (TimeOfDay) Extend() usage.Extension { return &seasons{window: newWindow(seasonDays)} }

// Amount returns the expected maximum with the margin.
func (TimeOfDay) Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*seasons)
	if !ok {
		return 0
	}
	period := cluster.Pick(r, m.cpuPeriod, m.memoryPeriod)
	return amount(expected(m.Peaks(r), int(now.Unix()/3600), 24*int(period), to), r, to)
}

// expected returns the expected maximum of the block of hours that contains hour.
func expected(p *hourly.Peaks, hour, period int, to *derivation.Recorder) float64 {
	from := hour / seasonAhead * seasonAhead
	recent := p.Max(hour+1-seasonRecent, hour+1)
	earlier := hourly.Level(0)
	for back := period; period > 0 && back <= 24*seasonDays; back += period {
		earlier = max(earlier, p.Max(from-back-seasonJitter, from-back+seasonAhead+seasonJitter))
	}
	if period == 0 || max(recent, earlier) == 0 { // no period, or no samples of these hours
		return highest(p, seasonDays, hour, to)
	}
	peak := to.RaiseLevel(derivation.StepSeason, to.Level(derivation.StepRecent, float64(recent)), float64(earlier))
	if to != nil {
		e := to.EvidenceBefore(1)
		e.Hours = seasonRecent
		e.HourOf(p, recent, hour+1-seasonRecent, hour+1)
		to.Evidence().Days = float64(period) / 24
	}
	return hourly.Level(peak).Amount()
}

// Observe adds a sample, and detects periods once a day.
func (m *seasons) Observe(s usage.Sample, taken cluster.Set) {
	m.window.Observe(s, taken)
	if day := s.At.Unix() / (24 * 3600); day > m.checked {
		m.checked = day
		hour := int(s.At.Unix() / 3600)
		m.cpuPeriod = int8(Period(&m.cpu, hour) / 24)
		m.memoryPeriod = int8(Period(&m.memory, hour) / 24)
	}
}

// Conditions for a period.
const (
	peakShare   = 4.0 // power of a spectral line relative to the mean that makes it a candidate
	correlation = 0.3 // minimum autocorrelation at the period
)

// Period returns the period of usage in hours: 24, 168, or 0 for none. It uses the history before an hour: whole weeks, or whole days
// if there are less than two weeks.
//
// A period P is a candidate when its line, or one of its first harmonics, stands out of the spectrum of the n hourly peaks
// (FFT; x are their logarithms), and confirmed when the circular autocorrelation r has a maximum there: higher than a
// quarter of a period beside it, and at least 0.3.
//
//	power(n/P) > 4 · mean power        r(k) = Σ_t (x_t − x̄)·(x_{t+k mod n} − x̄) / Σ_t (x_t − x̄)²
//
// A week is accepted only if its autocorrelation is higher than that of a day. Candidates from the spectrum and confirmation by
// autocorrelation are as in Crane's predictor (after Vlachos et al., SDM 2005).
func Period(peaks *hourly.Peaks, hour int) int {
	have := hour - max(peaks.Since(), hour-peaks.Room())
	count := have / (7 * 24) * 7 * 24
	if count < 2*7*24 {
		count = have / 24 * 24
	}
	if count < 3*24 {
		return 0
	}
	levels := make([]float64, count)
	mean := 0.0
	seen := 0
	for i := range levels {
		if l := peaks.At(hour - count + i); l > 0 {
			levels[i] = float64(l)
			mean += levels[i]
			seen++
		}
	}
	if seen < count*3/4 {
		return 0 // too many gaps
	}
	mean /= float64(seen)
	for i := range levels {
		if levels[i] > 0 {
			levels[i] -= mean // gaps stay at the mean
		}
	}
	transform := fourier.NewFFT(count)
	lines := transform.Coefficients(nil, levels)
	power := make([]float64, len(lines))
	total := 0.0
	for i := 1; i < len(lines); i++ {
		power[i] = real(lines[i] * cmplx.Conj(lines[i]))
		total += power[i]
	}
	if total < 1e-9*float64(count) {
		return 0 // constant
	}
	spectrum := make([]complex128, len(lines))
	for i := range lines {
		spectrum[i] = complex(power[i], 0)
	}
	auto := transform.Sequence(nil, spectrum) // Wiener and Khinchin: the autocorrelation is the transform of the power
	confirmed := func(period int) float64 {
		if count < 2*period {
			return 0
		}
		stands := false
		for harmonic := 1; harmonic <= 4; harmonic++ { // a narrow peak has its power in the harmonics
			stands = stands || power[harmonic*count/period] > peakShare*total/float64(len(lines)-1)
		}
		r := auto[period] / auto[0]
		if !stands || r < correlation || r <= auto[period-period/4]/auto[0] || r <= auto[(period+period/4)%count]/auto[0] {
			return 0
		}
		return r
	}
	day := confirmed(24)
	week := confirmed(7 * 24)
	switch {
	case week > day+0.1:
		return 7 * 24
	case day > 0:
		return 24
	}
	return 0
}
