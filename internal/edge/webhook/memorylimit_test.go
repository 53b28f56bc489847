// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// A new pod gets the memory limit by the highest usage with its recommended requests. A quota that bounds memory limits keeps the ratio.
func TestHandler_memoryLimitsByPeaks_newPodHasThem(t *testing.T) {
	const pod = `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"200Mi"},"limits":{"memory":"400Mi"}}}]`
	for name, c := range map[string]struct {
		limits        policy.Limits
		want, request string
	}{
		"no quota": {want: "1536Mi", request: "300Mi"},
		"a quota": {
			limits: policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{
				Name: "all", Hard: cluster.PodResources{Limits: cluster.Amounts(0, mi(1<<20))}, Left: cluster.PodResources{Limits: cluster.Amounts(0, mi(1<<20))},
			}}}},
			want: "615Mi", request: "314880Ki", // so that the limit is a fifth above the highest usage
		},
		"quotas that are not known": {limits: policy.Limits{QuotasUnknown: true}, want: "615Mi", request: "314880Ki"},
	} {
		a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(350, mi(300))})
		a.MemoryLimits.Peaks = true
		a.Advice[0].MemoryLimit, a.Advice[0].MemoryPeak = mi(1536), mi(512)
		w := worldOf(a)
		w.limits["shop"] = c.limits
		got := changesOf(t, w, Options{}, cart(`"annotations":{}`, pod))
		want := []string{
			`add /spec/containers/0/resources/requests/cpu "350m"`,
			`add /spec/containers/0/resources/requests/memory "` + c.request + `"`,
			`add /spec/containers/0/resources/limits/memory "` + c.want + `"`,
		}
		if diff := cmp.Diff(want, got[:min(len(got), 3)]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
