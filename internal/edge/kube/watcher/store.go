// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"podfit.dev/podfit/internal/core/cluster"
)

// pieceSize bounds the number of objects that are copied or replaced while the mutex is held once. So the wait of an admission
// look-up does not depend on the total number of objects.
const pieceSize = 256

// A store has one value per object. A feed writes it, and other goroutines read it. A shared mutex guards it. It implements feed.Sink.
//
// Values are grouped by namespace, so that a key costs only its name. A large map of Go grows piece by piece, and may change between two steps
// of an iteration, so the mutex need not be held for all of it.
type store[T any] struct {
	mu   sync.Locker
	at   map[string]map[string]T // by namespace and name; no namespace is empty
	size int

	// changed, if set, is called for each object that is added (now), changed (before and now) or deleted (before), with the
	// mutex held. It may change the value to store (now).
	changed func(key cluster.Key, before, now *T)

	added []*map[cluster.Key]bool // for each iteration that runs: the objects that were added since it began
}

func (s *store[T]) get(k cluster.Key) (T, bool) {
	v, ok := s.at[k.Namespace][k.Name]
	return v, ok
}

func (s *store[T]) set(k cluster.Key, v T) {
	in := s.at[k.Namespace]
	if in == nil {
		in = make(map[string]T)
		cluster.Put(&s.at, k.Namespace, in)
	}
	if _, ok := in[k.Name]; !ok {
		s.size++
		for _, added := range s.added {
			(*added)[k] = true
		}
	}
	in[k.Name] = v
}

// Put stores a value.
func (s *store[T]) Put(key cluster.Key, v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(key, v)
}

func (s *store[T]) keep(key cluster.Key, v T) {
	if s.changed != nil {
		var before *T
		if old, ok := s.get(key); ok {
			before = &old
		}
		s.changed(key, before, &v)
	}
	s.set(key, v)
}

// Remove removes a value, if there is one.
func (s *store[T]) Remove(key cluster.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

func (s *store[T]) drop(key cluster.Key) {
	old, ok := s.get(key)
	if !ok {
		return
	}
	if s.changed != nil {
		s.changed(key, &old, nil)
	}
	s.size--
	delete(s.at[key.Namespace], key.Name)
	if len(s.at[key.Namespace]) == 0 {
		delete(s.at, key.Namespace)
	}
}

// Replace replaces the content of the store in pieces. A reader sees the old or the new value of each object.
func (s *store[T]) Replace(all map[cluster.Key]T) {
	var gone []cluster.Key
	s.each(func(key cluster.Key, _ T) {
		if _, ok := all[key]; !ok {
			gone = append(gone, key)
		}
	})
	inPieces(s.mu, slices.Values(gone), s.drop)
	inPieces(s.mu, maps.Keys(all), func(key cluster.Key) { s.keep(key, all[key]) })
}

// each calls visit for every object, in pieces and in no particular order, with the mutex held. visit may store another value of
// the object. Objects that are added during the iteration are not visited, those that are deleted once or not at all, all others once.
func (s *store[T]) each(visit func(cluster.Key, T)) {
	inPieces(s.mu, s.present, func(key cluster.Key) {
		v, _ := s.get(key)
		visit(key, v)
	})
}

// present yields the objects that are in the store when it begins, as far as they are not deleted meanwhile. The mutex is held at each step.
func (s *store[T]) present(yield func(cluster.Key) bool) {
	added := make(map[cluster.Key]bool)
	s.added = append(s.added, &added)
	defer func() {
		s.added = slices.DeleteFunc(s.added, func(of *map[cluster.Key]bool) bool { return of == &added })
	}()
	for namespace, in := range s.at {
		for name := range in {
			if key := (cluster.Key{Namespace: namespace, Name: name}); !added[key] && !yield(key) {
				return
			}
		}
	}
}

// inPieces calls do for each key. It holds the mutex, and lets go of it after each piece.
func inPieces(mu sync.Locker, keys iter.Seq[cluster.Key], do func(cluster.Key)) {
	mu.Lock()
	defer mu.Unlock()
	done := 0
	for key := range keys {
		do(key)
		if done++; done%pieceSize == 0 {
			mu.Unlock()
			mu.Lock()
		}
	}
}

func (s *store[T]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// An index has objects by the workload that they target, in an order of their own. A tenant may create many objects with one target: a change
// takes a binary search and moves pointers, and allocates nothing in the long run.
type index[T any] struct {
	target  func(*T) cluster.Workload
	compare func(a, b *T) int         // is 0 only for versions of the same object
	of      map[cluster.Workload][]*T // no list is empty
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
		cluster.Put(&x.of, target, slices.Insert(x.of[target], i, now))
	}
}

func (x *index[T]) first(target cluster.Workload) *T {
	if list := x.of[target]; len(list) > 0 {
		return list[0]
	}
	return nil
}
