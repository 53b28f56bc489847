// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Elect returns the autoscaler that governs a workload when several name it: the oldest, and of those of one
// age the one whose name sorts first. It returns nil when there is none. The order of the input does not matter.
func Elect(as []*Autoscaler) *Autoscaler {
	var best *Autoscaler
	for _, a := range as {
		if best == nil || a.Created.Before(best.Created) ||
			(a.Created.Equal(best.Created) && a.Key.Compare(best.Key) < 0) {
			best = a
		}
	}
	return best
}
