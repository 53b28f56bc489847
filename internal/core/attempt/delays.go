// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package attempt

import "time"

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
