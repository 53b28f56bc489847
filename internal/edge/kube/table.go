// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"

	"podfit.dev/podfit/internal/core/cluster"
)

// A table holds one value per object. It is kept by namespace, so that a key costs its name only. Whoever owns a table
// guards it.
type table[T any] struct {
	namespaces map[string]map[string]T
	size       int
}

func (t *table[T]) get(k cluster.Key) (T, bool) {
	v, ok := t.namespaces[k.Namespace][k.Name]
	return v, ok
}

func (t *table[T]) put(k cluster.Key, v T) {
	names := t.namespaces[k.Namespace]
	if names == nil {
		if t.namespaces == nil {
			t.namespaces = make(map[string]map[string]T)
		}
		names = make(map[string]T)
		t.namespaces[k.Namespace] = names
	}
	before := len(names)
	names[k.Name] = v
	t.size += len(names) - before
}

func (t *table[T]) remove(k cluster.Key) {
	names := t.namespaces[k.Namespace]
	before := len(names)
	delete(names, k.Name)
	t.size += len(names) - before
	if len(names) == 0 {
		delete(t.namespaces, k.Namespace)
	}
}

// lacking returns the keys that all does not have.
func lacking[T any](t *table[T], all map[cluster.Key]T) []cluster.Key {
	var gone []cluster.Key
	for ns, names := range t.namespaces {
		for name := range names {
			k := cluster.Key{Namespace: ns, Name: name}
			if _, ok := all[k]; !ok {
				gone = append(gone, k)
			}
		}
	}
	return gone
}

// A store is a table that a feed writes and others read, guarded by the mutex they share.
type store[T any] struct {
	mu *sync.Mutex
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

func (s *store[T]) replace(all map[cluster.Key]T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range lacking(&s.table, all) {
		s.drop(key)
	}
	for key, v := range all {
		s.keep(key, v)
	}
}
