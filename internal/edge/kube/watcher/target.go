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
