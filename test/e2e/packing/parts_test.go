// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/test/e2e/invariant"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestExcess_moreMovesThanTheGuardMayMake_areReported(t *testing.T) {
	move := func(after time.Duration, node, workload string) change {
		return change{at: noon.Add(after), pod: workload + "-0", node: node, workload: workload}
	}
	for name, c := range map[string]struct {
		moves []change
		want  int
	}{
		"three an hour":                  {[]change{move(0, "a", "v"), move(time.Minute, "a", "w"), move(2*time.Minute, "a", "x")}, 0},
		"two at once from two nodes":     {[]change{move(0, "a", "v"), move(0, "b", "w")}, 0},
		"two at once":                    {[]change{move(0, "a", "v"), move(30*time.Second, "a", "w")}, 1},
		"four an hour from a node":       {[]change{move(0, "a", "v"), move(time.Minute, "a", "w"), move(2*time.Minute, "a", "x"), move(50*time.Minute, "a", "y")}, 1},
		"the fourth after an hour":       {[]change{move(0, "a", "v"), move(time.Minute, "a", "w"), move(2*time.Minute, "a", "x"), move(time.Hour, "a", "y")}, 0},
		"four an hour of one workload":   {[]change{move(0, "a", "v"), move(time.Minute, "b", "v"), move(2*time.Minute, "c", "v"), move(3*time.Minute, "d", "v")}, 1},
		"of several workloads and nodes": {[]change{move(0, "a", "v"), move(0, "b", "v"), move(0, "c", "v"), move(0, "d", "w")}, 0},
	} {
		if got := excess(c.moves); len(got) != c.want {
			t.Errorf("%s: %q, want %d", name, got, c.want)
		}
	}
}

func TestPool_podsAndTime_openAndCloseNodes(t *testing.T) {
	on := func(node string) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	}
	waiting := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}}
	evicted := on("b")
	evicted.Status.Phase = corev1.PodFailed
	p := pool{opened: []string{"a", "b"}, closed: []string{"c"}, since: noon}
	for _, c := range []struct {
		after time.Duration
		pods  []corev1.Pod
		short bool
		close string
	}{
		{time.Second, []corev1.Pod{on("a"), on("b"), waiting}, false, ""}, // the scheduler may not have used node b yet
		{time.Minute, []corev1.Pod{on("a"), on("b"), {}}, false, ""},      // the scheduler has not looked at the pod yet
		{time.Minute, []corev1.Pod{on("a"), on("b"), waiting}, true, ""},
		{2 * time.Minute, []corev1.Pod{on("a"), evicted}, false, ""},
		{4 * time.Minute, []corev1.Pod{on("a"), evicted}, false, "b"},
		{5 * time.Minute, []corev1.Pod{on("a"), on("b")}, false, ""},
		{7 * time.Minute, []corev1.Pod{on("a")}, false, ""}, // not empty for long enough
	} {
		at := noon.Add(c.after)
		short := p.isShort(at, c.pods)
		unused := p.unused(at, c.pods)
		if short != c.short || unused != c.close {
			t.Errorf("after %v: is short: %v, unused: %q; want %v, %q", c.after, short, unused, c.short, c.close)
		}
	}
	if full := (pool{opened: []string{"a"}}); full.isShort(noon, []corev1.Pod{waiting}) {
		t.Error("all nodes are open, and one more is wanted")
	}
}

func TestPlayed_missingSamples_haveTheUsageBefore(t *testing.T) {
	const start = 20_000 * day
	w := replay.Workload{Pods: []string{"vm-0"}, Containers: []string{"main"}, Samples: []replay.Sample{
		{At: start - 2*interval, CPU: 1, Memory: 100, Has: cluster.Both},
		{At: start + interval + 7, CPU: 2, Memory: 300, Has: cluster.Both},
		{At: start + interval + 60, CPU: 4, Memory: 200, Has: cluster.Both},
		{At: start + 2*interval, CPU: 1, Has: cluster.Of(cluster.CPU)},
	}}
	want := []load{{1, 100}, {3, 300}, {1, 300}, {1, 300}}
	if got := played(&w, start); len(got) != intervals || !slices.Equal(got[:4], want) {
		t.Errorf("got %v, want %v", got[:4], want)
	}
}

// The workloads are known for 19 days. Those with an odd number begin three days later. On the 17th day, after the end of the day before as it is played, one
// uses more memory for a short time.
func TestHardestDay_peakOfOneWorkload_isTheDayOfThePeak(t *testing.T) {
	const begin = 20_000 * day
	var all []replay.Workload
	for i := range 2*workloadCount + 2 {
		w := replay.Workload{Key: cluster.Workload{Name: fmt.Sprintf("vm-%02d", i)}, Pods: []string{"a"}, Containers: []string{"main"}}
		for at := int64(begin + i%2*3*day); at < begin+19*day; at += interval {
			memory := 1.0 * (1 << 30)
			if i == 4 && at == begin+16*day+7*3600 {
				memory *= 2
			}
			w.Samples = append(w.Samples, replay.Sample{At: at, CPU: 0.1, Memory: memory, Has: cluster.Both})
		}
		all = append(all, w)
	}
	packed := rules()[1]
	for name, c := range map[string]struct {
		of     []replay.Workload
		day    int64
		second string
	}{
		"with the peak":    {all, 16, "vm-01"},
		"without the peak": {slices.Delete(slices.Clone(all), 4, 5), 15, "vm-02"},
	} {
		got := hardestDay(c.of, &packed)
		if got.from != begin+c.day*day || len(got.machines) != workloadCount || got.machines[1].Key.Name != c.second {
			t.Errorf("%s: day %d with %d workloads, want day %d, and %s as the second", name, (got.from-begin)/day, len(got.machines), c.day, c.second)
		}
	}
	if got := hardestDay(all[:workloadCount-1], &packed); got.machines != nil {
		t.Errorf("%d workloads of too few", len(got.machines))
	}
}

func TestLargestUse_podsFillNodes_isOfTheNodeThatUsesMost(t *testing.T) {
	pods := []machine{{usage: []load{{0, 8 << 30}}}, {usage: []load{{0, 4 << 30}}}, {usage: []load{{0, 16 << 30}}}}
	requests := []cluster.Resources{cluster.Amounts(100, 10<<30), cluster.Amounts(100, 12<<30), cluster.Amounts(5000, 1<<30)}
	const all = float64(allocatableMemory)
	if got := largestUse(pods, requests); got != (28<<30)/all {
		t.Errorf("all on one node: %g", got)
	}
	requests[0].CPU = 3000 // the third pod fills most of the first node
	if got := largestUse(pods, requests); got != (20<<30)/all {
		t.Errorf("on two nodes: %g", got)
	}
}

func TestIsTowardsTarget_resizesOfAPod_areBetweenItsTargets(t *testing.T) {
	of := func(memory int64) map[string]invariant.Amounts {
		return map[string]invariant.Amounts{"main": {"memory": memory}}
	}
	for name, c := range map[string]struct {
		requests []int64
		want     bool
	}{
		"to the target":     {[]int64{300}, true},
		"a part of the way": {[]int64{200, 300}, true},
		"beyond the target": {[]int64{200, 301}, false},
		"below both":        {[]int64{99}, false},
		"no resize":         {nil, true},
	} {
		log := &invariant.Log{
			Autoscalers: []invariant.Autoscaler{
				{Name: "vm-1", Ranges: []invariant.Range{{Target: invariant.Amounts{"memory": 100}}}}, {Name: "vm-1"},
				{Name: "vm-1", Ranges: []invariant.Range{{Target: invariant.Amounts{"memory": 300}}}},
				{Name: "vm-2", Ranges: []invariant.Range{{Target: invariant.Amounts{"memory": 900}}}},
			},
			Writes: []invariant.Write{{Resource: "pods", Subresource: "resize", Name: "vm-2-x", Code: 200, Requests: of(900)}},
		}
		for _, memory := range c.requests {
			log.Writes = append(log.Writes, invariant.Write{Resource: "pods", Subresource: "resize", Name: "vm-1-x", Code: 200, Requests: of(memory)})
		}
		if got := isTowardsTarget(log, "vm-1-x"); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
