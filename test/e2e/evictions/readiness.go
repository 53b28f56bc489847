// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A sight is a state of a pod, as the watch delivers it.
type sight struct {
	UID      string
	Workload string
	Ready    bool // and not being deleted
	Right    bool // the pod has the recommended requests
	Gone     bool
}

// A tracker follows the pods of workloads with the same number of replicas. It records when each replica has a ready pod with the
// recommended requests, and whether a workload ever had fewer ready pods than it must have.
type tracker struct {
	replicas, minReady int

	pods      map[string]sight // by UID
	ready     map[string]int   // number of ready pods by workload
	right     map[string]int   // number of ready pods with the recommended requests, by workload
	satisfied map[string]int   // largest value of right since the start, by workload
	wrong     int              // pods without the recommended requests

	begun   bool
	start   time.Time
	seconds []float64 // from the start until each replica was satisfied
	least   int       // smallest number of ready pods of a workload since the start
	broken  []string  // workloads that had fewer ready pods than minReady
}

func newTracker(replicas, minReady int) *tracker {
	return &tracker{
		replicas: replicas, minReady: minReady, least: replicas,
		pods: map[string]sight{}, ready: map[string]int{}, right: map[string]int{}, satisfied: map[string]int{},
	}
}

// begin starts the measurement. Before it, pods are created, and no budget applies.
func (t *tracker) begin(now time.Time) {
	t.begun, t.start = true, now
}

// saw records a state of a pod.
func (t *tracker) saw(now time.Time, s sight) {
	last, known := t.pods[s.UID]
	if known {
		t.count(last, -1)
	}
	if s.Gone {
		delete(t.pods, s.UID)
	} else {
		t.pods[s.UID] = s
		t.count(s, 1)
	}
	if !t.begun {
		return
	}
	ready := t.ready[s.Workload]
	t.least = min(t.least, ready)
	if ready < t.minReady && !slices.Contains(t.broken, s.Workload) {
		t.broken = append(t.broken, s.Workload)
	}
	if right := t.right[s.Workload]; right > t.satisfied[s.Workload] {
		t.satisfied[s.Workload] = right
		t.seconds = append(t.seconds, now.Sub(t.start).Seconds())
	}
}

func (t *tracker) count(s sight, by int) {
	if s.Ready {
		t.ready[s.Workload] += by
	}
	if s.Ready && s.Right {
		t.right[s.Workload] += by
	}
	if !s.Right {
		t.wrong += by
	}
}

// done reports whether each replica of this many workloads has been satisfied, and no other pod is left.
func (t *tracker) done(workloads int) bool {
	return len(t.seconds) == workloads*t.replicas && t.wrong == 0
}

// quantile returns the time by which a part of the satisfied replicas was satisfied.
func (t *tracker) quantile(q float64) float64 {
	if len(t.seconds) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(t.seconds), cmp.Compare[float64])
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// violation returns an error that names workloads which had too few ready pods.
func (t *tracker) violation() error {
	if len(t.broken) == 0 {
		return nil
	}
	return fmt.Errorf("%d workloads had fewer than %d ready pods, such as %s", len(t.broken), t.minReady, t.broken[0])
}
