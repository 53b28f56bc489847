// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"errors"
	"fmt"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// errPending says that the answer depends on something that has not arrived yet. It may come with the next event.
var errPending = errors.New("not known yet")

// longestChain is how many owners are followed before the chain is taken for a cycle. Real ones have up to four.
const longestChain = 16

var errCycle = errors.New("cycle detected in ownership chain")

// owners is the graph of who owns whom. The world's mutex guards it.
type owners struct {
	known map[projection.GroupKind]*store[projection.ControllerState] // the well-known kinds, watched
	kinds *kinds                                                      // which others there are
	scale *scales                                                     // the others that pods or autoscalers speak of

	synced func(projection.GroupKind) bool // whether all of a well-known kind have been listed
}

// top follows the owners of a workload, itself included, and returns the last one that is of a well-known kind or has a
// scale subresource; zero when none is. The error is errPending, errCycle, or a missingError.
func (o *owners) top(w cluster.Workload) (cluster.Workload, error) { return o.follow(w, o.kinds.find) }

// follow is top with another way to find out how a kind is served.
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
		best, w = w, parent
	}
	return best, errCycle
}

// parent returns the owner of a controller, and whether the controller is of a kind that is followed at all.
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

// scaleOf returns what a controller says of its replicas.
func (o *owners) scaleOf(w cluster.Workload) cluster.Scale {
	kind := projection.KindOf(w)
	if kind.IsWellKnown() {
		c, _ := o.known[kind].get(cluster.Key{Namespace: w.Namespace, Name: w.Name})
		return c.Scale
	}
	switch info, err := o.kinds.find(kind); {
	case err != nil:
		return cluster.Scale{}
	case !info.scalable():
		return cluster.Scale{Unscalable: true}
	}
	return o.scale.want(w).scale
}

// A missingError says that a controller of a well-known kind is not there: not yet, or no more.
type missingError struct{ w cluster.Workload }

func (e missingError) Error() string {
	return fmt.Sprintf("%s %s/%s does not exist", e.w.Kind, e.w.Namespace, e.w.Name)
}
