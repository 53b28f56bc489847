// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"podfit.dev/podfit/internal/core/codec"
)

const (
	maxSecond  = 7_258_118_400 // the year 2200
	maxLimited = 1<<(Minutes+1) - 1
)

// Encode appends the starts: their number, and of each the time, the minutes at the limit and the usage. Ten starts take at most 870 bytes.
func (s *Starts) Encode(encoder *codec.Encoder) {
	encoder.Uvarint(uint64(s.Len()))
	if s == nil {
		return
	}
	for i := range s.list {
		x := &s.list[i]
		encoder.Uvarint(uint64(x.ready))
		encoder.Uvarint(uint64(x.limited))
		encoder.Uvarint(uint64(x.before))
		for _, used := range x.minutes {
			encoder.Uvarint(uint64(used))
		}
	}
}

// DecodeStarts reads what Encode wrote. The decoder has the error, if there is one.
func DecodeStarts(decoder *codec.Decoder) *Starts {
	var out Starts
	for range decoder.Count("number of starts", kept) {
		x := Start{
			ready:   int64(decoder.Uvarint("time of a start", maxSecond)),
			limited: uint16(decoder.Uvarint("minutes at the limit of a start", maxLimited)),
			before:  uint32(decoder.Uvarint("usage of a start", maxMillicores)),
		}
		for i := range x.minutes {
			x.minutes[i] = uint32(decoder.Uvarint("usage of a start", maxMillicores))
		}
		if n := len(out.list); n > 0 && out.list[n-1].ready > x.ready {
			decoder.Fail("starts are not sorted by time")
		}
		if decoder.Err() != nil {
			return nil
		}
		out.list = append(out.list, x)
	}
	if len(out.list) == 0 {
		return nil
	}
	return &out
}
