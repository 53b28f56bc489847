// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// removing returns an autoscaler that removes CPU limits and recommends 350m and 700 MiB for app.
func removing() *cluster.Autoscaler {
	target := cluster.Amounts(350, 700<<20)
	return &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, CPULimits: cluster.LimitRule{Remove: true},
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}}},
	}
}

// limited returns a Guaranteed pod whose containers have requests and limits of 100m and 100 MiB.
func limited(names ...string) *cluster.Pod {
	p := &cluster.Pod{QoS: cluster.Guaranteed}
	for i, name := range names {
		size := cluster.Amounts(100, 100<<20)
		p.Containers = append(p.Containers, cluster.Container{Name: name, Index: uint8(i), Requests: size, Limits: size})
	}
	return p
}

func java(r cluster.Runtime) *cluster.Runtimes {
	if r.Kind == cluster.UnknownRuntime {
		r.Kind = cluster.JVM
	}
	return &cluster.Runtimes{List: []cluster.Runtime{r}}
}

func TestWithoutCPULimits_eachCondition_removesOrKeepsTheLimit(t *testing.T) {
	cpu := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, v) }
	limitsQuota := cluster.PodResources{Limits: cpu(10000)}
	for name, c := range map[string]struct {
		change func(*cluster.Autoscaler, *Limits, *cluster.Pod)
		want   string // the annotation vpaUpdates
	}{
		"by default": {
			func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.CPULimits = cluster.LimitRule{} }, "",
		},
		"mode Off": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.Mode = cluster.Off }, ""},
		"remove":   {nil, "Pod resources updated by cart: cpu limit removed: container app"},
		"without a recommendation": {
			func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.Advice = nil }, "Pod resources updated by cart: cpu limit removed: container app",
		},
		"without a limit":   {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Limits = cluster.Resources{} }, ""},
		"with a limit of 0": {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Limits.CPU = 0 }, ""},
		"an init container": {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Role = cluster.Init }, ""},
		"a sidecar": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Role = cluster.Sidecar }, "Pod resources updated by cart: cpu limit removed: container app",
		},
		"a sidecar that is not sized": {func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Role = cluster.FixedSidecar }, ""},
		"container mode Off": {func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", Off: true}}
		}, ""},
		"CPU is not controlled": {
			func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", ControlsSet: true, Controlled: cluster.Of(cluster.Memory)}}
			}, "",
		},
		"RequestsOnly": {
			func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: true}}
			},
			"Pod resources NOT updated by cart: cpu limit kept: container app: its policy has controlledValues RequestsOnly",
		},
		"whole cores": {
			func(a *cluster.Autoscaler, _ *Limits, _ *cluster.Pod) { a.IntegerCPU = []string{"app"} },
			"Pod resources NOT updated by cart: cpu limit kept: container app: an annotation of the VPA requires whole cores",
		},
		"no request": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Containers[0].Requests = cluster.Resources{} },
			"Pod resources NOT updated by cart: cpu limit kept: container app: it has no cpu request",
		},
		"a JVM": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) { p.Runtimes = java(cluster.Runtime{}) },
			"Pod resources NOT updated by cart: cpu limit kept: container app: without it, a JVM uses all cores of the node unless ActiveProcessorCount is set",
		},
		"a JVM with ActiveProcessorCount": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				p.Runtimes = java(cluster.Runtime{CPUCountSet: true})
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a JVM that gets ActiveProcessorCount": {
			func(a *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				a.Guards.InjectCPUCount = true
				p.Runtimes = java(cluster.Runtime{VariableOpen: true})
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a JVM whose environment is not known": {
			func(a *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				a.Guards.InjectCPUCount = true
				p.Runtimes = java(cluster.Runtime{})
			},
			"Pod resources NOT updated by cart: cpu limit kept: container app: without it, a JVM uses all cores of the node unless ActiveProcessorCount is set",
		},
		".NET": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				p.Runtimes = java(cluster.Runtime{Kind: cluster.DotNet})
			},
			"Pod resources NOT updated by cart: cpu limit kept: container app: without it, .NET uses all cores of the node unless DOTNET_PROCESSOR_COUNT is set",
		},
		"Go": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				p.Runtimes = java(cluster.Runtime{Kind: cluster.GoRuntime})
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a pod-level limit": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				p.PodLevel = &cluster.PodResources{Limits: cpu(500)}
			},
			"Pod resources NOT updated by cart: cpu limit kept: container app: the pod has a pod-level cpu limit",
		},
		"a pod-level request": {
			func(_ *cluster.Autoscaler, _ *Limits, p *cluster.Pod) {
				p.PodLevel = &cluster.PodResources{Requests: cpu(500)}
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a LimitRange with a default": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.Range.Container.Default = cpu(500) },
			"Pod resources NOT updated by cart: cpu limit kept: container app: a LimitRange adds a default cpu limit",
		},
		"a LimitRange with a default for memory": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
				l.Range.Container.Default = cluster.Resources{}.Set(cluster.Memory, 1)
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a LimitRange with a ratio that the pod exceeds": {
			func(_ *cluster.Autoscaler, l *Limits, p *cluster.Pod) {
				l.Range.ContainerRatio = cpu(2000)
				p.Containers[0].Limits.CPU = 900
			},
			"Pod resources NOT updated by cart: cpu limit kept: container app: the API server would refuse the pod without it: " +
				"the pod has no cpu limit, and a LimitRange requires one",
		},
		"a LimitRange with a minimum": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.Range.Container.Min = cpu(300) },
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a quota of limits": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
				l.Quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Hard: limitsQuota, Left: limitsQuota}}}
			},
			"Pod resources NOT updated by cart: cpu limit kept: container app: the API server would refuse the pod without it: " +
				"ResourceQuota compute requires cpu limits of every container",
		},
		"a quota of limits for other pods": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
				scopes := []cluster.QuotaScope{{Kind: cluster.BestEffortScope}}
				l.Quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Hard: limitsQuota, Left: limitsQuota, Scopes: scopes}}}
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"a quota of requests": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) {
				l.Quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Requests: cpu(9000)}}}}
			},
			"Pod resources updated by cart: cpu limit removed: container app",
		},
		"too many quotas": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.Quotas = &cluster.Quotas{TooMany: true} },
			"Pod resources NOT updated by cart: cpu limit kept: container app: the API server would refuse the pod without it: " +
				"the namespace has more than 100 ResourceQuotas, and podfit evaluates no more",
		},
		"unknown quotas": {
			func(_ *cluster.Autoscaler, l *Limits, _ *cluster.Pod) { l.QuotasUnknown = true },
			"Pod resources NOT updated by cart: cpu limit kept: container app: the ResourceQuotas of the namespace are not known",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, l, p := removing(), Limits{}, limited("app")
			if c.change != nil {
				c.change(a, &l, p)
			}
			before := slices.Clone(p.Containers)
			without, x := WithoutCPULimits(a, l, p, cluster.Standing{})
			if got := WithCPULimits(a, "", x); got != c.want {
				t.Errorf("annotation %q, want %q", got, c.want)
			}
			if !reflect.DeepEqual(before, p.Containers) {
				t.Error("the pod was changed")
			}
			_, has := without.Containers[0].Limits.Get(cluster.CPU)
			if removed := strings.Contains(c.want, "removed"); removed != (without != p) || removed && (has || without.Containers[0].Limits.Memory == 0) {
				t.Errorf("pod %+v", without.Containers[0])
			}
		})
	}
}

func TestWithCPULimits_severalContainers_reasonsAreGrouped(t *testing.T) {
	a, p := removing(), limited("app", "log", "mesh", "db")
	a.Policies = []cluster.ContainerPolicy{{Container: "log", RequestsOnly: true}, {Container: "mesh", RequestsOnly: true}}
	a.IntegerCPU = []string{"db"}
	_, x := WithoutCPULimits(a, Limits{}, p, cluster.Standing{})
	want := "Text; cpu limit removed: container app; cpu limit kept: container log, mesh: its policy has controlledValues RequestsOnly; " +
		"cpu limit kept: container db: an annotation of the VPA requires whole cores"
	if got := WithCPULimits(a, "Text", x); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	kept := x.Keep(admissible.Refusal{Kind: admissible.NoPodLeft, Quota: "q"})
	if len(kept.Removed) != 0 || len(kept.Kept) != 4 || len(x.Kept) != 3 {
		t.Errorf("%+v of %+v", kept, x)
	}
}

// A new pod without its removed limits has the size that Fit computes for the pod when it runs, so the updater leaves it alone.
func TestFit_randomPodsWithoutTheirCPULimits_runningPodHasTheSameSize(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	amount := func(most int64) int64 { return 1 + random.Int64N(most) }
	removed := 0
	for round := range 5000 {
		a, l, p := randomRemoval(random, amount)
		without, x := WithoutCPULimits(a, l, p, cluster.Standing{})
		if len(x.Removed) == 0 {
			continue
		}
		removed++
		fits := Fit(a, l, without)
		running := *without
		running.Node = "node-1"
		running.Containers = slices.Clone(without.Containers)
		for i := range running.Containers {
			c := &running.Containers[i]
			for _, f := range fits {
				if f.Container == c.Name {
					c.Requests, c.Limits = f.Requests.Or(c.Requests), f.Limits.Or(c.Limits)
				}
			}
			c.Requests, c.Limits = l.Defaulted(c.Requests, c.Limits)
		}
		if slices.ContainsFunc(running.Containers, func(c cluster.Container) bool { return slices.Contains(x.Removed, c.Name) && c.Limits.CPU != 0 }) {
			t.Fatalf("round %d: a removed limit is back: %+v", round, running.Containers)
		}
		again := Fit(a, l, &running)
		for i := range again {
			tolerance := int64(1) // proportional limits are rounded, see package change
			if slices.Contains(x.Removed, again[i].Container) {
				tolerance = 0
			}
			difference := again[i].Requests.CPU - fits[i].Requests.CPU
			if max(difference, -difference) > tolerance || tolerance == 0 && again[i].Limits.Has.Has(cluster.CPU) {
				t.Fatalf("round %d: new pod %+v, running pod %+v", round, fits[i], again[i])
			}
		}
		if _, x := WithoutCPULimits(a, l, &running, cluster.Standing{}); len(x.Removed) > 0 {
			t.Fatalf("round %d: limits are removed again: %v", round, x.Removed)
		}
	}
	if removed < 500 {
		t.Errorf("limits were removed in only %d rounds", removed)
	}
}

func randomRemoval(random *rand.Rand, amount func(int64) int64) (*cluster.Autoscaler, Limits, *cluster.Pod) {
	a, l, p := removing(), Limits{}, &cluster.Pod{}
	a.Advice = nil
	for i := range 1 + random.IntN(3) {
		name := "c" + strconv.Itoa(i)
		c := cluster.Container{Name: name, Index: uint8(i), Requests: cluster.Amounts(amount(2000), amount(1<<30))}
		if random.IntN(4) > 0 {
			c.Limits = cluster.Amounts(c.Requests.CPU+random.Int64N(2000), c.Requests.Memory+random.Int64N(1<<30))
		}
		p.Containers = append(p.Containers, c)
		if random.IntN(4) > 0 {
			target := cluster.Amounts(amount(3000), amount(1<<30))
			a.Advice = append(a.Advice, cluster.Advice{Container: name, Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}})
		}
		if random.IntN(4) == 0 {
			a.Policies = append(a.Policies, cluster.ContainerPolicy{Container: name, RequestsOnly: random.IntN(2) == 0, MaxAllowed: cluster.Amounts(amount(2000), 0)})
		}
	}
	if random.IntN(4) == 0 {
		l.Range.Container.Min = cluster.Resources{}.Set(cluster.CPU, amount(500))
	}
	if random.IntN(8) == 0 {
		l.Range.Container.Max = cluster.Resources{}.Set(cluster.CPU, 4000)
	}
	if random.IntN(4) == 0 {
		p.Runtimes = java(cluster.Runtime{CPUCountSet: random.IntN(2) == 0, VariableOpen: true})
		a.Guards = cluster.RuntimeGuards{CPU: true}
	}
	return a, l, p
}
