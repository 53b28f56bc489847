// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package hourly stores the peak usage of a container for each of the last hours.
//
// A histogram contains how much was used, but not when. Sizing also needs the time: whether a peak is of yesterday or of last
// month, and whether it repeats every night. Two weeks take 700 bytes, two bytes an hour.
//
// The package is pure. Only decoding can fail.
package hourly

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/codec"
)

// A Level is an amount on a logarithmic scale: 0 is no sample, and Step levels are a factor of two. Levels are rounded
// up: a Level is never less than the amount, and at most 0.07 % more.
type Level uint16

// Step is the number of levels in a factor of two.
const Step = 1024

// unit is the smallest amount that has a Level of its own. The largest is 2^64 times that, 1.8e14.
const unit = 1e-5

// PerNat is the number of levels in a factor of e.
const PerNat = Step / math.Ln2

// LevelOf returns the level of an amount.
func LevelOf(v float64) Level {
	if !(v > unit) {
		return 1
	}
	l := math.Ceil(math.Log2(v/unit) * Step)
	return Level(math.Min(1+l, math.MaxUint16))
}

// Amount converts a position on the scale of levels, which may be between two levels, to an amount.
func Amount(position float64) float64 { return unit * math.Exp2((position-1)/Step) }

// Amount converts a level to an amount; 0 is 0.
func (l Level) Amount() float64 {
	if l == 0 {
		return 0
	}
	return Amount(float64(l))
}

// Peaks are the highest amounts of the last hours, one Level for each. Hours are numbered from 1970, UTC. An hour
// without samples is 0. Room is the number of hours that are kept. The zero value is empty and has no room.
//
//	ring:  [ 17h 18h 19h | 12h 13h 14h 15h 16h ]     end = 20h: the newest hour is the one before
type Peaks struct {
	ring []Level
	room int32
	end  int32 // the hour after the newest; 0 when empty
	from int32 // the first hour there was a sample in
}

// NewPeaks returns Peaks that keep a number of hours. Memory is allocated as history grows.
func NewPeaks(hours int) Peaks { return Peaks{room: int32(hours)} }

// Empty reports whether there are no samples.
func (p *Peaks) Empty() bool { return p.end == 0 }

// Newest returns the hour of the newest sample.
func (p *Peaks) Newest() int { return int(p.end) - 1 }

// Since returns the hour of the first sample, even if that hour is no longer kept.
func (p *Peaks) Since() int { return int(p.from) }

// Room returns the number of hours that are kept.
func (p *Peaks) Room() int { return int(p.room) }

// Observe adds an amount of an hour, and returns whether it raised the peak of that hour. Hours that are no longer
// kept are ignored.
func (p *Peaks) Observe(hour int, v float64) bool { return p.raise(int32(hour), LevelOf(v)) }

func (p *Peaks) raise(hour int32, level Level) bool {
	switch {
	case hour < 0 || p.room <= 0:
		return false
	case p.end == 0:
		p.from = hour
		p.end = hour
	case hour < p.end-p.room:
		return false
	}
	p.from = min(p.from, hour)
	p.fit(max(p.end, hour+1))
	p.advance(hour + 1)
	if s := p.slot(hour); *s < level {
		*s = level
		return true
	}
	return false
}

func (p *Peaks) advance(end int32) {
	if end <= p.end {
		return
	}
	p.fit(end)
	if end-p.end >= int32(len(p.ring)) {
		clear(p.ring)
	} else {
		for h := p.end; h < end; h++ {
			*p.slot(h) = 0
		}
	}
	p.end = end
}

// fit grows the ring by whole days, until it holds all hours since the first sample or has its maximum size.
func (p *Peaks) fit(end int32) {
	need := min(end-p.from, p.room)
	if need <= int32(len(p.ring)) {
		return
	}
	size := min((need+23)/24*24, p.room)
	old := *p
	p.ring = make([]Level, size)
	for h := max(old.end-int32(len(old.ring)), 0); h < old.end; h++ {
		*p.slot(h) = *old.slot(h)
	}
}

func (p *Peaks) slot(h int32) *Level { return &p.ring[int(h)%len(p.ring)] }

// At returns the peak of an hour, 0 if there is none or it is no longer kept.
func (p *Peaks) At(hour int) Level {
	h := int32(hour)
	if h < 0 || h >= p.end || h < p.end-int32(len(p.ring)) {
		return 0
	}
	return *p.slot(h)
}

// Max returns the highest peak of the hours in [from, before).
func (p *Peaks) Max(from, before int) (most Level) {
	for _, hours := range p.between(from, before) {
		for _, l := range hours {
			most = max(most, l)
		}
	}
	return most
}

// between returns the peaks of the hours in [from, before) that are kept, which lie in at most two parts of the ring, the older part first.
func (p *Peaks) between(from, before int) [2][]Level {
	from = max(from, int(p.end)-len(p.ring), 0)
	count := min(before, int(p.end)) - from
	if count <= 0 {
		return [2][]Level{}
	}
	first := from % len(p.ring)
	return [...][]Level{p.ring[first:min(first+count, len(p.ring))], p.ring[:max(first+count-len(p.ring), 0)]}
}

// Last returns the highest peak of a number of hours, of which the last one is hour. If these hours have no samples, it returns the
// highest peak of the same number of hours up to the newest sample.
func (p *Peaks) Last(hours, hour int) Level {
	if m := p.Max(hour+1-hours, hour+1); m > 0 {
		return m
	}
	return p.Max(int(p.end)-hours, int(p.end))
}

// AppendHours appends the peaks of the hours in [from, before), without hours that have no samples.
func (p *Peaks) AppendHours(dst []Level, from, before int) []Level {
	for _, hours := range p.between(from, before) {
		for _, l := range hours {
			if l > 0 {
				dst = append(dst, l)
			}
		}
	}
	return dst
}

// Quantile returns the level at a position from 0, the lowest, to 1, the highest, of levels in their order. It moves levels.
func Quantile(levels []Level, position float64) Level {
	at := int(position * float64(len(levels)-1))
	low, high := 0, len(levels)-1
	for low < high { // Hoare's algorithm FIND, which only looks at the part with the position: sorting all levels would take several times as long
		pivot := levels[at]
		i := low
		j := high
		for i <= j {
			for levels[i] < pivot {
				i++
			}
			for levels[j] > pivot {
				j--
			}
			if i <= j {
				levels[i], levels[j] = levels[j], levels[i]
				i++
				j--
			}
		}
		if j < at {
			low = i
		}
		if i > at {
			high = j
		}
	}
	return levels[at]
}

// Without returns a copy without the peaks of the hours in [from, before).
func (p *Peaks) Without(from, before int) Peaks {
	out := *p
	out.ring = slices.Clone(p.ring)
	for h := max(from, int(p.end)-len(p.ring), 0); h < min(before, int(p.end)); h++ {
		*out.slot(int32(h)) = 0
	}
	return out
}

// Bounds that decoding enforces on stored peaks.
const (
	maxHour   = math.MaxInt32 / 2
	maxStored = 1 << 15 // hours of one Peaks
)

// Code encodes Peaks, or decodes them into Peaks made with NewPeaks, whose room stays. When it fails (c.Err), the Peaks do not change.
func (p *Peaks) Code(c *codec.Coder) {
	end := p.end
	from := p.from
	codec.Uvarint(c, "end of peaks", &end, maxHour)
	if end == 0 {
		if c.Decoding() && c.Err() == nil {
			*p = Peaks{room: p.room}
		}
		return
	}
	codec.Uvarint(c, "start of peaks", &from, maxHour)
	count := int32(c.Count("number of peaks", int(p.stored()), maxStored))
	if from >= end || count == 0 || count > end {
		c.Fail("peaks from hour %d to %d cannot have %d levels", from, end, count)
	}
	decoded := Peaks{room: p.room}
	level := int64(0)
	for hour := end - count; hour < end && c.Err() == nil; hour++ {
		difference := int64(0)
		if !c.Decoding() {
			difference = int64(*p.slot(hour)) - level
		}
		codec.Varint(c, "difference of levels", &difference, -math.MaxUint16, math.MaxUint16)
		level += difference
		if level < 0 || level > math.MaxUint16 {
			c.Fail("level of a peak must be between 0 and %d, got %d", math.MaxUint16, level)
		}
		if c.Decoding() && level > 0 && c.Err() == nil {
			decoded.raise(hour, Level(level))
		}
	}
	if decoded.end == 0 {
		c.Fail("peaks have no level above 0")
	}
	if !c.Decoding() || c.Err() != nil {
		return
	}
	decoded.advance(end)
	decoded.from = min(decoded.from, from)
	*p = decoded
}

// stored returns the number of hours that are stored: from the first peak that is kept, if that is not the newest hour.
func (p *Peaks) stored() int32 {
	first := max(p.end-int32(len(p.ring)), p.from)
	for first < p.end-1 && *p.slot(first) == 0 {
		first++
	}
	return p.end - first
}
