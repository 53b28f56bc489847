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

// pieceSize bounds the number of objects that are copied or replaced while the mutex is held once. So the wait of an admission
// look-up does not depend on the total number of objects.
const pieceSize = 256

// A table has one value per object. The owner of a table guards it. Values are grouped by namespace, so that a key costs only its
// name, and within a namespace in shards of bounded size, so that the table can be read in pieces while it changes.
type table[T any] struct {
	at   map[string]*shards[T] // by namespace
	size int
	seed maphash.Seed
}

// shards are the objects of a namespace by the first bits of the hashes of their names: an extendible hash table. A full shard
// is split in two; shards are never merged. So an iteration in the order of hashes visits each object once.
type shards[T any] struct {
	all  []*shard[T] // by the first bits of the hash; a shard with fewer bits is in several places
	bits int         // len(all) is 1 << bits
	size int
}

type shard[T any] struct {
	values map[string]T // by name
	bits   int          // number of leading hash bits that its names have in common
}

// maxBits bounds the splitting of shards if many hashes are equal.
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

func (t *table[T]) set(k cluster.Key, v T) {
	s := t.at[k.Namespace]
	if s == nil {
		if t.at == nil {
			t.at = make(map[string]*shards[T])
			t.seed = maphash.MakeSeed()
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

// split splits a shard in two. name is one of its objects.
func (t *table[T]) split(s *shards[T], full *shard[T], name string) {
	if full.bits == s.bits {
		twice := make([]*shard[T], 2*len(s.all))
		for i := range twice {
			twice[i] = s.all[i/2]
		}
		s.all = twice
		s.bits++
	}
	var halves [2]*shard[T]
	for i := range halves {
		halves[i] = &shard[T]{values: make(map[string]T), bits: full.bits + 1}
	}
	for name, v := range full.values {
		halves[maphash.String(t.seed, name)>>(63-full.bits)&1].values[name] = v
	}
	first := maphash.String(t.seed, name) >> (64 - full.bits) << (s.bits - full.bits) // the first place of the full shard
	half := uint64(1) << (s.bits - full.bits - 1)
	for i := range 2 * half {
		s.all[first+i] = halves[i/half]
	}
}

func (t *table[T]) delete(k cluster.Key) {
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
		next := uint64(0)
		for more := true; more; {
			in := s.of(next)
			maps.Copy(out, in.values)
			next, more = in.after(next)
		}
	}
	return out
}

// after returns the first hash after the hashes of the shard, and false if there is none. hash is one of the shard.
func (s *shard[T]) after(hash uint64) (uint64, bool) {
	next := (hash>>(64-s.bits) + 1) << (64 - s.bits)
	return next, next != 0
}

// A store is a table that a feed writes and that other goroutines read. A shared mutex guards it. It implements feed.Sink.
type store[T any] struct {
	mu sync.Locker
	table[T]

	// changed, if set, is called for each object that is added (now), changed (before and now) or deleted (before), with the
	// mutex held. It may change the value to store (now).
	changed func(key cluster.Key, before, now *T)
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
	s.table.set(key, v)
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
	s.table.delete(key)
}

// Replace replaces the content of the store in pieces. A reader sees the old or the new value of each object.
func (s *store[T]) Replace(all map[cluster.Key]T) {
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
		next = append(next, key)
		if len(next) == pieceSize {
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

// each calls visit for every object, in pieces and in no particular order, with the mutex held. visit may store another value of
// the object. Objects that are added or deleted during the iteration are visited once or not at all, all others once.
func (s *store[T]) each(visit func(cluster.Key, T)) {
	var namespaces []string
	s.locked(func() { namespaces = slices.Collect(maps.Keys(s.at)) })
	next := uint64(0) // hash in the first of the namespaces
	for len(namespaces) > 0 {
		s.locked(func() {
			for done := 0; len(namespaces) > 0; {
				ns := namespaces[0]
				more := false
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
					namespaces = namespaces[1:]
					next = 0
				}
			}
		})
	}
}

// count returns the number of objects.
func (s *store[T]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}
