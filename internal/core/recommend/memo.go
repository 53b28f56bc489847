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
func (m *Memo) AppendBinary(b []byte) ([]byte, error) { return appendState(b, m) }

// UnmarshalBinary reads what AppendBinary wrote. When it fails, the Memo does not change.
func (m *Memo) UnmarshalBinary(data []byte) error { return readState(data, m) }

func (m *Memo) encode(e *codec.Encoder) {
	e.Byte(memoVersion)
	m.CPU.Encode(e)
	m.cpu.encode(e)
	m.Memory.Encode(e)
	m.memory.encode(e)
	m.cpuChoice.encode(e)
	m.memoryChoice.encode(e)
	e.Float32(m.shortfall.used)
	e.Float32(m.shortfall.over)
	m.regime.encode(e)
	m.leak.encode(e)
}

func (m *Memo) decode(d *codec.Decoder) {
	version := d.Byte("version", memoVersion)
	if version == 0 {
		d.Fail("version must be between 1 and %d, got 0", memoVersion)
	}
	m.CPU.Decode(d)
	m.cpu.decode(d)
	m.Memory.Decode(d)
	m.memory.decode(d)
	m.cpuChoice = choice{}
	m.memoryChoice = choice{}
	m.shortfall = shortfall{}
	if version >= 2 {
		m.cpuChoice.decode(d)
		m.memoryChoice.decode(d)
		m.shortfall.used = d.Float32("CPU used", 0, maxStored)
		m.shortfall.over = d.Float32("CPU above the request", 0, maxStored)
	}
	m.regime = regime{}
	if version >= 3 {
		m.regime.decode(d)
	}
	m.leak.decode(d)
	if version < 3 {
		m.leak.bound = 0
	}
}

func (h *held) times() [6]*int64 {
	return [...]*int64{&h.banned, &h.changed, &h.decided, &h.planned, &h.bumped, &h.day}
}

// The flags of a stored held.
const (
	flagInLow = 1 << iota
	flagAbove
	maxHeldFlags = flagInLow | flagAbove
)

func (h *held) encode(e *codec.Encoder) {
	e.Float64(h.level)
	e.Float64(h.low)
	e.Float64(h.bump)
	e.Float64(h.adjust)
	for _, at := range h.times() {
		e.Varint(*at)
	}
	flags := byte(0)
	if h.inLow {
		flags |= flagInLow
	}
	if h.above {
		flags |= flagAbove
	}
	e.Byte(flags)
	e.Byte(h.hours.from)
	e.Byte(h.hours.length)
	e.Float32(h.hours.base)
}

func (h *held) decode(d *codec.Decoder) {
	h.level = d.Float64("level", 0, maxStored)
	h.low = d.Float64("level of the low hours", 0, maxStored)
	h.bump = d.Float64("raised level", 0, maxStored)
	h.adjust = d.Float64("adjustment of the margin", minAdjust, maxAdjust)
	for _, at := range h.times() {
		*at = d.Varint("time", 0, maxStoredTime)
	}
	flags := d.Byte("flags", maxHeldFlags)
	h.inLow = flags&flagInLow != 0
	h.above = flags&flagAbove != 0
	h.hours.from = d.Byte("first low hour", 23)
	h.hours.length = d.Byte("number of low hours", 24)
	h.hours.base = d.Float32("base of the low hours", -math.MaxUint16, math.MaxUint16)
}
