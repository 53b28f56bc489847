// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"maps"
	"slices"

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

// Bounds of the admission reviews that wait for the controller of their pod at a time. A rollout of a new controller causes some
// dozens. Without the bounds, a tenant could exhaust memory with pods whose controllers do not exist.
const (
	maxWaiting            = 512
	maxWaitingInNamespace = 64
)

// waitSlots are held by the reviews that wait. They are shared by max-min fairness: when all are held, a review of a namespace
// with fewer slots takes the oldest slot of the namespace with the most. With one slot fewer, it takes none unless it has none:
// the two would take the slot from each other in turn, and no review would wait long enough. So other namespaces cannot keep the reviews of a
// namespace from waiting, as long as fewer than maxWaiting namespaces have waiting reviews.
type waitSlots []*waitSlot // oldest first

// A waitSlot belongs to one review.
type waitSlot struct {
	namespace string
	lost      chan struct{} // closed when another review took the slot
}

// acquire returns a slot for a review of a namespace, or nil if there is none.
func (s *waitSlots) acquire(namespace string) *waitSlot {
	held := s.byNamespace()
	mine := held[namespace]
	if mine >= maxWaitingInNamespace {
		return nil
	}
	if len(*s) >= maxWaiting {
		most := slices.Max(slices.Collect(maps.Values(held)))
		if most <= mine || mine > 0 && most == mine+1 {
			return nil
		}
		oldest := (*s)[slices.IndexFunc(*s, func(x *waitSlot) bool { return held[x.namespace] == most })]
		s.release(oldest)
		close(oldest.lost)
	}
	slot := &waitSlot{namespace: namespace, lost: make(chan struct{})}
	*s = append(*s, slot)
	return slot
}

// byNamespace returns the number of slots that each namespace holds.
func (s *waitSlots) byNamespace() map[string]int {
	held := make(map[string]int)
	for _, slot := range *s {
		held[slot.namespace]++
	}
	return held
}

// release gives a slot back. A slot that was lost is not held, and releasing it changes nothing.
func (s *waitSlots) release(slot *waitSlot) {
	*s = slices.DeleteFunc(*s, func(x *waitSlot) bool { return x == slot })
}
