// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// The pod has a container with 500m and 500 MiB, a sidecar with 100m and 100 MiB before the init container "migrate", and one after it.
func TestFitInit_situations_requestIsWithinTheSumOfTheOthers(t *testing.T) {
	none := cluster.Resources{}
	for name, c := range map[string]struct {
		requests, limits, target, lower, wantRequests, wantLimits cluster.Resources
		policy                                                    cluster.ContainerPolicy
	}{
		"within the sum":         {requests: of(10, 10*mi), target: of(300, 300*mi), wantRequests: of(300, 300*mi)},
		"lowered within the sum": {requests: of(2000, 2000*mi), target: of(300, 300*mi), wantRequests: of(300, 300*mi)},
		"above the sum: of the container and the later sidecar": {requests: of(10, 10*mi), target: of(900, 900*mi), wantRequests: of(600, 600*mi)},
		"above the sum, the limit is in proportion to the need": {
			requests: of(10, 10*mi), limits: of(20, 20*mi), target: of(900, 900*mi), wantRequests: of(600, 600*mi), wantLimits: of(1800, 1800*mi),
		},
		"limit equals request, within the sum": {
			requests: of(10, 10*mi), limits: of(10, 10*mi), target: of(300, 300*mi), wantRequests: of(300, 300*mi), wantLimits: of(300, 300*mi),
		},
		"limit equals request, memory above the sum stays": {
			requests: of(10, 10*mi), limits: of(10, 10*mi), target: of(300, 900*mi), wantRequests: cpu(300), wantLimits: cpu(300),
		},
		"OOM kill": {
			requests: of(10, 10*mi), limits: of(10, 10*mi), target: of(300, 900*mi), lower: memory(900 * mi), wantRequests: of(300, 900*mi), wantLimits: of(300, 900*mi),
		},
		"OOM kill, maxAllowed": {
			requests: of(10, 10*mi), target: of(300, 900*mi), lower: memory(900 * mi), wantRequests: of(300, 700*mi),
			policy: cluster.ContainerPolicy{MaxAllowed: memory(700 * mi)},
		},
		"minAllowed above the sum": {
			requests: of(10, 10*mi), target: of(300, 300*mi), wantRequests: of(300, 800*mi), policy: cluster.ContainerPolicy{MinAllowed: memory(800 * mi)},
		},
		"limits are kept": {
			requests: of(10, 10*mi), limits: of(400, 400*mi), target: of(900, 900*mi), wantRequests: of(400, 400*mi), policy: cluster.ContainerPolicy{RequestsOnly: true},
		},
		"only memory is controlled": {
			requests: of(10, 10*mi), target: of(300, 300*mi), wantRequests: memory(300 * mi),
			policy: cluster.ContainerPolicy{ControlsSet: true, Controlled: cluster.Of(cluster.Memory)},
		},
		"mode Off":          {requests: of(10, 10*mi), target: of(300, 300*mi), policy: cluster.ContainerPolicy{Off: true}},
		"no recommendation": {requests: of(10, 10*mi)},
	} {
		p := podOf(container("app", of(50, 50*mi), none), container("early", of(100, 100*mi), none), container("migrate", c.requests, c.limits), container("late", of(100, 100*mi), none))
		p.Containers[1].Role, p.Containers[2].Role, p.Containers[3].Role = cluster.Sidecar, cluster.Init, cluster.FixedSidecar
		a := recommend(exactly("app", of(500, 500*mi)), advice("migrate", c.lower, c.target, c.target))
		c.policy.Container = "migrate"
		a.Policies = []cluster.ContainerPolicy{c.policy}
		fits := FitInit(a, Limits{}, p, Fit(a, Limits{}, p))
		var got Fitted
		if len(fits) > 0 {
			got = fits[0]
		}
		if got.Requests != c.wantRequests || got.Limits != c.wantLimits || len(fits) > 1 || len(fits) == 1 && (got.Index != 2 || !got.Sidecar) {
			t.Errorf("%s: %+v, want requests %v and limits %v", name, fits, c.wantRequests, c.wantLimits)
		}
	}
}

// Without requests of the others, everything that an init container requests costs.
func TestFitInit_othersRequestNothing_initContainerKeepsItsSize(t *testing.T) {
	p := podOf(container("app", cluster.Resources{}, cluster.Resources{}), container("migrate", of(10, 10*mi), cluster.Resources{}))
	p.Containers[1].Role = cluster.Init
	if fits := FitInit(recommend(advice("migrate", cluster.Resources{}, of(300, 300*mi), of(300, 300*mi))), Limits{}, p, nil); len(fits) != 0 {
		t.Errorf("sizes %+v", fits)
	}
}

// The exact limit may be less than a byte below the amount that podfit knows.
func TestFitInit_limitIsAFractionOfAByte_requestIsBelow(t *testing.T) {
	p := podOf(container("app", of(500, 500*mi), cluster.Resources{}), container("migrate", of(10, 10*mi), of(100, 100*mi)))
	p.Containers[1].Role, p.Fractions = cluster.Init, true
	a := recommend(advice("migrate", cluster.Resources{}, of(300, 300*mi), of(300, 300*mi)))
	a.Policies = []cluster.ContainerPolicy{{Container: "migrate", RequestsOnly: true}}
	if fits := FitInit(a, Limits{}, p, nil); len(fits) != 1 || fits[0].Requests != of(100, 100*mi-1) {
		t.Errorf("sizes %+v", fits)
	}
}

// The API server refuses a pod whose init container requests more than the pod, or has a higher limit.
func TestFitInit_podLevelResources_initContainerStaysWithin(t *testing.T) {
	for name, c := range map[string]struct {
		level        cluster.PodResources
		lower        cluster.Resources // an OOM kill has shown it to be needed
		wantRequests cluster.Resources
		wantLimits   cluster.Resources
	}{
		"needs more than the containers, and less than the pod": {
			level: cluster.PodResources{Requests: of(2000, 2000*mi)}, wantRequests: of(900, 900*mi), wantLimits: of(1800, 1800*mi),
		},
		"an OOM kill shows that it needs more than the pod": {
			level: cluster.PodResources{Requests: of(800, 800*mi), Limits: of(1500, 1500*mi)}, lower: memory(900 * mi),
			wantRequests: of(800, 800*mi), wantLimits: of(1500, 1500*mi),
		},
		"the pod has only limits": {level: cluster.PodResources{Limits: of(700, 700*mi)}, lower: memory(900 * mi), wantRequests: of(500, 700*mi), wantLimits: of(700, 700*mi)},
	} {
		p := podOf(container("app", of(500, 500*mi), cluster.Resources{}), container("migrate", of(10, 10*mi), of(20, 20*mi)))
		p.Containers[1].Role, p.PodLevel = cluster.Init, &c.level
		a := recommend(exactly("app", of(500, 500*mi)), advice("migrate", c.lower, of(900, 900*mi), of(900, 900*mi)))
		a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}}
		fits := FitInit(a, Limits{}, p, Fit(a, Limits{}, p))
		if len(fits) != 1 || fits[0].Requests != c.wantRequests || fits[0].Limits != c.wantLimits {
			t.Errorf("%s: %+v, want requests %v and limits %v", name, fits, c.wantRequests, c.wantLimits)
		}
		if r := admissible.Refused(Limits{}, p, fits); r.Refused() {
			t.Errorf("%s: the API server refuses the pod: %s", name, r)
		}
	}
}
