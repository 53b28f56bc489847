// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// The recommender assesses each pool once a minute.
func BenchmarkAssess_ninetyDays(b *testing.B) {
	h := new(History)
	for _, p := range line(90, 150_000, 1000) {
		h.Days = append(h.Days, Record{Day: p.Day, Requested: cluster.Amounts(int64(p.Requested), int64(p.Requested)<<20), Capacity: cluster.Amounts(total, total<<20)})
	}
	pool := Pool{Name: "a", Nodes: 3, Capacity: cluster.Amounts(total, total<<20), Requested: cluster.Amounts(150_000, 150_000<<20), Recoverable: cluster.Amounts(71_000, 1<<30)}
	for b.Loop() {
		Assess(now, []Pool{pool}, Unplaced{}, map[string]*History{"a": h}, Defaults())
	}
}
