// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// NeedsDryRun reports whether the caller must create the replacement of the pod in a dry run before it carries out the decision. Evictions
// had no effect, and one more would have none either if a replacement does not get the recommended requests.
func (p *Pass) NeedsDryRun(d decision.Decision) bool {
	return (d.Do == decision.Evict || d.Do == decision.Surge) && p.w.Ledger.NeedsDryRun(ledger.WorkloadOf(d.Pod))
}

// StopUnsized leaves the pod of a decision if a dry run in this pass has shown that replacements of the workload do not get the recommended
// requests. It returns the decisions that take its place.
func (p *Pass) StopUnsized(d decision.Decision) (next []decision.Decision, stopped bool) {
	r, blocked := p.notSized(d.Pod)
	if !blocked {
		return nil, false
	}
	return p.Stopped(d, r), true
}

// DryRun reports the replacement of a pod in a dry run: its containers or, if it is nil, why it would not be created. If it would not get
// the recommended requests, the pod is left, and DryRun returns the decisions that take the place of its decision.
func (p *Pass) DryRun(d decision.Decision, replacement *cluster.Pod, failed string) (next []decision.Decision, stopped bool) {
	own := &p.entries[p.at(d)]
	if p.w.Ledger.DryRun(p.now, own.attempt(p.now, d), replacement, failed) {
		return nil, false
	}
	r, _ := p.notSized(d.Pod)
	return p.Stopped(d, r), true
}

// maxDiagnoses is the maximum number of workloads that one pass diagnoses.
const maxDiagnoses = 10

// Undiagnosed returns one pod of each workload whose last eviction had no effect for an unknown cause. A dry run of its replacement may show
// the cause, see Diagnosed. After a dry run that did not, see NotDiagnosed, the next one is made after the first delay of evictions without
// effect, and after those of other workloads. It is called after Learn.
func (p *Pass) Undiagnosed() []decision.Decision {
	type open struct {
		decision.Decision
		asked time.Time
	}
	var all []open
	seen := map[cluster.Workload]bool{}
	for i := range p.ds {
		d := &p.ds[i]
		w := ledger.WorkloadOf(d.Pod)
		if seen[w] || d.Do != decision.Leave || d.Wanted.Code == decision.Fits {
			continue
		}
		asked, undiagnosed := p.w.Ledger.Undiagnosed(w)
		since := p.now.Sub(asked) // negative if the clock was set back
		if !undiagnosed || !asked.IsZero() && since >= 0 && since < p.b.EvictionBackoff {
			continue
		}
		seen[w] = true
		all = append(all, open{*d, asked})
	}
	slices.SortStableFunc(all, func(a, b open) int { return a.asked.Compare(b.asked) })
	var out []decision.Decision
	for _, d := range all[:min(len(all), maxDiagnoses)] {
		out = append(out, d.Decision)
	}
	return out
}

// NotDiagnosed reports that a dry run for a decision of Undiagnosed did not show the cause.
func (p *Pass) NotDiagnosed(d decision.Decision) {
	p.w.Ledger.DryRunFailed(p.now, ledger.WorkloadOf(d.Pod))
}

// Diagnosed reports the replacement of a pod in a dry run, as DryRun does. Pods of the workload that are left because evictions have no
// effect get the cause as their reason.
func (p *Pass) Diagnosed(d decision.Decision, replacement *cluster.Pod, failed string) {
	w := ledger.WorkloadOf(d.Pod)
	if p.w.Ledger.DryRun(p.now, p.entries[p.at(d)].attempt(p.now, d), replacement, failed) {
		return
	}
	for i := range p.entries {
		own := &p.entries[i]
		isOfEviction := own.Reason.Code == decision.BackingOff && p.w.Ledger.Undone(own.Pod) == 0
		if own.Do == decision.Leave && isOfEviction && ledger.WorkloadOf(own.Pod) == w {
			own.Reason, _ = p.notSized(own.Pod)
		}
	}
}

// notSized returns the reason to leave a pod if the last dry run for its workload shows that replacements do not get the recommended
// requests. The next dry run is made after the first delay of evictions without effect, which does not double: it disrupts nothing.
func (s *pass) notSized(pod *cluster.Pod) (decision.Reason, bool) {
	u, found := s.w.Ledger.LastUnsized(ledger.WorkloadOf(pod))
	if !found {
		return decision.Reason{}, false
	}
	r := decision.Reason{
		Code: decision.NotSizedAtAdmission, Until: u.At.Add(s.b.EvictionBackoff), Text: u.Failed,
		Container: nameUnlessSole(pod)(u.Container), Resource: u.Resource, From: u.Got, To: u.Want,
	}
	if u.Called {
		r.Want = 1
	}
	return r, s.now.Before(r.Until)
}
