// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// capped simulates a container whose usage is capped by its limit, which is ratio times its request. The request follows the target
// when it is out of bounds, as the updater does, up to a bound. It returns the final requests of CPU and memory, and how often the
// first sample after a change was at the limit.
func capped(p Profile, cores, bytes, ratio float64, most cluster.Resources, minutes int) (cpu, memory int64) {
	b := newBench(p)
	cpu, memory = min(500, most.CPU), min(512*mib, most.Memory)
	for range minutes {
		pod := podOf(cart, "cart-1", "app")
		c := &pod.Containers[0]
		c.Requests = cluster.Amounts(cpu, memory)
		c.Limits = cluster.Amounts(int64(float64(cpu)*ratio), int64(float64(memory)*ratio))
		b.book.Track(pod)
		b.book.Observe(usage.Sample{
			Pod: b.pod, Container: "app", At: b.now, Has: cluster.Both,
			CPU: min(cores, float64(c.Limits.CPU)/1000), Memory: min(bytes, float64(c.Limits.Memory)),
		})
		b.now = b.now.Add(time.Minute)
		e := b.estimate()
		follow := func(have int64, r cluster.Resource) int64 {
			if have < e.Lower.Amount(r) || have > e.Upper.Amount(r) {
				return min(e.Target.Amount(r), most.Amount(r))
			}
			return have
		}
		cpu, memory = follow(cpu, cluster.CPU), follow(memory, cluster.Memory)
	}
	return cpu, memory
}

func TestAdaptive_usageCutOffByTheLimit_raisesTheRequestStepByStep(t *testing.T) {
	for _, p := range BacktestProfiles() {
		if p.Name == "default" || p.Name == "packed" {
			continue // their daily peaks and percentiles climb over days
		}
		for _, ratio := range []float64{1, 1.5} {
			cpu, memory := capped(p, 6, 4000*mib, ratio, cluster.Amounts(100_000, 1<<40), 1440)
			if float64(cpu)*ratio < 6000 || float64(memory)*ratio < 4000*mib {
				t.Errorf("%s: a need of 6 cores and 4000 MiB, limits ×%g: after a day requests are %dm and %d MiB", p.Name, ratio, cpu, memory/mib)
			}
		}
	}
}

// The example in docs/algorithm.md.
func TestAdaptive_limitExampleOfTheDocs_isCorrect(t *testing.T) {
	var told []string
	for minutes, want := range map[int]float64{1: 657, 2: 863} {
		cpu, _ := capped(balanced(), 6, 100*mib, 1, cluster.Amounts(100_000, 1<<40), minutes)
		if got := float64(cpu); got < want || got > want*1.003 {
			t.Errorf("after %d samples the request is %.0fm, want %.0fm", minutes, got, want)
		}
		told = append(told, fmt.Sprintf("%.3f", want/1000))
	}
	example(t, told...)
}

// kubernetes/autoscaler#9521: capped usage must not raise the target without end.
func TestAdaptive_usageAtACap_doesNotInflateTheTarget(t *testing.T) {
	for _, p := range BacktestProfiles() {
		b := newBench(p)
		pod := podOf(cart, "cart-1", "app")
		pod.Containers[0].Requests = cluster.Amounts(2000, 1024*mib)
		pod.Containers[0].Limits = pod.Containers[0].Requests
		b.book.Track(pod)
		b.use(30*day, always(2, 1024*mib))
		if got := b.estimate().Target; got.CPU > 4000 || got.Memory > 2048*mib {
			t.Errorf("%s: a month at the limit of 2 cores and 1024 MiB leads to %dm and %d MiB", p.Name, got.CPU, got.Memory/mib)
		}
	}
}

func TestUncut_usageBelowTheLimit_isUnchanged(t *testing.T) {
	for _, tt := range []struct{ v, limit, want float64 }{{1, 0, 1}, {0.94, 1, 0.94}, {0.96, 1, 1.2}, {1.1, 1, 1.375}, {3, 8, 3}} {
		if got := uncut(tt.v, tt.limit, cutCPU); got < tt.want*0.999999 || got > tt.want*1.000001 {
			t.Errorf("%g at a limit of %g counts as %g, want %g", tt.v, tt.limit, got, tt.want)
		}
	}
}
