// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible_test

import (
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// tenth is 0.1Gi, which is 107374182.4 bytes, rounded down. The watcher rounds requests up and limits down.
const tenth = 107374182

// A sidecar, which podfit does not change, has a fraction of a byte. The sums of the API server stay within their bounds for each
// possible fraction.
func TestAdmissible_fractionOfAByteBesideASizedContainer_sumsStayWithinBounds(t *testing.T) {
	const mi = 1 << 20
	pod := func(level *cluster.PodResources) *cluster.Pod {
		return &cluster.Pod{Fractions: true, PodLevel: level, Containers: []cluster.Container{
			{Name: "app", Requests: memory(64 * mi), Limits: memory(64 * mi)},
			{Name: "other", Role: cluster.Sidecar, Requests: memory(tenth + 1), Limits: memory(tenth + 200)},
		}}
	}
	for name, c := range map[string]struct {
		around cluster.LimitRange
		want   int64
		check  func(app admissible.Fitted) bool
	}{
		"request below the minimum of a pod": {
			around: cluster.LimitRange{Pod: cluster.Range{Min: memory(256 * mi)}}, want: 10 * mi,
			check: func(app admissible.Fitted) bool { return app.Requests.Memory+tenth >= 256*mi },
		},
		"limit above the maximum of a pod": {
			around: cluster.LimitRange{Pod: cluster.Range{Max: memory(256 * mi)}}, want: 900 * mi,
			check: func(app admissible.Fitted) bool { return app.Limits.Memory+tenth+201 <= 256*mi },
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := advising(memory(c.want))
			l, p := admissible.Limits{Range: c.around}, pod(nil)
			fits := policy.Fit(a, l, p)
			if r := admissible.Refused(l, p, fits); r.Refused() {
				t.Fatal(r)
			}
			if !c.check(fits[0]) {
				t.Errorf("app gets request %d, limit %d", fits[0].Requests.Memory, fits[0].Limits.Memory)
			}
		})
	}
	t.Run("sum of the containers above the pod-level request", func(t *testing.T) {
		p := pod(&cluster.PodResources{Requests: memory(tenth + 1 + 64*mi), Limits: memory(tenth + 200 + 64*mi)})
		fits := policy.Fit(advising(memory(1)), admissible.Limits{}, p)
		level := admissible.PodLevelOf(p, fits)
		if level.Requests.Memory < fits[0].Requests.Memory+tenth+2 {
			t.Errorf("pod-level %+v", level)
		}
	})
}

// The API server has admitted amounts that fits does not set. They are refused only if they violate the bound for each possible
// fraction of a byte.
func TestRefused_ownAmountsRoundedBeyondABound_areNotRefused(t *testing.T) {
	p := &cluster.Pod{Fractions: true, Containers: []cluster.Container{{Name: "app", Requests: memory(tenth + 1), Limits: memory(tenth + 1)}}}
	for _, c := range []struct {
		most    int64
		refused bool
	}{{tenth, false}, {tenth - 10, true}} {
		around := cluster.LimitRange{Fractions: true, Container: cluster.Range{Max: memory(c.most)}}
		r := admissible.Refused(admissible.Limits{Range: around}, p, nil)
		if r.Refused() != c.refused {
			t.Errorf("at most %d: %v", c.most, r)
		}
	}
}
