// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/series"
	"podfit.dev/podfit/internal/core/usage"
)

// Adaptive sizes by a risk: how many days in a hundred may see usage above the request. It changes little and
// seldom, and it is meant for clusters where a change is a resize in place.
//
// Memory, from the peaks x of the last days (24 h each, ending now; logarithms, x₁ the highest of the last 7 days,
// x₂ the second, y₂ the second highest of 14, b the level that 70 % of the hours of a week stay below):
//
//	level = x₁ + α·(x₂−x₁) + β·(y₂−x₁) + γ·(x₁−b) + margin        not below today's peak
//
// So a single spike does not set the request alone, the week before still counts, and what is spiky gets more room
// than what is steady: with steady usage every percent of margin is a percent of waste, with spiky usage almost
// nothing, and that is where usage goes above the request.
//
// The margin is calibrated per container (adaptive conformal inference, Gibbs and Candès 2021): after a day above the
// request it grows by g·(1−budget), after a day without it shrinks by g·budget. In the long run the share of days above
// is the budget, whatever the distribution.
//
// Where history says so, the day has two levels (plan.go): the hours in which usage has stayed low get a lower request.
//
// CPU, where a moment above the request is no kill, follows the peak of the last hours: level = peak·m·peak^−η + a, so
// that small containers, for which room costs nothing, get relatively more. How many hours that are is chosen per
// container, by what each choice would have cost (choice.go). Its days have two levels too, where that pays.
func Adaptive(p AdaptiveParams) Estimator { return &adaptive{p} }

// AdaptiveParams say how Adaptive sizes. What is called a margin is a difference of logarithms: 0.1 is about 10 %.
type AdaptiveParams struct {
	Memory MemoryRule
	CPU    CPURule
}

// A MemoryRule is how Adaptive sizes memory.
type MemoryRule struct {
	Days, Long int     // how many days x₁ and y₂ look back
	Second     float64 // α
	LongSecond float64 // β
	Spread     float64 // γ
	Base       float64 // the share of the hours of a week below b
	Margin     float64
	Step       float64 // g, how much the margin learns from a day
	Budget     float64 // the promise: the share of days that may see usage above the request
	Least      float64 // how far the level stays above today's peak
	Choose     bool    // how far it looks back is chosen per container (choice.go)
	LeakBound  float64 // of a suspected leak: the most it is given, in times of what it was given when first suspected; 0: no bound

	Grow, Shrink float64       // relative differences smaller than these change nothing
	Wait         time.Duration // shrink only so long after the last change
	Bump         float64       // how far above a peak above the request the next one is
	Kill         float64       // likewise, where a kill hid how high the peak would have been
	Hold         time.Duration // how long that stays

	Plan PlanRule
	Min  float64 // bytes
}

// A CPURule is how Adaptive sizes CPU.
type CPURule struct {
	Window, Recent time.Duration
	Overrun        float64 // what a moment above the level costs, in moments at it; 0: the Window is not chosen
	Bump           float64 // how far above usage that was above the request the next one is
	Factor         float64 // m
	Shortfall      float64 // the share of the core-seconds used that may lie above the request; 0: m is not calibrated
	Scale          float64 // η
	Add            float64 // a, cores
	RecentFactor   float64 // of the peak of the recent past, the least that is given
	Grow, Shrink   float64
	Wait           time.Duration
	Plan           PlanRule
	Min            float64 // cores
}

type adaptive struct{ p AdaptiveParams }

// Extend returns what Adaptive needs to remember of a container (usage.Book.Extend).
func (a *adaptive) Extend() usage.Extension {
	return &Memo{
		p:      &a.p,
		CPU:    series.NewPeaks(max(a.p.CPU.longest()+2, 24*a.p.CPU.Plan.Days)),
		Memory: series.NewPeaks(a.p.Memory.Long * 24),
	}
}

// How far the bounds are from the target: less than the smallest change, so that every change is applied at once, and
// more than what rounding does.
const (
	lowerBand = 0.95
	upperBand = 1.08
)

// withBand returns an estimate with a target, and bounds around it that are not below the floor.
func withBand(e cluster.Estimate, r cluster.Resource, target, floor int64) cluster.Estimate {
	if r == cluster.CPU {
		target = max(min(target, mostMillicores), floor)
	}
	e.Target = e.Target.Set(r, target)
	e.Lower = e.Lower.Set(r, max(scale(target, lowerBand), min(target, floor)))
	e.Upper = e.Upper.Set(r, max(scale(target, upperBand), target))
	return e
}

// Estimate reads what was decided when the last sample came (Memo.Observe). Only the time of day is its own.
func (a *adaptive) Estimate(s *usage.Series, floor cluster.Resources, now time.Time) cluster.Estimate {
	var estimate cluster.Estimate
	memo, ok := s.Extension().(*Memo)
	if !ok {
		return estimate
	}
	set := func(r cluster.Resource, v float64) {
		if v <= 0 {
			return
		}
		estimate = withBand(estimate, r, max(amount(math.Ceil(v)), floor.Amount(r)), floor.Amount(r))
	}
	set(cluster.CPU, memo.cpu.at(now.Unix())*1000)
	set(cluster.Memory, memo.memory.at(now.Unix()))
	return estimate
}

// Memo is what Adaptive remembers of a container: the peaks of the last hours, and what it gives the container now.
type Memo struct {
	CPU, Memory series.Peaks

	p           *AdaptiveParams
	cpu, memory held
	leak        leak   // of memory
	regime      regime // of memory
	shortfall   shortfall

	cpuChoice, memoryChoice choice
}

// held is a request as it was decided. Times are Unix seconds.
type held struct {
	level   float64 // what is given; 0 before the first sample
	low     float64 // what is given in the low hours, once they have begun
	hours   lowHours
	inLow   bool  // the last decision was in the low hours
	banned  int64 // until then there are no low hours
	changed int64
	decided int64
	planned int64
	bump    float64 // not below this
	bumped  int64   // until then
	adjust  float64 // what the margin has learnt
	day     int64   // the day that is being counted, 0 before the first
	above   bool    // it has seen usage above the request
}

// at returns the request at a time.
func (h *held) at(now int64) float64 {
	if h.inLow && h.isLow(now) {
		return h.low
	}
	return h.level
}

func (h *held) isLow(now int64) bool { return now >= h.banned && h.hours.contain(now) }

const daySeconds = 24 * 3600

// Observe decides what the container is given from now on.
func (m *Memo) Observe(s usage.Sample, taken cluster.Set) {
	now := s.At.Unix()
	if taken.Has(cluster.Memory) {
		m.observeMemory(now, s.Memory, uncut(s.Memory, float64(s.Ran.MemoryLimit), cutMemory))
	}
	if taken.Has(cluster.CPU) {
		m.observeCPU(now, s.CPU, uncut(s.CPU, float64(s.Ran.CPULimit)/1000, cutCPU))
	}
}

// Usage near the limit is cut off there, so it is only a lower bound of the need: CPU was throttled, memory reclaimed, or
// nearly killed. It enters the history as more by these factors. What is seen then says whether it was enough: the request,
// and the limit with it, climb step by step for as long as usage follows, and never by what was not used.
const (
	nearLimit = 0.95
	cutCPU    = 1.25
	cutMemory = 1.05
)

// uncut returns usage, or more when it may have been cut off by a limit. 0 is no limit.
func uncut(v, limit, factor float64) float64 {
	if limit > 0 && v >= nearLimit*limit {
		return v * factor
	}
	return v
}

// ObserveOOM takes a kill: what was needed is not known, but it is more than what the container had. It is given no less than
// upstream would give it, which is needed.
func (m *Memo) ObserveOOM(o usage.OOM, needed int64) {
	now := o.At.Unix()
	h := &m.memory
	r := &m.p.Memory
	had := float64(o.Memory)
	if h.level == 0 || had < 0.95*h.at(now) {
		return // it had less than is given by now
	}
	m.regime.used(had, int(now/3600))
	m.Memory.Observe(int(now/3600), had)
	peak := m.Memory.At(int(now / 3600)).Amount()
	factor := r.Kill
	if peak > had*1.001 {
		factor = r.Bump // the peak itself was seen
	}
	m.exceeded(now, max(max(peak, had)*factor, float64(needed)))
	m.decideMemory(now, true)
}

// exceeded notes that usage went above the request.
func (m *Memo) exceeded(now int64, need float64) {
	request := &m.memory
	rule := &m.p.Memory
	if !request.above && request.learns(&m.Memory, now) && !m.leak.bounds() { // it is not the margin's fault
		request.adjust = min(request.adjust+rule.Step*(1-rule.aim()), maxAdjust)
	}
	request.above = true
	if request.inLow && request.isLow(now) {
		request.banned = now + int64(rule.Plan.Ban/time.Second)
	}
	if now >= request.bumped || need > request.bump {
		request.bump = need
	}
	request.bumped = now + int64(rule.Hold/time.Second)
}

// generalization is how much more often usage goes above the request on workloads that took no part in tuning than on those that
// did, as measured (docs/backtest.md). Calibration aims at a budget that is smaller by this factor, so that the promise holds there.
const generalization = 1.5

// aim returns the share of days above that calibration aims at.
func (r *MemoryRule) aim() float64 { return r.Budget / generalization }

// The margin learns within these.
const (
	minAdjust = -0.1
	maxAdjust = 0.4
)

// learns reports whether there is enough history to blame the margin for what happens.
func (h *held) learns(p *series.Peaks, now int64) bool { return int(now/3600)-p.Since() >= 7*24 }

func (m *Memo) observeMemory(now int64, used, need float64) {
	request := &m.memory
	rule := &m.p.Memory
	if d := now / daySeconds; d > request.day { // samples of several pods may come a little out of order
		if request.day != 0 && !request.above && request.learns(&m.Memory, now) {
			request.adjust = max(request.adjust-rule.Step*rule.aim(), minAdjust)
		}
		request.day = d
		request.above = false
		m.chooseMemory(int(d))
		m.leak.judge(&m.Memory, request.level*rule.LeakBound, now)
	}
	m.leak.used(used, now)
	m.regime.used(used, int(now/3600))
	raised := m.Memory.Observe(int(now/3600), need)
	had := request.at(now)
	above := had > 0 && used > had
	if above {
		m.exceeded(now, used*rule.Bump)
	}
	if above || request.level == 0 || now-request.decided >= 3600 || raised && need > 0.8*had {
		m.decideMemory(now, above || had > 0 && need > had)
	}
}

func (m *Memo) decideMemory(now int64, above bool) {
	request := &m.memory
	rule := &m.p.Memory
	request.resume(now)
	var days peaksOfDays
	hour := int(now / 3600)
	m.regime.observe(&m.Memory, hour)
	since := m.regime.start(&m.Memory)
	days.read(&m.Memory, since, hour, rule.Long)
	base := rule.base(&m.Memory, since, hour)
	usual := rule.levelOf(m.memoryChoice.arm, days.all(), base)
	if now-request.planned >= int64(rule.Plan.Every/time.Second) && hour-since >= rule.Plan.Days*24 {
		request.planned = now
		request.hours = rule.plan(&m.Memory, since, hour, usual, base)
	}
	margin := (rule.Margin + request.adjust) * series.PerNat
	today := float64(days[0]) + rule.Least*series.PerNat
	least := rule.Min
	if now < request.bumped {
		least = max(least, request.bump)
	}
	want := max(series.Amount(max(usual+margin, today)), m.leak.ahead(days.all(), now), least)
	want = min(want, m.leak.most(), maxAmount)
	wasLow := request.inLow
	request.inLow = request.isLow(now)
	if request.inLow {
		recent := float64(m.Memory.Max(hour+1-rule.Plan.Recent, hour+1)) + rule.Least*series.PerNat
		low := min(want, max(series.Amount(max(float64(request.hours.base)+margin, recent)), least))
		if !wasLow {
			request.low = min(low, request.level)
			request.changed = now
		} else {
			request.low, request.changed = rule.move(request.low, low, now, request.changed, time.Hour, above)
		}
	}
	request.level, request.changed = rule.move(request.level, want, now, request.changed, rule.wait(request), above && !request.inLow)
	if request.inLow {
		request.low = min(request.low, request.level)
	}
}

// silence is how long a container may say nothing before what it says next is taken for a start.
const silence = 2 * 3600

// resume notes that a decision is made. After a silence a container is likely to start, and to use less than it will:
// the request waits as after a change before it shrinks.
func (h *held) resume(now int64) {
	if h.decided > 0 && now-h.decided > silence {
		h.changed = now
	}
	h.decided = now
}

// wait returns how long after a change the request may shrink.
func (r *MemoryRule) wait(h *held) time.Duration {
	if h.hours.any() {
		return time.Hour
	}
	return r.Wait
}

// move changes a request when the difference is worth it: at once upwards, after a while downwards.
func (r *MemoryRule) move(have, want float64, now, changed int64, wait time.Duration, above bool) (float64, int64) {
	return move(have, want, r.Grow, r.Shrink, now, changed, wait, above)
}

func move(have, want, grow, shrink float64, now, changed int64, wait time.Duration, above bool) (float64, int64) {
	switch {
	case want > have*(1+grow), above && want > have:
		return want, now
	case want < have*(1-shrink) && now-changed >= int64(wait/time.Second):
		return want, now
	}
	return have, changed
}
