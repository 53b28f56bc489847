// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// crowd returns a recommender with n VPAs of one workload, and its cluster. Two thirds of the VPAs name a profile with model
// state, and some have mode Off.
func crowd(t testing.TB, n int) (*bench, *recommender) {
	b := newBench(nil)
	b.use["app"] = cluster.Amounts(300, 200<<20)
	w := b.deployment("web", 20, "app")
	for i := range n {
		a := b.autoscale(fmt.Sprintf("web-%05d", i), w)
		a.Recommender = []string{"", "balanced", "critical"}[i%3]
		if i%5 == 0 {
			a.Mode = cluster.Off
		}
	}
	r := newRecommender(b.config, b.dependencies())
	now := time.Now()
	s := b.Snapshot()
	r.usageStore.Tick(now)
	v := r.look(s)
	r.configure(now, v)
	r.track(v)
	for i := range 10 {
		r.usageStore.Tick(now.Add(time.Duration(i) * time.Minute))
		r.observe(t.Context(), v)
	}
	return b, r
}

// A tenant may create as many VPAs of one workload as its quota allows.
func TestRecommender_manyVPAsOfOneWorkload_passIsNotQuadratic(t *testing.T) {
	bytesPerAutoscaler := func(n int) float64 {
		b, r := crowd(t, n)
		s := b.Snapshot()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v := r.look(s)
		r.configure(time.Now(), v)
		for _, a := range v.served {
			r.advice(time.Now(), v, a)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	few, many := bytesPerAutoscaler(250), bytesPerAutoscaler(2000)
	t.Logf("%.0f bytes per VPA with 250 VPAs, %.0f with 2000", few, many)
	if many > 2*few {
		t.Errorf("%.0f bytes per VPA with 250 VPAs, %.0f with 2000; want at most twice as many", few, many)
	}
}

func BenchmarkPass_manyVPAsOfOneWorkload(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cluster, r := crowd(b, n)
			now := time.Now().Add(time.Hour)
			for b.Loop() {
				v := r.look(cluster.Snapshot())
				r.configure(now, v)
				for _, a := range v.served {
					r.advice(now, v, a)
				}
			}
		})
	}
}
