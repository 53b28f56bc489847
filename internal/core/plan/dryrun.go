// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// NeedsDryRun reports whether the caller must create the replacement of the pod in a dry run before it carries out the decision. Evictions
// had no effect, and one more, or a deletion, would have none either if a replacement does not get the recommended requests.
func (p *Pass) NeedsDryRun(d decision.Decision) bool {
	return !p.b.UpstreamRules && d.Do != decision.Leave && d.Do != decision.Resize && p.w.Ledger.NeedsDryRun(d.Pod.Workload())
}

// Unsized returns why a decision is not carried out, if a dry run in this pass has shown that replacements of the workload do not get the
// recommended requests. The caller reports that with Stopped.
func (p *Pass) Unsized(d decision.Decision) (decision.Reason, bool) {
	return p.backoffs.NotSized(d.Pod)
}

// DryRun records the replacement of a pod in a dry run: its containers or, if it is nil, why it would not be created. If it would not get
// the recommended requests, DryRun returns why the decision is not carried out, as Unsized does.
func (p *Pass) DryRun(d decision.Decision, replacement *cluster.Pod, failed string) (decision.Reason, bool) {
	if p.w.Ledger.DryRun(p.now, p.entryOf(d.Pod).attempt(p.now, d), replacement, failed) {
		return decision.Reason{}, false
	}
	r, _ := p.backoffs.NotSized(d.Pod)
	return r, true
}

// Undiagnosed returns one pod of each workload whose last eviction had no effect for an unknown cause. The caller creates its replacement in
// a dry run, and reports the result with Diagnosed or NotDiagnosed. It is called after Learn.
func (p *Pass) Undiagnosed() []decision.Decision { return p.backoffs.Undiagnosed(p.ds) }

// NotDiagnosed reports that a dry run for a decision of Undiagnosed did not show the cause.
func (p *Pass) NotDiagnosed(d decision.Decision) { p.w.Ledger.DryRunFailed(p.now, d.Pod.Workload()) }

// Diagnosed reports the replacement of a pod in a dry run, as DryRun does. Pods of the workload that are left because evictions have no
// effect get the cause as their reason.
func (p *Pass) Diagnosed(d decision.Decision, replacement *cluster.Pod, failed string) {
	w := d.Pod.Workload()
	if p.w.Ledger.DryRun(p.now, p.entryOf(d.Pod).attempt(p.now, d), replacement, failed) {
		return
	}
	for i := range p.entries {
		own := &p.entries[i]
		isOfEviction := own.Reason.Code == decision.EffectUnknown || own.Reason.Code == decision.BackingOff && p.w.Ledger.Undone(own.Pod) == 0
		if own.Do == decision.Leave && isOfEviction && own.Pod.Workload() == w {
			own.Reason, _ = p.backoffs.NotSized(own.Pod)
		}
	}
}
