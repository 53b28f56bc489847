// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
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
func FrozenBy(r rollout.Rules) (decision.Reason, bool) {
	by, frozen := rollout.Frozen(r)
	return decision.Reason{Code: decision.Frozen, Text: by}, frozen
}

// switchedOff blocks all actions during a freeze and outside of the change windows. A container that was OOM-killed soon after its start,
// and one whose startup boost has ended, do not wait for a window: the first does not serve, and the second has the extra CPU only for
// its start. A canary that is not ready gets its size back at any time. Nothing is changed during a freeze.
func (t *candidate) switchedOff() (decision.Reason, bool) {
	rules := t.w.rulesOf(t.d.Autoscaler)
	if r, frozen := FrozenBy(rules); frozen {
		return r, true
	}
	if t.passesWindows() {
		return decision.Reason{}, false
	}
	closed, known := t.closed[t.d.Autoscaler.Key]
	if !known {
		closed.Closed, closed.outside = rollout.Outside(t.now, rules)
		if t.closed == nil {
			t.closed = map[cluster.Key]windowState{}
		}
		t.closed[t.d.Autoscaler.Key] = closed
	}
	return decision.Reason{Code: decision.OutsideWindow, Until: closed.Until, Text: closed.Problem}, closed.outside
}

// A windowState is the result of rollout.Outside for an autoscaler, which is kept for a pass because it takes up to milliseconds.
type windowState struct {
	rollout.Closed
	outside bool
}

func (t *candidate) passesWindows() bool {
	return t.d.Wanted.Code == decision.OutOfMemory || t.d.Wanted.Code == decision.BoostOver || t.isFailedCanary()
}

func (t *candidate) isFailedCanary() bool { return t.pass.isFailedCanary(t.d.Autoscaler, t.d.Pod) }

// isFailedCanary reports whether a pod is not ready and has a size that was reverted. The CPU of a boosted pod does not show which size it has,
// so it is one only if the sizes differ in memory: a replacement with the previous size must not be replaced again.
func (s *pass) isFailedCanary(a *cluster.Autoscaler, p *cluster.Pod) bool {
	state := s.canaries[ledger.WorkloadOf(p)]
	return a.Canary.On && state.Phase == rollout.Held && !p.Ready && rollout.HasSize(p, state.After) &&
		!(isBoosted(p) && rollout.HasSize(p, state.Before))
}
