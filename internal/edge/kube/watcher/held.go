// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"encoding/json"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/feed"
)

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
