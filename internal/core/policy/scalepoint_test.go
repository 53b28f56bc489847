// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestNextScaleStep_recordsAndPods_determineTheTarget(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	at := func(percent, set int32, resets int, age time.Duration) cluster.ScalePoint {
		p := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: percent, Set: set, Resets: resets}
		if resets > 0 {
			p.ResetAt = now.Add(-age)
		}
		return p
	}
	one := func(p cluster.ScalePoint) []cluster.ScalePoint { return []cluster.ScalePoint{p} }
	for name, c := range map[string]struct {
		percent int32
		points  []cluster.ScalePoint
		wanted  bool
		average AverageRequest
		due     bool
		target  int32 // 0: unchanged
		after   []cluster.ScalePoint
		stopped bool
	}{
		"not wanted":                     {percent: 80, average: AverageRequest{500, 500}},
		"no pods":                        {percent: 80, wanted: true},
		"first record":                   {percent: 80, wanted: true, average: AverageRequest{500, 400}, due: true, after: one(at(80, 80, 0, 0))},
		"nothing changes":                {80, one(at(80, 80, 0, 0)), true, AverageRequest{500, 500}, false, 0, one(at(80, 80, 0, 0)), false},
		"pods will shrink":               {80, one(at(80, 80, 0, 0)), true, AverageRequest{500, 460}, true, 87, one(at(80, 87, 0, 0)), false},
		"pods have grown":                {80, one(at(80, 80, 0, 0)), true, AverageRequest{640, 640}, true, 63, one(at(80, 63, 0, 0)), false},
		"scaled to zero":                 {63, one(at(80, 63, 0, 0)), true, AverageRequest{}, false, 0, one(at(80, 63, 0, 0)), false},
		"reset by others":                {80, one(at(80, 63, 0, 0)), true, AverageRequest{640, 640}, true, 63, one(at(80, 63, 1, 0)), false},
		"reset for the last time":        {80, one(at(80, 63, 2, time.Hour)), true, AverageRequest{640, 640}, true, 0, one(at(80, 80, 3, 0)), true},
		"earlier resets are old":         {80, one(at(80, 63, 2, 25*time.Hour)), true, AverageRequest{640, 640}, true, 63, one(at(80, 63, 1, 0)), false},
		"stopped":                        {75, one(at(80, 80, 3, time.Hour)), true, AverageRequest{640, 640}, false, 0, one(at(80, 80, 3, time.Hour)), false},
		"stopped, opt-in removed":        {percent: 75, points: one(at(80, 80, 3, time.Hour)), average: AverageRequest{640, 640}, due: true},
		"opt-in removed, pods are new":   {63, one(at(80, 63, 0, 0)), false, AverageRequest{640, 640}, false, 0, one(at(80, 63, 0, 0)), false},
		"opt-in removed, pods are mixed": {63, one(at(80, 63, 0, 0)), false, AverageRequest{570, 570}, true, 71, one(at(80, 71, 0, 0)), false},
		"opt-in removed, pods are back":  {percent: 71, points: one(at(80, 71, 0, 0)), average: AverageRequest{500, 500}, due: true, target: 80},
		"opt-in removed, no pods":        {percent: 71, points: one(at(80, 71, 0, 0)), due: true, target: 80},
	} {
		h := &cluster.HorizontalAutoscaler{Utilization: []cluster.UtilizationTarget{{Index: 2, Resource: cluster.CPU, Percent: c.percent}}, Points: c.points}
		step, due := NextScaleStep(now, h, []MetricRequest{{AverageRequest: c.average, Wanted: c.wanted}})
		if due != c.due || step.Targets[2] != c.target || step.Stopped != c.stopped {
			t.Errorf("%s: due %t, targets %v, stopped %t; want %t, %d, %t", name, due, step.Targets, step.Stopped, c.due, c.target, c.stopped)
		}
		if diff := cmp.Diff(c.after, step.Points); diff != "" {
			t.Errorf("%s: records (-want +got):\n%s", name, diff)
		}
	}
}

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
		want    AverageRequest
	}{
		"none":                       {},
		"finished and without":       {pods: []*cluster.Pod{pod("a", cluster.Failed, app(100)), pod("b", cluster.Running, container("app", cluster.Resources{}, cluster.Resources{}))}},
		"init container and sidecar": {pods: []*cluster.Pod{pod("a", cluster.Running, job, proxy, app(200))}, want: AverageRequest{300, 300}},
		"boosted":                    {pods: []*cluster.Pod{pod("a", cluster.Running, boosted), pod("b", cluster.Running, app(300))}, want: AverageRequest{300, 300}},
		"one shrinks": {
			[]*cluster.Pod{pod("a", cluster.Running, app(300)), pod("b", cluster.Running, app(300))},
			map[string][]Fitted{"b": {{Container: "app", Requests: cpu(100)}}}, AverageRequest{300, 200},
		},
		"one grows": {
			[]*cluster.Pod{pod("a", cluster.Running, app(300)), pod("b", cluster.Running, app(300))},
			map[string][]Fitted{"b": {{Container: "app", Requests: cpu(900)}}}, AverageRequest{300, 300},
		},
	} {
		if got := AverageOf(u, c.pods, c.changes); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
