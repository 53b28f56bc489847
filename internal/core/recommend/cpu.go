// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/series"
)

// level returns what a peak calls for: peak·m·peak^−η + a.
func (r *CPURule) level(peak float64) float64 {
	return peak*r.Factor*math.Pow(max(peak, 0.01), -r.Scale) + r.Add
}

// given returns what the peak of a window calls for, with what the factor has learnt, that peak, and the least that is given
// because of the recent past.
func (m *Memo) given(hour, window int) (level, peak, least float64) {
	r := &m.p.CPU
	peak = m.CPU.Max(hour+1-window, hour+1).Amount()
	recent := m.CPU.Max(hour+1-int(r.Recent/time.Hour), hour+1).Amount()
	least = max(recent*r.RecentFactor, r.Min)
	return min(max(r.level(peak)*math.Exp(m.cpu.adjust), least), maxAmount), peak, least
}

func (m *Memo) observeCPU(now int64, v, need float64) {
	h, r := &m.cpu, &m.p.CPU
	had := h.at(now)
	raised := m.CPU.Observe(int(now/3600), need)
	if had > 0 {
		m.calibrate(now, v, had)
		m.chooseCPU(int(now/3600), v, had)
	}
	if had > 0 && v > had && h.inLow && h.isLow(now) {
		h.banned = now + int64(r.Plan.Ban/time.Second)
	}
	if h.level == 0 || v > had || now-h.decided >= 3600 || raised && need > 0.9*had {
		m.decideCPU(now, v)
	}
}

// How the factor of CPU is calibrated: in logarithms, a day, within bounds.
const (
	cpuStep      = 0.005
	cpuMost      = 6 // budgets that a day counts at most, whatever came
	minCPUAdjust = -0.1
	maxCPUAdjust = 0.4
	cpuKnown     = 72 // hours of history before that
)

// shortfall is what was used on a day, and what of it lay above the request, in cores × samples.
type shortfall struct{ used, over float32 }

// calibrate changes the factor by the share of a day's usage that lay above the request:
//
//	log factor += step · (min(share/budget, 6) − 1)
//
// So that share tends to the budget, whatever the usage is like, but for days that are beyond six budgets.
func (m *Memo) calibrate(now int64, v, had float64) {
	h, c, r := &m.cpu, &m.shortfall, &m.p.CPU
	if r.Shortfall <= 0 {
		return
	}
	if d := now / daySeconds; d > h.day {
		if c.used > 0 && int(now/3600)-m.CPU.Since() >= cpuKnown {
			share := float64(c.over) / float64(c.used)
			h.adjust += cpuStep * (min(share/r.Shortfall, cpuMost) - 1)
			h.adjust = min(max(h.adjust, minCPUAdjust), maxCPUAdjust)
		}
		h.day, c.used, c.over = d, 0, 0
	}
	c.used += float32(v)
	c.over += float32(max(0, v-had))
}

func (m *Memo) decideCPU(now int64, v float64) {
	h, r := &m.cpu, &m.p.CPU
	h.resume(now)
	hour := int(now / 3600)
	want, peak, least := m.given(hour, r.window(m.cpuChoice.arm))
	if had := h.at(now); had > 0 && v > had {
		want = max(want, v*r.Bump)
	}
	if r.Plan.Gain > 0 && now-h.planned >= int64(r.Plan.Every/time.Second) && hour-m.CPU.Since() >= r.Plan.Days*24 {
		h.planned = now
		rule := MemoryRule{Days: r.Plan.Days, Long: r.Plan.Days, Base: 0.5, Plan: r.Plan}
		h.hours = rule.plan(&m.CPU, m.CPU.Since(), hour, float64(series.LevelOf(peak)), rule.base(&m.CPU, m.CPU.Since(), hour))
	}
	wasLow := h.inLow
	h.inLow = h.isLow(now)
	if h.inLow {
		low := min(want, max(r.level(series.Amount(float64(h.hours.base)))*math.Exp(h.adjust), least))
		if !wasLow {
			h.low, h.changed = min(low, h.level), now
		} else {
			h.low, h.changed = move(h.low, low, r.Grow, r.Shrink, now, h.changed, time.Hour, v > h.low)
		}
	}
	h.level, h.changed = move(h.level, want, r.Grow, r.Shrink, now, h.changed, r.Wait, v > h.level)
	if h.inLow {
		h.low = min(h.low, h.level)
	}
}
