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

// weighted returns the default profile with weights by request or constant ones.
func weighted(byRequest bool) Profile {
	p := DefaultParams()
	p.FloorMillicores, p.WeightByRequest = 1, byRequest
	return DefaultProfile("weighted", "", p)
}

// run sets the requests of the container.
func (b *bench) run(millicores int64) {
	p := podOf(cart, "cart-1", "app")
	p.Containers[0].Requests = cluster.Amounts(millicores, 256*mib)
	b.book.Track(p)
}

// The example in docs/algorithm.md: ten hours at a request of 100m, then 45 minutes at 1 core, of which 0.8 are used.
func TestByRequest_sample_weighsTheRequestOfItsTime(t *testing.T) {
	target := func(byRequest bool) int64 {
		b := newBench(weighted(byRequest))
		every := func(d time.Duration, cores float64) {
			for end := b.now.Add(d); b.now.Before(end); b.now = b.now.Add(time.Minute) {
				b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: b.now, CPU: cores, Has: cluster.Of(cluster.CPU)})
			}
		}
		b.run(100)
		every(10*time.Hour, 0.1)
		b.run(1000)
		every(45*time.Minute, 0.8)
		return b.estimate().Target.CPU
	}
	// Decayed, 600 samples weigh as some 510: the 45 later ones are 8 % of all samples, but 47 % of the weight. The buckets
	// of 0.1 and 0.8 cores end at 0.2·(1.05⁹−1) = 0.1103 and 0.2·(1.05³³−1) = 0.8006; 110 + 16 and 800 + 120 millicores.
	if got := target(false); got != 126 {
		t.Errorf("all alike they make %dm, want 126m", got)
	}
	if got := target(true); got != 920 {
		t.Errorf("weighted by the request they make %dm, want 920m", got)
	}
	example(t, fmt.Sprintf("110m + 15 %% = %dm", target(false)), fmt.Sprintf("800m + 15 %% = %dm", target(true)))
}

func TestByRequest_weights_equalAHandCalculation(t *testing.T) {
	b := newBench(weighted(true))
	for i, s := range []struct {
		requested int64
		used      float64
	}{{0, 0.05}, {50, 0.05}, {500, 0.3}, {300, 0.8}} {
		b.run(s.requested)
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: noon.Add(time.Duration(i)), CPU: s.used, Has: cluster.Of(cluster.CPU)})
	}
	h := &b.book.Series(cart, "app").CPU
	// 0.1 + 0.1 + 0.5 + 0.3 = 1: 0.05 cores are 20 % of it, 0.3 cores 50 %, 0.8 cores 30 %.
	for share, want := range map[float64]float64{0.19: 0.05, 0.21: 0.3, 0.69: 0.3, 0.71: 0.8, 1: 0.8} {
		if got := h.Percentile(share); got < want || got > want*1.12 {
			t.Errorf("p%.0f is %.3f cores, want the bucket of %.2f", 100*share, got, want)
		}
	}
}

func TestByRequest_restart_keepsTheHistogram(t *testing.T) {
	b := newBench(weighted(true))
	b.run(2000)
	b.use(day, always(0.7, 300*mib))
	want := b.estimate()
	stored, ok := b.book.Checkpoint(cart, "app", b.now)
	if !ok {
		t.Fatal("nothing to store")
	}
	again := newBench(weighted(true))
	again.now = b.now
	if err := again.book.Restore(cart, "app", stored); err != nil {
		t.Fatal(err)
	}
	if got := again.estimate(); got != want {
		t.Errorf("after a restart %v, want %v", got, want)
	}
	again.run(2000)
	again.use(time.Hour, always(3, 300*mib))
	if e := again.book.Series(cart, "app").Extension(); e == nil || e.CPUWeight(2) != 2 {
		t.Error("after a restart samples weigh what they did not before")
	}
}

func TestDefault_constantWeight_ignoresRequests(t *testing.T) {
	one, two := newBench(weighted(false)), newBench(weighted(false))
	two.run(5000)
	for _, b := range []*bench{one, two} {
		b.use(day, officeHours)
	}
	if one.estimate() != two.estimate() {
		t.Error("the request weighs though it was not asked for")
	}
}
