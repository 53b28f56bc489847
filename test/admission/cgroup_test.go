// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/opencontainers/cgroups"
)

// The quadratic conversion of CPU requests into weights, for each millicore up to 64 cores. The versions of the module with the linear
// conversion cannot be linked beside the present one.
func TestSeen_everyMillicore_equalsOpencontainersCgroups(t *testing.T) {
	for m := int64(1); m <= 64_000; m++ {
		shares := max(m*1024/1000, 2) // as the kubelet does
		if got := sharesV1.seen(m); got != shares {
			t.Fatalf("%dm: %d shares, the kubelet sets %d", m, got, shares)
		}
		if got, want := weightNew.seen(m), cgroups.ConvertCPUSharesToCgroupV2Value(uint64(shares)); got != int64(want) {
			t.Fatalf("%dm: weight %d, opencontainers/cgroups has %d", m, got, want)
		}
	}
}
