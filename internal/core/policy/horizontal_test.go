// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// scaledBy returns an autoscaler of a workload that one HPA scales by metrics.
func scaledBy(a *cluster.Autoscaler, metrics ...cluster.UtilizationTarget) *cluster.Autoscaler {
	return a.WithHorizontal([]*cluster.HorizontalAutoscaler{{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: a.Target, Utilization: metrics}})
}

// preserving returns the autoscaler with the opt-in annotation, and with records on its HPAs.
func preserving(a *cluster.Autoscaler, points ...cluster.ScalePoint) *cluster.Autoscaler {
	b := *a
	b.PreserveScalePoint = true
	h := *a.Horizontal[0]
	h.Points = points
	b.Horizontal = []*cluster.HorizontalAutoscaler{&h}
	return &b
}

func TestHorizontalOf_metricsAndRecords_determineTheState(t *testing.T) {
	cpu80 := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80}
	app80 := cluster.UtilizationTarget{Resource: cluster.CPU, Container: "app", Percent: 80}
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 80}
	stopped := point
	stopped.Resets = cluster.MostResets
	web := recommend()
	for name, c := range map[string]struct {
		a         *cluster.Autoscaler
		container string
		res       cluster.Resource
		want      HorizontalState
	}{
		"no HPA":                                    {web, "app", cluster.CPU, NotScaled},
		"HPA of the pod's CPU":                      {scaledBy(web, cpu80), "app", cluster.CPU, LeftToHPA},
		"other resource":                            {scaledBy(web, cpu80), "app", cluster.Memory, NotScaled},
		"HPA of one container's CPU":                {scaledBy(web, app80), "app", cluster.CPU, LeftToHPA},
		"other container":                           {scaledBy(web, app80), "log", cluster.CPU, NotScaled},
		"opt-in without record":                     {preserving(scaledBy(web, cpu80)), "app", cluster.CPU, ScalePointMissing},
		"opt-in with record":                        {preserving(scaledBy(web, cpu80), point), "app", cluster.CPU, ScalePointPreserved},
		"opt-in, overwritten by others":             {preserving(scaledBy(web, cpu80), stopped), "app", cluster.CPU, ScalePointStopped},
		"opt-in, two metrics of the same container": {preserving(scaledBy(web, cpu80, app80), point), "app", cluster.CPU, SeveralMetrics},
		"opt-in, two metrics, other container":      {preserving(scaledBy(web, cpu80, app80), point), "log", cluster.CPU, ScalePointPreserved},
		"HPA of another workload": {
			web.WithHorizontal([]*cluster.HorizontalAutoscaler{{Target: cluster.Workload{Name: "other"}, Utilization: []cluster.UtilizationTarget{cpu80}}}),
			"app", cluster.CPU, NotScaled,
		},
	} {
		if got, _ := HorizontalOf(c.a, c.container, c.res); got != c.want {
			t.Errorf("%s: state %q, want %q", name, got, c.want)
		}
	}
}

func TestFit_resourceScaledByHPA_isLeftAlone(t *testing.T) {
	a := recommend(exactly("app", of(250, 300*mi)))
	cpu80 := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80}
	memory80 := cluster.UtilizationTarget{Resource: cluster.Memory, Percent: 80}
	p := podOf(container("app", of(100, 100*mi), of(200, 200*mi)))
	for name, c := range map[string]struct {
		a                *cluster.Autoscaler
		requests, limits cluster.Resources
	}{
		"CPU":    {scaledBy(a, cpu80), cluster.Resources{}.Set(cluster.Memory, 300*mi), cluster.Resources{}.Set(cluster.Memory, 600*mi)},
		"memory": {scaledBy(a, memory80), cpu(250), cpu(500)},
		"both":   {a: scaledBy(a, cpu80, memory80)},
	} {
		fits := Fit(c.a, Limits{}, p)
		if c.requests.Has.Empty() {
			if len(fits) != 0 {
				t.Errorf("%s: got %+v, want no change", name, fits)
			}
			continue
		}
		if len(fits) != 1 || fits[0].Requests != c.requests || fits[0].Limits != c.limits {
			t.Errorf("%s: got %+v", name, fits)
		}
	}
}

// A LimitRange for pods makes Fit include the other containers, and may change them. The request by which an HPA scales is not among
// their amounts.
func TestFit_podLimitRange_doesNotSetTheRequestOfTheHPA(t *testing.T) {
	a := scaledBy(recommend(exactly("app", of(250, 300*mi))), cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80})
	p := podOf(container("app", of(100, 100*mi), of(200, 200*mi)), container("log", of(100, 100*mi), of(200, 200*mi)))
	fits := Fit(a, Limits{Range: cluster.LimitRange{Pod: cluster.Range{Max: of(300, 500*mi)}}}, p)
	if len(fits) != 2 {
		t.Fatalf("got %+v, want both containers", fits)
	}
	for _, f := range fits {
		if f.Requests.Has.Has(cluster.CPU) || f.Limits.Has.Has(cluster.CPU) {
			t.Errorf("container %s: CPU is set: %+v", f.Container, f)
		}
	}
}

func TestFit_scalePointRecorded_keepsTheRequestInItsRange(t *testing.T) {
	whole := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80}
	app := cluster.UtilizationTarget{Resource: cluster.CPU, Container: "app", Percent: 80}
	// 80 % of 500m is 400m: 90 % of 445m, 50 % of 800m.
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 80}
	appPoint := point
	appPoint.Container = "app"
	one := podOf(container("app", cpu(500), cluster.Resources{}))
	two := podOf(container("app", cpu(300), cluster.Resources{}), container("log", cpu(200), cluster.Resources{}))
	for name, c := range map[string]struct {
		metric cluster.UtilizationTarget
		point  cluster.ScalePoint
		pod    *cluster.Pod
		advice []cluster.Advice
		policy cluster.ContainerPolicy
		want   map[string]int64 // CPU requests; a container that is absent is not changed
	}{
		"within the range":         {whole, point, one, []cluster.Advice{exactly("app", cpu(600))}, cluster.ContainerPolicy{}, map[string]int64{"app": 600}},
		"above the range":          {whole, point, one, []cluster.Advice{exactly("app", cpu(1000))}, cluster.ContainerPolicy{}, map[string]int64{"app": 800}},
		"below the range":          {whole, point, one, []cluster.Advice{exactly("app", cpu(100))}, cluster.ContainerPolicy{}, map[string]int64{"app": 445}},
		"sum of two above":         {whole, point, two, []cluster.Advice{exactly("app", cpu(1200)), exactly("log", cpu(400))}, cluster.ContainerPolicy{}, map[string]int64{"app": 600, "log": 200}},
		"other container is fixed": {whole, point, two, []cluster.Advice{exactly("app", cpu(1200))}, cluster.ContainerPolicy{}, map[string]int64{"app": 600}},
		"one container's metric":   {app, appPoint, two, []cluster.Advice{exactly("app", cpu(1200)), exactly("log", cpu(400))}, cluster.ContainerPolicy{}, map[string]int64{"app": 800, "log": 400}},
		"minAllowed above the range": {
			whole, point, one, []cluster.Advice{exactly("app", cpu(1000))}, cluster.ContainerPolicy{Container: "app", MinAllowed: cpu(900)}, nil,
		},
	} {
		a := recommend(c.advice...)
		if c.policy.Container != "" {
			a.Policies = []cluster.ContainerPolicy{c.policy}
		}
		got := map[string]int64{}
		for _, f := range Fit(preserving(scaledBy(a, c.metric), c.point), Limits{}, c.pod) {
			got[f.Container] = f.Requests.CPU
			if e := f.Estimate; e.Lower.CPU > e.Target.CPU || e.Upper.CPU < e.Target.CPU {
				t.Errorf("%s: bounds of %s are not in order: %+v", name, f.Container, e)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		for container, want := range c.want {
			if got[container] != want {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
	}
}
