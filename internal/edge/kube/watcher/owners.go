// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"errors"
	"fmt"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/scale"
)

// longestChain bounds the owners that are followed. Real chains have up to four; a longer chain counts as a cycle.
const longestChain = 16

var errCycle = errors.New("cycle detected in ownership chain")

// owners is the graph of owner references between controllers. The mutex of the World guards it.
type owners struct {
	known map[projection.GroupKind]*store[projection.ControllerState] // controllers of well-known kinds, which are watched
	other otherControllers                                            // controllers of other kinds, by reference from pods and autoscalers

	synced func(projection.GroupKind) bool // reports whether all controllers of a well-known kind have been listed
}

// otherControllers are the controllers of kinds that are not watched. A scale.Cache has them.
type otherControllers interface {
	Kind(projection.GroupKind) (scale.Kind, error)      // scale.ErrPending until the next discovery, which it triggers
	KnownKind(projection.GroupKind) (scale.Kind, error) // triggers no discovery
	Scale(cluster.Workload) scale.Reading
	Parent(cluster.Workload) cluster.Workload
}

// top follows the owners of a workload, starting with the workload itself. It returns the last one that is of a well-known kind
// or has a scale subresource, or zero if there is none. The error is scale.ErrPending, errCycle, or a missingError.
func (o *owners) top(w cluster.Workload) (cluster.Workload, error) { return o.follow(w, o.other.Kind) }

// follow does the same as top, but finds kinds with the given function.
func (o *owners) follow(w cluster.Workload, find func(projection.GroupKind) (scale.Kind, error)) (cluster.Workload, error) {
	var best cluster.Workload
	for range longestChain {
		if w.IsZero() {
			return best, nil
		}
		parent, follows, err := o.parent(w, find)
		if err != nil {
			return best, err
		}
		if !follows {
			return best, nil
		}
		best = w
		w = parent
	}
	return best, errCycle
}

// parent returns the owner of a controller, and whether the owners of controllers of its kind are followed.
func (o *owners) parent(
	w cluster.Workload, find func(projection.GroupKind) (scale.Kind, error),
) (parent cluster.Workload, follows bool, err error) {
	kind := projection.KindOf(w)
	if kind.IsWellKnown() {
		c, ok := o.known[kind].get(cluster.Key{Namespace: w.Namespace, Name: w.Name})
		switch {
		case ok:
			return c.Parent, true, nil
		case o.synced(kind):
			return parent, true, missingError{w}
		}
		return parent, true, scale.ErrPending
	}
	info, err := find(kind)
	if err != nil {
		return parent, false, err
	}
	if !info.Scalable() {
		return parent, false, nil
	}
	return o.other.Parent(w), true, nil
}

// scaleOf returns the scale of a controller.
func (o *owners) scaleOf(w cluster.Workload) cluster.Scale {
	kind := projection.KindOf(w)
	if kind.IsWellKnown() {
		c, _ := o.known[kind].get(cluster.Key{Namespace: w.Namespace, Name: w.Name})
		return c.Scale
	}
	info, err := o.other.Kind(kind)
	switch {
	case err != nil:
		return cluster.Scale{}
	case !info.Scalable():
		return cluster.Scale{Unscalable: true}
	}
	return o.other.Scale(w).Scale
}

// A missingError means that a controller of a well-known kind does not exist, or does not exist yet.
type missingError struct{ w cluster.Workload }

func (e missingError) Error() string {
	return fmt.Sprintf("%s %s/%s does not exist", e.w.Kind, e.w.Namespace, e.w.Name)
}
