// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// An autoscalerEntry is an autoscaler with the fields of the object that WriteStatus needs.
type autoscalerEntry struct {
	*cluster.Autoscaler
	status  v1.VerticalPodAutoscalerStatus
	version string // resourceVersion
	problem string // why the object could not be decoded, "" if it was
	ours    bool   // the response to a status write that the watch has not delivered yet
}

// An autoscalerSet has the autoscalers, and writes their statuses.
type autoscalerSet struct {
	*base
	autoscalers store[*autoscalerEntry]
	candidates  index[cluster.Autoscaler]    // those that change pods, in the order of cluster.Governing
	targetKinds map[projection.GroupKind]int // number of autoscalers by kind of target

	throttle         kube.Throttle // of the writes of statuses
	generationPruned atomic.Bool   // the CRD has no field status.observedGeneration, according to the last status write
}

func projectAutoscaler(o *kube.AutoscalerObject) *autoscalerEntry {
	e := &autoscalerEntry{
		Autoscaler: projection.Autoscaler(&o.VerticalPodAutoscaler),
		status:     o.Status,
		version:    o.ResourceVersion,
		problem:    o.Problem,
	}
	if e.problem != "" {
		e.Mode = cluster.Off // the spec is unknown, so no pod is changed
	}
	return e
}

// isEcho reports whether e is an older version of the stored object. The watch delivers one when podfit has written the status
// more than once in the meantime.
func (e *autoscalerEntry) isEcho(known *autoscalerEntry) bool {
	return known.ours && e.UID == known.UID && e.isOlder(known)
}

func (e *autoscalerEntry) isOlder(than *autoscalerEntry) bool {
	order, err := resourceversion.CompareResourceVersion(e.version, than.version)
	return err == nil && order < 0
}

// AutoscalersFeed is the name of the watch of autoscalers in Stale and Health.
const AutoscalersFeed = "verticalpodautoscalers"

func (w *World) addAutoscalers() {
	lostWithout := ""
	if w.o.VPAsOptional {
		lostWithout = "the policies and recommendations of VPAs"
	}
	addFeed(w.base, feed.Config{
		Name: AutoscalersFeed, FieldSelector: w.namespaces(), LostWithout: lostWithout,
		Remedy: "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -",
	}, w.clients.AutoscalersIn(w.o.Namespace), typed(projectAutoscaler), &w.autoscalers)
}

// autoscalerChanged updates the index by target and the number of autoscalers by kind of target. The mutex is held.
func (s *autoscalerSet) autoscalerChanged(_ cluster.Key, before, now **autoscalerEntry) {
	var old, kept *cluster.Autoscaler
	if before != nil {
		if now != nil && (*now).isEcho(*before) {
			*now = *before
		}
		old = (*before).Autoscaler
		gk := projection.KindOf(old.Target)
		s.targetKinds[gk]--
		if s.targetKinds[gk] == 0 {
			delete(s.targetKinds, gk)
		}
	}
	if now != nil {
		kept = (*now).Autoscaler
		s.targetKinds[projection.KindOf(kept.Target)]++
		s.urgent.autoscalerChanged(old, kept)
	}
	s.candidates.change(s.candidate(old), s.candidate(kept))
}

// candidate returns an autoscaler if it may govern the pods of its target, otherwise nil.
func (s *autoscalerSet) candidate(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || !a.ChangesPods(s.o.Boosts) {
		return nil
	}
	return a
}

// HasAutoscalers reports whether a namespace has any autoscaler.
func (s *autoscalerSet) HasAutoscalers(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.autoscalers.at[namespace] != nil
}

// Autoscalers returns all autoscalers, sorted, with the HPAs of their targets.
func (w *World) Autoscalers() []*cluster.Autoscaler {
	out := make([]*cluster.Autoscaler, 0, w.autoscalers.count())
	w.autoscalers.each(func(_ cluster.Key, e *autoscalerEntry) {
		out = append(out, w.complete(e.Autoscaler))
	})
	slices.SortFunc(out, func(a, b *cluster.Autoscaler) int { return a.Compare(b.Key) })
	return out
}

// complete returns an autoscaler, which may be nil, with what other objects determine. The mutex is held.
func (w *World) complete(a *cluster.Autoscaler) *cluster.Autoscaler {
	return w.withNodeSizes(w.withHorizontal(w.withProfile(w.withSettings(a))))
}

// Governing returns the autoscaler that governs the pods of a workload, by the rule of cluster.Governing, with the HPAs of the workload.
// It returns nil if there is none.
func (w *World) Governing(target cluster.Workload) *cluster.Autoscaler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.complete(w.candidates.first(target))
}

// Autoscaler returns one autoscaler, or nil.
func (s *autoscalerSet) Autoscaler(key cluster.Key) *cluster.Autoscaler {
	if e := s.entry(key); e != nil {
		return e.Autoscaler
	}
	return nil
}

func (s *autoscalerSet) entry(key cluster.Key) *autoscalerEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := s.autoscalers.get(key)
	return e
}

// Status returns the status of an autoscaler, and false if it does not exist.
func (s *autoscalerSet) Status(key cluster.Key) (v1.VerticalPodAutoscalerStatus, bool) {
	e := s.entry(key)
	if e == nil {
		return v1.VerticalPodAutoscalerStatus{}, false
	}
	return e.status, true
}
