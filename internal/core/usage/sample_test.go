// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestSample_outdatedOrImpossibleAmounts_areNoPresentUsage(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		sample Sample
		want   cluster.Resources
	}{
		"both":              {Sample{At: now.Add(-time.Minute), CPU: 0.25, Memory: 1e8, Has: cluster.Both}, cluster.Amounts(250, 1e8)},
		"ahead of our time": {Sample{At: now.Add(time.Minute), CPU: 0.25, Memory: 1e8, Has: cluster.Both}, cluster.Amounts(250, 1e8)},
		"CPU only":          {Sample{At: now, CPU: 0.25, Memory: 1e8, Has: cluster.Of(cluster.CPU)}, cluster.Resources{}.Set(cluster.CPU, 250)},
		"old":               {Sample{At: now.Add(-11 * time.Minute), CPU: 0.25, Memory: 1e8, Has: cluster.Both}, cluster.Resources{}},
		"below zero":        {Sample{At: now, CPU: -1, Memory: 1e8, Has: cluster.Both}, cluster.Resources{}.Set(cluster.Memory, 1e8)},
		"not a number":      {Sample{At: now, CPU: math.NaN(), Memory: math.NaN(), Has: cluster.Both}, cluster.Resources{}},
		"too much":          {Sample{At: now, CPU: 1e7, Memory: math.Inf(1), Has: cluster.Both}, cluster.Resources{}},
	} {
		if got := c.sample.Present(now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
