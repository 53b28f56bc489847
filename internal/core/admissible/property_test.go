// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

func draw(t *rapid.T, what string) cluster.Resources {
	var out cluster.Resources
	for _, res := range cluster.All {
		if rapid.Bool().Draw(t, what+" has "+res.String()) {
			out = out.Set(res, rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 1<<62)).Draw(t, what))
		}
	}
	return out
}

func drawRange(t *rapid.T, what string) cluster.Range {
	return cluster.Range{Min: draw(t, what+" min"), Max: draw(t, what+" max"), Default: draw(t, what+" default")}
}

// Adjust sets only amounts that are set already, and a second call changes nothing if the API server admits the pod.
func TestAdjust_anySizes_secondCallChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &cluster.Pod{Fractions: rapid.Bool().Draw(t, "fractions")}
		var fits []admissible.Fitted
		for _, name := range []string{"a", "b", "c"} {
			c := container(name, draw(t, "request"), draw(t, "limit"))
			c.Role = cluster.ContainerRole(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "role"))
			p.Containers = append(p.Containers, c)
			if c.Role == cluster.Regular {
				fits = append(fits, admissible.Fitted{
					Container: name, Requests: draw(t, "new request"), Limits: draw(t, "new limit"),
					LimitsKept: rapid.Bool().Draw(t, "limits kept"), Inserted: rapid.Bool().Draw(t, "inserted"),
				})
			}
		}
		if rapid.Bool().Draw(t, "pod level") {
			p.PodLevel = &cluster.PodResources{Requests: draw(t, "pod request"), Limits: draw(t, "pod limit")}
		}
		around := cluster.LimitRange{Fractions: rapid.Bool().Draw(t, "range fractions")}
		if rapid.Bool().Draw(t, "ranges") {
			around.Pod = drawRange(t, "pod range")
			around.Container = drawRange(t, "container range")
			around.PodRatio = draw(t, "pod ratio")
			around.ContainerRatio = draw(t, "ratio")
		}
		l := admissible.Limits{Range: around}
		first := slices.Clone(fits)
		admissible.Adjust(l, p, first)
		for i := range fits {
			if first[i].Requests.Has != fits[i].Requests.Has || first[i].Limits.Has != fits[i].Limits.Has {
				t.Fatalf("%+v became %+v", fits[i], first[i])
			}
		}
		if p.PodLevel != nil || admissible.Refused(l, p, first).Refused() {
			return
		}
		second := slices.Clone(first)
		admissible.Adjust(l, p, second)
		for i := range first {
			if second[i].Requests != first[i].Requests || second[i].Limits != first[i].Limits {
				t.Fatalf("%+v became %+v", first[i], second[i])
			}
		}
	})
}

func TestQoSOf_sizes_giveTheClassOfTheKubelet(t *testing.T) {
	both := cluster.Amounts(100, 1<<20)
	for name, c := range map[string]struct {
		own   cluster.Container
		level *cluster.PodResources
		fits  []admissible.Fitted
		want  cluster.QoS
	}{
		"no amounts":                      {own: container("app", cluster.Resources{}, cluster.Resources{}), want: cluster.BestEffort},
		"requests only":                   {own: container("app", both, cluster.Resources{}), want: cluster.Burstable},
		"limits only":                     {own: container("app", cluster.Resources{}, both), want: cluster.Guaranteed},
		"a limit of CPU only":             {own: container("app", cpu(100), cpu(100)), want: cluster.Burstable},
		"a new request below the limit":   {own: container("app", both, both), fits: []admissible.Fitted{{Container: "app", Requests: cpu(50)}}, want: cluster.Burstable},
		"equal pod-level amounts":         {own: container("app", both, cluster.Resources{}), level: &cluster.PodResources{Requests: both, Limits: both}, want: cluster.Guaranteed},
		"a pod-level request and no more": {own: container("app", both, both), level: &cluster.PodResources{Requests: both}, want: cluster.Burstable},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf(c.own)
			p.PodLevel = c.level
			if got := admissible.QoSOf(admissible.Limits{}, p, c.fits); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
