// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rollout"
)

// FrozenBy returns the reason to leave the pods of an autoscaler because of a freeze, and false if there is none.
func FrozenBy(r rollout.Rules) (decision.Reason, bool) {
	by, frozen := rollout.Frozen(r)
	return decision.Reason{Code: decision.Frozen, Text: by}, frozen
}

// switchedOff blocks all actions during a freeze, during the initial delay and outside of the change windows. A container that was OOM-killed
// soon after its start, and one whose startup boost has ended, do not wait for the delay or a window: the first does not serve, and the second has the extra CPU only for
// its start. A canary that is not ready gets its size back at any time. Nothing is changed during a freeze.
func (t *candidate) switchedOff() (decision.Reason, bool) {
	rules, known := t.w.Rules[t.d.Autoscaler.Key]
	if !known {
		rules.Autoscaler = t.d.Autoscaler
	}
	if r, frozen := FrozenBy(rules); frozen {
		return r, true
	}
	if t.d.Wanted.Code == decision.BoostOver || t.isUnwell() {
		return decision.Reason{}, false
	}
	if until := t.d.Autoscaler.AdvisedSince.Add(t.d.Autoscaler.Rules.InitialDelay.Value); t.now.Before(until) {
		return decision.Reason{Code: decision.InitialDelay, Until: until}, true
	}
	closed, outside := t.windows.Outside(rules)
	return decision.Reason{Code: decision.OutsideWindow, Until: closed.Until, Text: closed.Problem}, outside
}

// endCanary lets another pod be the canary, because this one was not changed.
func (p *Pass) endCanary(d *entry) {
	if !d.canary || d.unanswered {
		return
	}
	d.canary = false
	d.scope.canary.End(d.Pod.Workload())
	p.w.Ledger.CanaryCanceled(d.Pod.Workload())
}

// canaryChanged records that the canary was changed, or may have been.
func (p *Pass) canaryChanged(d *entry, certain bool) {
	if d.canary {
		p.w.Ledger.CanaryChanged(p.now, d.attempt(p.now, *d.Decision), certain)
	}
}

// isUnwell reports whether the change cannot wait: a container was OOM-killed, or the pod is not ready with a size that was reverted. It counts
// in the share of requests that may be changed in an hour.
func (t *candidate) isUnwell() bool {
	return t.d.Wanted.Code == decision.OutOfMemory || t.canaries.IsFailed(t.d.Autoscaler, t.d.Pod)
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
