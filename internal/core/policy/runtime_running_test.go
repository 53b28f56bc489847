// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// The webhook adds variables to new pods only. A running JVM without the variable keeps reading its CPU request, so a resize in place must
// keep the request out of the ranges.
func TestFit_cpuGuardAndInjectionButRunningPodWithoutVariable_keepsRequestsOutOfTheRanges(t *testing.T) {
	a := recommend(exactly("app", cpu(1000)))
	a.Guards = cluster.RuntimeGuards{CPU: true, InjectCPUCount: true}
	p := jvmPod(container("app", cpu(500), cluster.Resources{}), cluster.Runtime{VariableOpen: true})
	p.Node = "node-1"
	if got := Fit(a, Limits{}, p)[0].Requests.CPU; got != 1001 {
		t.Errorf("%dm for a running JVM without the variable, want 1001m", got)
	}
}
