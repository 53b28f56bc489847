// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"

	"podfit.dev/podfit/internal/core/codec"
)

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
