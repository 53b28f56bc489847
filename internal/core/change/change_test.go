// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package change

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

func TestTotal_initContainers_countWithEarlierSidecars(t *testing.T) {
	of := func(name string, role cluster.ContainerRole, cpu int64) cluster.Container {
		return cluster.Container{Name: name, Role: role, Requests: cluster.Amounts(cpu, cpu)}
	}
	app, log := of("app", cluster.Regular, 300), of("log", cluster.Regular, 100)
	for name, c := range map[string]struct {
		containers []cluster.Container
		want       int64
	}{
		"containers alone":                  {[]cluster.Container{app, log}, 400},
		"a small init container":            {[]cluster.Container{app, log, of("setup", cluster.Init, 200)}, 400},
		"a large one":                       {[]cluster.Container{app, log, of("setup", cluster.Init, 900)}, 900},
		"one after the other":               {[]cluster.Container{app, of("a", cluster.Init, 250), of("b", cluster.Init, 500)}, 500},
		"a sidecar":                         {[]cluster.Container{app, of("mesh", cluster.Sidecar, 50)}, 350},
		"an init container after a sidecar": {[]cluster.Container{app, of("mesh", cluster.Sidecar, 50), of("setup", cluster.Init, 500)}, 550},
		"one before it":                     {[]cluster.Container{app, of("setup", cluster.Init, 500), of("mesh", cluster.Sidecar, 50)}, 500},
	} {
		if got := Total(&cluster.Pod{Containers: c.containers}, nil); got != cluster.Amounts(c.want, c.want) {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
	fits := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(700, 700)}}
	if got := Total(&cluster.Pod{Containers: []cluster.Container{app, of("app", cluster.Init, 100)}}, fits); got != cluster.Amounts(700, 700) {
		t.Errorf("with a new size: %v", got)
	}
}

// A LimitRange that is younger than a pod adds its defaults at a resize, which may change the QoS class to Guaranteed.
func TestChangesQoS_defaultsOfLimitRange_count(t *testing.T) {
	pod := &cluster.Pod{QoS: cluster.Burstable, Containers: []cluster.Container{
		{Name: "app", Requests: cluster.Amounts(100, 1<<20)}, {Name: "log", Requests: cluster.Resources{}.Set(cluster.Memory, 1<<20)},
	}}
	size := cluster.Amounts(200, 2<<20)
	fits := []policy.Fitted{{Container: "app", Requests: size, Limits: size}}
	if ChangesQoS(policy.Limits{}, pod, fits) {
		t.Error("without a LimitRange the QoS class must stay Burstable")
	}
	one := cluster.Amounts(100, 1<<20)
	if !ChangesQoS(policy.Limits{Range: cluster.LimitRange{Container: cluster.Range{Default: one}, DefaultRequest: one}}, pod, fits) {
		t.Error("with the defaults of the LimitRange the QoS class must become Guaranteed")
	}
}
