// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import "slices"

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
type waitSlots struct {
	held        int
	byNamespace map[string][]*waitSlot // oldest first; never empty
	acquired    uint64                 // total since the start
}

// A waitSlot belongs to one review.
type waitSlot struct {
	namespace string
	number    uint64        // sequence number; the smallest is the oldest slot
	lost      chan struct{} // closed when another review took the slot
}

func newWaitSlots() waitSlots { return waitSlots{byNamespace: make(map[string][]*waitSlot)} }

// acquire returns a slot for a review of a namespace, or nil if there is none.
func (s *waitSlots) acquire(namespace string) *waitSlot {
	mine := len(s.byNamespace[namespace])
	if mine >= maxWaitingInNamespace {
		return nil
	}
	if s.held >= maxWaiting {
		longest := s.longestOfLargest()
		if most := len(s.byNamespace[longest.namespace]); most <= mine || mine > 0 && most == mine+1 {
			return nil
		}
		s.release(longest)
		close(longest.lost)
	}
	s.acquired++
	slot := &waitSlot{namespace: namespace, number: s.acquired, lost: make(chan struct{})}
	s.byNamespace[namespace] = append(s.byNamespace[namespace], slot)
	s.held++
	return slot
}

// longestOfLargest returns the oldest slot of the namespace with the most slots.
func (s *waitSlots) longestOfLargest() *waitSlot {
	var longest *waitSlot
	most := 0
	for _, slots := range s.byNamespace {
		if len(slots) > most || len(slots) == most && slots[0].number < longest.number {
			most = len(slots)
			longest = slots[0]
		}
	}
	return longest
}

// release gives a slot back. A slot that was lost is not held, and releasing it changes nothing.
func (s *waitSlots) release(slot *waitSlot) {
	slots := s.byNamespace[slot.namespace]
	at := slices.Index(slots, slot)
	if at < 0 {
		return
	}
	s.held--
	if len(slots) == 1 {
		delete(s.byNamespace, slot.namespace)
		return
	}
	s.byNamespace[slot.namespace] = slices.Delete(slots, at, at+1)
}
