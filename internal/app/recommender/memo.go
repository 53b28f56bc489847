// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import "podfit.dev/podfit/internal/core/cluster"

// A memo keeps what was found out about the workloads of a snapshot until it is asked about another one. Of a workload that
// many autoscalers name everything is found out once, and not once for each of them.
type memo[K comparable, V any] struct {
	of    *cluster.Snapshot
	known map[K]V
}

// get returns what is known of k in the snapshot, or finds it out.
func (m *memo[K, V]) get(s *cluster.Snapshot, k K, find func() V) V {
	if m.of != s {
		m.of, m.known = s, make(map[K]V)
	}
	v, ok := m.known[k]
	if !ok {
		v = find()
		m.known[k] = v
	}
	return v
}

// drop forgets everything, and lets go of the snapshot.
func (m *memo[K, V]) drop() { *m = memo[K, V]{} }
