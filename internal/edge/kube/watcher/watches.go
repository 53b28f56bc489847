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
	namespaces := w.namespaces()
	if w.o.Pods != NoPods {
		selector := namespaces
		if w.o.Pods == LivePods {
			selector = and(selector, "status.phase!=Succeeded,status.phase!=Failed")
		}
		project := func(p *corev1.Pod) *cluster.Pod { return w.Project(p, w.in) }
		addFeed(w.base, feed.Config{Name: "pods", FieldSelector: selector}, core.Pods(ns), typed(project), &w.pods)
	}
	if w.o.Limits {
		addFeed(w.base, feed.Config{Name: "limitranges", FieldSelector: namespaces}, core.LimitRanges(ns), typed(projection.LimitItems), &w.limitItems)
	}
	if w.o.Quotas {
		w.quotaFeed = addFeed(w.base, feed.Config{
			Name: "resourcequotas", FieldSelector: namespaces, NonBlocking: true, // podfit also runs without the right to read it
			LostWithout: "whether a pod still fits its ResourceQuotas with a new size",
		}, core.ResourceQuotas(ns), typed(projection.Quota), &w.quotas)
	}
	if w.o.HPAs {
		w.addHorizontal()
	}
	if w.o.Budgets {
		project := func(b *policyv1.PodDisruptionBudget) cluster.DisruptionBudget {
			return projection.DisruptionBudget(b, w.in)
		}
		w.budgetFeed = addFeed(w.base, feed.Config{
			Name: "poddisruptionbudgets", FieldSelector: namespaces, NonBlocking: true,
			LostWithout: "whether only OOM-killed pods make a PodDisruptionBudget refuse an eviction, so that it deletes no pod to rescue it",
		}, c.Core.PolicyV1().PodDisruptionBudgets(ns), typed(project), &w.budgets)
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
		addFeed(w.base, feed.Config{
			Name: "events", FieldSelector: and(namespaces, "reason=Evicted"), NonBlocking: true,
			LostWithout: "how much memory containers used before the kubelet evicted their pods for memory pressure",
		}, core.Events(ns), typed(projection.MemoryEvictions), &w.evictions)
	}
	if w.o.Nodes {
		addFeed(w.base, feed.Config{
			Name:        "nodes",
			LostWithout: "whether a pod fits on a node before it is evicted, and the size of nodes, which bounds recommendations (mostOfNode) and decides about the pods of DaemonSets",
		}, core.Nodes(), typed(func(n *corev1.Node) cluster.Node { return projection.Node(n, w.in) }), &w.nodes)
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

// A lister is a client of one resource.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// addFeed watches the resource of a client, and stores projections of its objects.
func addFeed[L runtime.Object, T any](b *base, config feed.Config, c lister[L], project func(runtime.Object) T, to *store[T]) *feed.Feed {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) }
	f := feed.New(feed.Source[T]{Config: config, List: list, Watch: c.Watch, Project: project}, to, b.log)
	b.feeds = append(b.feeds, f)
	return f
}

// typed returns a projection for the client of a resource whose objects have one type.
func typed[T any, P runtime.Object](project func(P) T) func(runtime.Object) T {
	return func(o runtime.Object) (out T) {
		if p, ok := o.(P); ok {
			out = project(p)
		}
		return out
	}
}

func addController[L runtime.Object](w *World, kind string, c lister[L]) {
	resource := projection.ResourceOfWellKnown(kind)
	gk := projection.GroupKind{Group: resource.Group, Kind: kind}
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
	project := func(o runtime.Object) projection.ControllerState { return projection.Controller(o, w.in) }
	w.controllerFeeds[gk] = addFeed(w.base, feed.Config{Name: resource.Resource, FieldSelector: w.namespaces()}, c, project, s)
}
