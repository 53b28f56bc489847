// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// urgent signals that a pass of the updater before the end of the interval may change a pod. The mutex of the World guards it.
type urgent struct {
	crashing map[string]int // number of pods with a Crash, by namespace
	waits    Waits
	timer    *time.Timer   // signals at Waits.At; nil if that is zero
	signal   chan struct{} // buffer of one
}

// Waits are the changes in the cluster that pods wait for since the last pass.
type Waits struct {
	Nodes       map[string]bool           // on which pods wait for room
	Controllers map[cluster.Workload]bool // direct controllers of which more pods must be ready before the next one is changed
	Surging     map[cluster.Workload]bool // direct controllers of pods that a surge replaces
	LargerNode  bool                      // pods wait for a node that is larger than all others
	At          time.Time                 // when the next step of a surge or the next read of requests for capacity is due; zero if there is none
}

// Urgent returns a channel that receives a value when pods may be changed because of a change in the cluster: a container was
// OOM-killed and its pod is not ready, or such a pod changes; a kubelet has deferred a resize; an autoscaler has another recommendation
// or another spec; a placeholder pod got a node; or what AwaitChanges names has happened. Several signals may be combined in one value.
func (b *base) Urgent() <-chan struct{} { return b.urgent.signal }

// AwaitChanges replaces what Urgent also signals: pods that leave the nodes or become smaller there, pods of the controllers that become
// ready, pods of surges that become ready or are gone, nodes that arrive, become ready or grow; and Waits.At. The maps must not be changed afterwards.
func (w *World) AwaitChanges(waits Waits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := &w.urgent
	u.waits = waits
	if u.timer != nil {
		u.timer.Stop()
		u.timer = nil
	}
	if !waits.At.IsZero() {
		u.timer = time.AfterFunc(time.Until(waits.At), u.notify)
	}
}

func (u *urgent) notify() { kube.Signal(u.signal) }

func (u *urgent) podChanged(namespace string, before, now *cluster.Pod) {
	if now != nil {
		same := before
		if before != nil && before.UID != now.UID {
			same = nil
		}
		projection.CountKills(same, now)
	}
	was := before != nil && before.Crash != nil
	is := now != nil && now.Crash != nil
	switch {
	case is && !was:
		u.crashing[namespace]++
	case was && !is:
		u.crashing[namespace]--
		if u.crashing[namespace] == 0 {
			delete(u.crashing, namespace)
		}
	}
	// The next OOM-killed pod is rescued only when the replacement of the last one is ready. So a pod that becomes ready in a namespace with
	// crashing pods counts, too.
	isReady := now != nil && now.Ready && (before == nil || !before.Ready)
	if is && now.Live() || isReady && (u.crashing[namespace] > 0 || u.waits.Controllers[now.Controller]) ||
		isDeferred(now) && !isDeferred(before) || holdsRoom(now) && !holdsRoom(before) || u.freesRoom(before, now) || u.continuesSurge(before, now, isReady) {
		u.notify()
	}
}

// continuesSurge reports whether the next step of a surge may be possible: its additional pod is ready, or the pod that it replaces is gone.
func (u *urgent) continuesSurge(before, now *cluster.Pod, isReady bool) bool {
	isGone := before != nil && (now == nil || now.UID != before.UID)
	return isGone && u.waits.Surging[before.Controller] || isReady && u.waits.Surging[now.Controller]
}

func isDeferred(p *cluster.Pod) bool { return p != nil && p.IsDeferred() }

// holdsRoom reports whether a pod is a placeholder pod with a node: the pod that it is for may be evicted.
func holdsRoom(p *cluster.Pod) bool { return p != nil && p.Placeholder && p.Node != "" }

// freesRoom reports whether a pod leaves a node on which other pods wait for room, or becomes smaller there.
func (u *urgent) freesRoom(before, now *cluster.Pod) bool {
	if before == nil || before.Node == "" || !u.waits.Nodes[before.Node] || before.HasFinished() {
		return false
	}
	if now == nil || now.UID != before.UID || now.HasFinished() {
		return true
	}
	had := presentRequests(before)
	has := presentRequests(now)
	return has.CPU < had.CPU || has.Memory < had.Memory
}

// presentRequests returns the sum of the requests that the kubelet has applied.
func presentRequests(p *cluster.Pod) cluster.Resources {
	var sum cluster.Resources
	for i := range p.Containers {
		requests, _ := p.Containers[i].Running()
		sum = sum.Add(requests)
	}
	return sum
}

// autoscalerChanged signals if an autoscaler that changes pods has another recommendation or another spec than before.
func (u *urgent) autoscalerChanged(before, now *cluster.Autoscaler) {
	if !now.Mode.Applies() || len(now.Advice) == 0 {
		return
	}
	if before == nil || before.Generation != now.Generation || before.MakeRoom != now.MakeRoom || !slices.EqualFunc(before.Advice, now.Advice, func(a, b cluster.Advice) bool {
		return a.Container == b.Container && a.Estimate == b.Estimate
	}) {
		u.notify()
	}
}
