// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// fleet is n workloads of five pods, of which one in ten should change.
func fleet(n int) World {
	w := World{Scales: map[cluster.Workload]cluster.Scale{}, Ledger: ledger.New()}
	var as []*cluster.Autoscaler
	var pods []*cluster.Pod
	for i := range n {
		top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: fmt.Sprintf("ns%d", i%100), Name: fmt.Sprintf("w%d", i)}
		rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: top.Namespace, Name: top.Name + "-7d4"}
		w.Scales[rs] = cluster.Scale{Known: true, Replicas: 5}
		target := cluster.Amounts(100, 256<<20)
		if i%10 == 0 {
			target = cluster.Amounts(500, 1<<30)
		}
		as = append(as, &cluster.Autoscaler{
			Key: cluster.Key{Namespace: top.Namespace, Name: top.Name}, Target: top,
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
				Lower: cluster.Amounts(target.CPU/2, target.Memory/2), Target: target,
				Upper: cluster.Amounts(target.CPU*2, target.Memory*2),
			}}},
		})
		for j := range 5 {
			pods = append(pods, &cluster.Pod{
				Key: cluster.Key{Namespace: top.Namespace, Name: fmt.Sprintf("%s-%d", top.Name, j)}, UID: fmt.Sprintf("%d-%d", i, j),
				Top: top, Controller: rs, Node: "n", Phase: cluster.Running, Ready: true,
				Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), Observed: "app",
				Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 256<<20), Limits: cluster.Amounts(200, 512<<20)}},
			})
		}
	}
	w.Governed = cluster.Gather(as, pods, true)
	return w
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{200, 2_000, 20_000} {
		w := fleet(n)
		b.Run(fmt.Sprintf("pods=%d", 5*n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Plan(noon, w, DefaultBudget())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(5*n), "ns/pod")
		})
	}
}

// One pass over a hundred thousand pods may take what is planned, and no more than a little per pod: what fits, and its
// part of the list.
func TestPlan_manyPods_allocatesLittlePerPod(t *testing.T) {
	w := fleet(200)
	per := testing.AllocsPerRun(10, func() { Plan(noon, w, DefaultBudget()) }) / 1000
	if per > 1.5 {
		t.Errorf("%.2f allocations per pod, want at most 1.5", per)
	}
}

// BenchmarkExport exports a ledger in which every action of a large cluster was refused.
func BenchmarkExport(b *testing.B) {
	w := fleet(10_000)
	budget := DefaultBudget()
	for _, g := range w.Governed {
		for _, p := range g.Pods {
			w.Ledger.Refused(noon, ledger.Attempt{Pod: p, Do: decision.Evict}, decision.Refusal{Kind: decision.Denied, Text: "no"}, 1)
		}
	}
	for b.Loop() {
		w.Ledger.Export(budget.Delays)
	}
}
