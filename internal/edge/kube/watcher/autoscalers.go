// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

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
	c, ns := w.clients.Autoscalers, w.o.Namespace
	lostWithout := ""
	if w.o.VPAsOptional {
		lostWithout = "the policies and recommendations of VPAs"
	}
	addFeed(w, source[*autoscalerEntry]{
		Config: feed.Config{
			Name: AutoscalersFeed, FieldSelector: w.namespaces(), LostWithout: lostWithout, Remedy: "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -",
		},
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return kube.ListAutoscalers(ctx, c, ns, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return kube.WatchAutoscalers(ctx, c, ns, o)
		},
		project: func(o runtime.Object) *autoscalerEntry {
			a, ok := o.(*kube.AutoscalerObject)
			if !ok {
				return nil
			}
			entry := projectAutoscaler(a)
			w.in.ShareZones(&entry.Rules)
			return entry
		},
	}, &w.autoscalers)
}

// indexAutoscaler keeps the index by target.
func (w *World) indexAutoscaler(key cluster.Key, before, now **autoscalerEntry) *autoscalerEntry {
	if before != nil && now != nil && (*now).isEcho(*before) {
		return *before
	}
	if now == nil {
		w.candidates.set(key, nil)
		return nil
	}
	w.candidates.set(key, (*now).Autoscaler)
	return *now
}

// Autoscalers returns all autoscalers, sorted, with the HPAs of their targets.
func (w *World) Autoscalers() []*cluster.Autoscaler {
	out := make([]*cluster.Autoscaler, 0, w.autoscalers.count())
	w.autoscalers.each(func(_ cluster.Key, e *autoscalerEntry) {
		out = append(out, w.withHorizontal(w.withProfile(e.Autoscaler)))
	})
	slices.SortFunc(out, func(a, b *cluster.Autoscaler) int { return a.Compare(b.Key) })
	return out
}

// Autoscaler returns one autoscaler, or nil.
func (w *World) Autoscaler(key cluster.Key) *cluster.Autoscaler {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.autoscalers.get(key); ok {
		return e.Autoscaler
	}
	return nil
}

// Governing returns the autoscaler that governs the pods of a workload, by the rule of cluster.Governing, with the HPAs of the workload.
// It returns nil if there is none.
func (w *World) Governing(target cluster.Workload) *cluster.Autoscaler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.withHorizontal(w.withProfile(w.candidates.first(target)))
}
