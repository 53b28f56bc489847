// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rescue

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

const gib = 1 << 30

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// killedPod returns a pod of a controller with a memory request of 1 GiB and no limit, that was OOM-killed a minute ago after 20 s.
func killedPod(controller cluster.Workload, n int) *cluster.Pod {
	name := fmt.Sprint(controller.Name, "-", n)
	return &cluster.Pod{
		Key: cluster.Key{Namespace: controller.Namespace, Name: name}, UID: controller.Namespace + name, Controller: controller, Top: controller,
		Node: "n", Phase: cluster.Running, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), ReadySince: noon.Add(-time.Minute),
		Crash: &cluster.Crash{Labels: []string{"app=" + controller.Name}},
		Containers: []cluster.Container{{
			Name: "app", Requests: cluster.Amounts(1000, gib),
			Exit: &cluster.Exit{OOM: true, Kills: 3, Started: noon.Add(-80 * time.Second), Finished: noon.Add(-time.Minute)},
		}},
	}
}

// fits returns a recommendation with a memory request.
func fits(memory int64) []policy.Fitted {
	return []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1000, memory)}}
}

func TestKillOf_containerGetsMoreMemory(t *testing.T) {
	observed := "other"
	for name, c := range map[string]struct {
		change func(*cluster.Pod, *cluster.Autoscaler)
		fits   []policy.Fitted
		to     int64 // 0: no kill
		limit  bool
	}{
		"without a limit, the request grows": {fits: fits(2 * gib), to: 2 * gib},
		"the request does not grow":          {fits: fits(gib)},
		"it grows by less than a page":       {fits: fits(gib + 4096)},
		"it shrinks":                         {fits: fits(gib / 2)},
		"no recommendation":                  {},
		"another container":                  {fits: []policy.Fitted{{Container: "other", Requests: cluster.Amounts(1000, 2*gib)}}},
		"without a memory recommendation":    {fits: []policy.Fitted{{Container: "app", Requests: cluster.Resources{}.Set(cluster.CPU, 2000)}}},
		"the limit grows": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) { p.Containers[0].Limits = cluster.Amounts(2000, 3*gib) },
			fits:   []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1000, gib), Limits: cluster.Amounts(2000, 4*gib)}}, to: 4 * gib, limit: true,
		},
		"the limit is kept": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) { p.Containers[0].Limits = cluster.Amounts(2000, 3*gib) },
			fits:   fits(2 * gib),
		},
		"the limit of the pod grows": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.PodLevel = &cluster.PodResources{Limits: cluster.Amounts(2000, 3*gib)}
			},
			fits: []policy.Fitted{{
				Container: "app", Requests: cluster.Amounts(1000, gib), PodLevel: &cluster.PodResources{Limits: cluster.Resources{}.Set(cluster.Memory, 5*gib)},
			}},
			to: 5 * gib, limit: true,
		},
		"the limit of the pod is kept": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.PodLevel = &cluster.PodResources{Limits: cluster.Amounts(2000, 3*gib)}
			},
			fits: fits(2 * gib),
		},
		"the pod has a request and no limit": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(2000, 3*gib)}
			},
			fits: fits(2 * gib), to: 2 * gib,
		},
		"the limit of the container is below that of the pod": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.Containers[0].Limits = cluster.Amounts(2000, 2*gib)
				p.PodLevel = &cluster.PodResources{Limits: cluster.Amounts(2000, 9*gib)}
			},
			fits: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1000, gib), Limits: cluster.Amounts(2000, 4*gib)}}, to: 4 * gib, limit: true,
		},
		"during a resize, the actual request counts": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(1000, 2*gib)}
			},
			fits: fits(2 * gib),
		},
		"almost too long ago": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.Containers[0].Exit.Finished = noon.Add(-10*time.Minute + 1)
			},
			fits: fits(2 * gib), to: 2 * gib,
		},
		"too long ago": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.Containers[0].Exit.Finished = noon.Add(-10 * time.Minute)
			},
			fits: fits(2 * gib),
		},
		"long ago, but it has not restarted since": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) {
				p.Containers[0].Exit.Finished = noon.Add(-time.Hour)
				p.Containers[0].Exit.Now = true
			},
			fits: fits(2 * gib), to: 2 * gib,
		},
		"it did not exit": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) { p.Containers[0].Exit = nil }, fits: fits(2 * gib),
		},
		"it exited by itself": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) { p.Containers[0].Exit.OOM = false }, fits: fits(2 * gib),
		},
		"a sidecar that is not sized": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) { p.Containers[0].Role = cluster.FixedSidecar }, fits: fits(2 * gib),
		},
		"the webhook did not observe it": {
			change: func(p *cluster.Pod, _ *cluster.Autoscaler) { p.Marks = &cluster.Marks{Observed: &observed} }, fits: fits(2 * gib),
		},
		"its policy is Off": {
			change: func(_ *cluster.Pod, a *cluster.Autoscaler) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}}
			},
			fits: fits(2 * gib),
		},
	} {
		p := killedPod(web, 0)
		a := &cluster.Autoscaler{}
		if c.change != nil {
			c.change(p, a)
		}
		kill, ok := KillOf(noon, 10*time.Minute, a, p, c.fits)
		switch {
		case ok != (c.to > 0):
			t.Errorf("%s: found %v, %+v", name, ok, kill)
		case ok && (kill.To != c.to || kill.AtLimit != c.limit || kill.Container != &p.Containers[0]):
			t.Errorf("%s: %+v, want %d bytes, at a limit %v", name, kill, c.to, c.limit)
		}
	}
}

func TestKillOf_severalContainers_firstThatGetsMore(t *testing.T) {
	p := killedPod(web, 0)
	p.Containers = append(p.Containers, p.Containers[0])
	p.Containers[1].Name = "cache"
	with := append(fits(gib), policy.Fitted{Container: "cache", Requests: cluster.Amounts(1000, 2*gib)})
	kill, ok := KillOf(noon, 10*time.Minute, &cluster.Autoscaler{}, p, with)
	if !ok || kill.Container != &p.Containers[1] || kill.Lived != 20*time.Second {
		t.Errorf("found %v, %+v", ok, kill)
	}
}
