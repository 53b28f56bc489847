// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// HorizontalFeed is the name of the watch of HorizontalPodAutoscalers in Stale and Health.
const HorizontalFeed = "horizontalpodautoscalers"

// maxHPAs is the maximum number of HPAs of one workload that are considered. One workload normally has one.
const maxHPAs = 16

type horizontalSet struct {
	*base
	horizontal     store[*cluster.HorizontalAutoscaler]
	horizontalFeed *feed.Feed                          // nil if they are not watched
	horizontalOf   index[cluster.HorizontalAutoscaler] // those that depend on requests, by target
}

// addHorizontal watches HorizontalPodAutoscalers. Decisions about pods wait until they are up to date, because an HPA that is not known
// would react to a change of a request.
func (w *World) addHorizontal() {
	w.horizontalFeed = addFeed(w.base, feed.Config{
		Name: HorizontalFeed, FieldSelector: w.namespaces(),
		LostWithout: "by which requests HorizontalPodAutoscalers scale, and changes these requests as well",
		Remedy:      "upgrade to Kubernetes 1.23 or later, which serves autoscaling/v2, or set --hpa=ignore",
	}, w.clients.Core.AutoscalingV2().HorizontalPodAutoscalers(w.o.Namespace), typed(projection.HorizontalAutoscaler), &w.horizontal)
}

func compareHorizontals(a, b *cluster.HorizontalAutoscaler) int { return a.Compare(b.Key) }

// indexHorizontal keeps the index by target. Only HPAs that depend on requests are in it.
func (s *horizontalSet) indexHorizontal(_ cluster.Key, before, now **cluster.HorizontalAutoscaler) {
	dependent := func(h **cluster.HorizontalAutoscaler) *cluster.HorizontalAutoscaler {
		if h == nil || len((*h).Utilization) == 0 {
			return nil
		}
		return *h
	}
	s.horizontalOf.change(dependent(before), dependent(now))
}

// withHorizontal returns the autoscaler with the HPAs of its target that depend on requests, sorted, at most maxHPAs. The mutex is held.
func (s *horizontalSet) withHorizontal(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || len(s.horizontalOf.of) == 0 {
		return a
	}
	of := s.horizontalOf.of[a.Target]
	return a.WithHorizontal(slices.Clone(of[:min(len(of), maxHPAs)]))
}

// Horizontals returns all HPAs that depend on requests, sorted.
func (s *horizontalSet) Horizontals() []*cluster.HorizontalAutoscaler {
	var out []*cluster.HorizontalAutoscaler
	s.horizontal.each(func(_ cluster.Key, h *cluster.HorizontalAutoscaler) {
		if len(h.Utilization) > 0 || len(h.Points) > 0 {
			out = append(out, h)
		}
	})
	slices.SortFunc(out, compareHorizontals)
	return out
}

// Scaled returns the workloads with an HPA, whatever its metrics, and whether they are known.
func (s *horizontalSet) Scaled() (scaled map[cluster.Workload]bool, known bool) {
	if s.horizontalFeed == nil {
		return nil, false
	}
	if state := s.horizontalFeed.State(); !state.Synced || state.Forbidden {
		return nil, false
	}
	scaled = map[cluster.Workload]bool{}
	s.horizontal.each(func(_ cluster.Key, h *cluster.HorizontalAutoscaler) { scaled[h.Target] = true })
	return scaled, true
}
