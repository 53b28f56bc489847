// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// addFeeds adds a feed for each collection that the options select.
func (w *World) addFeeds() {
	c := w.clients
	ns := w.o.Namespace
	core := c.Core.CoreV1()
	apps := c.Core.AppsV1()

	w.addAutoscalers()
	addController(w, "ReplicaSet", apps.ReplicaSets(ns))
	addController(w, "StatefulSet", apps.StatefulSets(ns))
	addController(w, "DaemonSet", apps.DaemonSets(ns))
	addController(w, "ReplicationController", core.ReplicationControllers(ns))
	for _, kind := range []string{deploymentKind, "Job", "CronJob"} { // of them, only the owner is needed
		addController(w, kind, c.Metadata.Resource(projection.ResourceOfWellKnown(kind)).Namespace(ns))
	}
	if w.o.Pods != NoPods {
		s := typed("pods", core.Pods(ns), func(p *corev1.Pod) *cluster.Pod { return w.Project(p, w.in) })
		s.FieldSelector = w.namespaces()
		if w.o.Pods == LivePods {
			s.FieldSelector = and(s.FieldSelector, "status.phase!=Succeeded,status.phase!=Failed")
		}
		addFeed(w.base, s, &w.pods)
	}
	if w.o.Limits {
		s := typed("limitranges", core.LimitRanges(ns), projection.LimitItems)
		s.FieldSelector = w.namespaces()
		addFeed(w.base, s, &w.limitItems)
	}
	if w.o.Quotas {
		s := typed("resourcequotas", core.ResourceQuotas(ns), projection.Quota)
		s.FieldSelector = w.namespaces()
		s.LostWithout = "whether a pod still fits its ResourceQuotas with a new size"
		s.NonBlocking = true // podfit also runs without the right to read it
		w.quotaFeed = addFeed(w.base, s, &w.quotas)
	}
	if w.o.HPAs {
		w.addHorizontal()
	}
	if w.o.Budgets {
		s := typed("poddisruptionbudgets", c.Core.PolicyV1().PodDisruptionBudgets(ns), func(b *policyv1.PodDisruptionBudget) cluster.DisruptionBudget {
			return projection.DisruptionBudget(b, w.in)
		})
		s.FieldSelector = w.namespaces()
		s.LostWithout = "whether only OOM-killed pods make a PodDisruptionBudget refuse an eviction, so that it deletes no pod to rescue it"
		s.NonBlocking = true
		w.budgetFeed = addFeed(w.base, s, &w.budgets)
	}
	if w.o.Profiles {
		w.addProfiles()
	}
	if w.o.Held {
		w.addHeld()
	}
	if w.o.Rules {
		w.addRules()
	}
	if w.o.Evictions {
		s := typed("events", core.Events(ns), projection.MemoryEvictions)
		s.FieldSelector = and(w.namespaces(), "reason=Evicted")
		s.LostWithout = "how much memory containers used before the kubelet evicted their pods for memory pressure"
		s.NonBlocking = true
		addFeed(w.base, s, &w.evictions)
	}
	if w.o.Nodes {
		s := typed("nodes", core.Nodes(), func(n *corev1.Node) cluster.Node { return projection.Node(n, w.in) })
		s.LostWithout = "whether a pod fits on a node before it is evicted, and the size of nodes, which bounds recommendations (mostOfNode) and decides about the pods of DaemonSets"
		addFeed(w.base, s, &w.nodes)
	}
}

// Project returns the fields of a pod that the core needs.
func (b *base) Project(p *corev1.Pod, in *projection.Interner) *cluster.Pod {
	pod := projection.Pod(p, in)
	pod.Fix(b.o.Fixed)
	return pod
}

// namespaces returns the field selector that excludes the ignored namespaces.
func (b *base) namespaces() string {
	var parts []string
	for _, ns := range b.o.Ignored {
		if ns = strings.TrimSpace(ns); ns != "" {
			parts = append(parts, "metadata.namespace!="+ns)
		}
	}
	return strings.Join(parts, ",")
}

func and(selectors ...string) string {
	return strings.Join(slices.DeleteFunc(selectors, func(s string) bool { return s == "" }), ",")
}

func addFeed[T any](b *base, src feed.Source[T], to *store[T]) *feed.Feed {
	f := feed.New(src, to, b.log)
	b.feeds = append(b.feeds, f)
	return f
}

// A lister is a client of one resource.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func sourceOf[L runtime.Object, T any](name string, c lister[L], project func(runtime.Object) T) feed.Source[T] {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) }
	return feed.Source[T]{Config: feed.Config{Name: name}, List: list, Watch: c.Watch, Project: project}
}

// typed returns the source of a client whose objects have one type.
func typed[O any, L runtime.Object, T any, P interface {
	*O
	runtime.Object
}](name string, c lister[L], project func(P) T) feed.Source[T] {
	return sourceOf(name, c, func(o runtime.Object) T {
		if p, ok := o.(P); ok {
			return project(p)
		}
		var zero T
		return zero
	})
}

func addController[L runtime.Object](w *World, kind string, c lister[L]) {
	resource := projection.ResourceOfWellKnown(kind)
	gk := projection.GroupKind{Group: resource.Group, Kind: kind}
	src := sourceOf(resource.Resource, c, func(o runtime.Object) projection.ControllerState {
		return projection.Controller(o, w.in)
	})
	src.FieldSelector = w.namespaces()
	s := &store[projection.ControllerState]{mu: &w.mu, changed: func(key cluster.Key, before, now *projection.ControllerState) {
		if kind == deploymentKind {
			w.noteSurge(key, now)
		}
		if now == nil {
			return
		}
		w.ownerArrived()
		if now.RollingOut && before != nil {
			now.Daemon = before.Daemon // what its pods take of their nodes is what they took before the rollout
		}
	}}
	w.owners.known[gk] = s
	f := addFeed(w.base, src, s)
	before := w.owners.synced
	w.owners.synced = func(k projection.GroupKind) bool {
		if k == gk {
			return f.State().Synced
		}
		return before(k)
	}
}
