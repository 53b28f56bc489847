// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"sync/atomic"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// Usage keeps the usage that the recommender has read last. It is safe for several goroutines. A nil Usage keeps none.
type Usage struct {
	last atomic.Pointer[[]usage.Sample]
}

// Keep replaces the usage. Nobody changes the samples.
func (u *Usage) Keep(samples []usage.Sample) {
	if u != nil {
		u.last.Store(&samples)
	}
}

// byPod returns the present usage of each pod.
func (u *Usage) byPod(now time.Time) map[cluster.Key]cluster.Resources {
	if u == nil || u.last.Load() == nil {
		return nil
	}
	return capacity.UsageByPod(*u.last.Load(), now)
}
