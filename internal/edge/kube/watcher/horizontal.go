// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"maps"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// HorizontalFeed is the name of the watch of HorizontalPodAutoscalers in Stale and Health.
const HorizontalFeed = "horizontalpodautoscalers"

// maxHPAs is the maximum number of HPAs of one workload that are considered. One workload normally has one.
const maxHPAs = 16

// A horizontalSet has the HorizontalPodAutoscalers.
type horizontalSet struct {
	*base
	horizontal       store[*cluster.HorizontalAutoscaler]
	horizontalFeed   *feed.Feed                                                         // nil if they are not watched
	horizontalOf     map[cluster.Workload]map[cluster.Key]*cluster.HorizontalAutoscaler // those that depend on requests, by target
	horizontalSorted map[cluster.Workload][]*cluster.HorizontalAutoscaler               // cache of horizontals
}

func (s *horizontalSet) start(b *base) {
	s.base = b
	s.horizontal = store[*cluster.HorizontalAutoscaler]{mu: &b.mu, changed: s.indexHorizontal}
	s.horizontalOf = make(map[cluster.Workload]map[cluster.Key]*cluster.HorizontalAutoscaler)
	s.horizontalSorted = make(map[cluster.Workload][]*cluster.HorizontalAutoscaler)
}

// addHorizontal watches HorizontalPodAutoscalers. Decisions about pods wait until they are up to date, because an HPA that is not known
// would react to a change of a request.
func (w *World) addHorizontal() {
	c := w.clients.Core.AutoscalingV2().HorizontalPodAutoscalers(w.o.Namespace)
	s := typed(HorizontalFeed, c, projection.HorizontalAutoscaler)
	s.FieldSelector = w.namespaces()
	s.LostWithout = "by which requests HorizontalPodAutoscalers scale, and changes these requests as well"
	s.Remedy = "upgrade to Kubernetes 1.23 or later, which serves autoscaling/v2, or set --hpa=ignore"
	w.horizontalFeed = addFeed(w.base, s, &w.horizontal)
}

// indexHorizontal keeps the index by target. Only HPAs that depend on requests are in it.
func (s *horizontalSet) indexHorizontal(key cluster.Key, before, now **cluster.HorizontalAutoscaler) {
	if before != nil {
		s.dropHorizontal((*before).Target, key)
	}
	if now == nil || len((*now).Utilization) == 0 {
		return
	}
	h := *now
	of := s.horizontalOf[h.Target]
	if of == nil {
		of = make(map[cluster.Key]*cluster.HorizontalAutoscaler)
		s.horizontalOf[h.Target] = of
	}
	of[key] = h
	delete(s.horizontalSorted, h.Target)
}

func (s *horizontalSet) dropHorizontal(target cluster.Workload, key cluster.Key) {
	of := s.horizontalOf[target]
	delete(of, key)
	if len(of) == 0 {
		delete(s.horizontalOf, target)
	}
	delete(s.horizontalSorted, target)
}

// horizontals returns the HPAs of a workload that depend on requests, sorted, at most maxHPAs. The mutex is held.
func (s *horizontalSet) horizontals(target cluster.Workload) []*cluster.HorizontalAutoscaler {
	of := s.horizontalOf[target]
	if len(of) == 0 {
		return nil
	}
	sorted, ok := s.horizontalSorted[target]
	if !ok {
		sorted = slices.AppendSeq(make([]*cluster.HorizontalAutoscaler, 0, len(of)), maps.Values(of))
		slices.SortFunc(sorted, func(a, b *cluster.HorizontalAutoscaler) int { return a.Compare(b.Key) })
		sorted = slices.Clip(sorted[:min(len(sorted), maxHPAs)])
		s.horizontalSorted[target] = sorted
	}
	return sorted
}

// withHorizontal returns the autoscaler with the HPAs of its target. The mutex is held.
func (s *horizontalSet) withHorizontal(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || len(s.horizontalOf) == 0 {
		return a
	}
	return a.WithHorizontal(s.horizontals(a.Target))
}

// Horizontals returns all HPAs that depend on requests, sorted.
func (s *horizontalSet) Horizontals() []*cluster.HorizontalAutoscaler {
	var out []*cluster.HorizontalAutoscaler
	s.horizontal.each(func(_ cluster.Key, h *cluster.HorizontalAutoscaler) {
		if len(h.Utilization) > 0 || len(h.Points) > 0 {
			out = append(out, h)
		}
	})
	slices.SortFunc(out, func(a, b *cluster.HorizontalAutoscaler) int { return a.Compare(b.Key) })
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
