// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// addRules watches the annotations of namespaces, and the ConfigMap that freezes the cluster. Decisions about pods wait until both are up
// to date. podfit also runs without the right to read them.
func (w *World) addRules() {
	c := w.clients.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	addFeed(w, source[cluster.ChangeRules]{
		Config: feed.Config{
			Name: "namespaces", FieldSelector: w.namespaceNames(),
			LostWithout: "whether a namespace has the annotation " + rollout.AnnotationFreeze + " or " + rollout.AnnotationWindow,
		},
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		watch: c.Watch,
		project: func(o runtime.Object) cluster.ChangeRules {
			m, ok := o.(metav1.Object)
			if !ok {
				return cluster.ChangeRules{}
			}
			rules := projection.Rules(m.GetAnnotations())
			w.in.ShareZones(&rules)
			return rules
		},
	}, &w.rules)
	if w.o.FreezeSwitch.Name == "" {
		return
	}
	s := typed("configmaps", w.clients.Core.CoreV1().ConfigMaps(w.o.FreezeSwitch.Namespace), projection.FreezeSwitch)
	s.FieldSelector = "metadata.name=" + w.o.FreezeSwitch.Name
	s.LostWithout = "whether the ConfigMap " + w.o.FreezeSwitch.String() + " freezes the cluster"
	addFeed(w, s, &w.freezes)
}

// namespaceNames returns the field selector of the namespaces that are watched.
func (w *World) namespaceNames() string {
	if w.o.Namespace != "" {
		return "metadata.name=" + w.o.Namespace
	}
	return strings.ReplaceAll(w.namespaces(), "metadata.namespace", "metadata.name")
}

// Rules returns the current rules for changes of the pods of an autoscaler. While the API server is unavailable, the last known rules apply.
func (w *World) Rules(a *cluster.Autoscaler) rollout.Rules {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := rollout.Rules{Autoscaler: a}
	if e, ok := w.autoscalers.get(a.Key); ok && e.UID == a.UID {
		out.Autoscaler = e.Autoscaler
	}
	out.Namespace, _ = w.rules.get(cluster.Key{Name: a.Namespace})
	out.Cluster, _ = w.freezes.get(w.o.FreezeSwitch)
	return out
}
