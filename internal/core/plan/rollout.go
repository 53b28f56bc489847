// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/radius"
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
	state := s.canaries[p.Workload()]
	return a.Canary.On && state.Phase == rollout.Held && !p.Ready && rollout.HasSize(p, state.After) &&
		!(isBoosted(p) && rollout.HasSize(p, state.Before))
}

// held returns the autoscaler with the recommendation that applies to a pod: the previous size, if a newer one was reverted.
func (s *pass) held(a *cluster.Autoscaler, p *cluster.Pod) *cluster.Autoscaler {
	if !a.Canary.On {
		return a
	}
	return s.canaries[p.Workload()].Hold(s.now, a)
}

// awaitsCanary blocks a change while another pod of the workload shows whether the new size works, and after it has shown that it does
// not. A container that was OOM-killed does not wait.
func (t *candidate) awaitsCanary() (decision.Reason, bool) {
	a, p := t.d.Autoscaler, t.d.Pod
	if !a.Canary.On || t.d.Wanted.Code == decision.OutOfMemory {
		return decision.Reason{}, false
	}
	s := t.pass.canaries[p.Workload()]
	switch {
	case s.Phase == rollout.Held:
		return decision.Reason{Code: decision.Reverted, Text: s.Text(), Until: s.Until}, !rollout.HasSize(p, s.After)
	case s.Phase == rollout.Watching:
		return decision.Reason{Code: decision.AwaitingCanary, Text: s.Pod, Until: s.Since.Add(a.Canary.Watch), Note: s.Comparison.Text()}, true
	case s.Phase == rollout.Starting:
		return decision.Reason{Code: decision.AwaitingCanary, Text: s.Pod}, s.UID != p.UID // when its watch begins is not known yet
	case s.Accepts(ledger.SizesOf(t.d.With)):
		return decision.Reason{}, false
	}
	first := t.scope.firsts[p.Workload()]
	if first == nil && t.d.Wanted.Code == decision.Fits {
		return decision.Reason{Code: decision.AwaitingCanary, Text: p.Name}, true // a change only to make room for another pod is no canary
	}
	if first == nil || first == p {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.AwaitingCanary, Text: first.Name, Until: t.now.Add(a.Canary.Watch)}, true
}

// noWayBack blocks the eviction of a pod of a workload with canaries if the ledger cannot be stored: the admission controller would give the
// replacement a size that was reverted. Until a canary has run well with a size, the size is tried and reverted by resizes only.
func (t *candidate) noWayBack() (decision.Reason, bool) {
	s := t.pass.canaries[t.d.Pod.Workload()]
	lost := t.d.Autoscaler.Canary.On && t.w.NotStored && t.d.Wanted.Code != decision.OutOfMemory
	return decision.Reason{Code: decision.NoWayBack}, lost && !s.Accepts(ledger.SizesOf(t.d.With))
}

// needsCanary reports whether the change of the pod needs a canary, and the workload has none yet.
func (t *candidate) needsCanary() bool {
	if !t.d.Autoscaler.Canary.On || t.d.Wanted.Code == decision.BoostOver {
		return false
	}
	s := t.pass.canaries[t.d.Pod.Workload()]
	hasCanary := s.Phase == rollout.Held || s.Phase == rollout.Watching || s.Phase == rollout.Starting && s.UID != t.d.Pod.UID
	return !hasCanary && !s.Accepts(ledger.SizesOf(t.d.With))
}

// beCanary makes the pod the canary of its workload if its change needs one. The rescue of an OOM-killed pod does not wait for the canary,
// and does not replace it.
func (t *decider) beCanary() {
	if !t.needsCanary() {
		return
	}
	w := t.d.Pod.Workload()
	if t.scope.firsts == nil {
		t.scope.firsts = map[cluster.Workload]*cluster.Pod{}
	}
	if t.scope.firsts[w] == nil {
		t.scope.firsts[w] = t.d.Pod
	}
	t.d.canary = t.scope.firsts[w] == t.d.Pod
}

// endCanary lets another pod be the canary, because this one was not changed.
func (p *Pass) endCanary(d *entry) {
	if !d.canary || d.unanswered {
		return
	}
	d.canary = false
	w := d.Pod.Workload()
	delete(d.scope.firsts, w)
	p.w.Ledger.CanaryCanceled(w)
}

// canaryChanged records that the canary was changed, or may have been.
func (p *Pass) canaryChanged(d *entry, certain bool) {
	if d.canary {
		p.w.Ledger.CanaryChanged(p.now, d.attempt(p.now, *d.Decision), certain)
	}
}

// overRadius blocks a change that would exceed the share of requests that may be changed in an hour. A pod with a container that was
// OOM-killed does not wait, and counts.
func (t *candidate) overRadius() (decision.Reason, bool) {
	if t.d.Wanted.Code == decision.OutOfMemory || t.isFailedCanary() {
		return decision.Reason{}, false
	}
	return t.radius.Exceeded(t.d.Pod)
}

// countChange records a change that was carried out, or may have been.
func (p *Pass) countChange(d decision.Decision) {
	if p.radius == nil {
		return
	}
	if size := radius.Running(d.Pod); size.CPU > 0 || size.Memory > 0 {
		p.w.Ledger.RecordChange(p.now, d.Pod, size)
	}
}
