// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// An Interner makes equal strings of watched objects share their memory. For example, the name of a node is stored once for all
// its pods.
//
// Its memory is bounded, because tenants choose most of these strings. Strings are kept in two generations; when the young
// generation is full, the old one is dropped. So unused strings need not be reported, and a used string is stored at most
// twice. Node selectors are numbered, and no namespace can fill their list. They are kept until ForgetSelectors finds that no pod has them. The zero value is ready
// to use and safe for several goroutines.
type Interner struct {
	Avoided    map[string][]cluster.Selector // see Interner.avoid; if it is not nil, projections of pods have all labels, too
	mu         sync.Mutex
	young, old map[string]string
	youngBytes int                      // total length of the strings in young
	places     map[string]cluster.Place // by selector, see nameOf
	selectors  []selector               // by place, from cluster.Selected on
	free       []cluster.Place          // unused places
	affinities shares                   // selectors with an affinity
	selected   shares                   // all selectors
	tolerances toleranceList
	shared     map[cluster.Marks]*cluster.Marks // of pods without the annotation vpaObservedContainers
}

// maxMarks bounds the number of shared Marks. Tenants choose labels, so they are forgotten when there are more.
const maxMarks = 1024

// marks returns what a pod says, nil if that is nothing. Pods that say the same share it, unless they have an annotation of their own.
func (in *Interner) marks(m cluster.Marks) *cluster.Marks {
	switch {
	case m == (cluster.Marks{}):
		return nil
	case in == nil || m.Observed != nil:
		return &m
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if known := in.shared[m]; known != nil {
		return known
	}
	if in.shared == nil || len(in.shared) >= maxMarks {
		in.shared = map[cluster.Marks]*cluster.Marks{}
	}
	in.shared[m] = &m
	return &m
}

// shares are the entries of a list whose length is bounded, by the namespace of the pod that came with it first. A namespace gets no more than
// it leaves to others, so that no tenant fills the list.
type shares struct {
	of    map[string]int
	total int
}

// mayTake reports whether a namespace may add an entry to a list of at most a number of entries.
func (s *shares) mayTake(namespace string, most int) bool {
	return s.total < most && s.of[namespace] < most-s.total
}

func (s *shares) add(namespace string, n int) {
	s.total += n
	cluster.Put(&s.of, namespace, s.of[namespace]+n)
	if s.of[namespace] == 0 {
		delete(s.of, namespace)
	}
}

// A selector is the node selector and the required node affinity of pods.
type selector struct {
	cluster.NodeSelector        // zero if the place is free
	namespace            string // of the first pod with it
	seen                 bool   // a pod with it was projected since the last call of ForgetSelectors
	stale                bool   // the last call of ForgetSelectors found no pod with it
}

const (
	// internGeneration bounds the strings of a generation: enough for the names of nodes, controllers and containers of a large
	// cluster, with about 50 bytes each.
	internGeneration      = 1 << 16
	internGenerationBytes = 4 << 20 // bound of their total length in bytes

	// internLongest is the length of the longest string that is shared: a label with a prefix and its value.
	internLongest = 400

	// maxSelectors bounds the number of node selectors, and longestSelector the length of one. Pods with other selectors have
	// the place cluster.Somewhere.
	maxSelectors    = 4096
	maxAffinities   = 512 // selectors with an affinity; it takes longer to compare them with nodes
	longestSelector = 4 << 10
)

// String returns a string equal to s, with shared memory.
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
		in.old = in.young
		in.young = make(map[string]string)
		in.youngBytes = 0
	}
	in.young[s] = s
	in.youngBytes += len(s)
	return s
}

// place returns the place of a pod: the nodes that its node selector and required node affinity allow. Each pod of a DaemonSet has an
// affinity to its own node, which is not stored.
func (in *Interner) place(p *corev1.Pod) cluster.Place {
	hasAffinity := requiredNodeAffinity(&p.Spec) != nil
	if len(p.Spec.NodeSelector) == 0 && !hasAffinity {
		return cluster.Anywhere
	}
	owner := metav1.GetControllerOfNoCopy(p)
	if in == nil || hasAffinity && owner != nil && owner.Kind == "DaemonSet" {
		return cluster.Somewhere
	}
	s, ok := NodeSelector(&p.Spec, in)
	if !ok {
		return cluster.Somewhere
	}
	name := nameOf(&s)
	in.mu.Lock()
	defer in.mu.Unlock()
	place, known := in.places[name]
	if !known {
		if hasAffinity && !in.affinities.mayTake(p.Namespace, maxAffinities) || !in.selected.mayTake(p.Namespace, maxSelectors) {
			return cluster.Somewhere
		}
		place = in.newPlace()
		cluster.Put(&in.places, name, place)
		in.selectors[place-cluster.Selected] = selector{NodeSelector: s, namespace: strings.Clone(p.Namespace)}
		in.count(&in.selectors[place-cluster.Selected], 1)
	}
	in.selectors[place-cluster.Selected].seen = true
	return place
}

// count adds a selector to the shares of its namespace, or removes it.
func (in *Interner) count(s *selector, n int) {
	in.selected.add(s.namespace, n)
	if len(s.Terms) > 0 {
		in.affinities.add(s.namespace, n)
	}
}

// newPlace returns an unused place. The mutex is held.
func (in *Interner) newPlace() cluster.Place {
	if n := len(in.free); n > 0 {
		place := in.free[n-1]
		in.free = in.free[:n-1]
		return place
	}
	in.selectors = append(in.selectors, selector{})
	return cluster.Selected + cluster.Place(len(in.selectors)-1)
}

// lengthOf returns the length of labels as "key=value", separated by commas.
func lengthOf(labels map[string]string) int {
	n := 0
	for k, v := range labels {
		n += len(k) + len(v) + len("=,")
	}
	return n
}

// Selectors returns the selectors of the nodes of pods: that of place p is at index p - cluster.Selected.
func (in *Interner) Selectors() []cluster.NodeSelector {
	in.mu.Lock()
	defer in.mu.Unlock()
	return cluster.Each(in.selectors, func(s *selector) cluster.NodeSelector { return s.NodeSelector })
}

// Crowded reports whether so many selectors are stored that ForgetSelectors should be called.
func (in *Interner) Crowded() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.places) > maxSelectors/4 || in.affinities.total > maxAffinities/4
}

// ForgetSelectors frees each place that is unused in this call and in the call before, if no pod with it was projected in
// between. So the place of a pod that is not in the store yet, or only in a snapshot, stays valid.
func (in *Interner) ForgetSelectors(used map[cluster.Place]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, place := range in.places {
		s := &in.selectors[place-cluster.Selected]
		switch {
		case used[place] || s.seen:
			s.seen = false
			s.stale = false
		case !s.stale:
			s.stale = true
		default:
			in.count(s, -1)
			*s = selector{}
			delete(in.places, name)
			in.free = append(in.free, place)
		}
	}
}
