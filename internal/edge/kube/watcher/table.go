// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"podfit.dev/podfit/internal/core/cluster"
)

// pieceSize is how many objects are copied or replaced at most while the mutex is held once. Admission look-ups wait for
// no more than that, however many objects there are.
const pieceSize = 256

// A table holds one value per object. Whoever owns a table guards it. It is kept by namespace, so that a key costs its name
// only, and the names of a namespace in shards of a bounded size, so that it can be read in pieces while it changes.
type table[T any] struct {
	at   map[string]*shards[T] // by namespace
	size int
	seed maphash.Seed
}

// shards are the objects of a namespace, by the first bits of the hashes of their names: an extendible hash table. A shard
// that is full is split in two; shards are never joined. So a walk in the order of hashes meets each object once.
type shards[T any] struct {
	all  []*shard[T] // by the first bits of the hash; a shard that stands for fewer bits is there more than once
	bits int         // len(all) is 1 << bits
	size int
}

type shard[T any] struct {
	values map[string]T // by name
	bits   int          // the names in it have so many first bits in common
}

// maxBits bounds the splitting of a shard, should many hashes be equal.
const maxBits = 24

func (t *table[T]) hash(s *shards[T], name string) uint64 {
	if s.bits == 0 {
		return 0
	}
	return maphash.String(t.seed, name)
}

func (s *shards[T]) of(hash uint64) *shard[T] { return s.all[hash>>(64-s.bits)] }

func (t *table[T]) get(k cluster.Key) (T, bool) {
	s := t.at[k.Namespace]
	if s == nil {
		var none T
		return none, false
	}
	v, ok := s.of(t.hash(s, k.Name)).values[k.Name]
	return v, ok
}

func (t *table[T]) put(k cluster.Key, v T) {
	s := t.at[k.Namespace]
	if s == nil {
		if t.at == nil {
			t.at, t.seed = make(map[string]*shards[T]), maphash.MakeSeed()
		}
		s = &shards[T]{all: []*shard[T]{{values: make(map[string]T)}}}
		t.at[k.Namespace] = s
	}
	in := s.of(t.hash(s, k.Name))
	before := len(in.values)
	in.values[k.Name] = v
	s.size += len(in.values) - before
	t.size += len(in.values) - before
	if len(in.values) > pieceSize && in.bits < maxBits {
		t.split(s, in, k.Name)
	}
}

// split puts the objects of a shard, of which name is one, into two.
func (t *table[T]) split(s *shards[T], full *shard[T], name string) {
	if full.bits == s.bits {
		twice := make([]*shard[T], 2*len(s.all))
		for i := range twice {
			twice[i] = s.all[i/2]
		}
		s.all, s.bits = twice, s.bits+1
	}
	var halves [2]*shard[T]
	for i := range halves {
		halves[i] = &shard[T]{values: make(map[string]T), bits: full.bits + 1}
	}
	for name, v := range full.values {
		halves[maphash.String(t.seed, name)>>(63-full.bits)&1].values[name] = v
	}
	first := maphash.String(t.seed, name) >> (64 - full.bits) << (s.bits - full.bits) // of the places of the full one
	half := uint64(1) << (s.bits - full.bits - 1)
	for i := range 2 * half {
		s.all[first+i] = halves[i/half]
	}
}

func (t *table[T]) remove(k cluster.Key) {
	s := t.at[k.Namespace]
	if s == nil {
		return
	}
	in := s.of(t.hash(s, k.Name))
	before := len(in.values)
	delete(in.values, k.Name)
	s.size -= before - len(in.values)
	t.size -= before - len(in.values)
	if s.size == 0 {
		delete(t.at, k.Namespace)
	}
}

// in returns the values of a namespace by name.
func (t *table[T]) in(namespace string) map[string]T {
	out := make(map[string]T)
	if s := t.at[namespace]; s != nil {
		for next, more := uint64(0), true; more; {
			in := s.of(next)
			maps.Copy(out, in.values)
			next, more = in.after(next)
		}
	}
	return out
}

// after returns the first hash after those of the shard, one of which is given, and false when there is none.
func (s *shard[T]) after(hash uint64) (uint64, bool) {
	next := (hash>>(64-s.bits) + 1) << (64 - s.bits)
	return next, next != 0
}

// A store is a table that a feed writes and others read, guarded by the mutex they share.
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
	var gone []cluster.Key
	s.each(func(key cluster.Key, _ T) {
		if _, ok := all[key]; !ok {
			gone = append(gone, key)
		}
	})
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

// each calls visit with every object, in no particular order and in pieces, with the mutex held. visit may put another value
// of the object. What exists all the time is visited once; what comes or goes meanwhile is visited once or not at all.
func (s *store[T]) each(visit func(cluster.Key, T)) {
	var namespaces []string
	s.locked(func() { namespaces = slices.Collect(maps.Keys(s.at)) })
	next := uint64(0) // hash in the first of the namespaces
	for len(namespaces) > 0 {
		s.locked(func() {
			for done := 0; len(namespaces) > 0; {
				ns, more := namespaces[0], false
				if all := s.at[ns]; all != nil {
					in := all.of(next)
					if done > 0 && done+len(in.values) > pieceSize {
						return
					}
					for name, v := range in.values {
						visit(cluster.Key{Namespace: ns, Name: name}, v)
					}
					done += max(len(in.values), 1)
					next, more = in.after(next)
				}
				if !more {
					namespaces, next = namespaces[1:], 0
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
