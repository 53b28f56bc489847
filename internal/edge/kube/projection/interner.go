// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// An Interner makes equal strings share their bytes: the thousand pods of a node name it once.
//
// It is for what watches bring, and it is bounded, because tenants choose most of these strings. Strings live in two
// generations, and when the young one is full the old one is dropped. So it needs no one to tell it which names have gone
// out of use, and at worst a name that is in use is stored twice. Node selectors have numbers, so they are kept until
// forget finds that no pod has them. The zero value is ready, and safe for several goroutines.
type Interner struct {
	mu         sync.Mutex
	young, old map[string]string
	youngBytes int                      // of the strings in young
	places     map[string]cluster.Place // by selector, "key=value" joined by commas
	selectors  []selector               // by place, from cluster.Selected on
	free       []cluster.Place          // places that no pod has
	tolerances toleranceList
}

// A selector is the node selector of some pods.
type selector struct {
	pairs []string // nil when the place is free
	seen  bool     // a pod with it was projected since the last call of forget
	stale bool     // the last call of forget found no pod with it
}

const (
	// internGeneration is how many strings a generation holds: the names of nodes, controllers and containers of a large
	// cluster, at some 50 bytes each.
	internGeneration      = 1 << 16
	internGenerationBytes = 4 << 20 // how many bytes these strings may have together

	// internLongest is the longest string that is worth sharing: a label with a prefix and its value. Names are shorter.
	internLongest = 400

	// maxSelectors is how many node selectors are told apart, and longestSelector how long one may be. A pod with another
	// one may run somewhere (cluster.Somewhere).
	maxSelectors    = 4096
	longestSelector = 4 << 10
)

// String returns a string equal to s.
func (in *Interner) String(s string) string {
	if in == nil || s == "" || len(s) > internLongest {
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
	if in.young == nil || len(in.young) >= internGeneration || in.youngBytes+len(s) > internGenerationBytes {
		in.old, in.young, in.youngBytes = in.young, make(map[string]string), 0
	}
	in.young[s] = s
	in.youngBytes += len(s)
	return s
}

// place returns which nodes may take a pod.
func (in *Interner) place(p *corev1.PodSpec) cluster.Place {
	if a := p.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return cluster.Somewhere
	}
	if len(p.NodeSelector) == 0 {
		return cluster.Anywhere
	}
	if in == nil || selectorLength(p.NodeSelector) > longestSelector {
		return cluster.Somewhere
	}
	pairs := pairs(p.NodeSelector, in)
	name := strings.Join(pairs, ",")
	in.mu.Lock()
	defer in.mu.Unlock()
	place, known := in.places[name]
	if !known {
		if place = in.newPlace(); place == cluster.Somewhere {
			return place
		}
		if in.places == nil {
			in.places = make(map[string]cluster.Place)
		}
		in.places[name] = place
		in.selectors[place-cluster.Selected].pairs = pairs
	}
	in.selectors[place-cluster.Selected].seen = true
	return place
}

// newPlace returns a place that no pod has, or Somewhere when there is none left. The mutex is held.
func (in *Interner) newPlace() cluster.Place {
	if n := len(in.free); n > 0 {
		place := in.free[n-1]
		in.free = in.free[:n-1]
		return place
	}
	if len(in.selectors) >= maxSelectors {
		return cluster.Somewhere
	}
	in.selectors = append(in.selectors, selector{})
	return cluster.Selected + cluster.Place(len(in.selectors)-1)
}

func selectorLength(selector map[string]string) int {
	n := 0
	for k, v := range selector {
		n += len(k) + len(v) + len("=,")
	}
	return n
}

// Selectors returns the node selectors that pods have, in the order of their places, from cluster.Selected on.
func (in *Interner) Selectors() [][]string {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([][]string, len(in.selectors))
	for i := range in.selectors {
		out[i] = in.selectors[i].pairs
	}
	return out
}

// crowded reports whether it is time to look for selectors that no pod has any more.
func (in *Interner) Crowded() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.places) > maxSelectors/4
}

// forget frees the places that are not used, if they were not used at the call before and no pod with one was projected
// since. So a pod that is on its way into the store, or in a snapshot that somebody still reads, keeps its place.
func (in *Interner) ForgetSelectors(used map[cluster.Place]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, place := range in.places {
		s := &in.selectors[place-cluster.Selected]
		switch {
		case used[place] || s.seen:
			s.seen, s.stale = false, false
		case !s.stale:
			s.stale = true
		default:
			*s = selector{}
			delete(in.places, name)
			in.free = append(in.free, place)
		}
	}
}
