// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

func TestIndex_randomChanges_firstIsTheGoverningVPA(t *testing.T) {
	for _, startupBoost := range []bool{false, true} {
		t.Run(fmt.Sprintf("CPUStartupBoost=%t", startupBoost), func(t *testing.T) { firstIsTheGoverningVPA(t, startupBoost) })
	}
}

func firstIsTheGoverningVPA(t *testing.T, startupBoost bool) {
	rnd := rand.New(rand.NewPCG(3, 4))
	set := &NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Boosts: startupBoost}).autoscalerSet
	c := &set.candidates
	reference := map[cluster.Key]*cluster.Autoscaler{}
	targets := []cluster.Workload{web, {Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}}
	for step := range 5000 {
		key := cluster.Key{Namespace: "shop", Name: fmt.Sprint("a", rnd.IntN(40))}
		if rnd.IntN(3) == 0 {
			c.change(set.candidate(reference[key]), nil)
			delete(reference, key)
		} else {
			a := &cluster.Autoscaler{
				Key: key, Target: targets[rnd.IntN(2)], Mode: cluster.Mode(rnd.IntN(3)), Created: time.Unix(int64(rnd.IntN(5)), 0),
			}
			if rnd.IntN(5) == 0 {
				a.Boost = &cluster.Boost{Factor: 2}
			}
			c.change(set.candidate(reference[key]), set.candidate(a))
			reference[key] = a
		}
		for _, target := range targets {
			var ofTarget []*cluster.Autoscaler
			for _, a := range reference {
				if a.Target == target {
					ofTarget = append(ofTarget, a)
				}
			}
			if got, want := c.first(target), cluster.Governing(ofTarget, startupBoost); got != want {
				t.Fatalf("step %d: %v governs %s, want %v", step, got, target.Name, want)
			}
		}
	}
	for _, a := range reference {
		c.change(set.candidate(a), nil)
	}
	if len(c.of) != 0 {
		t.Errorf("%d targets remain, want none", len(c.of))
	}
}

// relistAutoscalers replaces the autoscalers of a world with n autoscalers that reference one target.
func relistAutoscalers(w *World, n int) map[cluster.Key]*autoscalerEntry {
	all := autoscalersOfOneTarget(n)
	w.autoscalers.Replace(all)
	return all
}

// autoscalersOfOneTarget returns n autoscalers that reference one target.
func autoscalersOfOneTarget(n int) map[cluster.Key]*autoscalerEntry {
	all := make(map[cluster.Key]*autoscalerEntry, n)
	for i := range n {
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("a", i)}, Target: web, Created: time.Unix(int64(i*7919%n), 0)}
		all[a.Key] = &autoscalerEntry{Autoscaler: a}
	}
	return all
}

// A tenant may create many autoscalers that reference one target.
func TestWorld_manyAutoscalersOfOneTarget_relistIsNotQuadratic(t *testing.T) {
	bytesPerAutoscaler := func(n int) float64 {
		w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all := relistAutoscalers(w, n)
		w.autoscalers.Replace(all)
		w.autoscalers.Replace(nil)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	few := bytesPerAutoscaler(1000)
	many := bytesPerAutoscaler(8000)
	t.Logf("%.0f bytes for each of 1,000, %.0f for each of 8,000", few, many)
	if many > 2*few {
		t.Errorf("%.0f bytes for each of 8,000, want at most twice the %.0f for each of 1,000", many, few)
	}
}

// While the mutex is held once, at most one piece of the autoscalers gets its place in the order of their target.
func TestWorld_manyAutoscalersOfOneTarget_relistHoldsTheMutexForOnePieceAtATime(t *testing.T) {
	const n = 20_000
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	mu := new(countingMutex)
	w.autoscalers.mu = mu
	place := w.autoscalers.changed
	w.autoscalers.changed = func(key cluster.Key, before, now **autoscalerEntry) {
		mu.see()
		place(key, before, now)
	}
	all := autoscalersOfOneTarget(n)
	for step, list := range []map[cluster.Key]*autoscalerEntry{all, all, nil} {
		mu.all = 0
		if w.autoscalers.Replace(list); mu.most > pieceSize || mu.all != n {
			t.Errorf("list %d: up to %d autoscalers per lock and %d in total, want at most %d and exactly %d", step, mu.most, mu.all, pieceSize, n)
		}
	}
}

func BenchmarkRelistOfAutoscalersOfOneTarget(b *testing.B) {
	for _, n := range []int{4000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := NewWorld(clientsOf(kubetest.NewFakeAPI(b)), Options{})
			all := relistAutoscalers(w, n)
			mu := new(timingMutex)
			w.autoscalers.mu = mu
			for b.Loop() {
				w.autoscalers.Replace(all)
			}
			b.ReportMetric(float64(mu.longest.Microseconds()), "held-µs-at-most")
		})
	}
}
