// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import "podfit.dev/podfit/internal/core/cluster"

// A memo caches values that are computed from one snapshot. If many autoscalers reference one workload, a value is computed once
// for the workload and not once for each autoscaler.
type memo[K comparable, V any] struct {
	snapshot *cluster.Snapshot
	values   map[K]V
}

// get returns the value of a key in a snapshot, and computes it if the memo does not contain it.
func (m *memo[K, V]) get(snapshot *cluster.Snapshot, key K, compute func() V) V {
	if m.snapshot != snapshot {
		m.snapshot = snapshot
		m.values = make(map[K]V)
	}
	v, ok := m.values[key]
	if !ok {
		v = compute()
		m.values[key] = v
	}
	return v
}

// drop removes all values and releases the snapshot.
func (m *memo[K, V]) drop() { *m = memo[K, V]{} }
