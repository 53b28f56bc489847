// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/series"
)

// arms are how many ways there are to size a resource: as the rule says, and with a longer and a shorter memory.
const arms = 3

// How the choice among them is made: what is left of a cost after a period, and by how much another arm has to be cheaper.
// Costs begin with nothing, so that the penalty also asks for evidence: a third less a day is believed after 9 days, 5 % never.
const (
	costKept      = 0.98 // half in 34 periods
	switchPenalty = 0.03
)

// choice is which arm sizes a resource of a container, and what each would have cost. For every period, an hour of CPU or
// a day of memory, each arm says beforehand what it would give, L, and is charged afterwards for what of that was not used,
// and for usage above it:
//
//	CPU, a sample v:      (L + w·v·[v > L]) / what was given             w = Overrun
//	memory, a day:        1 − b/L + w·[peak > L]                         w = 0.06/aim
//
// (b as in Adaptive). The costs of the periods are averaged with decaying weight. The arm with the least is taken, if it is
// cheaper than the one that is by a penalty. So what is never missed within a few hours may be forgotten as fast, and what
// is needed every other day is remembered in between.
type choice struct {
	cost    [arms]float32 // decayed
	level   [arms]float32 // what the arm gives in this period: cores or bytes
	charged [arms]float32 // in this period
	samples int32         // of this period
	period  int32         // hours or days since 1970; 0 before the first
	arm     uint8
}

// mostCost bounds what one sample may cost: next to nothing may have been given, and the sum of costs is stored.
const mostCost = 1e6

// charge adds what something cost an arm in this period.
func (c *choice) charge(arm int, cost float64) {
	if cost > 0 { // neither below nothing nor no number
		c.charged[arm] += float32(min(cost, mostCost))
	}
}

// turn ends the period: it chooses, if enough is known, and notes what the arms would give in the next.
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

// cpuArms are how many hours the peak is looked for that sets the level of CPU, relative to Window.
var cpuArms = [arms]float64{1, 1.5, 1.0 / 3}

// window returns the hours that an arm looks back.
func (r *CPURule) window(arm uint8) int { return max(int(cpuArms[arm]*r.Window.Hours()+0.5), 1) }

// longest returns the hours that any arm looks back.
func (r *CPURule) longest() int { return max(r.window(0), r.window(1), r.window(2)) }

// chooseCPU charges the arms for a sample, and chooses when an hour is over.
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
		level[a], _, _ = m.given(hour, rule.window(uint8(a)))
	}
	choice.turn(hour, level, hour-m.CPU.Since() >= cpuKnown)
}

// A long memory needs less margin than a short one to be as safe.
const (
	longMargin  = -0.1
	shortMargin = 0.1
)

// exceedCost, divided by the budget that is aimed at, is what a day above the request may cost in unused share: halving the days above takes
// about 0.04 of slack, 0.06 for each factor of e, at all budgets.
const exceedCost = 0.06

// levelOf is level, of an arm: from 12 and 14, or 4 and 10 days, where the rule has 7 and 14.
func (r *MemoryRule) levelOf(arm uint8, days []series.Level, base float64) float64 {
	short := MemoryRule{Days: r.Days, Second: r.Second, LongSecond: r.LongSecond, Spread: r.Spread}
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
	level := short.level(days, base) + margin*series.PerNat
	return max(level, float64(recurring(all)))
}

// recurring returns the highest peak that was reached on the same day of two weeks in a row, give or take a day, from the peaks of
// days (newest first). A peak that comes once a week is never the second highest of 7 days, so α would discount it as a single spike.
func recurring(days []series.Level) series.Level {
	top := series.Level(0)
	for i := 7; i < min(len(days), 14); i++ {
		top = max(top, min(days[i], max(days[i-6], days[i-7])))
	}
	return top
}

// chooseMemory charges the arms for the day before one, and chooses.
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
			cost := max(0, 1-series.Amount(base)/float64(level))
			if peak.Amount() > float64(level) {
				cost += exceedCost / rule.aim()
			}
			choice.charge(a, cost)
		}
		choice.samples = 1
	}
	var days peaksOfDays
	days.read(&m.Memory, since, last, rule.Long)
	var level [arms]float64
	for a := range level {
		level[a] = min(series.Amount(rule.levelOf(uint8(a), days.all(), base)+(rule.Margin+m.memory.adjust)*series.PerNat), maxAmount)
	}
	choice.turn(day, level, known)
}

func (c *choice) encode(e *codec.Encoder) {
	e.Byte(c.arm)
	e.Uvarint(uint64(c.samples))
	e.Uvarint(uint64(c.period))
	if c.period == 0 && c.samples == 0 {
		return
	}
	for a := range arms {
		e.Float32(c.cost[a])
		e.Float32(c.level[a])
		e.Float32(c.charged[a])
	}
}

func (c *choice) decode(d *codec.Decoder) {
	*c = choice{
		arm:     d.Byte("chosen arm", arms-1),
		samples: int32(d.Uvarint("samples of the period", maxStoredInt32)),
		period:  int32(d.Uvarint("period", maxStoredInt32)),
	}
	if c.period == 0 && c.samples == 0 {
		return
	}
	for a := range arms {
		c.cost[a] = d.Float32("cost of an arm", 0, maxStored)
		c.level[a] = d.Float32("level of an arm", 0, maxStored)
		c.charged[a] = d.Float32("cost of an arm in this period", 0, maxStored)
	}
}
