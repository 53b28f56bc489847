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

// Adaptive sizes by a risk budget: the share of days on which usage may exceed the request. Its changes are small and
// rare. It is meant for clusters where a change is an in-place resize.
//
// Memory, from the peaks x of the last days (24 h each, ending now; logarithms, x₁ the highest of the last 7 days,
// x₂ the second, y₂ the second highest of 14, b the level that 70 % of the hours of a week stay below):
//
//	level = x₁ + α·(x₂−x₁) + β·(y₂−x₁) + γ·(x₁−b) + margin        not below today's peak
//
// A single spike does not set the request alone, and the week before still counts. Spiky usage gets a larger margin than
// steady usage: with steady usage every percent of margin is a percent of waste; with spiky usage it is almost none,
// and it is spiky usage that exceeds requests.
//
// The margin is calibrated per container (adaptive conformal inference, Gibbs and Candès 2021): after a day above the
// request it grows by g·(1−budget), after a day without it shrinks by g·budget. In the long run the share of days above
// is the budget, whatever the distribution.
//
// A day may have two levels (plan.go): hours in which usage was low on all days get a lower request.
//
// CPU usage above the request does not kill a container. CPU follows the peak of the last hours: level = peak·m·peak^−η + a, so
// that small containers, whose margin is cheap, get relatively more. The number of hours is chosen per container, by the
// cost that each choice would have had (choice.go). CPU may have two levels a day, too.
func Adaptive(p AdaptiveParams) Estimator { return &adaptive{p} }

// AdaptiveParams are the parameters of Adaptive. Margins are differences of logarithms: 0.1 is about 10 %.
type AdaptiveParams struct {
	Memory MemoryRule
	CPU    CPURule
}

// A MemoryRule has the parameters of Adaptive for memory.
type MemoryRule struct {
	Days, Long int     // look-back windows of x₁ and y₂, in days
	Second     float64 // α
	LongSecond float64 // β
	Spread     float64 // γ
	Base       float64 // the share of the hours of a week below b
	Margin     float64
	Step       float64 // g, how much the margin learns from a day
	Budget     float64 // the promise: the share of days that may see usage above the request
	Least      float64 // how far the level stays above today's peak
	Choose     bool    // whether the look-back window is chosen per container (choice.go)
	LeakBound  float64 // bound of the request while a leak is suspected, relative to the request when it was first suspected; 0: no bound

	Grow, Shrink float64       // the smallest relative differences that change the request
	Wait         time.Duration // the request does not shrink for this long after a change
	Bump         float64       // after usage above the request: the request relative to the peak
	Kill         float64       // the same after an OOM kill, which hides the real peak
	Hold         time.Duration // how long the raised request stays

	Plan PlanRule
	Min  float64 // bytes
}

// A CPURule has the parameters of Adaptive for CPU.
type CPURule struct {
	Window, Recent time.Duration
	Overrun        float64 // cost of usage above the level relative to usage at the level; 0: Window is fixed
	Bump           float64 // after usage above the request: the request relative to usage
	Factor         float64 // m
	Shortfall      float64 // the share of the core-seconds used that may lie above the request; 0: m is not calibrated
	Scale          float64 // η
	Add            float64 // a, cores
	RecentFactor   float64 // minimum of the request relative to the peak of Recent
	Grow, Shrink   float64
	Wait           time.Duration
	Plan           PlanRule
	Min            float64 // cores
}

type adaptive struct{ p AdaptiveParams }

// Extend creates the model state of a container (usage.Store.Extend).
func (a *adaptive) Extend() usage.Extension {
	return &Memo{
		p:      &a.p,
		CPU:    hourly.NewPeaks(max(a.p.CPU.longest()+2, 24*a.p.CPU.Plan.Days)),
		Memory: hourly.NewPeaks(a.p.Memory.Long * 24),
	}
}

// The bounds relative to the target. They are closer than the smallest change, so that every change is applied at once, and
// wider than rounding.
const (
	lowerBand = 0.95
	upperBand = 1.08
)

// withBand sets the target of a resource and bounds around it, not below the floor.
//
// It appends to the steps of the target, and sets the steps of the bounds.
func withBand(e cluster.Estimate, r cluster.Resource, target, floor int64, to *Derivation) cluster.Estimate {
	if r == cluster.CPU {
		steps := continued(to.target())
		target = steps.raiseWhole(StepFloor, steps.lowerWhole(StepMaximum, target, mostMillicores), floor)
	}
	lower := record(to.lower(), 1)
	upper := record(to.upper(), 1)
	least := lower.scale(StepBand, lower.whole(StepTarget, target), lowerBand)
	most := upper.scale(StepBand, upper.whole(StepTarget, target), upperBand)
	e.Target = e.Target.Set(r, target)
	e.Lower = e.Lower.Set(r, lower.raiseWhole(StepFloor, least, min(target, floor)))
	e.Upper = e.Upper.Set(r, upper.raiseWhole(StepTarget, most, target))
	return e
}

// Estimate returns the request that was decided at the last sample (Memo.Observe), for the time of day.
func (a *adaptive) Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time) cluster.Estimate {
	return a.Explain(s, floor, now, nil)
}

// Explain implements Estimator.
func (a *adaptive) Explain(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *Record) cluster.Estimate {
	var estimate cluster.Estimate
	memo, ok := s.Extension().(*Memo)
	if !ok {
		return estimate
	}
	cpu := record(to.Of(cluster.CPU).target(), 1000)
	if v := memo.cpu.at(now.Unix()); v > 0 {
		if cpu != nil {
			memo.explainCPU(now.Unix(), cpu)
		}
		target := cpu.raiseWhole(StepFloor, cpu.ceil(cpu.toMillicores(v, 1000)), floor.CPU)
		estimate = withBand(estimate, cluster.CPU, target, floor.CPU, to.Of(cluster.CPU))
	}
	memo.estimateMemory(&estimate, floor.Memory, now, to)
	return estimate
}

// estimateMemory sets memory in an estimate.
func (m *Memo) estimateMemory(estimate *cluster.Estimate, floor int64, now time.Time, to *Record) {
	memory := record(to.Of(cluster.Memory).target(), 1)
	if v := m.memory.at(now.Unix()); v > 0 {
		if memory != nil {
			m.explainMemory(now.Unix(), memory)
		}
		target := memory.raiseWhole(StepFloor, memory.ceil(v), floor)
		*estimate = withBand(*estimate, cluster.Memory, target, floor, to.Of(cluster.Memory))
	}
}

// Memo is the model state of Adaptive: the peaks of the last hours, and the current request.
type Memo struct {
	CPU, Memory hourly.Peaks

	p           *AdaptiveParams
	cpu, memory held
	leak        leak   // of memory
	regime      regime // of memory
	shortfall   shortfall

	cpuChoice, memoryChoice choice
}

// held is a decided request. Times are Unix seconds.
type held struct {
	level   float64 // 0 before the first sample
	low     float64 // level in the current low hours
	hours   lowHours
	inLow   bool  // the last decision was in the low hours
	banned  int64 // no low hours until then
	changed int64
	decided int64
	planned int64
	bump    float64 // not below this
	bumped  int64   // until then
	adjust  float64 // calibration of the margin
	day     int64   // the current day of calibration, 0 before the first
	above   bool    // usage exceeded the request on this day
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

// Observe adds a sample and decides the request.
func (m *Memo) Observe(s usage.Sample, taken cluster.Set) {
	now := s.At.Unix()
	if taken.Has(cluster.Memory) {
		m.observeMemory(now, s.Memory, uncut(s.Memory, float64(s.Ran.MemoryLimit), cutMemory))
	}
	if taken.Has(cluster.CPU) {
		m.observeCPU(now, s.CPU, uncut(s.CPU, float64(s.Ran.CPULimit)/1000, cutCPU))
	}
}

// Usage near the limit is only a lower bound of the need: CPU may be throttled, memory reclaimed or about to be killed.
// Such usage is multiplied by these factors before it enters history. The request, and the limit with it, rise step by step
// while usage follows.
const (
	nearLimit = 0.95
	cutCPU    = 1.25
	cutMemory = 1.05
)

// uncut returns usage, multiplied by a factor if it is near the limit. 0 is no limit.
func uncut(v, limit, factor float64) float64 {
	if limit > 0 && v >= nearLimit*limit {
		return v * factor
	}
	return v
}

// ObserveOOM adds an OOM kill. The need is unknown, but higher than the memory of the container. The request becomes at least
// needed, which is upstream's bump.
func (m *Memo) ObserveOOM(o usage.OOM, needed int64) {
	now := o.At.Unix()
	h := &m.memory
	r := &m.p.Memory
	had := float64(o.Memory)
	if h.level == 0 || had < 0.95*h.at(now) {
		return // the container ran with less than the current request
	}
	m.regime.used(had, int(now/3600))
	m.Memory.Observe(int(now/3600), had)
	peak := m.Memory.At(int(now / 3600)).Amount()
	factor := r.Kill
	if peak > had*1.001 {
		factor = r.Bump // the peak was measured
	}
	m.exceeded(now, max(max(peak, had)*factor, float64(needed)))
	m.decideMemory(now, true)
}

// exceeded records usage above the request.
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
func (h *held) learns(p *hourly.Peaks, now int64) bool { return int(now/3600)-p.Since() >= 7*24 }

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
	base := rule.base(&m.Memory, since, hour)
	usual := m.usualMemory(&days, base, hour, nil)
	if now-request.planned >= int64(rule.Plan.Every/time.Second) && hour-since >= rule.Plan.Days*24 {
		request.planned = now
		request.hours = rule.plan(&m.Memory, since, hour, usual, base)
	}
	want := m.wantMemory(&days, usual, now, nil)
	wasLow := request.inLow
	request.inLow = request.isLow(now)
	if request.inLow {
		low := m.lowMemory(want, now, nil)
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

// silence is the time without samples, in seconds, after which the next sample counts as a start.
const silence = 2 * 3600

// resume records the time of a decision. After a silence the container is probably starting and uses less than later, so the
// request does not shrink for a while, as after a change.
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

// move returns the new request if the difference is large enough: upwards at once, downwards after Wait.
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

// usualMemory returns the level of all hours but the low ones, without margin. It reads the peaks of the days that end with an hour.
func (m *Memo) usualMemory(days *peaksOfDays, base float64, hour int, to *recorder) float64 {
	var cuts *dayCuts
	if to != nil {
		to.peaks = &m.Memory
		cuts = &to.cuts
	}
	days.read(&m.Memory, m.regime.start(&m.Memory), hour, m.p.Memory.Long, cuts)
	return m.p.Memory.levelOf(m.memoryChoice.arm, days.all(), base, to)
}

// marginOf adds the margin to a level.
func (m *Memo) marginOf(level float64, to *recorder) float64 {
	rule := &m.p.Memory
	level = to.shift(StepMargin, level, (rule.Margin+m.memory.adjust)*hourly.PerNat)
	if to != nil {
		e := to.evidence()
		e.Margin = math.Expm1(rule.Margin)
		e.Learnt = math.Expm1(m.memory.adjust)
		e.Budget = rule.aim()
	}
	return level
}

// raisedMemory raises an amount to the minimum of the profile, and to what usage above the request required until a time.
func (m *Memo) raisedMemory(v float64, now int64, to *recorder) float64 {
	v = to.raise(StepMinimum, v, m.p.Memory.Min)
	if now < m.memory.bumped {
		v = to.raise(StepRaised, v, m.memory.bump)
		if to != nil {
			to.evidence().From = unix(m.memory.bumped - int64(m.p.Memory.Hold/time.Second))
			to.evidence().Until = unix(m.memory.bumped)
		}
	}
	return v
}

// wantMemory returns the request that a decision gives, before it is compared with the present one.
func (m *Memo) wantMemory(days *peaksOfDays, usual float64, now int64, to *recorder) float64 {
	rule := &m.p.Memory
	level := m.marginOf(usual, to)
	level = to.raiseLevel(StepToday, level, float64(days[0])+rule.Least*hourly.PerNat)
	if to != nil {
		to.evidence().Margin = math.Expm1(rule.Least)
		to.evidence().hourOf(&m.Memory, days[0], to.cuts[0].from, to.cuts[0].before)
	}
	want := hourly.Amount(level)
	if ahead := m.leak.ahead(days.all(), now); ahead > 0 {
		want = to.raise(StepGrowth, want, ahead)
		if to != nil {
			to.evidence().From = unix(m.leak.from)
			to.evidence().Amount = m.leak.perDay
		}
	}
	want = m.raisedMemory(want, now, to)
	if m.leak.bounds() {
		want = to.lower(StepLeakBound, want, m.leak.most())
		if to != nil {
			to.evidence().From = unix(m.leak.since)
		}
	}
	return to.lower(StepMaximum, want, maxAmount)
}

// lowMemory returns the request for the low hours that a decision gives, before it is compared with the present one. It is not above that
// of the other hours.
func (m *Memo) lowMemory(want float64, now int64, to *recorder) float64 {
	rule := &m.p.Memory
	hour := int(now / 3600)
	level := to.level(StepLowHours, float64(m.memory.hours.base))
	m.memory.hours.explain(to)
	level = m.marginOf(level, to)
	recent := m.Memory.Max(hour+1-rule.Plan.Recent, hour+1)
	level = to.raiseLevel(StepRecent, level, float64(recent)+rule.Least*hourly.PerNat)
	if to != nil {
		e := to.evidence()
		e.Hours = rule.Plan.Recent
		e.Margin = math.Expm1(rule.Least)
		e.hourOf(&m.Memory, recent, hour+1-rule.Plan.Recent, hour+1)
	}
	return to.lower(StepUsual, m.raisedMemory(hourly.Amount(level), now, to), want)
}

// explain sets the low hours as evidence of the last step.
func (l lowHours) explain(to *recorder) {
	if to != nil {
		to.evidence().FirstHour = int(l.from)
		to.evidence().Hours = int(l.length)
	}
}

// explainMemory records the steps to the request of memory that was last decided, for a time.
func (m *Memo) explainMemory(now int64, to *recorder) {
	request := &m.memory
	had := request.at(now)
	rule := &m.p.Memory
	hour := int(request.decided / 3600)
	isLow := request.inLow && request.isLow(now)
	usualTo := to
	if isLow {
		usualTo = nil
	}
	var days peaksOfDays
	usual := m.usualMemory(&days, rule.base(&m.Memory, m.regime.start(&m.Memory), hour), hour, usualTo)
	want := m.wantMemory(&days, usual, request.decided, usualTo)
	change := changeRule{grow: rule.Grow, shrink: rule.Shrink, wait: rule.wait(request)}
	if isLow {
		want = m.lowMemory(want, request.decided, to)
		change.wait = time.Hour
	}
	request.keep(want, had, change, to)
}

// A changeRule determines which differences change a decided request.
type changeRule struct {
	grow, shrink float64
	wait         time.Duration
}

// keep records that a decided request is kept although the last decision gave another amount, and why.
func (h *held) keep(want, had float64, rule changeRule, to *recorder) {
	if want == had {
		return
	}
	to.keep(StepKept, want, had)
	e := to.evidence()
	e.From = unix(h.changed)
	e.Amount = want * to.unit
	after, _ := move(had, want, rule.grow, rule.shrink, h.decided, h.changed, rule.wait, false)
	afterWait, _ := move(had, want, rule.grow, rule.shrink, h.decided, h.changed, 0, false)
	switch {
	case after != had:
		e.Kept = KeptPending
		e.Until = unix(h.decided + 3600)
	case afterWait != had:
		e.Kept = KeptWaiting
		e.Until = unix(h.changed + int64(rule.wait/time.Second))
	default:
		e.Kept = KeptSmall
		e.Share = rule.grow
		if want < had {
			e.Share = rule.shrink
		}
	}
}
