// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"math"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
)

// The API server refuses a request above its limit, and a change of the template of a Job.
func TestPatch_isAcceptedByTheAPIServer(t *testing.T) {
	const mib = 1 << 20
	row := &overview.Row{Workload: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}, Containers: []overview.Container{{
		Name: "app", Confidence: review.High, Outside: cluster.Amounts(100, 1024*mib), Limits: cluster.Amounts(500, 1024*mib), Estimate: cluster.Estimate{Target: cluster.Amounts(200, 1276*mib)},
	}}}
	const want = `spec:
  template:
    spec:
      containers:
      - name: app
        resources:
          requests:
            cpu: 200m
            memory: 1276Mi
          limits:
            memory: 1276Mi
`
	if got := patchOf(row); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	row.Containers[0].Limits = cluster.Resources{}
	if got := patchOf(row); got != want[:len(want)-len("          limits:\n            memory: 1276Mi\n")] {
		t.Errorf("without limits: got\n%s", got)
	}
	row.Workload.Group, row.Workload.Kind = "batch", "Job"
	if got := patchOf(row); got != "" {
		t.Errorf("of a Job: got\n%s", got)
	}
}

func TestRounded_anyNumber_staysANumber(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.123456: 0.1235, 98765.4: 98770, math.SmallestNonzeroFloat64: math.SmallestNonzeroFloat64, math.MaxFloat64: math.MaxFloat64} {
		if got := rounded(v); got != want {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
}
