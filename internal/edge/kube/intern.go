// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"math"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// An Interner makes equal strings share their bytes: the thousand pods of a node name it once.
//
// It forgets: strings live in two generations, and when the young one is full the old one is dropped. So it needs no one
// to tell it which names have gone out of use, and at worst a name that is in use is stored twice. The zero value is
// ready, and safe for several goroutines.
type Interner struct {
	mu         sync.Mutex
	young, old map[string]string
	places     map[string]cluster.Place // by selector, "key=value" joined by commas
	selectors  [][]string               // by place, from cluster.Selected on
	tolerances toleranceList
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

// place returns which nodes may take a pod. Selectors are not forgotten: a cluster has few.
func (in *Interner) place(p *corev1.PodSpec) cluster.Place {
	if a := p.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return cluster.Somewhere
	}
	if len(p.NodeSelector) == 0 {
		return cluster.Anywhere
	}
	if in == nil {
		return cluster.Somewhere
	}
	selector := pairs(p.NodeSelector, in)
	name := strings.Join(selector, ",")
	in.mu.Lock()
	defer in.mu.Unlock()
	if known, ok := in.places[name]; ok {
		return known
	}
	next := len(in.selectors) + int(cluster.Selected)
	if next > math.MaxUint16 {
		return cluster.Somewhere
	}
	if in.places == nil {
		in.places = make(map[string]cluster.Place)
	}
	in.places[name] = cluster.Place(next)
	in.selectors = append(in.selectors, selector)
	return cluster.Place(next)
}

// Selectors returns the node selectors that pods have, in the order of their places, from cluster.Selected on.
func (in *Interner) Selectors() [][]string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.selectors)
}
