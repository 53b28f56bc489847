// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// extreme returns a small, typical or very large amount. Upstream compares memory in thousandths of a byte, so its maximum is
// 8 PiB.
func (m maker) extreme(res cluster.Resource) int64 {
	most := int64(math.MaxInt64)
	if res == cluster.Memory {
		most /= 1000
	}
	switch m.IntN(4) {
	case 0:
		return m.Int64N(3)
	case 1:
		return most - m.Int64N(3)
	case 2:
		return m.Int64N(most)
	}
	return m.Amount(res)
}

func (m maker) extremes() cluster.Resources {
	var r cluster.Resources
	for _, res := range cluster.All {
		if !m.OneIn(4) {
			r = r.Set(res, m.extreme(res))
		}
	}
	return r
}

// Compares the limit in proportion to a request, and the annotation if there is none, also for the smallest and largest
// amounts.
func TestFit_proportionalLimits_equalUpstream(t *testing.T) {
	overflows := 0
	check(t, 50_000, func(t *rapid.T, m maker) {
		requests, limits, def, target := m.extremes(), m.extremes(), m.extremes(), m.extremes()
		if target.Has.Empty() {
			return
		}
		want, notes := vpautil.GetProportionalLimit(list(limits), list(requests), list(target), list(def))

		a := &cluster.Autoscaler{Advice: []cluster.Advice{{Container: "a", Estimate: cluster.Estimate{Target: target}}}}
		p := &cluster.Pod{Containers: []cluster.Container{{Name: "a", Requests: requests, Limits: limits}}}
		got := policy.Fit(a, policy.Limits{Range: cluster.LimitRange{Container: cluster.Range{Default: def}}}, p)[0]
		if held(got) {
			return // the request is above a limit of zero: tested in test/admission
		}
		var gotNotes []string
		for _, note := range got.Notes {
			gotNotes = append(gotNotes, note.String())
			if note.Kind == admissible.LimitOverflow {
				overflows++
			}
		}
		if got.Limits != amounts(want) || !slices.Equal(gotNotes, notes) {
			t.Fatalf("requests %v limits %v default %v target %v\ngot  %v %q\nwant %v %q",
				requests, limits, def, target, got.Limits, gotNotes, amounts(want), notes)
		}
	})
	if overflows == 0 {
		t.Error("no case has a limit that overflows")
	}
}
