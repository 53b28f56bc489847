// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
)

// A View is what a pass has observed.
type View struct {
	Governed []cluster.Governed
	Scales   map[cluster.Workload]cluster.Scale
	Requests map[cluster.Key]*cluster.CapacityRequest // that live, by name

	// Throttling is the CPU throttling of the canaries. Nil means that there is no Prometheus. A workload that is not in it has no answer
	// yet.
	Throttling map[cluster.Workload]rollout.Throttling
}
