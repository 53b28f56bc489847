// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestFit_sizeRefusedByAPIServer_isChangedToAdmittedSize(t *testing.T) {
	type policy = cluster.ContainerPolicy
	for name, c := range map[string]struct {
		requests, limits, advice cluster.Resources
		policy                   policy
		limit                    cluster.LimitRange
		wantRequests, wantLimits cluster.Resources
	}{
		"maxAllowed below the minimum of a LimitRange": {
			requests: cpu(200), advice: cpu(300), policy: policy{MaxAllowed: cpu(50)},
			limit:        cluster.LimitRange{Container: cluster.Range{Min: cpu(100)}},
			wantRequests: cpu(100),
		},
		"maxAllowed below the minimum of a LimitRange: the limit keeps its proportion": {
			requests: cpu(200), limits: cpu(400), advice: cpu(300), policy: policy{MaxAllowed: cpu(40)},
			limit:        cluster.LimitRange{Container: cluster.Range{Min: cpu(100)}},
			wantRequests: cpu(100), wantLimits: cpu(200),
		},
		"minAllowed above the maximum of a LimitRange": {
			requests: cpu(200), limits: cpu(400), advice: cpu(300), policy: policy{MinAllowed: cpu(900)},
			limit:        cluster.LimitRange{Container: cluster.Range{Max: cpu(500)}},
			wantRequests: cpu(500), wantLimits: cpu(500),
		},
		"a request above the default limit that the LimitRange adds": {
			requests: cpu(500), advice: cpu(900), policy: policy{RequestsOnly: true},
			limit:        cluster.LimitRange{Container: cluster.Range{Default: cpu(600)}},
			wantRequests: cpu(600),
		},
		"a ratio, where limits are left alone": {
			requests: cpu(300), limits: cpu(600), advice: cpu(100), policy: policy{RequestsOnly: true},
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
			a := recommend(exactly("app", c.advice))
			a.Policies = []policy{c.policy}
			p, l := podOf(container("app", c.requests, c.limits)), Limits{Range: c.limit}
			if r := Refused(l, p, nil); r.Refused() {
				t.Fatalf("the pod is refused without fits: %s", r)
			}
			got := Fit(a, l, p)
			if got[0].Requests != c.wantRequests || got[0].Limits != c.wantLimits {
				t.Errorf("requests %v limits %v, want %v and %v", got[0].Requests, got[0].Limits, c.wantRequests, c.wantLimits)
			}
			if r := Refused(l, p, got); r.Refused() {
				t.Errorf("still refused: %s", r)
			}
			if text := Annotation(a, got); !strings.Contains(text, "cpu capped to what the API server admits") {
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
		if got := Refused(Limits{Range: c.limit}, podOf(container("app", c.requests, c.limits)), nil).String(); got != c.want {
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
		"the request grows by as much as the container": {
			level: cluster.PodResources{Requests: cpu(500)}, requests: cpu(400), advice: cpu(900),
			wantRequest: cpu(900), want: &cluster.PodResources{Requests: cpu(1000)},
		},
		"the request shrinks by as much as the container": {
			level: cluster.PodResources{Requests: cpu(500)}, requests: cpu(400), advice: cpu(100),
			wantRequest: cpu(100), want: &cluster.PodResources{Requests: cpu(200)},
		},
		"a container without a request gets one out of the pod's": {
			level: cluster.PodResources{Requests: cpu(500)}, advice: cpu(300), wantRequest: cpu(300),
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
			wantRequest: cpu(400), wantLimit: cpu(800), want: &cluster.PodResources{Requests: cpu(800), Limits: cpu(800)},
		},
		"limits that are left alone hold the request": {
			level: cluster.PodResources{Requests: cpu(500), Limits: cpu(600)}, requests: cpu(500), advice: cpu(900), keepLimits: true,
			wantRequest: cpu(600), want: &cluster.PodResources{Requests: cpu(600)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := recommend(exactly("app", c.advice))
			a.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: c.keepLimits}}
			p := podOf(container("app", c.requests, c.limits))
			p.PodLevel = &c.level
			got := Fit(a, Limits{}, p)
			if got[0].Requests != c.wantRequest || got[0].Limits != c.wantLimit {
				t.Errorf("requests %v limits %v, want %v and %v", got[0].Requests, got[0].Limits, c.wantRequest, c.wantLimit)
			}
			switch {
			case (got[0].PodLevel == nil) != (c.want == nil):
				t.Errorf("pod level %+v, want %+v", got[0].PodLevel, c.want)
			case c.want != nil && *got[0].PodLevel != *c.want:
				t.Errorf("pod level %+v, want %+v", *got[0].PodLevel, *c.want)
			}
			if r := Refused(Limits{}, p, got); r.Refused() {
				t.Errorf("refused: %s", r)
			}
		})
	}
}

func TestAnnotation_podLevelResources_areNamed(t *testing.T) {
	a := recommend(exactly("app", cpu(900)))
	p := podOf(container("app", cpu(500), cluster.Resources{}))
	p.PodLevel = &cluster.PodResources{Requests: cpu(500), Limits: cpu(1000)}
	want := "Pod resources updated by cart: container 0: cpu request; pod: cpu request, cpu limit"
	if got := Annotation(a, Fit(a, Limits{}, p)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Admissible does not change admitted sizes, and a second call has the same result.
func TestAdmissible_admittedSizes_stayAsTheyAre(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t, names)
		for i := range p.Containers {
			p.Containers[i].Applied = nil
		}
		if rapid.Bool().Draw(t, "pod level") {
			p.PodLevel = &cluster.PodResources{Requests: drawResources(t, "pod request"), Limits: drawResources(t, "pod limit")}
		}
		l := Limits{Range: cluster.LimitRange{Pod: drawRange(t, "pod range"), Container: drawRange(t, "container range")}}
		fits := Fit(drawAutoscaler(t, names), l, p)
		if len(fits) == 0 || Refused(l, p, fits).Refused() {
			return
		}
		before := make([]Fitted, len(fits))
		copy(before, fits)
		Admissible(l, p, fits)
		for i := range fits {
			if fits[i].Requests != before[i].Requests || fits[i].Limits != before[i].Limits {
				t.Fatalf("%+v was changed to %+v", before[i], fits[i])
			}
		}
	})
}
