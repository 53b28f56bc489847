// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/scale"
)

// fakeControllers are the controllers of kinds that are not watched. A test sets the results of discovery and of the reads of scales. As in a
// scale.Cache, a kind that was looked up is pending until the next discovery. The zero value is an empty cluster after the first discovery.
type fakeControllers struct {
	served map[projection.GroupKind]scale.Kind
	asked  map[projection.GroupKind]bool // kinds that were looked up; true after the next discovery
	read   map[cluster.Workload]scale.Reading
}

// discover sets the result of discovery.
func (f *fakeControllers) discover(served map[projection.GroupKind]scale.Kind) {
	f.served = served
	for gk := range f.asked {
		f.asked[gk] = true
	}
}

// stored returns the number of kinds and controllers that were looked up.
func (f *fakeControllers) stored() int { return len(f.asked) + len(f.read) }

// Kind implements otherControllers.
func (f *fakeControllers) Kind(gk projection.GroupKind) (scale.Kind, error) {
	if k, ok := f.served[gk]; ok || f.asked[gk] {
		return k, nil
	}
	if f.asked == nil {
		f.asked = map[projection.GroupKind]bool{}
	}
	f.asked[gk] = false
	return scale.Kind{}, scale.ErrPending
}

// KnownKind implements otherControllers.
func (f *fakeControllers) KnownKind(gk projection.GroupKind) (scale.Kind, error) {
	return f.served[gk], nil
}

// Scale implements otherControllers.
func (f *fakeControllers) Scale(w cluster.Workload) scale.Reading {
	if f.read == nil {
		f.read = map[cluster.Workload]scale.Reading{}
	}
	e, ok := f.read[w]
	if !ok {
		e.Missing = true
		f.read[w] = e
	}
	return e
}

// Parent implements otherControllers.
func (f *fakeControllers) Parent(cluster.Workload) cluster.Workload { return cluster.Workload{} }
