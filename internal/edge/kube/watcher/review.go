// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"

	"podfit.dev/podfit/internal/core/cluster"
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
