// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// The changeRules are what stops or delays changes of pods: annotations of namespaces, the switch that freezes the cluster, and sizes that
// were reverted.
type changeRules struct {
	*base
	rules   store[cluster.ChangeRules] // of namespaces
	freezes store[cluster.Freeze]      // at most one
	helds   store[heldSize]            // by UpdateState
	heldOf  map[cluster.Workload]rollout.State
}

// addRules watches the annotations of namespaces, and the ConfigMap that freezes the cluster. Decisions about pods wait until both are up
// to date. podfit also runs without the right to read them.
func (w *World) addRules() {
	project := func(m *metav1.PartialObjectMetadata) cluster.ChangeRules { return projection.Rules(m.Annotations) }
	addFeed(w.base, feed.Config{
		Name: "namespaces", FieldSelector: w.namespaceNames(),
		LostWithout: "whether a namespace has the annotation " + rollout.AnnotationFreeze + " or " + rollout.AnnotationWindow + ", or settings of its workloads",
	}, w.clients.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), typed(project), &w.rules)
	if w.o.FreezeSwitch.Name == "" {
		return
	}
	addFeed(w.base, feed.Config{
		Name: "configmaps", FieldSelector: "metadata.name=" + w.o.FreezeSwitch.Name,
		LostWithout: "whether the ConfigMap " + w.o.FreezeSwitch.String() + " freezes the cluster",
	}, w.clients.Core.CoreV1().ConfigMaps(w.o.FreezeSwitch.Namespace), typed(projection.FreezeSwitch), &w.freezes)
}

// namespaceNames returns the field selector of the namespaces that are watched.
func (b *base) namespaceNames() string {
	if b.o.Namespace != "" {
		return "metadata.name=" + b.o.Namespace
	}
	return strings.ReplaceAll(b.namespaces(), "metadata.namespace", "metadata.name")
}

// withSettings returns the autoscaler with the settings of its namespace. The mutex is held.
func (r *changeRules) withSettings(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil {
		return nil
	}
	namespace, _ := r.rules.get(cluster.Key{Name: a.Namespace})
	if namespace.Settings == (cluster.Settings{}) {
		return a
	}
	out := *a
	out.Rules.Settings = a.Rules.Settings.Under(namespace.Settings)
	return &out
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

// A heldSize is the part of an UpdateState that the admission controller needs: a size that was reverted.
type heldSize struct {
	workload cluster.Workload
	state    rollout.State // its phase is Held, or there is nothing to hold
}

// addHeld watches UpdateStates for reverted sizes. Nothing waits for them: without them, new pods get the recommendation.
func (w *World) addHeld() {
	addFeed(w.base, feed.Config{
		Name: v1alpha1.ResourceUpdateStates, FieldSelector: w.namespaces(), NonBlocking: true, Optional: true,
		LostWithout: "which recommendations were reverted after a canary",
		Remedy:      "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -",
	}, w.clients.RawObjectsIn(v1alpha1.ResourceUpdateStates, w.o.Namespace), typed(heldSizeOf), &w.helds)
}

// heldSizeOf returns the reverted size in an object. An object that cannot be decoded has none.
func heldSizeOf(o *kube.RawObject) heldSize {
	var spec v1alpha1.UpdateStateSpec
	state, err := checkpoint.CanaryState(o.Status, o.Namespace)
	if err != nil || state.Phase != rollout.Held || json.Unmarshal(o.Spec, &spec) != nil {
		return heldSize{}
	}
	t := spec.Target
	return heldSize{cluster.Workload{Group: t.Group, Kind: t.Kind, Namespace: o.Namespace, Name: t.Name}, state}
}

// indexHeld keeps the index by workload. The mutex is held.
func (r *changeRules) indexHeld(_ cluster.Key, before, now *heldSize) {
	if before != nil {
		delete(r.heldOf, before.workload)
	}
	if now != nil && now.state.Phase == rollout.Held {
		cluster.Put(&r.heldOf, now.workload, now.state)
	}
}

// Held returns the autoscaler with the recommendation that applies to the pods of a workload: the previous size, if the recommended one was
// reverted.
func (r *changeRules) Held(a *cluster.Autoscaler, of cluster.Workload, now time.Time) *cluster.Autoscaler {
	if a == nil || !a.Canary.On {
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heldOf[of].Hold(now, a)
}
