// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/scalepoint"
)

func TestAverageOf_pods_countsLivePodsWithTheRequest(t *testing.T) {
	u := &cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80}
	pod := func(uid string, phase cluster.Phase, cs ...cluster.Container) *cluster.Pod {
		p := podOf(cs...)
		p.UID, p.Phase = uid, phase
		return p
	}
	boosted := container("app", cpu(900), cluster.Resources{})
	boosted.Boosted = &cluster.Applied{Requests: cpu(300)}
	job := container("setup", cpu(5000), cluster.Resources{})
	job.Role = cluster.Init
	proxy := container("proxy", cpu(100), cluster.Resources{})
	proxy.Role = cluster.Sidecar
	app := func(v int64) cluster.Container { return container("app", cpu(v), cluster.Resources{}) }
	for name, c := range map[string]struct {
		pods    []*cluster.Pod
		changes map[string][]Fitted
		want    scalepoint.Average
	}{
		"none":                       {},
		"finished and without":       {pods: []*cluster.Pod{pod("a", cluster.Failed, app(100)), pod("b", cluster.Running, container("app", cluster.Resources{}, cluster.Resources{}))}},
		"init container and sidecar": {pods: []*cluster.Pod{pod("a", cluster.Running, job, proxy, app(200))}, want: scalepoint.Average{Now: 300, Lowest: 300}},
		"boosted":                    {pods: []*cluster.Pod{pod("a", cluster.Running, boosted), pod("b", cluster.Running, app(300))}, want: scalepoint.Average{Now: 300, Lowest: 300}},
		"one shrinks": {
			[]*cluster.Pod{pod("a", cluster.Running, app(300)), pod("b", cluster.Running, app(300))},
			map[string][]Fitted{"b": {{Container: "app", Requests: cpu(100)}}}, scalepoint.Average{Now: 300, Lowest: 200},
		},
		"one grows": {
			[]*cluster.Pod{pod("a", cluster.Running, app(300)), pod("b", cluster.Running, app(300))},
			map[string][]Fitted{"b": {{Container: "app", Requests: cpu(900)}}}, scalepoint.Average{Now: 300, Lowest: 300},
		},
	} {
		if got := AverageOf(u, c.pods, c.changes); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
