// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"errors"
	"fmt"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/scale"
)

var errCycle = errors.New("cycle detected in ownership chain")

// An ownership has the controllers, with their owners and scales.
type ownership struct {
	*base
	owners  owners
	scales  *scale.Cache             // kinds and scales of controllers that are not watched; it has a mutex of its own
	surging map[cluster.Key]struct{} // Deployments with the annotation podfit.dev/surge
	arrived chan struct{}            // nil unless a review waits: closed when a watch delivers an owner
	waiting waitSlots                // reviews that wait for an owner

	controllerFeeds map[projection.GroupKind]*feed.Feed // of the controllers of well-known kinds
}

// Discovered reports whether discovery has been attempted once, with or without success.
func (o *ownership) Discovered() bool { return o.scales.Discovered() }

// ownerArrived wakes the reviews that wait for an owner. The mutex is held.
func (o *ownership) ownerArrived() {
	if o.arrived != nil {
		close(o.arrived)
		o.arrived = nil
	}
}

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
// or has a scale subresource, or zero if there is none. The error is scale.ErrPending, errCycle, or
// that a controller of a well-known kind does not exist, or does not exist yet.
func (o *owners) top(w cluster.Workload) (cluster.Workload, error) { return o.follow(w, o.other.Kind) }

// follow does the same as top, but finds kinds with the given function.
func (o *owners) follow(w cluster.Workload, find func(projection.GroupKind) (scale.Kind, error)) (cluster.Workload, error) {
	const longestChain = 16 // bounds the owners that are followed; real chains have up to four, a longer chain counts as a cycle
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
			return parent, true, fmt.Errorf("%s %s/%s does not exist", w.Kind, w.Namespace, w.Name)
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

func (o *owners) scaleOf(w cluster.Workload) cluster.Scale {
	kind := projection.KindOf(w)
	if kind.IsWellKnown() {
		c, exists := o.known[kind].get(cluster.Key{Namespace: w.Namespace, Name: w.Name})
		c.Scale.Gone = !exists && o.synced(kind)
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

// TargetProblem returns the problem with the target of an autoscaler, in the message of upstream's condition ConfigUnsupported,
// or "" if there is none. known is false while the answer depends on objects that are still unknown: then the condition should
// not be changed.
func (w *World) TargetProblem(a *cluster.Autoscaler) (problem string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.autoscalers.get(a.Key); ok && e.problem != "" {
		return "Cannot read targetRef. Reason: " + e.problem, true
	}
	return w.owners.targetProblem(a)
}

func (o *owners) targetProblem(a *cluster.Autoscaler) (problem string, known bool) {
	t := a.Target
	if t.Kind == "" && t.Name == "" {
		return "Cannot read targetRef. Reason: targetRef not defined. If this is a v1beta1 object, switch to v1", true
	}
	if err := o.unreadable(a); err != nil {
		if errors.Is(err, scale.ErrPending) {
			return "", false
		}
		return "Cannot read targetRef. Reason: " + err.Error(), true
	}
	written := fmt.Sprintf("%s.%s/%s", a.APIVersion, t.Kind, t.Name)
	top, err := o.top(t)
	switch {
	case errors.Is(err, scale.ErrPending):
		return "", false
	case err != nil:
		return fmt.Sprintf("Error checking if target %s is a topmost well-known or scalable controller: %s", written, err), true
	case top.IsZero():
		return fmt.Sprintf("Unknown error during checking if target %s is a topmost well-known or scalable controller", written), true
	case top != t:
		return fmt.Sprintf("The target %s has a parent controller but it should point to a topmost well-known or scalable controller", written), true
	}
	return "", true
}

// unreadable returns why the target itself cannot be read: it does not exist, or all reads of it have failed.
func (o *owners) unreadable(a *cluster.Autoscaler) error {
	t := a.Target
	gk := projection.KindOf(t)
	if gk.IsWellKnown() {
		_, _, err := o.parent(t, o.other.Kind)
		return err
	}
	unhandled := func(err error) error {
		return fmt.Errorf("unhandled targetRef %s / %s / %s, last error %w", a.APIVersion, t.Kind, t.Name, err)
	}
	info, err := o.other.Kind(gk)
	switch {
	case err != nil:
		return err
	case info.Resource == "":
		return unhandled(fmt.Errorf("no matches for kind %q in group %q", t.Kind, t.Group))
	case !info.Scale:
		return unhandled(errors.New("the server could not find the requested resource"))
	}
	s := o.other.Scale(t)
	switch {
	case !s.Answered:
		return scale.ErrPending
	case s.Missing:
		return unhandled(s.Err)
	}
	return nil
}
