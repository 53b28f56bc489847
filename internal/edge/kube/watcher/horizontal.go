// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// HorizontalFeed is the name of the watch of HorizontalPodAutoscalers in Stale and Health.
const HorizontalFeed = "horizontalpodautoscalers"

// maxHPAs is the maximum number of HPAs of one workload that are considered. One workload normally has one.
const maxHPAs = 16

// addHorizontal watches HorizontalPodAutoscalers. Decisions about pods wait until they are up to date, because an HPA that is not known
// would react to a change of a request.
func (w *World) addHorizontal() {
	c := w.clients.Core.AutoscalingV2().HorizontalPodAutoscalers(w.o.Namespace)
	s := typed(HorizontalFeed, c, projection.HorizontalAutoscaler)
	s.FieldSelector = w.namespaces()
	s.LostWithout = "by which requests HorizontalPodAutoscalers scale, and changes these requests as well"
	s.Remedy = "upgrade to Kubernetes 1.23 or later, which serves autoscaling/v2, or set --hpa=ignore"
	addFeed(w, s, &w.horizontal)
}

// indexHorizontal keeps the index by target. Only HPAs that depend on requests are in it.
func (w *World) indexHorizontal(key cluster.Key, before, now **cluster.HorizontalAutoscaler) *cluster.HorizontalAutoscaler {
	if before != nil {
		w.dropHorizontal((*before).Target, key)
	}
	if now == nil {
		return nil
	}
	h := *now
	if len(h.Utilization) > 0 {
		of := w.horizontalOf[h.Target]
		if of == nil {
			of = make(map[cluster.Key]*cluster.HorizontalAutoscaler)
			w.horizontalOf[h.Target] = of
		}
		of[key] = h
		delete(w.horizontalSorted, h.Target)
	}
	return h
}

func (w *World) dropHorizontal(target cluster.Workload, key cluster.Key) {
	of := w.horizontalOf[target]
	delete(of, key)
	if len(of) == 0 {
		delete(w.horizontalOf, target)
	}
	delete(w.horizontalSorted, target)
}

// horizontals returns the HPAs of a workload that depend on requests, sorted, at most maxHPAs. The mutex is held.
func (w *World) horizontals(target cluster.Workload) []*cluster.HorizontalAutoscaler {
	of := w.horizontalOf[target]
	if len(of) == 0 {
		return nil
	}
	sorted, ok := w.horizontalSorted[target]
	if !ok {
		sorted = make([]*cluster.HorizontalAutoscaler, 0, len(of))
		for _, h := range of {
			sorted = append(sorted, h)
		}
		slices.SortFunc(sorted, func(a, b *cluster.HorizontalAutoscaler) int { return a.Compare(b.Key) })
		sorted = slices.Clip(sorted[:min(len(sorted), maxHPAs)])
		w.horizontalSorted[target] = sorted
	}
	return sorted
}

// withHorizontal returns the autoscaler with the HPAs of its target. The mutex is held.
func (w *World) withHorizontal(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || len(w.horizontalOf) == 0 {
		return a
	}
	return a.WithHorizontal(w.horizontals(a.Target))
}

// Horizontals returns all HPAs that depend on requests, sorted.
func (w *World) Horizontals() []*cluster.HorizontalAutoscaler {
	var out []*cluster.HorizontalAutoscaler
	w.horizontal.each(func(_ cluster.Key, h *cluster.HorizontalAutoscaler) {
		if len(h.Utilization) > 0 || len(h.Points) > 0 {
			out = append(out, h)
		}
	})
	slices.SortFunc(out, func(a, b *cluster.HorizontalAutoscaler) int { return a.Compare(b.Key) })
	return out
}
