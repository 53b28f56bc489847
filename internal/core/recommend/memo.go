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

// Encode implements codec.State.
func (m *Memo) Encode(encoder *codec.Encoder) {
	encoder.Byte(memoVersion)
	m.CPU.Encode(encoder)
	m.cpu.encode(encoder)
	m.Memory.Encode(encoder)
	m.memory.encode(encoder)
	m.cpuChoice.encode(encoder)
	m.memoryChoice.encode(encoder)
	encoder.Float32(m.shortfall.used)
	encoder.Float32(m.shortfall.over)
	m.regime.encode(encoder)
	m.leak.encode(encoder)
}

// Decode implements codec.State.
func (m *Memo) Decode(decoder *codec.Decoder) {
	version := decoder.Byte("version", memoVersion)
	if version == 0 {
		decoder.Fail("version must be between 1 and %d, got 0", memoVersion)
	}
	m.CPU.Decode(decoder)
	m.cpu.decode(decoder)
	m.Memory.Decode(decoder)
	m.memory.decode(decoder)
	m.cpuChoice = choice{}
	m.memoryChoice = choice{}
	m.shortfall = shortfall{}
	if version >= 2 {
		m.cpuChoice.decode(decoder)
		m.memoryChoice.decode(decoder)
		m.shortfall.used = decoder.Float32("CPU used", 0, maxStored)
		m.shortfall.over = decoder.Float32("CPU above the request", 0, maxStored)
	}
	m.regime = regime{}
	if version >= 3 {
		m.regime.decode(decoder)
	}
	m.leak.decode(decoder)
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

func (h *held) encode(encoder *codec.Encoder) {
	encoder.Float64(h.level)
	encoder.Float64(h.low)
	encoder.Float64(h.bump)
	encoder.Float64(h.adjust)
	for _, at := range h.times() {
		encoder.Varint(*at)
	}
	flags := byte(0)
	if h.inLow {
		flags |= flagInLow
	}
	if h.above {
		flags |= flagAbove
	}
	encoder.Byte(flags)
	encoder.Byte(h.hours.from)
	encoder.Byte(h.hours.length)
	encoder.Float32(h.hours.base)
}

func (h *held) decode(decoder *codec.Decoder) {
	h.level = decoder.Float64("level", 0, maxStored)
	h.low = decoder.Float64("level of the low hours", 0, maxStored)
	h.bump = decoder.Float64("raised level", 0, maxStored)
	h.adjust = decoder.Float64("adjustment of the margin", minAdjust, maxAdjust)
	for _, at := range h.times() {
		*at = decoder.Varint("time", 0, maxStoredTime)
	}
	flags := decoder.Byte("flags", maxHeldFlags)
	h.inLow = flags&flagInLow != 0
	h.above = flags&flagAbove != 0
	h.hours.from = decoder.Byte("first low hour", 23)
	h.hours.length = decoder.Byte("number of low hours", 24)
	h.hours.base = decoder.Float32("base of the low hours", -math.MaxUint16, math.MaxUint16)
}
