// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// The stored model state of each algorithm has its own form and contains the time of its newest sample (usage.Extension). State in
// another form is not read, and neither is state from the future, because new samples would have no effect on it.

// Form implements usage.Extension.
func (m *Memo) Form() string { return "adaptive/1" }

// Form implements usage.Extension.
func (m *Busy) Form() string { return "busy-hours/2" }

// maxStoredInt32 is above any stored number of hours, days or samples.
const maxStoredInt32 = math.MaxInt32 / 2

// ahead is how far planned times may be in the future, in seconds.
const ahead = 60 * 24 * 3600

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// Latest implements usage.Extension.
func (m *Memo) Latest() time.Time {
	latest := max(int64(m.cpuChoice.period)*3600, int64(m.memoryChoice.period)*daySeconds, m.leak.Latest(), int64(m.regime.since)*3600, int64(m.regime.until)*3600-ahead)
	latest = max(latest, int64(m.CPU.Newest())*3600, int64(m.Memory.Newest())*3600)
	for _, h := range [...]*held{&m.cpu, &m.memory} {
		latest = max(latest, h.decided, h.changed, h.planned, h.day*daySeconds, h.banned-ahead, h.bumped-ahead)
	}
	return unix(latest)
}

// Latest implements usage.Extension.
func (m *Busy) Latest() time.Time {
	return unix(max(m.Memo.Latest().Unix(), int64(m.day)*daySeconds, int64(m.cpu.Newest())*3600, m.request().bumped))
}

// CPUWeight implements usage.Extension.
func (m *Memo) CPUWeight(float64) float64 { return usage.SampleWeight }

// Since implements usage.Extension.
func (m *Memo) Since() (at time.Time) {
	for _, p := range [...]*hourly.Peaks{&m.CPU, &m.Memory} {
		if !p.Empty() {
			at = cluster.Earliest(at, unix(int64(p.Since())*3600))
		}
	}
	return at
}

// memoVersion is the format of a stored Memo. Version 1 has no choices and version 2 no regime: these fields are empty after
// reading. In both, a leak has the level at which it was first suspected instead of a bound: it is read as no bound. Other
// versions are not read.
const memoVersion = 3

// AppendBinary appends the model state.
func (m *Memo) AppendBinary(b []byte) ([]byte, error) { return codec.Append(b, m) }

// UnmarshalBinary reads what AppendBinary wrote. When it fails, the Memo does not change.
func (m *Memo) UnmarshalBinary(data []byte) error { return codec.Read(data, m) }

// Code implements codec.State.
func (m *Memo) Code(c *codec.Coder) {
	version := c.Version(memoVersion, 1, memoVersion)
	m.CPU.Code(c)
	m.cpu.code(c)
	m.Memory.Code(c)
	m.memory.code(c)
	if version >= 2 {
		m.cpuChoice.code(c)
		m.memoryChoice.code(c)
		c.Float32("CPU used", &m.shortfall.used, 0, codec.MaxNumber)
		c.Float32("CPU above the request", &m.shortfall.over, 0, codec.MaxNumber)
	} else {
		m.cpuChoice = choice{}
		m.memoryChoice = choice{}
		m.shortfall = shortfall{}
	}
	if version >= 3 {
		m.regime.code(c)
	} else {
		m.regime = regime{}
	}
	m.leak.Code(c)
	if version < 3 {
		m.leak.Bound = 0
	}
}

func (h *held) code(c *codec.Coder) {
	c.Float64("level", &h.level, 0, codec.MaxNumber)
	c.Float64("level of the low hours", &h.low, 0, codec.MaxNumber)
	c.Float64("raised level", &h.bump, 0, codec.MaxNumber)
	c.Float64("adjustment of the margin", &h.adjust, minAdjust, maxAdjust)
	for _, at := range [...]*int64{&h.banned, &h.changed, &h.decided, &h.planned, &h.bumped, &h.day} {
		codec.Varint(c, "time", at, 0, codec.MaxTime)
	}
	c.Flags("flags", &h.inLow, &h.above)
	codec.Byte(c, "first low hour", &h.hours.from, 23)
	codec.Byte(c, "number of low hours", &h.hours.length, 24)
	c.Float32("base of the low hours", &h.hours.base, -math.MaxUint16, math.MaxUint16)
}

// decodedHours is how many hours of stored peaks are decoded for display: more than any profile stores.
const decodedHours = 60 * 24

// StoredPeaks returns the hourly peaks in stored model state, in cores and bytes. known is false if model state of
// this form contains none.
func StoredPeaks(form string, data []byte) (cpu, memory hourly.Peaks, known bool, err error) {
	params := Balanced()
	memo := Memo{p: &params, CPU: hourly.NewPeaks(decodedHours), Memory: hourly.NewPeaks(decodedHours)}
	switch form {
	case memo.Form():
		err = memo.UnmarshalBinary(data)
		cpu = memo.CPU
		memory = memo.Memory
	case (&Busy{}).Form():
		busy := Busy{Memo: memo} // its CPU is a histogram, without times
		err = busy.UnmarshalBinary(data)
		memory = busy.Memory
	default:
		return cpu, memory, false, nil
	}
	if err != nil {
		return hourly.Peaks{}, hourly.Peaks{}, false, fmt.Errorf("read hourly peaks: %w", err)
	}
	return cpu, memory, true, nil
}
