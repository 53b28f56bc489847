// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// A Snapshot contains the known pods and autoscalers. It does not change, so readers may keep it. The state of each object
// is that of some moment while the snapshot was taken.
type Snapshot struct {
	Pods        []*Pod        // sorted by key; Top is set if it is known
	Autoscalers []*Autoscaler // sorted by key

	byTop    map[Workload][]*Pod
	byTarget map[Workload][]*Autoscaler
}

// PodsOf returns the pods whose topmost controller is w, sorted.
func (s *Snapshot) PodsOf(w Workload) []*Pod { return s.byTop[w] }

// AutoscalersOf returns the autoscalers that target w, sorted.
func (s *Snapshot) AutoscalersOf(w Workload) []*Autoscaler { return s.byTarget[w] }

// NewSnapshot sorts pods and autoscalers and returns a snapshot of them.
func NewSnapshot(pods []*Pod, autoscalers []*Autoscaler) *Snapshot {
	slices.SortFunc(pods, func(a, b *Pod) int { return a.Compare(b.Key) })
	slices.SortFunc(autoscalers, func(a, b *Autoscaler) int { return a.Compare(b.Key) })
	snapshot := &Snapshot{
		Pods:        pods,
		Autoscalers: autoscalers,
		byTop:       make(map[Workload][]*Pod),
		byTarget:    make(map[Workload][]*Autoscaler, len(autoscalers)),
	}
	for _, p := range pods {
		if !p.Top.IsZero() {
			snapshot.byTop[p.Top] = append(snapshot.byTop[p.Top], p)
		}
	}
	for _, a := range autoscalers {
		snapshot.byTarget[a.Target] = append(snapshot.byTarget[a.Target], a)
	}
	return snapshot
}
