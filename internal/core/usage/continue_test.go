// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/startup"
)

func TestContinue_formerWorkload_isAddedOnceAndStays(t *testing.T) {
	b := newBook()
	basket := cart
	basket.Name = "basket"
	former, successor := podOf(cart, "cart-1", "app", "proxy"), podOf(basket, "basket-1", "app")
	for _, p := range []*cluster.Pod{former, successor} {
		b.Configure(p.Top, nil)
		b.Track(p)
	}
	for i := range 60 {
		at := noon.Add(time.Duration(i) * time.Minute)
		b.Tick(at)
		b.Observe(sample(former, "app", at, 2, 900*mib))
		b.Observe(sample(former, "proxy", at, 2, 900*mib))
		if i >= 50 { // both run for ten minutes
			b.Observe(sample(successor, "app", at, 0.1, 50*mib))
		}
	}
	if !b.ObserveOOM(OOM{Pod: former.Key, Container: "app", At: noon.Add(30 * time.Minute), Memory: 950 * mib}) {
		t.Fatal("the OOM kill was not accepted")
	}
	b.Forget(former.Key)
	before := b.Series(cart, "app").CPU.Clone()
	names, err := b.Continue(basket, cart)
	if err != nil || !slices.Equal(names, []string{"app"}) {
		t.Fatalf("containers %v, error %v, want app", names, err)
	}
	got := b.Series(basket, "app")
	if seen := got.Seen(cluster.CPU); seen.Count != 70 || !seen.First.Equal(noon) {
		t.Errorf("samples %+v, want 70 from noon on", seen)
	}
	if at, needed, _ := got.LastOOM(); !at.Equal(noon.Add(30*time.Minute)) || needed < 950*mib {
		t.Errorf("OOM kill at %v of %d bytes", at, needed)
	}
	if b.Series(basket, "proxy") != nil {
		t.Error("the successor has a history of a container that it does not have")
	}
	_, killed, _ := got.LastOOM()
	for _, bytes := range []float64{float64(killed), 50 * mib} { // the peak of each pod
		if w := weightAt(&got.Memory, bytes, noon.Add(24*time.Hour)); w < 0.99 || w > 1.05 {
			t.Errorf("a peak of %v MiB counts %v times, want once", bytes/mib, w)
		}
	}
	if names, err := b.Continue(basket, cart); err != nil || len(names) > 0 {
		t.Errorf("the second time: containers %v, error %v", names, err)
	}
	if after := b.Series(cart, "app").CPU; after.Total() != before.Total() {
		t.Error("the history of the former workload has changed")
	}
	if pending := b.Pending(noon.Add(time.Hour)); !slices.Contains(pending, Ref{Workload: basket, Container: "app"}) {
		t.Errorf("pending %v, want the successor, so that a restart does not lose it", pending)
	}
	earlier := podOf(cart, "cart-2", "app") // older usage, as from Prometheus
	fork := b.Fork("shop")
	fork.Track(earlier)
	fork.Observe(sample(earlier, "app", noon.Add(-time.Hour), 2, 900*mib))
	if err := b.Absorb(fork); err != nil {
		t.Fatal(err)
	}
	if names, err := b.Continue(basket, cart); err != nil || len(names) > 0 {
		t.Errorf("with older usage: containers %v, error %v; want none, because the rest would count twice", names, err)
	}
}

// Two workloads may have been made of one. What is observed of one of them is not usage of the other, or of the former one.
func TestContinue_twoSuccessors_shareNothing(t *testing.T) {
	b := newBook()
	basket, trolley := cart, cart
	basket.Name, trolley.Name = "basket", "trolley"
	pods := map[cluster.Workload]*cluster.Pod{}
	for _, w := range []cluster.Workload{cart, basket, trolley} {
		pods[w] = podOf(w, w.Name+"-1", "app")
		b.Configure(w, nil)
		b.LearnStarts(w, true)
		b.Track(pods[w])
	}
	b.Tick(noon)
	b.Observe(sample(pods[cart], "app", noon, 2, 900*mib))
	b.Series(cart, "app").starts = someStarts()
	for _, w := range []cluster.Workload{basket, trolley} {
		if names, err := b.Continue(w, cart); err != nil || len(names) != 1 {
			t.Fatalf("%s: containers %v, error %v", w.Name, names, err)
		}
	}
	learnt := b.Series(basket, "app").Starts().Len()
	b.Series(basket, "app").starts.Add(&startup.Start{}, noon.AddDate(1, 0, 0)) // removes those that are too old
	for i := range 600 {
		at := noon.Add(time.Duration(i+1) * time.Minute)
		b.Tick(at)
		b.Observe(sample(pods[basket], "app", at, 2, 900*mib))
	}
	for _, w := range []cluster.Workload{cart, trolley} {
		s := b.Series(w, "app")
		sum := 0.0
		for _, weight := range s.CPU.All() {
			sum += weight
		}
		if sum > s.CPU.Total()*1.01 {
			t.Errorf("%s: the buckets of CPU have a weight of %v, the histogram %v", w.Name, sum, s.CPU.Total())
		}
		if n := s.Starts().Len(); n != learnt {
			t.Errorf("%s: %d starts, want %d", w.Name, n, learnt)
		}
	}
}
