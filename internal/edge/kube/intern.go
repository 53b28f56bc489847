// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import "sync"

// An Interner makes equal strings share their bytes: the thousand pods of a node name it once.
//
// It forgets: strings live in two generations, and when the young one is full the old one is dropped. So it needs no one
// to tell it which names have gone out of use, and at worst a name that is in use is stored twice. The zero value is
// ready, and safe for several goroutines.
type Interner struct {
	mu         sync.Mutex
	young, old map[string]string
}

// internGeneration is how many strings a generation holds: the names of nodes, controllers and containers of a large
// cluster, at some 50 bytes each.
const internGeneration = 1 << 16

// String returns a string equal to s.
func (in *Interner) String(s string) string {
	if in == nil || s == "" {
		return s
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if known, ok := in.young[s]; ok {
		return known
	}
	if known, ok := in.old[s]; ok {
		s = known
	}
	if in.young == nil || len(in.young) >= internGeneration {
		in.old, in.young = in.young, make(map[string]string)
	}
	in.young[s] = s
	return s
}
