// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
)

// arms is the number of look-back windows to choose from: that of the rule, a longer and a shorter one.
const arms = 3

// The decay of costs for each period, and by how much another arm has to be cheaper to be chosen. Costs start at 0, so the penalty
// also requires evidence: an arm that is cheaper by a third is chosen after 9 days, one that is cheaper by 5 % never.
const (
	costKept      = 0.98 // half in 34 periods
	switchPenalty = 0.03
)

// choice is the arm that sizes a resource of a container, and the cost of each arm. At the start of each period, an hour for CPU
// and a day for memory, each arm has a level L. At the end it is charged for the unused part of L and for usage above L:
//
//	CPU, a sample v:      (L + w·v·[v > L]) / what was given             w = Overrun
//	memory, a day:        1 − b/L + w·[peak > L]                         w = 0.06/aim
//
// (b as in Adaptive). Costs are averaged over periods with decaying weight. The cheapest arm is chosen if it is cheaper than
// the current one by a penalty. So peaks that do not return are forgotten within hours, and peaks of every other day are kept.
type choice struct {
	cost    [arms]float32 // decayed
	level   [arms]float32 // level of the arm in this period: cores or bytes
	charged [arms]float32 // in this period
	samples int32         // of this period
	period  int32         // hours or days since 1970; 0 before the first
	arm     uint8
}

// mostCost limits the cost of a sample, which is large if the request is tiny. The sum of costs is stored.
const mostCost = 1e6

func (c *choice) charge(arm int, cost float64) {
	if cost > 0 { // not negative, not NaN
		c.charged[arm] += float32(min(cost, mostCost))
	}
}

// turn ends a period: it chooses an arm if there is enough history, and sets the levels of the next period.
func (c *choice) turn(period int, level [arms]float64, known bool) {
	best := c.arm
	least := math.Inf(1)
	for arm := range c.cost {
		if c.period > 0 && c.samples > 0 {
			c.cost[arm] = float32(costKept*float64(c.cost[arm]) + (1-costKept)*float64(c.charged[arm])/float64(c.samples))
		}
		cost := float64(c.cost[arm])
		if arm != int(c.arm) {
			cost += switchPenalty
		}
		if cost < least {
			best = uint8(arm)
			least = cost
		}
		c.level[arm] = float32(level[arm])
		c.charged[arm] = 0
	}
	if known {
		c.arm = best
	}
	c.samples = 0
	c.period = int32(period)
}

// cpuArms are the look-back windows of CPU, relative to Window.
var cpuArms = [arms]float64{1, 1.5, 1.0 / 3}

func (r *CPURule) window(arm uint8) int { return max(int(cpuArms[arm]*r.Window.Hours()+0.5), 1) }

// chooseCPU charges the arms for a sample, and chooses an arm at the end of an hour.
func (m *Memo) chooseCPU(hour int, v, had float64) {
	choice := &m.cpuChoice
	rule := &m.p.CPU
	if rule.Overrun <= 0 {
		return
	}
	for a, level := range choice.level {
		cost := float64(level)
		if v > cost {
			cost += rule.Overrun * v
		}
		choice.charge(a, cost/had)
	}
	choice.samples++
	if hour <= int(choice.period) {
		return
	}
	var level [arms]float64
	for a := range level {
		level[a], _, _ = m.given(hour, rule.window(uint8(a)), nil)
	}
	choice.turn(hour, level, hour-m.CPU.Since() >= cpuKnown)
}

// Margins of the longer and the shorter window: a longer window needs less margin for the same risk.
const (
	longMargin  = -0.1
	shortMargin = 0.1
)

// exceedCost divided by the target budget is the cost of a day above the request, in shares of unused memory: halving these days costs
// about 0.04 of slack, 0.06 for each factor of e, at all budgets.
const exceedCost = 0.06

// levelOf is level for an arm: with 12 and 14, or 4 and 10 days, if the rule has 7 and 14.
func (r *MemoryRule) levelOf(arm uint8, days []hourly.Level, base float64, to *derivation.Recorder) float64 {
	short := MemoryRule{Days: r.Days, Second: r.Second, LongSecond: r.LongSecond, Spread: r.Spread, Base: r.Base}
	margin := 0.0
	all := days
	switch arm {
	case 1:
		short.Days = (5*r.Days + 1) / 3
		margin = longMargin
	case 2:
		short.Days = (r.Days + 1) / 2
		margin = shortMargin
		days = days[:min(len(days), max(5*r.Long/7, short.Days))]
	}
	level := to.Shift(derivation.StepWindow, short.level(days, base, to), margin*hourly.PerNat)
	to.Evidence().Days = float64(short.Days)
	return to.RaiseLevel(derivation.StepRecurring, level, float64(recurring(all)))
}

// recurring returns the highest peak that was reached on the same day of two weeks in a row (± a day), from the peaks of days (newest
// first). A weekly peak is never the second highest of 7 days, so α would discount it as a single spike.
func recurring(days []hourly.Level) hourly.Level {
	top := hourly.Level(0)
	for i := 7; i < min(len(days), 14); i++ {
		top = max(top, min(days[i], max(days[i-6], days[i-7])))
	}
	return top
}

// chooseMemory charges the arms for the day before day, and chooses an arm.
func (m *Memo) chooseMemory(day int) {
	choice := &m.memoryChoice
	rule := &m.p.Memory
	if !rule.Choose {
		return
	}
	last := 24*day - 1 // the last hour of the day before
	since := m.regime.start(&m.Memory)
	base := rule.base(&m.Memory, since, last)
	peak := m.Memory.Max(24*int(choice.period), 24*int(choice.period)+24)
	known := m.memory.learns(&m.Memory, int64(last)*3600)
	if known && choice.period > 0 && peak > 0 {
		for a, level := range choice.level {
			cost := max(0, 1-hourly.Amount(base)/float64(level))
			if peak.Amount() > float64(level) {
				cost += exceedCost / rule.aim()
			}
			choice.charge(a, cost)
		}
		choice.samples = 1
	}
	var days peaksOfDays
	days.read(&m.Memory, since, last, rule.Long, nil)
	var level [arms]float64
	for a := range level {
		level[a] = min(hourly.Amount(rule.levelOf(uint8(a), days.all(), base, nil)+(rule.Margin+m.memory.adjust)*hourly.PerNat), derivation.MaxAmount)
	}
	choice.turn(day, level, known)
}

func (c *choice) code(to *codec.Coder) {
	if to.Decoding() {
		*c = choice{}
	}
	codec.Byte(to, "chosen arm", &c.arm, arms-1)
	codec.Uvarint(to, "samples of the period", &c.samples, maxStoredInt32)
	codec.Uvarint(to, "period", &c.period, maxStoredInt32)
	if c.period == 0 && c.samples == 0 {
		return
	}
	for a := range arms {
		to.Float32("cost of an arm", &c.cost[a], 0, codec.MaxNumber)
		to.Float32("level of an arm", &c.level[a], 0, codec.MaxNumber)
		to.Float32("cost of an arm in this period", &c.charged[a], 0, codec.MaxNumber)
	}
}
