// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math/cmplx"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// TimeOfDay recommends for every hour the maximum around that hour of earlier periods, and a margin:
//
//	target(t) = max over periods k = 1 … n and |j| ≤ jitter of x(t − k·P + j), and of the last hours × (1 + margin)
//
// where the period P is a day or a week if usage repeats with it (Period). Without a period it is WindowMax. This is the
// forecast of Crane's predictor with "maxValue": a peak of every night, or every Monday, is provided for at that time only.
func TimeOfDay(p SeasonParams) Estimator { return &timeOfDay{p} }

// SeasonParams are the parameters of TimeOfDay.
type SeasonParams struct {
	Days   int // of history
	Margin float64
	Jitter int // hours
	Recent int // hours whose maximum is always provided for
	Ahead  int // length of the blocks of hours that share one request
}

type timeOfDay struct{ p SeasonParams }

// Seasons is the model state of TimeOfDay.
type Seasons struct {
	Window
	days    int
	cpu     int8 // the period in days, as detected today; 0: none
	memory  int8
	checked int64 // the day of the last detection
}

// Extend creates the model state of a container (usage.Store.Extend).
func (e *timeOfDay) Extend() usage.Extension {
	n := 24 * e.p.Days
	return &Seasons{Window: Window{CPU: hourly.NewPeaks(n), Memory: hourly.NewPeaks(n)}, days: e.p.Days}
}

func (e *timeOfDay) Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time) cluster.Estimate {
	return e.Explain(s, floor, now, nil)
}

// Explain implements Estimator.
func (e *timeOfDay) Explain(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *Record) cluster.Estimate {
	var out cluster.Estimate
	m, ok := s.Extension().(*Seasons)
	if !ok {
		return out
	}
	hour := int(now.Unix() / 3600)
	for _, x := range []struct {
		r      cluster.Resource
		peaks  *hourly.Peaks
		period int8
		unit   float64
	}{{cluster.CPU, &m.CPU, m.cpu, 1000}, {cluster.Memory, &m.Memory, m.memory, 1}} {
		steps := record(to.Of(x.r).target(), x.unit)
		if peak := e.p.peak(x.peaks, hour, int(x.period)*24, steps); peak > 0 {
			least := floor.Amount(x.r)
			v := steps.withMargin(peak.Amount(), e.p.Margin)
			target := steps.raiseWhole(StepFloor, steps.ceil(steps.toMillicores(v, x.unit)), least)
			out = withBand(out, x.r, target, least, to.Of(x.r))
		}
	}
	return out
}

// peak returns the expected maximum of the block of hours that contains hour.
func (p *SeasonParams) peak(x *hourly.Peaks, hour, period int, to *recorder) hourly.Level {
	from := hour / p.Ahead * p.Ahead
	recent := x.Max(hour+1-p.Recent, hour+1)
	earlier := hourly.Level(0)
	for back := period; period > 0 && back <= 24*p.Days; back += period {
		earlier = max(earlier, x.Max(from-back-p.Jitter, from-back+p.Ahead+p.Jitter))
	}
	if period == 0 || max(recent, earlier) == 0 { // no period, or no samples of these hours
		all := x.Last(24*p.Days, hour)
		if all > 0 {
			windowPeak(x, all, 24*p.Days, hour, to)
		}
		return all
	}
	peak := to.raiseLevel(StepSeason, to.level(StepRecent, float64(recent)), float64(earlier))
	if to != nil {
		steps := *to.steps
		steps[0].Evidence.Hours = p.Recent
		steps[0].Evidence.hourOf(x, recent, hour+1-p.Recent, hour+1)
		steps[1].Evidence.Days = float64(period) / 24
	}
	return hourly.Level(peak)
}

// Observe adds a sample, and detects periods once a day.
func (m *Seasons) Observe(s usage.Sample, taken cluster.Set) {
	m.Window.Observe(s, taken)
	if day := s.At.Unix() / daySeconds; day > m.checked {
		m.checked = day
		hour := int(s.At.Unix() / 3600)
		m.cpu = int8(Period(&m.CPU, hour) / 24)
		m.memory = int8(Period(&m.Memory, hour) / 24)
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
