// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/usage"
)

// LimitHistory is how far MemoryLimit looks back. A limit should not fall before that much usage is known.
const LimitHistory = limitHours * time.Hour

// The parameters of MemoryLimit. A stored limit stays while it is between the least and the most kept parts of the new one, so that it changes rarely.
const (
	limitHours = 14 * 24
	leastKept  = 0.95
	mostKept   = 1.25

	// remembered is the share of the weight of a histogram without what is too old: the peak of one pod on one day counts for 19 half-lives if
	// it is the only one, and for 9 beside a thousand others. After a restart it counts for 13 and 3: the weights of checkpoints are rounded.
	remembered = 1 - 1.0/(1<<20)
)

// MemoryPeak returns the highest memory usage of 14 days or, without model state with peaks, what the histogram remembers, in bytes; 0 if none is known.
// What an OOM kill showed to be needed counts as usage, and so does the limit at which it happened.
func MemoryPeak(s *usage.ContainerHistory, now time.Time) int64 {
	peak := s.Memory.Percentile(remembered)
	if peaks := PeaksOf(s, cluster.Memory); peaks != nil {
		end := peaks.Newest() + 1
		highest := peaks.Max(end-limitHours, end).Amount()
		if peaks.Since() > end-limitHours || peaks.Room() < limitHours { // a new profile has new peaks, and some keep them for fewer days
			highest = max(highest, peak)
		}
		peak = highest
	}
	if at, needed, limit := s.LastOOM(); peak > 0 && now.Sub(at) < LimitHistory {
		peak = max(peak, float64(needed), float64(limit))
	}
	return max(min(derivation.Whole(peak), derivation.MaxAmount), 0)
}

// MemoryLimit returns a memory limit that does not depend on the request, in bytes; 0 if no usage is known: that of policy.LimitOf for a peak (MemoryPeak), so
// that it about doubles with each OOM kill, or for what the policy allows at least. It is at most that for the maximum of the target and, above the peak, the largest
// node, if these are known. The limit before stays if it is close enough, and does not fall for LimitHistory after an OOM kill.
func MemoryLimit(s *usage.ContainerHistory, before, minAllowed, maxAllowed, node int64, now time.Time) int64 {
	peak := float64(MemoryPeak(s, now))
	if peak == 0 {
		return 0
	}
	peak = max(peak, float64(minAllowed))
	limit := policy.LimitOf(peak)
	if at, _, _ := s.LastOOM(); now.Sub(at) < LimitHistory {
		limit = max(limit, float64(before))
	}
	if node > 0 {
		limit = min(limit, max(float64(node), peak))
	}
	if maxAllowed > 0 {
		limit = min(limit, policy.LimitOf(float64(maxAllowed)))
	}
	if float64(before) >= leastKept*limit && float64(before) <= mostKept*limit {
		return before
	}
	return min(derivation.Whole(limit), derivation.MaxAmount)
}
