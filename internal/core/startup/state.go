// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package startup

import "podfit.dev/podfit/internal/core/codec"

const (
	maxSecond  = 7_258_118_400 // the year 2200
	maxLimited = 1<<(Minutes+1) - 1
)

// Code encodes starts, or decodes them; they are nil if there are none. Ten starts take at most 870 bytes.
func Code(c *codec.Coder, s **Starts) {
	var list []Start
	if *s != nil {
		list = (*s).list
	}
	codec.Length(c, "number of starts", &list, kept)
	for i := range list {
		x := &list[i]
		codec.Uvarint(c, "time of a start", &x.ready, maxSecond)
		codec.Uvarint(c, "minutes at the limit of a start", &x.limited, maxLimited)
		codec.Uvarint(c, "usage of a start", &x.before, maxMillicores)
		for minute := range x.minutes {
			codec.Uvarint(c, "usage of a start", &x.minutes[minute], maxMillicores)
		}
		if i > 0 && list[i-1].ready > x.ready {
			c.Fail("starts are not sorted by time")
		}
	}
	if !c.Decoding() {
		return
	}
	*s = nil
	if len(list) > 0 && c.Err() == nil {
		*s = &Starts{list: list}
	}
}
