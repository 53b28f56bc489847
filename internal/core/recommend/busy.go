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
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// BusyHours sizes CPU by the usage in busy hours (the rule of the grocery service Samokat):
//
//	request = clamp(p99 of CPU within the busy hours × k, min, share × the smallest node)        k = 1 … 3, by criticality
//
// Workload applies the share of the node (Params.MostMillicores). The busy hours are configured, or detected: the fewest hours of
// the day that have a share of its load. Adaptive sizes memory.
func BusyHours(p BusyParams) Estimator {
	return &busyHours{p, adaptive{AdaptiveParams{Memory: p.Memory}}}
}

// BusyParams are the parameters of BusyHours.
type BusyParams struct {
	Percentile float64        // of the samples within the busy hours, as a share
	Factor     float64        // k
	Share      float64        // of the daily load that detected busy hours have
	Hours      Hours          // configured busy hours; 0: they are detected
	Zone       *time.Location // time zone of the configured hours; nil is UTC
	HalfLife   time.Duration  // of samples and load
	Most       int64          // millicores; 0: no bound
	MostOfNode float64        // a share of the smallest node that the pods may run on; 0: no bound (Profile.MostOfNode)
	Memory     MemoryRule
}

// busy reports whether a time is in the configured hours.
func (p *BusyParams) busy(at time.Time) bool {
	if p.Zone == nil {
		return p.Hours.Has(at.UTC().Hour())
	}
	return p.Hours.Has(at.In(p.Zone).Hour())
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

type busyHours struct {
	p      BusyParams
	memory adaptive
}

// Busy is the model state of BusyHours.
type Busy struct {
	Memo
	p    *BusyParams
	cpu  hourly.Weights // samples within the busy hours
	load [24]float32    // decaying, of each hour of the day
	day  int64          // on which load was last decayed
	busy Hours          // detected for the current day, UTC
}

// Extend creates the model state of a container (usage.Store.Extend).
func (b *busyHours) Extend() usage.Extension {
	return &Busy{Memo: *b.memory.Extend().(*Memo), p: &b.p}
}

func (b *busyHours) Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time) cluster.Estimate {
	return b.Explain(s, floor, now, nil)
}

// Explain implements Estimator.
func (b *busyHours) Explain(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *Record) cluster.Estimate {
	var estimate cluster.Estimate
	state, ok := s.Extension().(*Busy)
	if !ok {
		return estimate
	}
	if v := state.cpu.Percentile(b.p.Percentile); v > 0 {
		least := floor.Amount(cluster.CPU)
		steps := record(to.Of(cluster.CPU).target(), 1000)
		v = steps.value(StepBusy, v)
		if steps != nil {
			*steps.evidence() = Evidence{Share: b.p.Percentile, HalfLife: b.p.HalfLife, Hours: state.hours().Count(), FirstHour: state.hours().First()}
		}
		target := steps.ceil(steps.multiply(StepFactor, steps.toMillicores(v, 1000), b.p.Factor))
		if b.p.Most > 0 {
			target = steps.lowerWhole(StepMost, target, b.p.Most)
		}
		target = steps.raiseWhole(StepFloor, target, least)
		estimate = withBand(estimate, cluster.CPU, target, least, to.Of(cluster.CPU))
	}
	state.estimateMemory(&estimate, floor.Memory, now, to)
	return estimate
}

// hours returns the configured busy hours, in their zone, or the detected ones, in UTC. If none are known yet, all hours are busy.
func (m *Busy) hours() Hours {
	switch {
	case m.p.Hours != 0:
		return m.p.Hours
	case m.busy != 0:
		return m.busy
	}
	return WholeDay
}

// Observe adds a sample.
func (m *Busy) Observe(sample usage.Sample, taken cluster.Set) {
	m.Memo.Observe(sample, taken.Without(cluster.CPU))
	if !taken.Has(cluster.CPU) {
		return
	}
	now := sample.At.Unix()
	hour := int(now / 3600 % 24)
	if d := now / daySeconds; d > m.day {
		if m.day > 0 && m.p.Hours == 0 {
			m.busy = busiest(&m.load, m.p.Share)
		}
		f := math.Exp2(-24 * float64(d-m.day) / m.p.HalfLife.Hours())
		for h := range m.load {
			m.load[h] = float32(f * float64(m.load[h]))
		}
		m.day = d
	}
	m.load[hour] += float32(sample.CPU)
	if m.counts(sample.At, hour) || m.cpu.Percentile(1) == 0 {
		m.cpu.Observe(int(now/3600), sample.CPU, m.p.HalfLife.Hours())
	}
}

// counts reports whether a sample is in the busy hours: the configured ones, or the detected ones. On the first day all hours are
// busy.
func (m *Busy) counts(at time.Time, hour int) bool {
	if m.p.Hours != 0 {
		return m.p.busy(at)
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
func (m *Busy) AppendBinary(b []byte) ([]byte, error) { return appendState(b, m) }

// UnmarshalBinary reads what AppendBinary wrote. When it fails, m does not change.
func (m *Busy) UnmarshalBinary(data []byte) error { return readState(data, m) }

func (m *Busy) encode(e *codec.Encoder) {
	e.Varint(m.day)
	e.Varint(int64(m.busy))
	for _, load := range m.load {
		e.Float32(load)
	}
	m.cpu.Encode(e)
	m.Memo.encode(e)
}

func (m *Busy) decode(d *codec.Decoder) {
	m.day = d.Varint("day", 0, maxStoredTime)
	m.busy = Hours(d.Varint("busy hours", 0, int64(WholeDay)))
	for hour := range m.load {
		m.load[hour] = d.Float32("load of an hour", 0, maxStored)
	}
	m.cpu.Decode(d)
	m.Memo.decode(d)
}
