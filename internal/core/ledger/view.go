// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "podfit.dev/podfit/internal/core/cluster"

// A View is what a pass has observed.
type View struct {
	Governed []cluster.Governed
	Scales   map[cluster.Workload]cluster.Scale
	Requests map[cluster.Key]*cluster.CapacityRequest // that live, by name
}
