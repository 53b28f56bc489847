// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package attempt contains what all records of earlier attempts to change something share: the delays between attempts, how long a record is
// kept, whose turn it is, and the bounds of what a stored record may contain. The records themselves are in the packages of the features.
package attempt

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/wording"
)

// Delays are the times between attempts.
type Delays struct {
	// RefusalBase is the back-off after an action that the API server refused. It doubles with each further refusal, up to
	// RefusalMax.
	RefusalBase, RefusalMax time.Duration

	// EvictionBackoff is the back-off of a workload after an eviction without effect. BackoffBase is the one after a resize that was
	// undone, and after a deletion that did not help. Both double with each further one, up to BackoffMax.
	EvictionBackoff         time.Duration
	BackoffBase, BackoffMax time.Duration
}

// Backoff returns the back-off after n attempts without effect.
func (b *Delays) Backoff(n int) time.Duration { return Doubled(b.BackoffBase, b.BackoffMax, n) }

// Doubled returns base, doubled n-1 times, but at most most.
func Doubled(base, most time.Duration, n int) time.Duration {
	d := base
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

// Failures are the failed attempts since the last successful one. The zero value is none.
type Failures struct {
	Count int
	Retry time.Time // when the next attempt may be made
}

// Add adds a failure. The next attempt waits for base, doubled by each further failure, but at most for most.
func (f *Failures) Add(now time.Time, base, most time.Duration) {
	f.Count++
	f.Retry = now.Add(Doubled(base, most, f.Count))
}

// Turns are when something was last done of which a pass does a limited amount: for a namespace, under the name "", and for what takes turns in
// the namespace. They are not stored: after a restart, all begin again.
type Turns map[[2]string]time.Time // by namespace and name

// Last returns the last turn of a namespace; zero if it had none.
func (t Turns) Last(namespace string) time.Time { return t[[2]string{namespace}] }

// LastOf returns the last turn of what has a name in a namespace; zero if it had none.
func (t Turns) LastOf(namespace, name string) time.Time { return t[[2]string{namespace, name}] }

// Took records a turn of what has a name in a namespace, and of the namespace.
func (t Turns) Took(at time.Time, namespace, name string) {
	for _, key := range [...][2]string{{namespace}, {namespace, name}} {
		if at.After(t[key]) {
			t[key] = at
		}
	}
}

// Forget forgets turns that were longer ago than HistoryTTL.
func (t Turns) Forget(now time.Time) {
	maps.DeleteFunc(t, func(_ [2]string, at time.Time) bool { return now.Sub(at) > HistoryTTL })
}

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
