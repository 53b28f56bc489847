// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible_test

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

func TestFit_sizeRefusedByAPIServer_isChangedToAdmittedSize(t *testing.T) {
	type rules = cluster.ContainerPolicy
	for name, c := range map[string]struct {
		requests, limits, advice cluster.Resources
		policy                   rules
		limit                    cluster.LimitRange
		wantRequests, wantLimits cluster.Resources
	}{
		"maxAllowed below the minimum of a LimitRange": {
			requests: cpu(200), advice: cpu(300), policy: rules{MaxAllowed: cpu(50)},
			limit:        cluster.LimitRange{Container: cluster.Range{Min: cpu(100)}},
			wantRequests: cpu(100),
		},
		"maxAllowed below the minimum of a LimitRange: the limit keeps its proportion": {
			requests: cpu(200), limits: cpu(400), advice: cpu(300), policy: rules{MaxAllowed: cpu(40)},
			limit:        cluster.LimitRange{Container: cluster.Range{Min: cpu(100)}},
			wantRequests: cpu(100), wantLimits: cpu(200),
		},
		"minAllowed above the maximum of a LimitRange": {
			requests: cpu(200), limits: cpu(400), advice: cpu(300), policy: rules{MinAllowed: cpu(900)},
			limit:        cluster.LimitRange{Container: cluster.Range{Max: cpu(500)}},
			wantRequests: cpu(500), wantLimits: cpu(500),
		},
		"a request above the default limit that the LimitRange adds": {
			requests: cpu(500), advice: cpu(900), policy: rules{RequestsOnly: true},
			limit:        cluster.LimitRange{Container: cluster.Range{Default: cpu(600)}},
			wantRequests: cpu(600),
		},
		"a ratio, where limits are left alone": {
			requests: cpu(300), limits: cpu(600), advice: cpu(100), policy: rules{RequestsOnly: true},
			limit:        cluster.LimitRange{ContainerRatio: cpu(3000)},
			wantRequests: cpu(200),
		},
		"a pod minimum that a container without limit does not reach": {
			requests: cpu(500), advice: cpu(100),
			limit:        cluster.LimitRange{Pod: cluster.Range{Min: cpu(400)}},
			wantRequests: cpu(400),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.Container = "app"
			a := advising(c.advice)
			a.Policies = []rules{c.policy}
			p, l := podOf(container("app", c.requests, c.limits)), admissible.Limits{Range: c.limit}
			if r := admissible.Refused(l, p, nil); r.Refused() {
				t.Fatalf("the pod is refused without fits: %s", r)
			}
			got := policy.Fit(a, l, p)
			if got[0].Requests != c.wantRequests || got[0].Limits != c.wantLimits {
				t.Errorf("requests %v limits %v, want %v and %v", got[0].Requests, got[0].Limits, c.wantRequests, c.wantLimits)
			}
			if r := admissible.Refused(l, p, got); r.Refused() {
				t.Errorf("still refused: %s", r)
			}
			if text := policy.Annotation(a, got); !strings.Contains(text, "cpu capped to what the API server admits") {
				t.Errorf("no note in the annotation: %q", text)
			}
		})
	}
}

func TestRefused_invalidPod_returnsReason(t *testing.T) {
	for _, c := range []struct {
		limit    cluster.LimitRange
		requests cluster.Resources
		limits   cluster.Resources
		want     string
	}{
		{requests: cpu(200), limits: cpu(100), want: "the cpu request 200m of container app is above its limit 100m"},
		{limit: cluster.LimitRange{Container: cluster.Range{Min: cpu(300)}}, requests: cpu(200),
			want: "the cpu request 200m of container app is below the minimum 300m of a LimitRange"},
		{limit: cluster.LimitRange{Container: cluster.Range{Max: cpu(300)}}, requests: cpu(200),
			want: "container app has no cpu limit, and a LimitRange requires one"},
		{limit: cluster.LimitRange{Pod: cluster.Range{Max: cpu(300)}}, requests: cpu(200), limits: cpu(400),
			want: "the cpu limit 400m of the pod is above the maximum 300m of a LimitRange"},
		{limit: cluster.LimitRange{PodRatio: cpu(1500)}, requests: cpu(200), limits: cpu(400),
			want: "the cpu limit of the pod is 2 times its request, and a LimitRange allows 1.5 times"},
		{limit: cluster.LimitRange{Container: cluster.Range{Max: cpu(300), Default: cpu(300)}}, requests: cpu(200), want: ""},
	} {
		if got := admissible.Refused(admissible.Limits{Range: c.limit}, podOf(container("app", c.requests, c.limits)), nil).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestFit_podLevelResources_followTheContainers(t *testing.T) {
	for name, c := range map[string]struct {
		level                    cluster.PodResources
		requests, limits, advice cluster.Resources
		keepLimits               bool
		wantRequest, wantLimit   cluster.Resources // of the container
		want                     *cluster.PodResources
	}{
		"the request grows to that of the container": {
			level: cluster.PodResources{Requests: cpu(500)}, requests: cpu(400), advice: cpu(900),
			wantRequest: cpu(900), want: &cluster.PodResources{Requests: cpu(900)},
		},
		"the request shrinks to that of the container": {
			level: cluster.PodResources{Requests: cpu(500)}, requests: cpu(400), advice: cpu(100),
			wantRequest: cpu(100), want: &cluster.PodResources{Requests: cpu(100)},
		},
		"a pod with pod-level resources only needs less": {
			level: cluster.PodResources{Requests: cpu(1000)}, advice: cpu(413),
			wantRequest: cpu(413), want: &cluster.PodResources{Requests: cpu(413)},
		},
		"a Guaranteed pod with pod-level resources only needs less": {
			level: cluster.PodResources{Requests: cpu(1000), Limits: cpu(1000)}, advice: cpu(413),
			wantRequest: cpu(413), want: &cluster.PodResources{Requests: cpu(413), Limits: cpu(413)},
		},
		"a container has its size already and the pod requests more": {
			level: cluster.PodResources{Requests: cpu(1000)}, requests: cpu(413), advice: cpu(413),
			wantRequest: cpu(413), want: &cluster.PodResources{Requests: cpu(413)},
		},
		"a container without a request that needs more than the pod has": {
			level: cluster.PodResources{Requests: cpu(500)}, advice: cpu(900),
			wantRequest: cpu(900), want: &cluster.PodResources{Requests: cpu(900)},
		},
		"the limit keeps its proportion": {
			level: cluster.PodResources{Requests: cpu(500), Limits: cpu(1000)}, requests: cpu(500), advice: cpu(900),
			wantRequest: cpu(900), want: &cluster.PodResources{Requests: cpu(900), Limits: cpu(1800)},
		},
		"the limit of a container stays below the pod's": {
			level: cluster.PodResources{Requests: cpu(500), Limits: cpu(500)}, requests: cpu(100), limits: cpu(500), advice: cpu(400),
			wantRequest: cpu(400), wantLimit: cpu(400), want: &cluster.PodResources{Requests: cpu(400), Limits: cpu(400)},
		},
		"limits that are left alone hold the request": {
			level: cluster.PodResources{Requests: cpu(500), Limits: cpu(600)}, requests: cpu(500), advice: cpu(900), keepLimits: true,
			wantRequest: cpu(600), want: &cluster.PodResources{Requests: cpu(600)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := advising(c.advice)
			a.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: c.keepLimits}}
			p := podOf(container("app", c.requests, c.limits))
			p.PodLevel = &c.level
			got := policy.Fit(a, admissible.Limits{}, p)
			if got[0].Requests != c.wantRequest || got[0].Limits != c.wantLimit {
				t.Errorf("requests %v limits %v, want %v and %v", got[0].Requests, got[0].Limits, c.wantRequest, c.wantLimit)
			}
			switch {
			case (got[0].PodLevel == nil) != (c.want == nil):
				t.Errorf("pod level %+v, want %+v", got[0].PodLevel, c.want)
			case c.want != nil && *got[0].PodLevel != *c.want:
				t.Errorf("pod level %+v, want %+v", *got[0].PodLevel, *c.want)
			}
			if r := admissible.Refused(admissible.Limits{}, p, got); r.Refused() {
				t.Errorf("refused: %s", r)
			}
		})
	}
}

// With --size-pod-level=false.
func TestFit_podLevelResourcesAreFixed_onlyGrowAsFarAsRequired(t *testing.T) {
	for name, c := range map[string]struct {
		level                    cluster.PodResources
		requests, limits, advice cluster.Resources
		want                     *cluster.PodResources
	}{
		"the container needs less":                 {level: cluster.PodResources{Requests: cpu(500), Limits: cpu(800)}, requests: cpu(400), advice: cpu(100)},
		"the container grows within the request":   {level: cluster.PodResources{Requests: cpu(500)}, requests: cpu(100), advice: cpu(400)},
		"the container has no request":             {level: cluster.PodResources{Requests: cpu(500)}, advice: cpu(400)},
		"the container grows within the limit":     {level: cluster.PodResources{Requests: cpu(500), Limits: cpu(1000)}, requests: cpu(400), advice: cpu(900), want: &cluster.PodResources{Requests: cpu(900)}},
		"the container grows above the limit":      {level: cluster.PodResources{Requests: cpu(500), Limits: cpu(600)}, requests: cpu(400), advice: cpu(900), want: &cluster.PodResources{Requests: cpu(900), Limits: cpu(900)}},
		"the container of a Guaranteed pod grows":  {level: cluster.PodResources{Requests: cpu(500), Limits: cpu(500)}, requests: cpu(400), advice: cpu(900), want: &cluster.PodResources{Requests: cpu(900), Limits: cpu(900)}},
		"the limit of the container would be more": {level: cluster.PodResources{Requests: cpu(500), Limits: cpu(500)}, requests: cpu(100), limits: cpu(500), advice: cpu(400)},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf(container("app", c.requests, c.limits))
			p.PodLevel = &c.level
			p.Fix(cluster.Fixed{PodLevel: true})
			got := policy.Fit(advising(c.advice), admissible.Limits{}, p)
			if got[0].Requests != c.advice {
				t.Errorf("requests %v, want %v", got[0].Requests, c.advice)
			}
			if (got[0].PodLevel == nil) != (c.want == nil) || c.want != nil && *got[0].PodLevel != *c.want {
				t.Errorf("pod level %+v, want %+v", got[0].PodLevel, c.want)
			}
			if r := admissible.Refused(admissible.Limits{}, p, got); r.Refused() {
				t.Errorf("refused: %s", r)
			}
		})
	}
}

// Only what no container without a recommendation can use is taken from the pod.
func TestFit_podLevelResources_keepWhatContainersWithoutRecommendationUse(t *testing.T) {
	other := func(role cluster.ContainerRole, requests cluster.Resources) cluster.Container {
		c := container("other", requests, cluster.Resources{})
		c.Role = role
		return c
	}
	for name, c := range map[string]struct {
		other cluster.Container
		want  cluster.Resources
	}{
		"a container without request":      {other(cluster.Regular, cluster.Resources{}), cpu(600)},
		"a container without advice":       {other(cluster.Regular, cpu(100)), cpu(600)},
		"a sidecar without request":        {other(cluster.Sidecar, cluster.Resources{}), cpu(600)},
		"a sidecar with a request":         {other(cluster.Sidecar, cpu(100)), cpu(300)},
		"an init container with a request": {other(cluster.Init, cpu(350)), cpu(350)},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf(container("app", cpu(600), cluster.Resources{}), c.other)
			p.PodLevel = &cluster.PodResources{Requests: cpu(1000)}
			if got := admissible.PodLevelOf(p, policy.Fit(advising(cpu(200)), admissible.Limits{}, p)); got.Requests != c.want {
				t.Errorf("pod-level request %v, want %v", got.Requests, c.want)
			}
		})
	}
}

func cpu(milli int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, milli) }
func memory(b int64) cluster.Resources  { return cluster.Resources{}.Set(cluster.Memory, b) }

func container(name string, requests, limits cluster.Resources) cluster.Container {
	return cluster.Container{Name: name, Requests: requests, Limits: limits}
}

func podOf(containers ...cluster.Container) *cluster.Pod {
	return &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, Containers: containers}
}

// advising returns an autoscaler that recommends exactly a size for the container app.
func advising(target cluster.Resources) *cluster.Autoscaler {
	return &cluster.Autoscaler{Mode: cluster.Recreate, Advice: []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target},
	}}}
}
