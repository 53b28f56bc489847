// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earliest returns the earlier of two times. A zero time is not known, and does not count.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
