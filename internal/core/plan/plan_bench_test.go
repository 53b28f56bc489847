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
	"podfit.dev/podfit/internal/core/rescue"
)

// workloadsOf returns a world with n workloads of five pods, of which one in ten should change.
func workloadsOf(n int) World {
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
				Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), Marks: &cluster.Marks{Observed: new("app")},
				Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 256<<20), Limits: cluster.Amounts(200, 512<<20)}},
			})
		}
	}
	w.Governed = cluster.Gather(as, pods, true)
	return w
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{200, 2_000, 20_000} {
		w := workloadsOf(n)
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
	w := workloadsOf(200)
	per := testing.AllocsPerRun(10, func() { Plan(noon, w, DefaultBudget()) }) / 1000
	if per > 1.5 {
		t.Errorf("%.2f allocations per pod, want at most 1.5", per)
	}
}

// BenchmarkExport exports a ledger in which every action of a large cluster was refused.
func BenchmarkExport(b *testing.B) {
	w := workloadsOf(10_000)
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

// The pods of one workload are OOM-killed again and again, and a disruption budget refuses their evictions. The work per pod must not grow
// with their number: before the results for a workload and a budget were kept for the pass, 5,000 pods took 768 ms instead of 28 ms.
func BenchmarkPlan_manyOOMKilledPods(b *testing.B) {
	for _, n := range []int{500, 5_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w, a := growing(n)
			a.Mode = cluster.Recreate
			pods := w.Governed[0].Pods
			for _, p := range pods {
				p.Ready, p.Crash = false, &cluster.Crash{Version: "1", Labels: []string{"app=web"}}
				p.Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Kills: 3, Started: noon.Add(-time.Minute), Finished: noon.Add(-time.Second)}
				w.Ledger.Refused(noon.Add(-time.Second), ledger.Attempt{Pod: p, Autoscaler: a.Key, Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget}, 0)
			}
			w.Ledger.Done(noon.Add(-10*time.Minute), ledger.Attempt{Pod: &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "gone"}, UID: "gone", Top: a.Target, Controller: a.Target}, Autoscaler: a.Key, Do: decision.Delete, Memory: 1 << 20})
			w.Budgets = map[string][]cluster.DisruptionBudget{"shop": {{
				Name: "web", Selector: cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Values: []string{"web"}}}}, Healthy: 0, Desired: int32(n + 1), Current: true,
			}}}
			budget := DefaultBudget()
			budget.Rescue = rescue.ByDeletion
			for b.Loop() {
				Plan(noon, w, budget)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/pod")
		})
	}
}
