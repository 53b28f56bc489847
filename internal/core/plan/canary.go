// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rollout"
)

// held returns the autoscaler with the recommendation that applies to a pod: the previous size, if a newer one was reverted.
func (s *pass) held(a *cluster.Autoscaler, p *cluster.Pod) *cluster.Autoscaler {
	if !a.Canary.On {
		return a
	}
	return s.canaries[ledger.WorkloadOf(p)].Hold(s.now, a)
}

// awaitsCanary blocks a change while another pod of the workload shows whether the new size works, and after it has shown that it does
// not. A container that was OOM-killed does not wait.
func (t *candidate) awaitsCanary() (decision.Reason, bool) {
	a, p := t.d.Autoscaler, t.d.Pod
	if !a.Canary.On || t.d.Wanted.Code == decision.OutOfMemory {
		return decision.Reason{}, false
	}
	s := t.pass.canaries[ledger.WorkloadOf(p)]
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
	first := t.scope.firsts[ledger.WorkloadOf(p)]
	if first == nil && t.d.Wanted.Code == decision.Fits {
		return decision.Reason{Code: decision.AwaitingCanary, Text: p.Name}, true // a change only to make room for another pod is no canary
	}
	if first == nil || first == p {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.AwaitingCanary, Text: first.Name, Until: t.now.Add(a.Canary.Watch)}, true
}

// noWayBack blocks the eviction of a pod of a workload with canaries if the admission controller would give the replacement a size that was
// reverted. Then a size is tried and reverted only by resizes. Once a canary has run well, its size needs no way back.
func (t *candidate) noWayBack() (decision.Reason, bool) {
	s := t.pass.canaries[ledger.WorkloadOf(t.d.Pod)]
	lost := t.d.Autoscaler.Canary.On && t.w.NotStored && t.d.Wanted.Code != decision.OutOfMemory
	return decision.Reason{Code: decision.NoWayBack}, lost && !s.Accepts(ledger.SizesOf(t.d.With))
}

// needsCanary reports whether the change of the pod needs a canary, and the workload has none yet.
func (t *candidate) needsCanary() bool {
	if !t.d.Autoscaler.Canary.On || t.d.Wanted.Code == decision.BoostOver {
		return false
	}
	s := t.pass.canaries[ledger.WorkloadOf(t.d.Pod)]
	hasCanary := s.Phase == rollout.Held || s.Phase == rollout.Watching || s.Phase == rollout.Starting && s.UID != t.d.Pod.UID
	return !hasCanary && !s.Accepts(ledger.SizesOf(t.d.With))
}

// beCanary makes the pod the canary of its workload if its change needs one. The rescue of an OOM-killed pod does not wait for the canary,
// and does not replace it.
func (t *candidate) beCanary() {
	if !t.needsCanary() {
		return
	}
	w := ledger.WorkloadOf(t.d.Pod)
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
	if !d.canary {
		return
	}
	d.canary = false
	w := ledger.WorkloadOf(d.Pod)
	delete(d.scope.firsts, w)
	p.w.Ledger.CanaryCanceled(w)
}

// canaryChanged records that the canary was changed, or may have been.
func (p *Pass) canaryChanged(d *entry, certain bool) {
	if d.canary {
		p.w.Ledger.CanaryChanged(p.now, d.attempt(p.now, *d.Decision), certain)
	}
}
