// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// How many admission reviews may wait for the controller of their pod at a time. A rollout of a new controller is some
// dozens; a tenant who names controllers that do not exist must not make all others wait, or grow the memory.
const (
	maxWaiting            = 512
	maxWaitingInNamespace = 64
)

// TopSoon is Top for a pod that is just being created: its controller may be so new that our watch has not seen it. It
// waits for that until ctx ends, and sends nothing.
//
// The pod of a review may never be stored, so nothing of it is remembered: a kind that is not served is unknown, and
// discovery is asked for it only if an autoscaler has such a target.
func (w *World) TopSoon(ctx context.Context, controller cluster.Workload) (cluster.Workload, bool) {
	waiting := false
	defer func() {
		if waiting {
			w.mu.Lock()
			w.stopWaiting(controller.Namespace)
			w.mu.Unlock()
		}
	}()
	for {
		w.mu.Lock()
		t, err := w.owners.follow(controller, w.findForReview)
		if err == nil || errors.Is(err, errCycle) {
			w.mu.Unlock()
			return t, err == nil
		}
		if !waiting {
			if waiting = w.startWaiting(controller.Namespace); !waiting {
				w.mu.Unlock()
				return cluster.Workload{}, false
			}
		}
		if w.arrived == nil {
			w.arrived = make(chan struct{})
		}
		arrived := w.arrived
		w.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return cluster.Workload{}, false
		}
	}
}

// startWaiting reports whether one more review of a namespace may wait, and counts it. The mutex is held.
func (w *World) startWaiting(namespace string) bool {
	if w.waiting >= maxWaiting || w.waitingIn[namespace] >= maxWaitingInNamespace {
		return false
	}
	w.waiting++
	w.waitingIn[namespace]++
	return true
}

// stopWaiting undoes startWaiting. The mutex is held.
func (w *World) stopWaiting(namespace string) {
	w.waiting--
	if w.waitingIn[namespace]--; w.waitingIn[namespace] == 0 {
		delete(w.waitingIn, namespace)
	}
}

// findForReview is kinds.find for the owners of a pod that may never be stored.
func (w *World) findForReview(gk groupKind) (kind, error) {
	if w.targetKinds[gk] > 0 {
		return w.owners.kinds.find(gk)
	}
	return w.owners.kinds.peek(gk)
}

// autoscalerChanged keeps the index by target, and the number of autoscalers by the kind of their target.
func (w *World) autoscalerChanged(key cluster.Key, before, now **autoscalerEntry) *autoscalerEntry {
	kept := w.indexAutoscaler(key, before, now)
	if before != nil {
		gk := kindOf((*before).Target)
		if w.targetKinds[gk]--; w.targetKinds[gk] == 0 {
			delete(w.targetKinds, gk)
		}
	}
	if now != nil {
		w.targetKinds[kindOf(kept.Target)]++
	}
	return kept
}

// selectorsKept is how long a node selector is kept, at least, after the last pod with it has gone.
const selectorsKept = 5 * time.Minute

// forgetSelectors makes room for new node selectors, until ctx ends.
func (w *World) forgetSelectors(ctx context.Context) {
	for pause(ctx, selectorsKept) {
		if w.in.crowded() {
			w.in.forget(w.placesInUse())
		}
	}
}

func (w *World) placesInUse() map[cluster.Place]bool {
	used := make(map[cluster.Place]bool)
	w.pods.each(func(_ cluster.Key, p *cluster.Pod) {
		if p.Place >= cluster.Selected {
			used[p.Place] = true
		}
	})
	return used
}
