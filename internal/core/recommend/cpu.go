// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
)

// level returns the level for a peak: peak·m·peak^−η + a.
func (r *CPURule) level(peak float64, to *derivation.Recorder) float64 {
	level := to.Multiply(derivation.StepFactor, peak, r.Factor)
	level = to.Multiply(derivation.StepSize, level, math.Pow(max(peak, 0.01), -r.Scale))
	return to.Add(derivation.StepHeadroom, level, r.Add)
}

// learnt multiplies a level by the calibrated factor.
func (m *Memo) learnt(level float64, to *derivation.Recorder) float64 {
	level = to.Multiply(derivation.StepLearnt, level, math.Exp(m.cpu.adjust))
	to.Evidence().Budget = m.p.CPU.Shortfall
	return level
}

// raiseCPU raises a level to the minimum from the recent past (recentCPU).
func (m *Memo) raiseCPU(level, least float64, hour int, to *derivation.Recorder) float64 {
	r := &m.p.CPU
	name := derivation.StepRecent
	if least == r.Min {
		name = derivation.StepMinimum
	}
	level = to.Raise(name, level, least)
	if to != nil && name == derivation.StepRecent {
		to.PeakOf(&m.CPU, hour+1-int(r.Recent/time.Hour), hour+1)
		to.Evidence().Margin = r.RecentFactor - 1
	}
	return level
}

// given returns the calibrated level for the peak of a window, that peak, and the minimum from the recent past.
func (m *Memo) given(hour, window int, to *derivation.Recorder) (level, peak, least float64) {
	r := &m.p.CPU
	peak = to.Value(derivation.StepPeak, m.CPU.Max(hour+1-window, hour+1).Amount())
	to.PeakOf(&m.CPU, hour+1-window, hour+1)
	recent := m.CPU.Max(hour+1-int(r.Recent/time.Hour), hour+1).Amount()
	least = max(recent*r.RecentFactor, r.Min)
	level = m.raiseCPU(m.learnt(r.level(peak, to), to), least, hour, to)
	return to.Lower(derivation.StepMaximum, level, derivation.MaxAmount), peak, least
}

func (m *Memo) observeCPU(now int64, used, need float64) {
	request := &m.cpu
	r := &m.p.CPU
	had := request.at(now)
	raised := m.CPU.Observe(int(now/3600), need)
	if had > 0 {
		m.calibrate(now, used, had)
		m.chooseCPU(int(now/3600), used, had)
	}
	if had > 0 && used > had && request.inLow && request.isLow(now) {
		request.banned = now + int64(r.Plan.Ban/time.Second)
	}
	if request.level == 0 || used > had || now-request.decided >= 3600 || raised && need > 0.9*had {
		m.decideCPU(now, used)
	}
}

// Calibration of the CPU factor: daily steps of its logarithm, within bounds.
const (
	cpuStep      = 0.005
	cpuMost      = 6 // the most budgets that one day counts
	minCPUAdjust = -0.1
	maxCPUAdjust = 0.4
	cpuKnown     = 72 // hours of history before calibration starts
)

// shortfall is the usage of a day, and the part of it above the request, in cores × samples.
type shortfall struct{ used, over float32 }

// calibrate adjusts the factor by the share of a day's usage above the request:
//
//	log factor += step · (min(share/budget, 6) − 1)
//
// In the long run the share equals the budget, whatever the usage, except for days above six budgets.
func (m *Memo) calibrate(now int64, used, had float64) {
	request := &m.cpu
	shortfall := &m.shortfall
	r := &m.p.CPU
	if r.Shortfall <= 0 {
		return
	}
	if d := now / daySeconds; d > request.day {
		if shortfall.used > 0 && int(now/3600)-m.CPU.Since() >= cpuKnown {
			share := float64(shortfall.over) / float64(shortfall.used)
			request.adjust += cpuStep * (min(share/r.Shortfall, cpuMost) - 1)
			request.adjust = min(max(request.adjust, minCPUAdjust), maxCPUAdjust)
		}
		request.day = d
		shortfall.used = 0
		shortfall.over = 0
	}
	shortfall.used += float32(used)
	shortfall.over += float32(max(0, used-had))
}

func (m *Memo) decideCPU(now int64, used float64) {
	request := &m.cpu
	rule := &m.p.CPU
	request.resume(now)
	hour := int(now / 3600)
	want, peak, least := m.given(hour, rule.window(m.cpuChoice.arm), nil)
	if had := request.at(now); had > 0 && used > had {
		want = max(want, used*rule.Bump)
	}
	if rule.Plan.Gain > 0 && now-request.planned >= int64(rule.Plan.Every/time.Second) && hour-m.CPU.Since() >= rule.Plan.Days*24 {
		request.planned = now
		days := MemoryRule{Days: rule.Plan.Days, Long: rule.Plan.Days, Base: 0.5, Plan: rule.Plan}
		request.hours = days.plan(&m.CPU, m.CPU.Since(), hour, float64(hourly.LevelOf(peak)), days.base(&m.CPU, m.CPU.Since(), hour))
	}
	low := 0.0
	if request.isLow(now) {
		low = m.lowCPU(hour, want, least, nil)
	}
	request.change(want, low, now, rule.change(), used > request.level, used > request.low)
}

func (r *CPURule) change() changeRule {
	return changeRule{grow: r.Grow, shrink: r.Shrink, wait: r.Wait}
}

// lowCPU returns the level of the low hours, not above the usual level, and not below the minimum from the recent past.
func (m *Memo) lowCPU(hour int, want, least float64, to *derivation.Recorder) float64 {
	base := to.Level(derivation.StepLowHours, float64(m.cpu.hours.base))
	m.cpu.hours.explain(to)
	level := m.learnt(m.p.CPU.level(hourly.Amount(base), to), to)
	return to.Lower(derivation.StepUsual, m.raiseCPU(level, least, hour, to), want)
}

// explainCPU records the steps to the request of CPU that was last decided, for a time.
func (m *Memo) explainCPU(now int64, to *derivation.Recorder) {
	request := &m.cpu
	had := request.at(now)
	rule := &m.p.CPU
	hour := int(request.decided / 3600)
	window := rule.window(m.cpuChoice.arm)
	if !request.inLow || !request.isLow(now) {
		want, _, _ := m.given(hour, window, to)
		request.keep(want, had, rule.change(), to)
		return
	}
	want, _, least := m.given(hour, window, nil)
	request.keep(m.lowCPU(hour, want, least, to), had, rule.change().during(time.Hour), to)
}
