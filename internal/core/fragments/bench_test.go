// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

// large returns a cluster of nodes with 64 cores and 30 pods each, of which CPU is requested for a share.
func large(nodes int, full float64) *world {
	r := rand.New(rand.NewPCG(3, 4))
	w := input()
	for i := range nodes {
		w.node(fmt.Sprintf("n%04d", i), 64, 256)
		left := int64(full * 64_000)
		for k := range 30 {
			cpu := min(left/int64(30-k)/2+r.Int64N(max(left/int64(30-k), 1))+1, left)
			left -= cpu
			name := fmt.Sprintf("w%d-%d-%d", r.IntN(nodes*10), i, k)
			p := w.podOf(name, fmt.Sprintf("n%04d", i), cpu/50*50, 1+r.Int64N(10))
			p.Namespace = fmt.Sprint("ns", r.IntN(50))
			p.Controller.Namespace, p.Top.Namespace = p.Namespace, p.Namespace
			p.Tied = i%3 == 0 && r.IntN(10) == 0
			p.LocalData = i%4 == 0 && r.IntN(20) == 0
			w.scales[p.Controller] = cluster.Scale{Known: true, Replicas: w.scales[p.Controller].Replicas + 1}
		}
	}
	for i := range 50 {
		ns := fmt.Sprint("ns", i)
		for k := range 20 {
			w.Budgets[ns] = append(w.Budgets[ns], cluster.DisruptionBudget{
				Name: fmt.Sprint("b", k), Healthy: 3, Desired: 2 + int32(k%20/19), Current: true, Selector: selecting(fmt.Sprint("app=w", k*50+i)),
			})
		}
	}
	w.For = room.Amount{CPU: 60_000, Memory: 64 * gi} // not possible on full nodes: the search ends at its limit
	return w
}

// hopeless returns a cluster of nodes with a few large pods, which fit nowhere else, and many small ones: the search for moves ends at its limit.
func hopeless(nodes int) *world {
	w := input()
	for i := range nodes {
		w.node(fmt.Sprintf("n%04d", i), 64, 256)
		for k := range 30 {
			cpu := int64(300 + k)
			if k < 10 {
				cpu = 5680
			}
			p := w.podOf(fmt.Sprintf("w%d-%d-%d", (i*30+k)%(3*nodes), i, k), fmt.Sprintf("n%04d", i), cpu, 1)
			w.scales[p.Controller] = cluster.Scale{Known: true, Replicas: w.scales[p.Controller].Replicas + 1}
		}
	}
	w.For = room.Amount{CPU: 7000, Memory: 4 * gi}
	return w
}

// The work for a pod does not grow with the number of nodes.
func TestMeasure_largerPool_sameWorkForEachPod(t *testing.T) {
	for name, world := range map[string]func(nodes int) *world{
		"nearly full": func(nodes int) *world { return large(nodes, 0.9) }, "hopeless": hopeless,
	} {
		each := map[int]float64{}
		for _, nodes := range []int{300, 900} {
			w := world(nodes)
			w.pack()
			s := newSearch(&w.Input)
			s.measure("worker")
			each[nodes] = float64(s.visits) / float64(len(w.pods))
		}
		if each[900] > 1.5*each[300] {
			t.Errorf("%s: %.0f comparisons for each of 9,000 pods, and %.0f for each of 27,000", name, each[300], each[900])
		}
	}
}

// BenchmarkMeasure reports the memory of the heap with the cluster and the search, in MB.
func BenchmarkMeasure_1000Nodes30000Pods(b *testing.B) {
	for name, w := range map[string]*world{"half": large(1000, 0.5), "full": large(1000, 0.98), "hopeless": hopeless(1000)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			most := uint64(0)
			for b.Loop() {
				w.pack()
				Measure(&w.Input)
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapSys)
			}
			b.ReportMetric(float64(most)/1e6, "heap-MB")
		})
	}
}
