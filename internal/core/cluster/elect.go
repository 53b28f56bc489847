// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Precedes reports whether a governs a workload that b names too: a is older, or as old and its name sorts first.
func (a *Autoscaler) Precedes(b *Autoscaler) bool {
	return a.Created.Before(b.Created) || a.Created.Equal(b.Created) && a.Key.Compare(b.Key) < 0
}

// Elect returns the autoscaler that governs a workload when several name it: the one that precedes all others. It returns
// nil when there is none. The order of the input does not matter.
func Elect(as []*Autoscaler) *Autoscaler {
	var best *Autoscaler
	for _, a := range as {
		if best == nil || a.Precedes(best) {
			best = a
		}
	}
	return best
}
