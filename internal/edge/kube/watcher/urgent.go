// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// urgent signals that a pass of the updater before the end of the interval may help a pod that is not ready because of an OOM kill.
// The mutex of the World guards it.
type urgent struct {
	crashing map[string]int // number of pods with a Crash, by namespace
	signal   chan struct{}  // buffer of one
}

func newUrgent() urgent {
	return urgent{crashing: map[string]int{}, signal: make(chan struct{}, 1)}
}

// Urgent returns a channel that receives a value when a container was OOM-killed and its pod is not ready, when such a pod changes,
// and when an autoscaler in the namespace of such a pod gets another memory recommendation. Several signals may be combined in one value.
func (w *World) Urgent() <-chan struct{} { return w.urgent.signal }

func (u *urgent) notify() {
	select {
	case u.signal <- struct{}{}:
	default:
	}
}

// podChanged counts OOM kills and keeps the topmost controller of a pod. The mutex is held.
func (w *World) podChanged(key cluster.Key, before, now **cluster.Pod) *cluster.Pod {
	w.urgent.podChanged(key.Namespace, deref(before), deref(now))
	return keepTop(key, before, now)
}

func deref(p **cluster.Pod) *cluster.Pod {
	if p == nil {
		return nil
	}
	return *p
}

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
	// The replacement of a rescued pod ends the wait of the next one, so a pod that becomes ready beside crashing ones counts too.
	isReady := now != nil && now.Ready && (before == nil || !before.Ready)
	if is && now.Live() || isReady && u.crashing[namespace] > 0 {
		u.notify()
	}
}

// adviceChanged signals if an autoscaler recommends another amount of memory than before, and pods of its namespace are not ready
// because of OOM kills.
func (u *urgent) adviceChanged(before, now *cluster.Autoscaler) {
	if u.crashing[now.Namespace] == 0 || before != nil && slices.EqualFunc(before.Advice, now.Advice, func(a, b cluster.Advice) bool {
		return a.Container == b.Container && a.Target.Memory == b.Target.Memory
	}) {
		return
	}
	u.notify()
}
