// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// BusyParams are the parameters of the algorithm BusyHours (BusyHoursProfile).
type BusyParams struct {
	Percentile float64        // of the samples within the busy hours, as a share
	Factor     float64        // k, unless the pods of a workload declare another (Profile.For)
	Share      float64        // of the daily load that detected busy hours have
	Hours      Hours          // configured busy hours; 0: they are detected
	Zone       *time.Location // time zone of the configured hours; nil is UTC
	HalfLife   time.Duration  // of samples and load
	Startup    time.Duration  // samples of this time after the start of a container do not count; 0: all samples count
	Most       int64          // millicores; 0: no bound
	MostOfNode float64        // a share of the smallest node that the pods may run on; 0: no bound (Profile.MostOfNode)
	Memory     MemoryRule

	MostOfNodeBase  cluster.NodeBase          // what MostOfNode is a share of (Profile.MostOfNodeBase)
	PriorityClasses []criticality.ClassFactor // k of pods with these PriorityClasses
}

// Constants of BusyHours.
const (
	busyWindow = 12   // hours whose highest usage may bound the level
	busyRecent = 2    // the level is not below busyRise of the highest usage of these hours
	busyRise   = 0.9  //
	busySmall  = 0.1  // cores: a container with a lower level has the margin k−1 of this level
	busyKnown  = 72   // hours of history before the level is bounded
	busySwitch = 0.85 // the bound is added or dropped if that had less than this share of the loss
)

// busyChange has the smallest relative differences that change the level. The level does not shrink for the wait after a change.
var busyChange = changeRule{grow: 0.05, shrink: 0.2, wait: 12 * time.Hour}

// starts reports whether a sample is of the time of the start of its container. It is not if that time is not known or is after the sample.
func (p *BusyParams) starts(sample *usage.Sample) bool {
	age := sample.At.Unix() - sample.Ran.Started
	return p.Startup > 0 && sample.Ran.Started > 0 && age >= 0 && age <= int64(p.Startup/time.Second)
}

// Hours is a set of hours of the day: bit h is the hour that starts at h:00. The zero value is empty.
type Hours uint32

// WholeDay is every hour.
const WholeDay Hours = 1<<24 - 1

// HoursBetween returns the hours in [from, before), across midnight if before is less than from, converted to UTC from a clock that
// is ahead of UTC by a number of hours.
func HoursBetween(from, before, ahead int) Hours {
	var s Hours
	for h := from; h != before; h = (h + 1) % 24 {
		s |= 1 << ((h - ahead + 48) % 24)
	}
	return s
}

// Has reports whether an hour is in the set.
func (s Hours) Has(hour int) bool { return s>>uint(hour)&1 == 1 }

// Count returns the number of hours in the set.
func (s Hours) Count() int { return bits.OnesCount32(uint32(s & WholeDay)) }

// First returns the first hour of the set after an hour that is not in it; 0 if it is empty or the whole day.
func (s Hours) First() int {
	for h := range 24 {
		if s.Has(h) && !s.Has((h+23)%24) {
			return h
		}
	}
	return 0
}

// busyHours sizes CPU by the usage in busy hours (the rule of the grocery service Samokat):
//
//	request = clamp(p99 of CPU within the busy hours × k, min, share × the smallest node)        k = 1 … 3, by criticality
//
// Profile.For selects k for a workload. Package policy applies the share of the node to each pod (Params.Node). The busy hours are
// configured, or detected: the fewest hours of the day that have a share of its load. Samples shortly after the start of a container do not count. Adaptive sizes memory.
//
// The percentile is of weeks of samples. For a container with long, irregular periods of idleness it is lowered to the highest usage of the
// last hours. Which containers these are is decided by the quantile loss (Koenker and Bassett 1978) that either level would have had. A
// rise of usage above the percentile raises the level at once. No part of the model state depends on k: the request is proportional to it,
// except for small containers, which have a minimum margin.
type busyHours struct {
	p           BusyParams
	memory      adaptive
	criticality criticality.Factor // of the workload
}

// Busy is the model state of BusyHours. It uses the fields of Memo for CPU in this way:
//
//	CPU            the peaks of the last busyWindow hours
//	cpu.level      the decided level in cores, before k
//	cpu.above      samples of containers that had just started were counted in the last decision
//	cpu.bump       the decaying number of samples of containers that had just started, and cpu.bumped the time of the newest
//	cpuChoice      the losses and levels, 0 without and 1 with the bound; the arm is the present choice, the period an hour
type Busy struct {
	Memo
	p        *BusyParams
	cpu      hourly.Weights  // samples within the busy hours
	starting *hourly.Weights // samples of containers that have just started; nil while they do not count
	load     [24]float32     // decaying, of each hour of the day
	day      int32           // on which load was last decayed
	busy     Hours           // detected for the current day, UTC
}

func (m *Busy) request() *held { return &m.Memo.cpu }

func newBusyHours(p BusyParams) *busyHours {
	return &busyHours{p, adaptive{AdaptiveParams{Memory: p.Memory}}, criticality.Factor{Factor: p.Factor}}
}

// Extend creates the model state of a container (usage.Store.Extend).
func (b *busyHours) Extend() usage.Extension {
	memo := b.memory.Extend().(*Memo)
	memo.CPU = hourly.NewPeaks(busyWindow)
	return &Busy{Memo: *memo, p: &b.p}
}

// Amount returns the level that was decided at the last sample, multiplied by the criticality. Memory is that of Adaptive.
func (b *busyHours) Amount(extension usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	state, ok := extension.(*Busy)
	switch {
	case !ok:
		return 0
	case r == cluster.Memory:
		return state.memoryAmount(now.Unix(), to)
	}
	level := state.explainLevel(to)
	if level <= 0 {
		return 0
	}
	level = to.ToMillicores(level, 1000)
	v := to.Multiply(derivation.StepFactor, level, b.criticality.Factor)
	*to.Evidence() = derivation.Evidence{Origin: b.criticality.Origin, Class: b.criticality.Class}
	v = to.Raise(derivation.StepLeastMargin, v, level+(b.criticality.Factor-1)*busySmall*1000)
	target := to.Ceil(v)
	if b.p.Most > 0 {
		target = to.LowerWhole(derivation.StepMost, target, b.p.Most)
	}
	return target
}

// explainLevel returns the level that was decided, 0 before the first sample, and records the steps to it.
func (m *Busy) explainLevel(to *derivation.Recorder) float64 {
	had := m.request().level
	if to == nil && had > 0 || m.cpu.Total() == 0 && m.starting == nil {
		return had
	}
	level := m.level(to)
	if had == 0 {
		return level // model state of a former version, without a decision
	}
	if to != nil {
		m.request().keep(level, had, busyChange, to)
	}
	return had
}

// hours returns the configured busy hours, in their zone, or the detected ones, in UTC. If none are known yet, all hours are busy.
func (m *Busy) hours() Hours { return cmp.Or(m.p.Hours, m.busy, WholeDay) }

// Observe adds a sample.
func (m *Busy) Observe(sample usage.Sample, taken cluster.Set) {
	m.Memo.Observe(sample, taken.Without(cluster.CPU))
	if !taken.Has(cluster.CPU) {
		return
	}
	now := sample.At.Unix()
	hour := int(now / 3600)
	m.turnDay(int32(now / daySeconds))
	m.load[hour%24] += float32(sample.CPU)
	busy := m.counts(sample.At, hour%24)
	switch {
	case m.p.starts(&sample):
		if !busy && m.request().bump > 0 || !m.observeStart(now, sample.CPU) {
			return
		}
	case busy || m.cpu.Newest() == 0:
		m.charge(sample.CPU)
		m.cpu.Observe(hour, sample.CPU, m.p.HalfLife.Hours())
		m.CPU.Observe(hour, sample.CPU)
	case m.p.Hours == 0: // usage outside of detected busy hours may be the start of others
		m.CPU.Observe(hour, sample.CPU)
	default:
		return
	}
	if had := m.request(); had.level == 0 || hour > int(had.decided/3600) || sample.CPU > had.level {
		m.decide(now)
	}
}

// observeStart adds a sample of a container that has just started, and returns whether such samples count.
func (m *Busy) observeStart(now int64, cores float64) bool {
	hour := int(now / 3600)
	request := m.request()
	request.bump = min(m.starts(hour)+1, codec.MaxNumber)
	request.bumped = max(request.bumped, now)
	if m.settled(hour) {
		return false
	}
	if m.starting == nil {
		m.starting = new(hourly.Weights)
	}
	m.starting.Observe(hour, cores, m.p.HalfLife.Hours())
	return true
}

// starts returns the number of samples of containers that had just started, decayed to an hour.
func (m *Busy) starts(hour int) float64 {
	request := m.request()
	return request.bump * math.Exp2(-float64(max(hour-int(request.bumped/3600), 0))/m.p.HalfLife.Hours())
}

// settled reports whether samples of containers that have just started do not count: at least as many samples, by weight, are of
// containers that have run longer. So a workload whose containers never run longer has a recommendation, too.
func (m *Busy) settled(hour int) bool {
	age := float64(max(hour-m.cpu.Newest(), 0))
	return m.starts(hour) <= m.cpu.Total()*math.Exp2(-age/m.p.HalfLife.Hours())
}

// turnDay detects the busy hours at the first sample of a day.
func (m *Busy) turnDay(day int32) {
	if day <= m.day {
		return
	}
	if m.day > 0 && m.p.Hours == 0 {
		m.busy = busiest(&m.load, m.p.Share)
	}
	f := math.Exp2(-24 * float64(day-m.day) / m.p.HalfLife.Hours())
	for h := range m.load {
		m.load[h] = float32(f * float64(m.load[h]))
	}
	m.day = day
}

// level returns the level that a decision gives now, in cores.
func (m *Busy) level(to *derivation.Recorder) float64 {
	level := to.Value(derivation.StepBusy, m.cpu.Quantile(m.p.Percentile))
	*to.Evidence() = derivation.Evidence{Share: m.p.Percentile, HalfLife: m.p.HalfLife, Hours: m.hours().Count(), FirstHour: m.hours().First()}
	end := m.CPU.Newest() + 1
	if m.cpuChoice.arm == 1 && !m.CPU.Empty() {
		level = to.Lower(derivation.StepBusyWindow, level, m.peak(busyWindow))
		to.PeakOf(&m.CPU, end-busyWindow, end)
	}
	level = to.Raise(derivation.StepRecent, level, busyRise*m.peak(busyRecent))
	to.PeakOf(&m.CPU, end-busyRecent, end)
	to.Evidence().Margin = busyRise - 1
	if m.starting != nil {
		level = to.Raise(derivation.StepStartup, level, m.starting.Quantile(m.p.Percentile))
	}
	return to.Lower(derivation.StepMaximum, level, derivation.MaxAmount)
}

// peak returns the highest usage of the last hours with samples, in cores.
func (m *Busy) peak(hours int) float64 {
	end := m.CPU.Newest() + 1
	return m.CPU.Max(end-hours, end).Amount()
}

func (m *Busy) decide(now int64) {
	request := m.request()
	hour := int(now / 3600)
	first := request.level == 0
	if m.settled(hour) {
		m.starting = nil
	}
	settles := request.above && m.starting == nil
	request.above = m.starting != nil
	m.choose(hour)
	request.resume(now)
	want := m.level(nil)
	if first || settles {
		request.level = want
		request.changed = now
		return
	}
	request.level, request.changed = busyChange.move(request.level, want, now, request.changed, false)
}

// charge adds the quantile loss of a sample v to the level L that was known before, without and with the bound. The part of the loss that
// does not depend on the level is left out:
//
//	loss = (1−p)·L + max(0, v−L)        p: the percentile
func (m *Busy) charge(v float64) {
	c := &m.cpuChoice
	for i := range 2 {
		if level := float64(c.level[i]); level > 0 {
			loss := (1-m.p.Percentile)*level + max(0, v-level)
			c.cost[i] = float32(min(float64(c.cost[i])+loss, codec.MaxNumber))
		}
	}
}

// choose chooses, at the first decision of an hour, whether the level is bounded, and sets the levels for charge.
func (m *Busy) choose(hour int) {
	c := &m.cpuChoice
	if hour > int(c.period) {
		if c.period > 0 {
			present := c.arm
			other := 1 - c.arm
			if hour-m.CPU.Since() >= busyKnown && c.cost[other] < busySwitch*c.cost[present] {
				c.arm = other
			}
			f := float32(math.Exp2(-float64(hour-int(c.period)) / m.p.HalfLife.Hours()))
			c.cost[0] *= f
			c.cost[1] *= f
		}
		c.period = int32(hour)
	}
	usual := m.cpu.Quantile(m.p.Percentile)
	rise := busyRise * m.peak(busyRecent)
	c.level[0] = float32(max(usual, rise))
	c.level[1] = float32(max(min(usual, m.peak(busyWindow)), rise))
}

// decideAnew decides the requests as at the last decision, without regard to the present ones.
func (m *Busy) decideAnew() {
	m.Memo.decideAnew(false)
	if request := m.request(); request.decided > 0 {
		request.anew()
		m.decide(request.decided)
	}
}

// counts reports whether a sample is in the busy hours: the configured ones, or the detected ones. On the first day all hours are
// busy.
func (m *Busy) counts(at time.Time, hour int) bool {
	if m.p.Hours != 0 {
		return m.p.Hours.Has(at.In(cmp.Or(m.p.Zone, time.UTC)).Hour())
	}
	return m.busy == 0 || m.busy.Has(hour)
}

// busiest returns the fewest hours that have a share of the load. Ties go to the earlier hour.
func busiest(load *[24]float32, share float64) Hours {
	order := make([]int, 24)
	total := 0.0
	for h := range order {
		order[h] = h
		total += float64(load[h])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[b], load[a]) })
	var s Hours
	sum := 0.0
	for _, h := range order {
		if sum >= share*total {
			break
		}
		sum += float64(load[h])
		s |= 1 << h
	}
	return s
}

// AppendBinary appends the model state.
func (m *Busy) AppendBinary(b []byte) ([]byte, error) { return codec.Append(b, m) }

// UnmarshalBinary reads what AppendBinary wrote. When it fails, m does not change.
func (m *Busy) UnmarshalBinary(data []byte) error { return codec.Read(data, m) }

// busyVersion is the format of a stored Busy. Version 1 has no version, and nothing of started containers and of a decided level.
const busyVersion = 2

// Code implements codec.State.
func (m *Busy) Code(c *codec.Coder) {
	version := int32(-busyVersion) // version 1 begins with the day, which is not negative
	codec.Varint(c, "version or day", &version, -busyVersion, maxStoredInt32)
	if version < 0 {
		codec.Varint(c, "day", &m.day, 0, maxStoredInt32)
	} else {
		m.day = version
	}
	codec.Varint(c, "busy hours", &m.busy, 0, int64(WholeDay))
	for hour := range m.load {
		c.Float32("load of an hour", &m.load[hour], 0, codec.MaxNumber)
	}
	m.cpu.Code(c)
	if c.Decoding() {
		m.starting = nil
	}
	counted := m.starting != nil
	if version == -busyVersion {
		c.Flags("whether samples of a start count", &counted)
	}
	if counted && c.Decoding() {
		m.starting = new(hourly.Weights)
	}
	if counted {
		m.starting.Code(c)
	}
	m.Memo.Code(c)
	if m.cpuChoice.arm > 1 {
		c.Fail("choice of the level must be 0 or 1, got %d", m.cpuChoice.arm)
	}
}
