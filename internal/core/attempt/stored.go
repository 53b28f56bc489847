// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package attempt contains what all records of earlier attempts to change something share: the delays between attempts, how long a record is
// kept, whose turn it is, and the bounds of what a stored record may contain. The records themselves are in the packages of the features.
package attempt

import (
	"time"

	"podfit.dev/podfit/internal/core/wording"
)

const (
	// HistoryTTL is how long a record is kept after the last attempt. It is longer than every back-off.
	HistoryTTL = 24 * time.Hour

	// WatchDelay is how long the watch may not show what was done. An evicted pod that it shows as running counts as gone for that long.
	WatchDelay = 5 * time.Minute

	// MaxText is how many bytes of a text of the API server are kept.
	MaxText = 300

	// MaxCount bounds the counts in a stored record. Every back-off reaches its maximum long before.
	MaxCount = 1000
)

// Shortened cuts a text to MaxText.
func Shortened(text string) string { return wording.Shortened(text, MaxText) }

// Past returns a stored time, or now if it is later: the clock was ahead when it was stored, or a user has changed it.
func Past(now, at time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

// Count returns a stored count within its bounds.
func Count(n int) int { return min(max(n, 0), MaxCount) }
