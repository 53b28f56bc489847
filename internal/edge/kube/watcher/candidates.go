// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"container/heap"

	"podfit.dev/podfit/internal/core/cluster"
)

// A candidate is an autoscaler that changes the pods of its target.
type candidate struct {
	*cluster.Autoscaler
	at int // in its heap
}

// candidates are the autoscalers that change pods, by target, in the order of cluster.Governing. The governing autoscaler is
// found in constant time; a change takes logarithmic time in the number of autoscalers of the target.
type candidates struct {
	startupBoost bool // the feature gate CPUStartupBoost
	byKey        map[cluster.Key]*candidate
	byTarget     map[cluster.Workload]*candidateHeap
}

func newCandidates(startupBoost bool) candidates {
	return candidates{startupBoost, make(map[cluster.Key]*candidate), make(map[cluster.Workload]*candidateHeap)}
}

// first returns the autoscaler that governs the pods of a target, or nil.
func (c *candidates) first(target cluster.Workload) *cluster.Autoscaler {
	if h := c.byTarget[target]; h != nil {
		return (*h)[0].Autoscaler
	}
	return nil
}

// set stores the current version of an autoscaler; nil means that it is deleted.
func (c *candidates) set(key cluster.Key, now *cluster.Autoscaler) {
	applies := now != nil && now.ChangesPods(c.startupBoost)
	if old := c.byKey[key]; old != nil {
		if applies && now.Target == old.Target && now.Created.Equal(old.Created) {
			old.Autoscaler = now // its place in the order is the same
			return
		}
		h := c.byTarget[old.Target]
		heap.Remove(h, old.at)
		if h.Len() == 0 {
			delete(c.byTarget, old.Target)
		}
		delete(c.byKey, key)
	}
	if !applies {
		return
	}
	h := c.byTarget[now.Target]
	if h == nil {
		h = new(candidateHeap)
		c.byTarget[now.Target] = h
	}
	added := &candidate{Autoscaler: now}
	c.byKey[key] = added
	heap.Push(h, added)
}

// A candidateHeap is a heap whose first element is the governing autoscaler.
type candidateHeap []*candidate

// Len, Less, Swap, Push and Pop implement the interface of package container/heap.
func (h candidateHeap) Len() int           { return len(h) }
func (h candidateHeap) Less(i, j int) bool { return h[i].Precedes(h[j].Autoscaler) }

// Swap exchanges two candidates.
func (h candidateHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at = i
	h[j].at = j
}

// Push adds a candidate at the end.
func (h *candidateHeap) Push(x any) {
	c := x.(*candidate)
	c.at = len(*h)
	*h = append(*h, c)
}

// Pop removes the candidate at the end.
func (h *candidateHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
