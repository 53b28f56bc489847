// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// What new pods request is what admissible.Adjust makes of their pod-level request.
func TestRequestsOf_podLevelRequest_followsTheContainers(t *testing.T) {
	level := cluster.Amounts(1000, 1<<30)
	own := cluster.Amounts(200, 200<<20)
	for name, c := range map[string]struct {
		containers []cluster.Resources // their requests
		wanted     []cluster.Resources
		want       cluster.Resources
	}{
		"nothing changes":                    {[]cluster.Resources{own, {}}, nil, level},
		"no container changes":               {[]cluster.Resources{own, {}}, []cluster.Resources{own, {}}, level},
		"all have a target":                  {[]cluster.Resources{{}, {}}, []cluster.Resources{cluster.Amounts(100, 50<<20), cluster.Amounts(30, 20<<20)}, cluster.Amounts(130, 70<<20)},
		"the other one uses the rest":        {[]cluster.Resources{own, {}}, []cluster.Resources{cluster.Amounts(100, 300<<20), {}}, cluster.Amounts(900, 1<<30+100<<20)},
		"not below the sum":                  {[]cluster.Resources{own, {}}, []cluster.Resources{cluster.Amounts(3000, 200<<20), {}}, cluster.Amounts(3800, 1<<30)},
		"targets for one resource, all have": {[]cluster.Resources{own}, []cluster.Resources{cluster.Resources{}.Set(cluster.CPU, 50)}, cluster.Amounts(50, 1<<30)},
	} {
		p := &cluster.Pod{PodLevel: &cluster.PodResources{Requests: level}}
		for _, r := range c.containers {
			p.Containers = append(p.Containers, cluster.Container{Requests: r})
		}
		if got := RequestsOf(p, c.wanted); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRowOf_podLevelRequest_isNoMissingRequestAndFreesNothing(t *testing.T) {
	s := Subject{
		Places: []Place{{Pod: "cart-0"}}, PodLevel: cluster.Both, Targets: []Target{{Amount: cluster.Amounts(100, 50<<20)}},
		Evidence: &Evidence{Samples: 10000},
	}
	row := rowOf(&s, 1, KeepLimits, true)
	for _, f := range row.Findings {
		if f.Kind == NoRequest {
			t.Errorf("finding %s", f.Text(s.Evidence.KilledFrom))
		}
	}
	if freed := row.freedOf(&s.Places[0]); freed.CPU != 0 || freed.Memory != 0 {
		t.Errorf("it frees %v, want nothing", freed)
	}
	s.PodLevel = 0
	if row := rowOf(&s, 1, KeepLimits, true); len(row.Findings) == 0 {
		t.Error("without a pod-level request, none is missing")
	}
}
