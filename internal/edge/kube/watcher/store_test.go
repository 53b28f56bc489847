// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func tableKey(i int) cluster.Key {
	return cluster.Key{Namespace: fmt.Sprint("ns-", i%7), Name: fmt.Sprint("o-", i)}
}

// The reference implementation of a store is a map.
func TestStore_randomChanges_equalsAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	s := &store[int]{mu: &mu}
	reference := map[cluster.Key]int{}
	for step := range 30_000 {
		key := tableKey(rnd.IntN(6000))
		v := rnd.Int()
		switch rnd.IntN(2000) {
		case 0:
			all := map[cluster.Key]int{}
			for range rnd.IntN(9000) {
				all[tableKey(rnd.IntN(6000))] = rnd.Int()
			}
			s.Replace(all)
			reference = maps.Clone(all)
		default:
			if rnd.IntN(5) < 3 {
				s.Put(key, v)
				reference[key] = v
			} else {
				s.Remove(key)
				delete(reference, key)
			}
		}
		got, ok := s.get(key)
		if want, has := reference[key]; got != want || ok != has || s.size != len(reference) {
			t.Fatalf("step %d: got %d, %t, want %d, %t; size %d, want %d", step, got, ok, want, has, s.size, len(reference))
		}
	}
	var got []int
	s.each(func(_ cluster.Key, v int) { got = append(got, v) })
	slices.Sort(got)
	want := slices.Sorted(maps.Values(reference))
	if !slices.Equal(got, want) {
		t.Errorf("visited %d values, want %d", len(got), len(want))
	}
	in := map[string]int{}
	for key, v := range reference {
		if key.Namespace == "ns-3" {
			in[key.Name] = v
		}
	}
	if !maps.Equal(s.at["ns-3"], in) {
		t.Error("the objects of the namespace ns-3 differ from those in the map")
	}
}

// countingMutex counts the objects that are visited while it is held.
type countingMutex struct {
	sync.Mutex
	held int // objects visited since the last Lock
	most int // the largest value of held
	all  int // all objects visited
}

func (m *countingMutex) Lock() {
	m.Mutex.Lock()
	m.held = 0
}

// see counts one object. The mutex must be held.
func (m *countingMutex) see() {
	m.held++
	m.all++
	m.most = max(m.most, m.held)
}

func TestStore_eachAndReplace_holdTheMutexForOnePieceAtATime(t *testing.T) {
	const n = 40*pieceSize + 7
	mu := new(countingMutex)
	s := &store[int]{mu: mu, changed: func(cluster.Key, *int, *int) { mu.see() }}
	all := map[cluster.Key]int{}
	for i := range n {
		all[tableKey(i)] = i
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"first list", func() { s.Replace(all) }},
		{"the same list again", func() { s.Replace(all) }},
		{"each", func() { s.each(func(cluster.Key, int) { mu.see() }) }},
		{"an empty list", func() { s.Replace(nil) }},
	} {
		mu.most = 0
		mu.all = 0
		if step.do(); mu.most > pieceSize || mu.all != n {
			t.Errorf("%s: up to %d objects per lock and %d in total, want at most %d and exactly %d", step.name, mu.most, mu.all, pieceSize, n)
		}
	}
}

// Snapshot resolves the topmost controller of a pod in the same piece in which it copies the pod.
func TestSnapshot_manyPods_holdsTheMutexForOnePieceAtATime(t *testing.T) {
	const n = 20 * pieceSize
	w := largeWorld(t, n)
	mu := new(countingMutex)
	w.pods.mu = mu
	w.Snapshot() // resolves the topmost controllers
	seen := 0
	w.pods.each(func(cluster.Key, *cluster.Pod) { seen++; mu.see() })
	if mu.most > pieceSize || seen != n {
		t.Errorf("up to %d pods per lock and %d in total, want at most %d and exactly %d", mu.most, seen, pieceSize, n)
	}
	if s := w.Snapshot(); len(s.Pods) != n || s.Pods[0].Top.IsZero() || w.Pod(s.Pods[0].Key) != s.Pods[0] {
		t.Errorf("%d pods, the first with topmost controller %v", len(s.Pods), s.Pods[0].Top)
	}
}

func TestStore_objectsChangeDuringEach_othersAreVisitedOnce(t *testing.T) {
	var mu sync.Mutex
	s := &store[int]{mu: &mu}
	const n = 100 * pieceSize
	for i := range n {
		s.Put(tableKey(i), i)
	}
	stop := make(chan struct{})
	var feed sync.WaitGroup
	feed.Go(func() {
		for i := 0; ; i += 2 {
			select {
			case <-stop:
				return
			default: // objects with even numbers are deleted and created again, and new objects use their slots
				s.Remove(tableKey(i % n))
				s.Put(cluster.Key{Namespace: "new", Name: fmt.Sprint(i % n)}, -1)
				s.Put(tableKey(i%n), i%n)
			}
		}
	})
	for range 20 {
		seen := make([]int, n)
		s.each(func(_ cluster.Key, v int) {
			if v >= 0 {
				seen[v]++
			}
		})
		for i, times := range seen {
			if times > 1 || times == 0 && i%2 == 1 {
				t.Fatalf("object %d was visited %d times", i, times)
			}
		}
	}
	close(stop)
	feed.Wait()
}

// timingMutex measures the longest time that it is held.
type timingMutex struct {
	sync.Mutex
	since   time.Time
	longest time.Duration
}

func (m *timingMutex) Lock() {
	m.Mutex.Lock()
	m.since = time.Now()
}

func (m *timingMutex) Unlock() {
	m.longest = max(m.longest, time.Since(m.since))
	m.Mutex.Unlock()
}

// BenchmarkMutexHeldBySnapshot reports how long a snapshot of 100,000 pods makes lookups of the webhook wait.
func BenchmarkMutexHeldBySnapshot(b *testing.B) {
	w := largeWorld(b, 100_000)
	mu := new(timingMutex)
	w.pods.mu = mu
	var sum, longest time.Duration
	for b.Loop() {
		mu.longest = 0
		w.Snapshot()
		sum += mu.longest
		longest = max(longest, mu.longest)
	}
	b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "held-µs/snapshot")
	b.ReportMetric(float64(longest.Microseconds()), "held-µs-at-most")
}
