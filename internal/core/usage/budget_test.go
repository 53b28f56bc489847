// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// fleet returns pods of n workloads with 5 pods of one container each.
func fleet(n int) []*cluster.Pod {
	pods := make([]*cluster.Pod, 0, 5*n)
	for i := range n {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: fmt.Sprint("team-", i%100), Name: fmt.Sprint("service-", i)}
		for j := range 5 {
			pods = append(pods, podOf(w, fmt.Sprintf("service-%d-%d", i, j), "app"))
		}
	}
	return pods
}

// use adds a sample of every minute for each pod. The values are spread like those of real containers: CPU over 20 buckets, memory
// over a few.
func use(b *Store, pods []*cluster.Pod, minutes int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for m := range minutes {
		for _, p := range pods {
			b.Observe(sample(p, "app", noon.Add(time.Duration(m)*time.Minute), 0.1*(1+2*rnd.Float64()), 200*mib*(1+0.3*rnd.Float64())))
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Budget: 500 bytes per container with 5 pods per workload; measured 355. Names are not counted, because the owner of the pods
// holds them.
func TestSeries_perContainer_takesFewBytes(t *testing.T) {
	const budget = 500
	pods := fleet(20_000)
	before := heap()
	b := newBook()
	for _, p := range pods {
		b.Track(p)
	}
	use(b, pods, 5)
	perContainer := float64(heap()-before) / float64(len(pods))
	t.Logf("%.0f bytes per container", perContainer)
	if perContainer > budget {
		t.Errorf("a container takes %.0f bytes, more than %d", perContainer, budget)
	}
	runtime.KeepAlive(b)
	runtime.KeepAlive(pods)
}

func TestObserve_steadyState_doesNotAllocate(t *testing.T) {
	b := newBook()
	pods := fleet(1)
	for _, p := range pods {
		b.Track(p)
	}
	use(b, pods, 100)
	at := noon.Add(time.Hour * 3)
	i := 0
	if n := testing.AllocsPerRun(10_000, func() {
		i++
		at = at.Add(time.Second)
		b.Observe(sample(pods[i%5], "app", at, 0.1+0.01*float64(i%19), 200*mib))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { b.Track(pods[i%5]); i++ }); n != 0 {
		t.Errorf("tracking what is tracked: %v allocations", n)
	}
}

// Ten times as many workloads take ten times as many steps.
func TestTrack_manyPods_takesLinearTime(t *testing.T) {
	perPod := func(n int) float64 {
		b := newBook()
		pods := fleet(n)
		for range 2 {
			for _, p := range pods {
				b.Track(p)
			}
		}
		use(b, pods, 2)
		for _, p := range pods {
			b.Forget(p.Key)
		}
		b.Prune(noon)
		return float64(b.steps) / float64(len(pods))
	}
	small, large := perPod(100), perPod(1000)
	if large > 1.01*small {
		t.Errorf("%.2f steps per pod of 1000 workloads, %.2f of 100", large, small)
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{1, 1000, 20_000} {
		b.Run(fmt.Sprintf("workloads=%d", n), func(b *testing.B) {
			book := newBook()
			pods := fleet(n)
			for _, p := range pods {
				book.Track(p)
			}
			use(book, pods, 3)
			at, i := noon.Add(time.Hour), 0
			for b.Loop() {
				if i++; i == len(pods) {
					i, at = 0, at.Add(time.Minute)
				}
				book.Observe(sample(pods[i], "app", at, 0.1+0.01*float64(i%19), 200*mib))
			}
		})
	}
}

// Budget: 20,000 workloads with 5 pods each in less than a second.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 5000, 20_000} {
		b.Run(fmt.Sprintf("workloads=%d", n), func(b *testing.B) {
			pods := fleet(n)
			for b.Loop() {
				book := newBook()
				for _, p := range pods {
					book.Configure(p.Top, nil)
					book.Track(p)
				}
			}
		})
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	book := newBook()
	pods := fleet(1)
	for _, p := range pods {
		book.Track(p)
	}
	use(book, pods, 1440)
	b.ReportAllocs()
	for b.Loop() {
		book.Checkpoint(pods[0].Top, "app", noon.Add(day))
	}
}
