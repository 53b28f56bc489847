// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// An index has objects by the workload that they target, in an order of their own. A tenant may create many objects with one target: a change
// takes a binary search and moves pointers, and allocates nothing in the long run.
type index[T any] struct {
	target  func(*T) cluster.Workload
	compare func(a, b *T) int         // is 0 only for versions of the same object
	of      map[cluster.Workload][]*T // no list is empty
}

func newIndex[T any](target func(*T) cluster.Workload, compare func(a, b *T) int) index[T] {
	return index[T]{target, compare, make(map[cluster.Workload][]*T)}
}

// change replaces an object by its next version. Nil is no object: one is added or removed then.
func (x *index[T]) change(before, now *T) {
	if before != nil {
		target := x.target(before)
		list := x.of[target]
		i, _ := slices.BinarySearchFunc(list, before, x.compare)
		if now != nil && x.target(now) == target && x.compare(before, now) == 0 {
			list[i] = now
			return
		}
		x.of[target] = slices.Delete(list, i, i+1)
		if len(list) == 1 {
			delete(x.of, target)
		}
	}
	if now != nil {
		target := x.target(now)
		i, _ := slices.BinarySearchFunc(x.of[target], now, x.compare)
		x.of[target] = slices.Insert(x.of[target], i, now)
	}
}

// first returns the first object with a target, or nil.
func (x *index[T]) first(target cluster.Workload) *T {
	if list := x.of[target]; len(list) > 0 {
		return list[0]
	}
	return nil
}
