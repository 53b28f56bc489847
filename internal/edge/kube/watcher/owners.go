// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"errors"
	"fmt"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// errPending is returned while the answer depends on an object or kind that is still unknown. It may arrive with the next event.
var errPending = errors.New("not known yet")

// longestChain bounds the owners that are followed. Real chains have up to four; a longer chain counts as a cycle.
const longestChain = 16

var errCycle = errors.New("cycle detected in ownership chain")

// owners is the graph of owner references between controllers. The mutex of the World guards it.
type owners struct {
	known map[projection.GroupKind]*store[projection.ControllerState] // controllers of well-known kinds, which are watched
	kinds *kinds                                                      // all kinds that the API server serves
	scale *scales                                                     // controllers of other kinds, by reference from pods and autoscalers

	synced func(projection.GroupKind) bool // reports whether all controllers of a well-known kind have been listed
}

// top follows the owners of a workload, starting with the workload itself. It returns the last one that is of a well-known kind
// or has a scale subresource, or zero if there is none. The error is errPending, errCycle, or a missingError.
func (o *owners) top(w cluster.Workload) (cluster.Workload, error) { return o.follow(w, o.kinds.find) }

// follow does the same as top, but finds kinds with the given function.
func (o *owners) follow(w cluster.Workload, find func(projection.GroupKind) (kind, error)) (cluster.Workload, error) {
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
	w cluster.Workload, find func(projection.GroupKind) (kind, error),
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
		return parent, true, errPending
	}
	info, err := find(kind)
	if err != nil {
		return parent, false, err
	}
	if !info.scalable() {
		return parent, false, nil
	}
	return o.scale.parent(w), true, nil
}

// scaleOf returns the scale of a controller.
func (o *owners) scaleOf(w cluster.Workload) cluster.Scale {
	kind := projection.KindOf(w)
	if kind.IsWellKnown() {
		c, _ := o.known[kind].get(cluster.Key{Namespace: w.Namespace, Name: w.Name})
		return c.Scale
	}
	info, err := o.kinds.find(kind)
	switch {
	case err != nil:
		return cluster.Scale{}
	case !info.scalable():
		return cluster.Scale{Unscalable: true}
	}
	return o.scale.want(w).scale
}

// A missingError means that a controller of a well-known kind does not exist, or does not exist yet.
type missingError struct{ w cluster.Workload }

func (e missingError) Error() string {
	return fmt.Sprintf("%s %s/%s does not exist", e.w.Kind, e.w.Namespace, e.w.Name)
}
