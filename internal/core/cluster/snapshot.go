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
	return &Snapshot{Pods: pods, Autoscalers: autoscalers, byTop: podsByTop(pods), byTarget: byTarget(autoscalers)}
}

// podsByTop returns the pods by their topmost controllers. Pods without one are left out.
func podsByTop(pods []*Pod) map[Workload][]*Pod {
	out := GroupBy(pods, func(p *Pod) Workload { return p.Top })
	delete(out, Workload{})
	return out
}

func byTarget(all []*Autoscaler) map[Workload][]*Autoscaler {
	return GroupBy(all, func(a *Autoscaler) Workload { return a.Target })
}

// A Daemon is a DaemonSet, whose pods take room of each node that they run on.
type Daemon struct {
	Key
	Selector    NodeSelector
	Somewhere   bool // its node selector or required node affinity is not evaluated, so its nodes are unknown
	Tolerations Tolerations
	Requests    Resources // of one pod
}

// RunsOn reports whether the DaemonSet has a pod on nodes with these labels and taints. It is false if that is not known.
func (d *Daemon) RunsOn(n *Node) bool {
	return !d.Somewhere && n.Matches(d.Selector) && d.Tolerations.Tolerate(n.Taints)
}
