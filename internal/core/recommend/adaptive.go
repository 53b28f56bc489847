// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/trend"
	"podfit.dev/podfit/internal/core/usage"
)

// AdaptiveParams are the parameters of the algorithm Adaptive (AdaptiveProfile). Margins are differences of logarithms: 0.1 is about 10 %.
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

// adaptive sizes by a risk budget: the share of days on which usage may exceed the request. Its changes are small and
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
type adaptive struct{ p AdaptiveParams }

// Extend creates the model state of a container (usage.Store.Extend).
func (a *adaptive) Extend() usage.Extension {
	return &Memo{
		p:      &a.p,
		CPU:    hourly.NewPeaks(max(a.p.CPU.window(0)+2, a.p.CPU.window(1)+2, a.p.CPU.window(2)+2, 24*a.p.CPU.Plan.Days)),
		Memory: hourly.NewPeaks(a.p.Memory.Long * 24),
	}
}

// Amount returns the request that was decided at the last sample (Memo.Observe), for the time of day.
func (a *adaptive) Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	memo, ok := state.(*Memo)
	switch {
	case !ok:
		return 0
	case r == cluster.Memory:
		return memo.memoryAmount(now.Unix(), to)
	}
	v := memo.cpu.at(now.Unix())
	if v <= 0 {
		return 0
	}
	if to != nil {
		memo.explainCPU(now.Unix(), to)
	}
	return to.Ceil(to.ToMillicores(v, 1000))
}

func (m *Memo) memoryAmount(now int64, to *derivation.Recorder) int64 {
	v := m.memory.at(now)
	if v <= 0 {
		return 0
	}
	if to != nil {
		m.explainMemory(now, to)
	}
	return to.Ceil(v)
}

// Memo is the model state of Adaptive: the peaks of the last hours, and the current request.
type Memo struct {
	CPU, Memory hourly.Peaks

	p           *AdaptiveParams
	cpu, memory held
	leak        trend.Leak // of memory
	regime      regime     // of memory
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
	if !request.above && request.learns(&m.Memory, now) && !m.leak.Bounds() { // it is not the margin's fault
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
		m.leak.Judge(&m.Memory, request.level*rule.LeakBound, now)
	}
	m.leak.Used(used, now)
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
	low := 0.0
	isLow := request.isLow(now)
	if isLow {
		low = m.lowMemory(want, now, nil)
	}
	request.change(want, low, now, rule.change(request), above && !isLow, above)
}

// change decides the requests: the usual one by what a new decision gives, and in the low hours that of these hours by low. above and
// aboveLow are whether usage was above them.
func (h *held) change(want, low float64, now int64, rule changeRule, above, aboveLow bool) {
	wasLow := h.inLow
	h.inLow = h.isLow(now)
	switch {
	case h.inLow && wasLow:
		h.low, h.changed = rule.during(time.Hour).move(h.low, low, now, h.changed, aboveLow)
	case h.inLow:
		h.low = min(low, h.level)
		h.changed = now
	}
	h.level, h.changed = rule.move(h.level, want, now, h.changed, above)
	if h.inLow {
		h.low = min(h.low, h.level)
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

// A changeRule determines which differences change a decided request.
type changeRule struct {
	grow, shrink float64
	wait         time.Duration // the request does not shrink for this long after a change
}

// change returns the rule for a request. With low hours, it may shrink soon.
func (r *MemoryRule) change(h *held) changeRule {
	rule := changeRule{grow: r.Grow, shrink: r.Shrink, wait: r.Wait}
	if h.hours.any() {
		return rule.during(time.Hour)
	}
	return rule
}

// during returns the rule with another wait.
func (r changeRule) during(wait time.Duration) changeRule {
	r.wait = wait
	return r
}

// move returns the new request if the difference is large enough: upwards at once, downwards after the wait.
func (r changeRule) move(have, want float64, now, changed int64, above bool) (float64, int64) {
	switch {
	case want > have*(1+r.grow), above && want > have:
		return want, now
	case want < have*(1-r.shrink) && now-changed >= int64(r.wait/time.Second):
		return want, now
	}
	return have, changed
}

// usualMemory returns the level of all hours but the low ones, without margin. It reads the peaks of the days that end with an hour.
func (m *Memo) usualMemory(days *peaksOfDays, base float64, hour int, to *derivation.Recorder) float64 {
	days.read(&m.Memory, m.regime.start(&m.Memory), hour, m.p.Memory.Long, to)
	return m.p.Memory.levelOf(m.memoryChoice.arm, days.all(), base, to)
}

func (m *Memo) marginOf(level float64, to *derivation.Recorder) float64 {
	rule := &m.p.Memory
	level = to.Shift(derivation.StepMargin, level, (rule.Margin+m.memory.adjust)*hourly.PerNat)
	e := to.Evidence()
	e.Margin = math.Expm1(rule.Margin)
	e.Learnt = math.Expm1(m.memory.adjust)
	e.Budget = rule.aim()
	return level
}

// raisedMemory raises an amount to the minimum of the profile, and to what usage above the request required until a time.
func (m *Memo) raisedMemory(v float64, now int64, to *derivation.Recorder) float64 {
	v = to.Raise(derivation.StepMinimum, v, m.p.Memory.Min)
	if now < m.memory.bumped {
		v = to.Raise(derivation.StepRaised, v, m.memory.bump)
		to.Evidence().From = unix(m.memory.bumped - int64(m.p.Memory.Hold/time.Second))
		to.Evidence().Until = unix(m.memory.bumped)
	}
	return v
}

// wantMemory returns the request that a decision gives, before it is compared with the present one.
func (m *Memo) wantMemory(days *peaksOfDays, usual float64, now int64, to *derivation.Recorder) float64 {
	rule := &m.p.Memory
	level := m.marginOf(usual, to)
	level = to.RaiseLevel(derivation.StepToday, level, float64(days[0])+rule.Least*hourly.PerNat)
	to.Evidence().Margin = math.Expm1(rule.Least)
	to.HourOfDay(to.Evidence(), 0, days[0])
	want := hourly.Amount(level)
	if ahead := m.leak.Ahead(days.all(), now); ahead > 0 {
		want = to.Raise(derivation.StepGrowth, want, ahead)
		to.Evidence().From = unix(m.leak.From)
		to.Evidence().Amount = m.leak.PerDay
	}
	want = m.raisedMemory(want, now, to)
	if m.leak.Bounds() {
		want = to.Lower(derivation.StepLeakBound, want, m.leak.Bound)
		to.Evidence().From = unix(m.leak.Since)
	}
	return to.Lower(derivation.StepMaximum, want, derivation.MaxAmount)
}

// lowMemory returns the request for the low hours that a decision gives, before it is compared with the present one. It is not above that
// of the other hours.
func (m *Memo) lowMemory(want float64, now int64, to *derivation.Recorder) float64 {
	rule := &m.p.Memory
	hour := int(now / 3600)
	level := to.Level(derivation.StepLowHours, float64(m.memory.hours.base))
	m.memory.hours.explain(to)
	level = m.marginOf(level, to)
	recent := m.Memory.Max(hour+1-rule.Plan.Recent, hour+1)
	level = to.RaiseLevel(derivation.StepRecent, level, float64(recent)+rule.Least*hourly.PerNat)
	to.PeakOf(&m.Memory, hour+1-rule.Plan.Recent, hour+1)
	to.Evidence().Margin = math.Expm1(rule.Least)
	return to.Lower(derivation.StepUsual, m.raisedMemory(hourly.Amount(level), now, to), want)
}

// explain sets the low hours as evidence of the last step.
func (l lowHours) explain(to *derivation.Recorder) {
	to.Evidence().FirstHour = int(l.from)
	to.Evidence().Hours = int(l.length)
}

// explainMemory records the steps to the request of memory that was last decided, for a time.
func (m *Memo) explainMemory(now int64, to *derivation.Recorder) {
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
	change := rule.change(request)
	if isLow {
		want = m.lowMemory(want, request.decided, to)
		change.wait = time.Hour
	}
	request.keep(want, had, change, to)
}

// keep records that a decided request is kept although the last decision gave another amount, and why.
func (h *held) keep(want, had float64, rule changeRule, to *derivation.Recorder) {
	if want == had {
		return
	}
	to.Keep(derivation.StepKept, want, had)
	e := to.Evidence()
	e.From = unix(h.changed)
	e.Amount = to.Amount(want)
	after, _ := rule.move(had, want, h.decided, h.changed, false)
	afterWait, _ := rule.during(0).move(had, want, h.decided, h.changed, false)
	switch {
	case after != had:
		e.Kept = derivation.KeptPending
		e.Until = unix(h.decided + 3600)
	case afterWait != had:
		e.Kept = derivation.KeptWaiting
		e.Until = unix(h.changed + int64(rule.wait/time.Second))
	default:
		e.Kept = derivation.KeptSmall
		e.Share = rule.grow
		if want < had {
			e.Share = rule.shrink
		}
	}
}
