// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"

	"podfit.dev/podfit/internal/core/cluster"
)

// pieceSize is how many objects are copied or replaced at most while the mutex is held once. Admission look-ups wait for
// no more than that, however many objects there are.
const pieceSize = 256

// A table holds one value per object. Whoever owns a table guards it.
//
// Values are in slots, so that a table can be read in pieces while it changes: an object keeps its slot for as long as it
// exists. Slots are found by namespace and then by name, so that a key costs its name only.
type table[T any] struct {
	at     map[string]map[string]int32 // slot by namespace and name
	pieces []*piece[T]
	slots  int32   // how many have been in use, of all pieces
	free   []int32 // slots without a value
	size   int
	visits uint32 // how often each has begun
}

// A piece is as many slots as are read at a time.
type piece[T any] struct {
	values [pieceSize]T
	since  [pieceSize]uint32 // visits when the value came, plus 1; 0: no value
}

func (t *table[T]) get(k cluster.Key) (T, bool) {
	if i, ok := t.at[k.Namespace][k.Name]; ok {
		return *t.value(i), true
	}
	var none T
	return none, false
}

func (t *table[T]) value(slot int32) *T { return &t.pieces[slot/pieceSize].values[slot%pieceSize] }

func (t *table[T]) fill(slot int32, v T, since uint32) {
	p := t.pieces[slot/pieceSize]
	p.values[slot%pieceSize], p.since[slot%pieceSize] = v, since
}

// put stores a value. Of an object that has a value already only the slot is written.
func (t *table[T]) put(k cluster.Key, v T) {
	names := t.at[k.Namespace]
	if i, ok := names[k.Name]; ok {
		*t.value(i) = v
		return
	}
	if names == nil {
		if t.at == nil {
			t.at = make(map[string]map[string]int32)
		}
		names = make(map[string]int32)
		t.at[k.Namespace] = names
	}
	i := t.slots
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else if t.slots++; int(i/pieceSize) == len(t.pieces) {
		t.pieces = append(t.pieces, new(piece[T]))
	}
	t.fill(i, v, t.visits+1)
	names[k.Name] = i
	t.size++
}

func (t *table[T]) remove(k cluster.Key) {
	names := t.at[k.Namespace]
	i, ok := names[k.Name]
	if !ok {
		return
	}
	var none T
	t.fill(i, none, 0)
	t.free = append(t.free, i)
	t.size--
	delete(names, k.Name)
	if len(names) == 0 {
		delete(t.at, k.Namespace)
	}
}

// in returns the values of a namespace by name.
func (t *table[T]) in(namespace string) map[string]T {
	out := make(map[string]T, len(t.at[namespace]))
	for name, i := range t.at[namespace] {
		out[name] = *t.value(i)
	}
	return out
}

// lacking returns the keys that all does not have.
func (t *table[T]) lacking(all map[cluster.Key]T) []cluster.Key {
	var gone []cluster.Key
	for ns, names := range t.at {
		for name := range names {
			k := cluster.Key{Namespace: ns, Name: name}
			if _, ok := all[k]; !ok {
				gone = append(gone, k)
			}
		}
	}
	return gone
}

// A store is a table that a feed writes and others read, guarded by the mutex they share. Only the feed, which is one
// goroutine, adds and removes objects; others may write the value of one that exists.
type store[T any] struct {
	mu sync.Locker
	table[T]

	// changed, if set, is called for each object that comes (now), changes (before and now) or goes (before), with the
	// mutex held. It returns what to keep.
	changed func(key cluster.Key, before, now *T) T
}

func (s *store[T]) put(key cluster.Key, v T) {
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
		v = s.changed(key, before, &v)
	}
	s.table.put(key, v)
}

func (s *store[T]) remove(key cluster.Key) {
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
	s.table.remove(key)
}

// replace makes the store hold all, in pieces. Readers see each object as it was or as it is.
func (s *store[T]) replace(all map[cluster.Key]T) {
	gone := s.lacking(all) // without the mutex: nobody else adds or removes objects
	for len(gone) > 0 {
		some := gone[:min(pieceSize, len(gone))]
		gone = gone[len(some):]
		s.locked(func() {
			for _, key := range some {
				s.drop(key)
			}
		})
	}
	next := make([]cluster.Key, 0, pieceSize)
	keep := func() {
		s.locked(func() {
			for _, key := range next {
				s.keep(key, all[key])
			}
		})
		next = next[:0]
	}
	for key := range all {
		if next = append(next, key); len(next) == pieceSize {
			keep()
		}
	}
	keep()
}

// locked calls do with the mutex held.
func (s *store[T]) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// each calls visit with every value, in no particular order and in pieces, with the mutex held. visit may change a value in
// its place. What exists all the time is visited once; what comes meanwhile is not, and what goes may be.
func (s *store[T]) each(visit func(*T)) {
	var before uint32 // values that came since are left out
	s.locked(func() {
		s.visits++
		before = s.visits
	})
	for n, more := 0, true; more; n++ {
		s.locked(func() {
			if more = n < len(s.pieces); !more {
				return
			}
			p := s.pieces[n]
			for i := range p.values {
				if since := p.since[i]; since != 0 && since <= before {
					visit(&p.values[i])
				}
			}
		})
	}
}

// count returns how many objects there are.
func (s *store[T]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}
