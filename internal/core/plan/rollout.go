// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
)

// rulesOf returns the rules for the time of changes of an autoscaler.
func (w *World) rulesOf(a *cluster.Autoscaler) rollout.Rules {
	if r, ok := w.Rules[a.Key]; ok {
		return r
	}
	return rollout.Rules{Autoscaler: a}
}

// FrozenBy returns the reason to leave the pods of an autoscaler because of a freeze, and false if there is none.
func FrozenBy(r rollout.Rules) (Reason, bool) {
	by, frozen := rollout.Frozen(r)
	return Reason{Code: Frozen, Text: by}, frozen
}

// switchedOff blocks all actions during a freeze and outside of the change windows. A container that was OOM-killed soon after its start,
// and one whose startup boost has ended, do not wait for a window: the first does not serve, and the second has the extra CPU only for
// its start. A canary that is not ready gets its size back at any time. Nothing is changed during a freeze.
func (t *candidate) switchedOff() (Reason, bool) {
	rules := t.w.rulesOf(t.d.Autoscaler)
	if r, frozen := FrozenBy(rules); frozen {
		return r, true
	}
	if t.passesWindows() {
		return Reason{}, false
	}
	closed, known := t.closed[t.d.Autoscaler.Key]
	if !known {
		closed.Closed, closed.outside = rollout.Outside(t.now, rules)
		if t.closed == nil {
			t.closed = map[cluster.Key]windowState{}
		}
		t.closed[t.d.Autoscaler.Key] = closed
	}
	return Reason{Code: OutsideWindow, Until: closed.Until, Text: closed.Problem}, closed.outside
}

// A windowState is the result of rollout.Outside for an autoscaler, which is kept for a pass because it takes up to milliseconds.
type windowState struct {
	rollout.Closed
	outside bool
}

func (t *candidate) passesWindows() bool {
	return t.d.Wanted.Code == OutOfMemory || t.d.Wanted.Code == BoostOver || t.isFailedCanary()
}

// isFailedCanary reports whether a pod is not ready and has a size that was reverted.
func (t *candidate) isFailedCanary() bool {
	s := t.pass.canaries[workloadOf(t.d.Pod)]
	return t.d.Autoscaler.Canary.On && s.Phase == rollout.Held && !t.d.Pod.Ready && rollout.HasSize(t.d.Pod, s.After)
}

// waiting returns the text for a change that the user's rules delay.
func (r Reason) waiting() string {
	text := strings.TrimRight(r.Text, ". \n")
	switch {
	case r.Code == Frozen:
		return "Changes are frozen by the " + text
	case r.Code == OutsideWindow && r.Text != "":
		return "No pod is changed, because the annotation " + rollout.AnnotationWindow + " is invalid: " + text
	case r.Code == OutsideWindow && r.Until.IsZero():
		return "No change window is open, and none opens in the next 8 years"
	case r.Code == OutsideWindow:
		return "No change window is open. The next one opens at " + timestamp(r.Until)
	}
	if r.Code == AwaitingCanary {
		return "Pod " + text + " gets the new size first and is watched (annotation podfit.dev/rollout)" + nextAttempt(r.Until)
	}
	if r.Code == Reverted {
		return "The recommendation is held back, because after the last change " + text + nextAttempt(r.Until)
	}
	if text == "" {
		return "It is unknown what an earlier updater has changed in the last hour, because it could not store that" + nextAttempt(r.Until)
	}
	return fmt.Sprintf("With this pod, pods with %d%% of the requests of %s would be changed in an hour, more than the limit of %d%%%s", r.Have, text, r.Want, nextAttempt(r.Until))
}
