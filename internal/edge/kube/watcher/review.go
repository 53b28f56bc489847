// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/scale"
)

// The errors of TopSoon.
var (
	ErrOwnerUnknown   = errors.New("the owner of the pod is unknown")
	ErrTooManyWaiting = errors.New("too many reviews wait for the owners of their pods")
)

// TopSoon is Top for a pod that is being created. Its controller may be so new that the watch has not delivered it yet: TopSoon
// waits for it until ctx ends, and sends no request. The error is ErrOwnerUnknown, ErrTooManyWaiting or errCycle.
//
// The pod of a review may never be stored, so TopSoon stores nothing: a kind that is not served is unknown, and triggers
// discovery only if an autoscaler has a target of this kind.
func (w *World) TopSoon(ctx context.Context, controller cluster.Workload) (cluster.Workload, error) {
	var slot *waitSlot
	defer func() {
		if slot != nil {
			w.mu.Lock()
			w.waiting.release(slot)
			w.mu.Unlock()
		}
	}()
	for {
		changed := w.scales.Changed() // before the look-up, so that no change is missed
		w.mu.Lock()
		t, err := w.owners.follow(controller, w.findForReview)
		if err == nil || errors.Is(err, errCycle) {
			w.mu.Unlock()
			return t, err
		}
		if slot == nil {
			slot = w.waiting.acquire(controller.Namespace)
			if slot == nil {
				w.mu.Unlock()
				return cluster.Workload{}, ErrTooManyWaiting
			}
		}
		if w.arrived == nil {
			w.arrived = make(chan struct{})
		}
		arrived := w.arrived
		w.mu.Unlock()
		select {
		case <-arrived:
		case <-changed:
		case <-slot.lost:
			return cluster.Workload{}, ErrTooManyWaiting
		case <-ctx.Done():
			return cluster.Workload{}, ErrOwnerUnknown
		}
	}
}

// findForReview is Kind for the owners of the pod of a review, which may never be stored.
func (w *World) findForReview(gk projection.GroupKind) (scale.Kind, error) {
	if w.targetKinds[gk] > 0 {
		return w.owners.other.Kind(gk)
	}
	return w.owners.other.KnownKind(gk)
}

// autoscalerChanged updates the index by target and the number of autoscalers by kind of target.
func (w *World) autoscalerChanged(key cluster.Key, before, now **autoscalerEntry) *autoscalerEntry {
	kept := w.indexAutoscaler(key, before, now)
	if before != nil {
		gk := projection.KindOf((*before).Target)
		w.targetKinds[gk]--
		if w.targetKinds[gk] == 0 {
			delete(w.targetKinds, gk)
		}
	}
	if now != nil {
		w.targetKinds[projection.KindOf(kept.Target)]++
		var old *cluster.Autoscaler
		if before != nil {
			old = (*before).Autoscaler
		}
		w.urgent.autoscalerChanged(old, kept.Autoscaler)
	}
	return kept
}

// selectorsKept is the minimum time for which a node selector is kept after the last pod with it is deleted.
const selectorsKept = 5 * time.Minute

// forgetSelectors frees unused node selectors until ctx ends.
func (w *World) forgetSelectors(ctx context.Context) {
	for kube.Sleep(ctx, selectorsKept) {
		if w.in.Crowded() {
			w.in.ForgetSelectors(w.placesInUse())
		}
	}
}

// placesInUse returns the places of the stored pods.
func (w *World) placesInUse() map[cluster.Place]bool {
	used := make(map[cluster.Place]bool)
	w.pods.each(func(_ cluster.Key, p *cluster.Pod) {
		if p.Place >= cluster.Selected {
			used[p.Place] = true
		}
	})
	return used
}
