// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// A podSet has the pods, and the events about evicted pods.
type podSet struct {
	*base
	pods      store[*cluster.Pod]
	evictions store[[]usage.OOM]
}

// podChanged counts OOM kills, and copies the topmost controller of a pod to its next version. The mutex is held.
func (s *podSet) podChanged(key cluster.Key, before, now **cluster.Pod) {
	had := ptr.Deref(before, nil)
	has := ptr.Deref(now, nil)
	s.urgent.podChanged(key.Namespace, had, has)
	if had != nil && has != nil && had.UID == has.UID && had.Controller == has.Controller {
		has.Top = had.Top
	}
}

// forgetSelectors frees unused node selectors until ctx ends.
func (s *podSet) forgetSelectors(ctx context.Context) {
	const selectorsKept = 5 * time.Minute // the minimum time for which a node selector is kept after the last pod with it is deleted
	for kube.Sleep(ctx, selectorsKept) {
		if s.in.Crowded() {
			s.in.ForgetSelectors(s.placesInUse())
		}
	}
}

func (s *podSet) placesInUse() map[cluster.Place]bool {
	used := make(map[cluster.Place]bool)
	s.pods.each(func(_ cluster.Key, p *cluster.Pod) {
		if p.Place >= cluster.Selected {
			used[p.Place] = true
		}
	})
	return used
}

// MemoryEvictions returns the containers whose memory usage made the kubelet evict their pods, oldest first. The API server keeps
// the events for an hour by default, so repeated calls return the same evictions.
func (s *podSet) MemoryEvictions() []usage.OOM {
	var out []usage.OOM
	s.evictions.each(func(_ cluster.Key, e []usage.OOM) { out = append(out, e...) })
	slices.SortFunc(out, func(a, b usage.OOM) int {
		return cmp.Or(a.At.Compare(b.At), a.Pod.Compare(b.Pod), strings.Compare(a.Container, b.Container))
	})
	return out
}
