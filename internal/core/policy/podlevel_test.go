// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// The pod-level request is what the pod needs as a whole, and the pod-level limit keeps its ratio to it.
func TestFit_containersShareHeadroom_podLevelRequestIsThatOfTheWhole(t *testing.T) {
	e := cluster.Estimate{Lower: cluster.Amounts(200, 2<<20), Target: cluster.Amounts(400, 4<<20), Upper: cluster.Amounts(800, 8<<20)}
	a := &cluster.Autoscaler{Advice: []cluster.Advice{
		{Container: "app", Estimate: e, Shared: cluster.Amounts(250, 3<<20)}, {Container: "cache", Estimate: e, Shared: cluster.Amounts(250, 3<<20)},
	}}
	for name, requests := range map[string]cluster.Resources{"only pod-level resources": {}, "and those of containers": cluster.Amounts(1000, 10<<20)} {
		p := &cluster.Pod{
			PodLevel:   &cluster.PodResources{Requests: cluster.Amounts(2000, 20<<20), Limits: cluster.Amounts(4000, 20<<20)},
			Containers: []cluster.Container{{Name: "app", Requests: requests}, {Name: "cache", Requests: requests}},
		}
		for range 2 { // also from its new size
			fits := Fit(a.For(p), Limits{}, p)
			level := admissible.PodLevelOf(p, fits)
			if level.Requests != cluster.Amounts(500, 6<<20) || level.Limits != cluster.Amounts(1000, 6<<20) || admissible.Refused(Limits{}, p, fits).Refused() {
				t.Errorf("%s: %+v, fits %+v", name, level, fits)
			}
			p.PodLevel = level
			for i := range fits {
				p.Containers[i].Requests = fits[i].Requests
			}
		}
		// minAllowed of a container applies to its part.
		bounded := *a
		bounded.Policies = []cluster.ContainerPolicy{{Container: "app", MinAllowed: cluster.Amounts(300, 0).Only(cluster.Of(cluster.CPU))}}
		if level := admissible.PodLevelOf(p, Fit(bounded.For(p), Limits{}, p)); level.Requests.CPU != 550 {
			t.Errorf("%s: with minAllowed: %+v", name, level)
		}
	}
}
