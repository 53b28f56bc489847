// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"math"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/usage"
)

const mi = 1 << 20

// heapOf returns the usage of a JVM with a ceiling of 1 GiB, of which it needs a part.
func heapOf() *runtimeguard.HeapUsage {
	return &runtimeguard.HeapUsage{Hours: 160, Collected: 100 * mi, Collections: 4, Lowest: 140 * mi, Ceiling: 1024 * mi, NonHeap: 90 * mi, Beside: 150 * mi, GCShare: 0.002}
}

func TestHeaps_recordedUsage_isSaidWithTheOption(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(in *Input, u *runtimeguard.HeapUsage)
		want   string // parts of the texts, separated by |
		option string
	}{
		"lower": {
			func(*Input, *runtimeguard.HeapUsage) {},
			"heap of app has 100Mi after a collection, and a ceiling of 1Gi. Beside it the container uses 150Mi at most. Collections take 0.2 % of the time|" +
				"A ceiling of 304Mi should keep collections below 5 % of the time. With it the container needs 512Mi of memory. Set the option first, then lower the memory",
			"-XX:MaxRAMPercentage=59.3",
		},
		"podfit can add it": {
			func(in *Input, _ *runtimeguard.HeapUsage) {
				in.Pods[0].Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM, VariableOpen: true}}}
			}, "podfit adds the option to new pods if you annotate the VPA with podfit.dev/inject-heap-percent=59.3.", "-XX:MaxRAMPercentage=59.3",
		},
		"no limit": {
			func(in *Input, _ *runtimeguard.HeapUsage) { in.Pods[0].Containers[0].Limits = cluster.Resources{} }, "A ceiling of 304Mi should keep", "-Xmx304m",
		},
		"estimated": {
			func(_ *Input, u *runtimeguard.HeapUsage) { u.Collections = 0 }, "has 140Mi after a collection at most (the old generation was not collected in the last day), and", "-XX:MaxRAMPercentage=65.8",
		},
		"higher": {
			func(_ *Input, u *runtimeguard.HeapUsage) { u.GCShare = 0.1 },
			"Collections take more than 5 % of the time. A ceiling of 1952Mi should lower that. With it the container needs 2320Mi of memory. Raise the memory first, then set the option.", "-XX:MaxRAMPercentage=84.1",
		},
		"suitable": {
			func(_ *Input, u *runtimeguard.HeapUsage) { u.Collected = 330 * mi },
			"The ceiling is suitable. With it the container needs 1296Mi of memory; with another memory limit, the option keeps the ceiling.", "-XX:MaxRAMPercentage=79.0",
		},
		"nothing recorded": {
			func(_ *Input, u *runtimeguard.HeapUsage) { u.Hours = math.NaN() },
			"The need of the JVM in app is not known: no metrics of its heap are recorded. With --prometheus, podfit explain reads jvm_memory_used_bytes, ", "",
		},
		"young": {
			func(_ *Input, u *runtimeguard.HeapUsage) { u.Hours = 2 }, "is not known: metrics of its heap are recorded for 2 h, and 24 h are needed. ", "",
		},
		"not read": {
			func(in *Input, _ *runtimeguard.HeapUsage) { in.HeapUsage = nil }, "is not known: no Prometheus was read. ", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := quietInput("cart-0")
			java("openjdk:21", nil, []string{"JAVA_TOOL_OPTIONS=-Xss1m"})(in)
			u := heapOf()
			in.HeapUsage = map[string]runtimeguard.HeapUsage{}
			c.edit(in, u)
			if in.HeapUsage != nil {
				in.HeapUsage["app"] = *u
			}
			found := Explain(in).Heaps
			if len(found) != 1 || found[0].Container != "app" || found[0].Option != c.option {
				t.Fatalf("heaps %+v, want one with the option %q", found, c.option)
			}
			text := strings.Join(found[0].Texts(), " ")
			for part := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(text, part) {
					t.Errorf("text %q, want %q", text, part)
				}
			}
			if strings.Contains(text, "inject-heap-percent") != (name == "podfit can add it") {
				t.Errorf("text %q", text)
			}
		})
	}
}

func TestHeaps_otherContainersAndPrograms_areLeftOut(t *testing.T) {
	in := quietInput("cart-0")
	p := in.Pods[0]
	p.Containers = append(p.Containers, cluster.Container{Name: "proxy", Index: 1}, cluster.Container{Name: "side", Index: 2}, cluster.Container{Name: "init", Role: cluster.Init})
	p.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM}, {Kind: cluster.GoRuntime, Container: 1}, {Kind: cluster.JVM, Container: 2}}}
	in.HeapUsage = map[string]runtimeguard.HeapUsage{"app": *heapOf(), "side": *heapOf()}
	in.Container = "side"
	if got := strings.Join(in.JVMs(), " "); got != "app side" {
		t.Errorf("containers with a JVM: %q", got)
	}
	if got := Explain(in).Heaps; len(got) != 1 || got[0].Container != "side" || got[0].AdvisedCeiling == 0 || got[0].Option != "-Xmx304m" {
		t.Errorf("heaps %+v, want that of the container that is explained", got)
	}
}

// Without metrics of the heap, memory that is flat at the ceiling shows that it is not the need.
func TestHeaps_flatMemoryWithoutMetrics_isSaidToBeTheCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		heap  int64
		days  int
		spike float64
		want  string
	}{
		"flat":         {512 * mi, 4, 1, "Its options set a heap of at most 512Mi, and for 3 days its memory has been flat at about 641Mi: the heap is probably used up to its ceiling"},
		"one low hour": {512 * mi, 4, 0.5, "flat at about 641Mi"},
		"a peak":       {512 * mi, 4, 1.5, ""},
		"below":        {700 * mi, 4, 1, ""},
		"no option":    {0, 4, 1, ""},
		"young":        {512 * mi, 2, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := quietInput("cart-0")
			in.Pods[0].Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM, HeapBytes: c.heap}}}
			profile, _ := recommend.Builtin("balanced")
			store := usage.NewStore(usage.DefaultConfig())
			store.Extend(cart, profile.Extend)
			store.Track(in.Pods[0])
			for hour := range 24 * c.days {
				used := 640.0 * mi
				if hour == 24*c.days-10 {
					used *= c.spike
				}
				at := noon.Add(time.Duration(hour-24*c.days) * time.Hour)
				store.Tick(at)
				store.Observe(usage.Sample{Pod: in.Pods[0].Key, Container: "app", At: at, CPU: 0.1, Memory: used, Has: cluster.Both})
			}
			in.Sizing = &rationale.Sizing{Now: noon, Autoscaler: in.Autoscaler, Histories: store.All(cart)}
			found := Explain(in).Heaps
			if len(found) != 1 || !strings.Contains(found[0].Texts()[0], c.want) || (found[0].Flat == "") != (c.want == "") {
				t.Errorf("got %+v, want %q", found, c.want)
			}
		})
	}
}
