// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// qualityBench returns a cluster with one pod and a VPA that recommends 2 cores and 400 bytes, and its recommender.
func qualityBench(t *testing.T) (*bench, *recommender) {
	b := newBench(t)
	a := b.autoscale("web", b.deployment("web", 1, "app"))
	a.Mode = cluster.Off
	a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(2000, 400)}}}
	return b, newRecommender(b.config, b.dependencies())
}

var (
	observedCPU    = []observation{{"cpu", "Off", 2}, {"cpuUnder", "false Off", 1}, {"relative", "false cpu Off", 0.5}}
	observedMemory = []observation{{"mem", "false Off", 400}, {"memOver", "false false Off", 300}, {"relative", "false memory Off", -0.75}}
)

func TestQuality_resourceNotAcceptedOrNotControlled_isNotCompared(t *testing.T) {
	onlyCPU := []cluster.ContainerPolicy{{Container: "app", ControlsSet: true, Controlled: cluster.Of(cluster.CPU)}}
	for name, tt := range map[string]struct {
		accepted cluster.Set
		policies []cluster.ContainerPolicy
		other    bool // the pod has another workload
		want     []observation
	}{
		"only CPU accepted":    {accepted: cluster.Of(cluster.CPU), want: observedCPU},
		"only memory accepted": {accepted: cluster.Of(cluster.Memory), want: observedMemory},
		"only CPU controlled":  {accepted: cluster.Both, policies: onlyCPU, want: observedCPU},
		"no VPA":               {accepted: cluster.Both, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, r := qualityBench(t)
			b.autoscalers[0].Policies = tt.policies
			if tt.other {
				b.pods[0].Top.Name = "other"
			}
			r.quality(r.look(b.Snapshot()), b.pods[0], &usage.Sample{Container: "app", CPU: 3, Memory: 100}, tt.accepted, false)
			if got := observations(t, &r.metrics.quality); !slices.Equal(got, tt.want) {
				t.Errorf("observed %v, want %v", got, tt.want)
			}
		})
	}
}

func TestQualityOfOOM_onlyOOMKilledControlledContainers_areCompared(t *testing.T) {
	oomKill := &cluster.Exit{OOM: true}
	for name, tt := range map[string]struct {
		exit     *cluster.Exit
		policies []cluster.ContainerPolicy
		want     []observation
	}{
		"OOM-killed":            {exit: oomKill, want: []observation{{"mem", "true Off", 400}, {"memUnder", "true false Off", 200}, {"relative", "true memory Off", 0.5}}},
		"not terminated":        {},
		"terminated otherwise":  {exit: &cluster.Exit{}},
		"memory not controlled": {exit: oomKill, policies: []cluster.ContainerPolicy{{Container: "app", ControlsSet: true, Controlled: cluster.Of(cluster.CPU)}}},
	} {
		t.Run(name, func(t *testing.T) {
			b, r := qualityBench(t)
			b.autoscalers[0].Policies = tt.policies
			c := &b.pods[0].Containers[0]
			c.Requests = cluster.Amounts(100, 600)
			c.Exit = tt.exit
			r.qualityOfOOM(r.look(b.Snapshot()), b.pods[0])
			if got := observations(t, &r.metrics.quality); !slices.Equal(got, tt.want) {
				t.Errorf("observed %v, want %v", got, tt.want)
			}
		})
	}
}
