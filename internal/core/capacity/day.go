// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"math"
	"time"
)

// A Day is a day in UTC: the number of days since 1 January 1970. 0 means no day.
type Day int32

const dayLength = 24 * time.Hour

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(math.Floor(float64(t.Unix()) / dayLength.Seconds())) }

// Time returns the start of the day.
func (d Day) Time() time.Time { return time.Unix(int64(d)*int64(dayLength/time.Second), 0).UTC() }

// weekday returns the day of the week, 0 to 6.
func (d Day) weekday() int { return int((int64(d)%7 + 7) % 7) }

// String returns the date, such as 2026-11-22, or "" for no day.
func (d Day) String() string {
	if d == 0 {
		return ""
	}
	return d.Time().Format(time.DateOnly)
}

// ParseDay returns the day of a date such as 2026-11-22.
func ParseDay(s string) (Day, bool) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, false
	}
	return DayOf(t), true
}
