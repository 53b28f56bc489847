// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"maps"
	"slices"
)

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
