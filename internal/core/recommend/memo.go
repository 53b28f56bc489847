// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// memoVersion is the format of a stored Memo. Version 1 has no choices, version 2 no regime: these then begin anew. In both a leak
// has the level at which it was first suspected instead of a bound: it is read as no bound. Other versions are not read.
const memoVersion = 3

// AppendBinary appends all that the Memo knows, so that a restart changes no answer.
func (m *Memo) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, memoVersion)
	var err error
	for _, r := range []struct {
		peaks interface{ AppendBinary([]byte) ([]byte, error) }
		held  *held
	}{{&m.CPU, &m.cpu}, {&m.Memory, &m.memory}} {
		if b, err = r.peaks.AppendBinary(b); err != nil {
			return nil, err
		}
		b = r.held.appendBinary(b)
	}
	b = m.memoryChoice.appendBinary(m.cpuChoice.appendBinary(b))
	b = m.regime.appendBinary(appendFloats(b, m.shortfall.used, m.shortfall.over))
	return m.leak.appendBinary(b), nil
}

var errMemo = errors.New("stored sizes are broken")

// UnmarshalBinary reads what AppendBinary wrote. When it fails the Memo is as it was.
func (m *Memo) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] == 0 || data[0] > memoVersion {
		return fmt.Errorf("%w: of no version up to %d", errMemo, memoVersion)
	}
	n := *m
	version, data := data[0], data[1:]
	var err error
	if data, err = n.CPU.Unmarshal(data); err != nil {
		return err
	}
	if data, err = n.cpu.unmarshal(data); err != nil {
		return err
	}
	if data, err = n.Memory.Unmarshal(data); err != nil {
		return err
	}
	if data, err = n.memory.unmarshal(data); err != nil {
		return err
	}
	n.cpuChoice, n.memoryChoice, n.shortfall = choice{}, choice{}, shortfall{}
	if version > 1 {
		for _, c := range [...]*choice{&n.cpuChoice, &n.memoryChoice} {
			if data, err = c.unmarshal(data); err != nil {
				return err
			}
		}
		if data, err = readFloats(data, &n.shortfall.used, &n.shortfall.over); err != nil {
			return err
		}
	}
	n.regime = regime{}
	if version > 2 {
		if data, err = n.regime.unmarshal(data); err != nil {
			return err
		}
	}
	if data, err = n.leak.unmarshal(data); err != nil {
		return err
	}
	if version < 3 {
		n.leak.bound = 0
	}
	if len(data) > 0 {
		return errMemo
	}
	*m = n
	return nil
}

func (h *held) numbers() [4]*float64 { return [...]*float64{&h.level, &h.low, &h.bump, &h.adjust} }

func (h *held) times() [6]*int64 {
	return [...]*int64{&h.banned, &h.changed, &h.decided, &h.planned, &h.bumped, &h.day}
}

func (h *held) appendBinary(b []byte) []byte {
	for _, v := range h.numbers() {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*v))
	}
	for _, t := range h.times() {
		b = binary.AppendVarint(b, *t)
	}
	flags := byte(0)
	if h.inLow {
		flags |= 1
	}
	if h.above {
		flags |= 2
	}
	b = append(b, flags, h.hours.from, h.hours.length)
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(h.hours.base))
}

func (h *held) unmarshal(data []byte) ([]byte, error) {
	for _, v := range h.numbers() {
		if len(data) < 8 {
			return nil, errMemo
		}
		*v = math.Float64frombits(binary.LittleEndian.Uint64(data))
		if !(math.Abs(*v) <= mostAmount) {
			return nil, errMemo
		}
		data = data[8:]
	}
	for _, t := range h.times() {
		v, n := binary.Varint(data)
		if n <= 0 || v < 0 || v > farTime {
			return nil, errMemo
		}
		*t, data = v, data[n:]
	}
	if h.level < 0 || h.low < 0 || h.bump < 0 || h.adjust < minAdjust || h.adjust > maxAdjust {
		return nil, errMemo
	}
	if len(data) < 7 || data[0] > 3 || data[1] > 23 || data[2] > 24 {
		return nil, errMemo
	}
	if base := math.Float32frombits(binary.LittleEndian.Uint32(data[3:])); !(math.Abs(float64(base)) <= math.MaxUint16) {
		return nil, errMemo
	}
	h.inLow, h.above = data[0]&1 != 0, data[0]&2 != 0
	h.hours = lowHours{from: data[1], length: data[2], base: math.Float32frombits(binary.LittleEndian.Uint32(data[3:]))}
	return data[7:], nil
}

// What is stored lies within these, or is broken: more bytes than there are, and a time in 36,000 years.
const (
	mostAmount = 1e15
	farTime    = 1 << 40
)

// appendFloats appends short floating-point numbers; readFloats reads them back.
func appendFloats(b []byte, vs ...float32) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// readFloats reads what appendFloats wrote, none of it negative, and returns the rest of the data.
func readFloats(data []byte, to ...*float32) ([]byte, error) {
	for _, p := range to {
		if len(data) < 4 {
			return nil, errMemo
		}
		*p = math.Float32frombits(binary.LittleEndian.Uint32(data))
		if !(*p >= 0 && *p <= mostAmount) {
			return nil, errMemo
		}
		data = data[4:]
	}
	return data, nil
}

// appendNumbers appends whole and other numbers; readNumbers reads them back.
func appendNumbers(b []byte, whole []int64, other ...float64) []byte {
	for _, v := range whole {
		b = binary.AppendVarint(b, v)
	}
	for _, v := range other {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// readNumbers reads what appendNumbers wrote and returns the rest of the data.
func readNumbers(data []byte, whole []*int64, other ...*float64) ([]byte, error) {
	for _, p := range whole {
		v, n := binary.Varint(data)
		if n <= 0 || v < 0 || v > farTime {
			return nil, errMemo
		}
		*p, data = v, data[n:]
	}
	for _, p := range other {
		if len(data) < 8 {
			return nil, errMemo
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(data))
		if !(v >= 0 && v <= mostAmount) {
			return nil, errMemo
		}
		*p, data = v, data[8:]
	}
	return data, nil
}
