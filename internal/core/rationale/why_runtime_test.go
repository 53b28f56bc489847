// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

func TestRuntimeLine_eachRuntime_saysWhatItMakesOfTheAmount(t *testing.T) {
	request := func(v int64) Amounts { return Amounts{Request: v, HasRequest: true} }
	jvm := func(r cluster.Runtime) *cluster.Runtime {
		r.Kind, r.Evidence = cluster.JVM, cluster.ByCommand
		return &r
	}
	guarded := []policy.Bound{{Resource: cluster.CPU, Kind: policy.JVMShare, Before: 995, After: 1001}}
	for name, c := range map[string]struct {
		why  Why
		want string
	}{
		"unknown runtime": {why: Why{Resource: cluster.Memory, Size: request(2), Present: request(1)}},
		"no size":         {why: Why{Resource: cluster.Memory, Present: request(1), Runtime: jvm(cluster.Runtime{})}},
		"memory stays":    {why: Why{Resource: cluster.Memory, Size: request(1), Present: request(1), Runtime: jvm(cluster.Runtime{HeapBytes: gib})}},
		"-Xmx": {Why{Resource: cluster.Memory, Size: request(2), Present: request(1), Runtime: jvm(cluster.Runtime{HeapBytes: gib}), Restarts: true},
			"the options of the JVM set a heap of 1Gi; another request does not change it"},
		"percent": {Why{Resource: cluster.Memory, Size: request(2), Present: request(1), Runtime: jvm(cluster.Runtime{HeapPercent: 75})},
			"the JVM takes its heap, 75 % of the memory limit, when it starts; a resize without a restart does not change it"},
		"percent, with a restart": {why: Why{Resource: cluster.Memory, Size: request(2), Present: request(1), Runtime: jvm(cluster.Runtime{HeapPercent: 75}), Restarts: true}},
		"another limit": {Why{Resource: cluster.Memory, Size: Amounts{1, 4, true, true}, Present: Amounts{1, 2, true, true}, Runtime: jvm(cluster.Runtime{})},
			"a JVM chooses its heap when it starts; a resize without a restart does not change it"},
		"memory of Go":     {why: Why{Resource: cluster.Memory, Size: request(2), Present: request(1), Runtime: &cluster.Runtime{Kind: cluster.GoRuntime}}},
		"a guarded amount": {Why{Resource: cluster.CPU, Size: request(1001), Present: request(1001), Bounds: guarded, Runtime: jvm(cluster.Runtime{})}, "a JVM may read a request from 989m to 1000m as all cores of the node"},
		"no guard": {Why{Resource: cluster.CPU, Size: request(2550), Runtime: jvm(cluster.Runtime{})},
			"a JVM may read a request from 2538m to 2562m as all cores of the node. To avoid these, annotate the VPA with podfit.dev/runtime-guards=cpu"},
		"no guard, a limit":     {why: Why{Resource: cluster.CPU, Size: Amounts{1000, 2000, true, true}, Runtime: jvm(cluster.Runtime{})}},
		"outside of the ranges": {why: Why{Resource: cluster.CPU, Size: request(500), Runtime: jvm(cluster.Runtime{})}},
		"the number is set": {Why{Resource: cluster.CPU, Size: request(1000), Present: request(500), Runtime: jvm(cluster.Runtime{CPUCountSet: true})},
			"-XX:ActiveProcessorCount sets the number of processors; another request does not change it"},
		"the number of Go is set": {Why{Resource: cluster.CPU, Size: request(1000), Present: request(500), Runtime: &cluster.Runtime{Kind: cluster.GoRuntime, Evidence: cluster.ByLabel, CPUCountSet: true}},
			"GOMAXPROCS sets the number of processors; another request does not change it"},
		"the number is set, no change": {why: Why{Resource: cluster.CPU, Size: request(1000), Present: request(1000), Runtime: jvm(cluster.Runtime{CPUCountSet: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.why.runtimeLine()
			if got.What != c.want || (got.Note == "") != (c.want == "") {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

// The guards, from the recommendation to the text.
func TestWhy_jvmWithGuards_explainsTheRaisedAmounts(t *testing.T) {
	s := cartScene()
	s.Autoscaler.Horizontal = nil
	s.Autoscaler.Guards = cluster.RuntimeGuards{CPU: true, Memory: true}
	s.Autoscaler.Policies = []cluster.ContainerPolicy{{Container: "app", MinAllowed: cluster.Amounts(990, 1)}}
	s.Pod.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM, Evidence: cluster.ByImage, HeapBytes: 3 * gib}}}
	text := s.why()
	for _, want := range []string{
		"1001m of CPU (was 500m)", "range that a JVM misreads raises it to 1001m", "a JVM may read a request from 989m to 1000m as all cores of the node",
		"3072Mi of memory (was 1Gi)", "heap of the JVM 3072Mi raises it to 3072Mi", "the options of the JVM set a heap of 3072Mi; another request does not change it",
		"detected by its image",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
