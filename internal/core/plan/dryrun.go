// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/need"
)

// NeedsDryRun reports whether the caller must create the replacement of the pod in a dry run before it carries out the decision. Evictions
// had no effect, and one more, or a deletion, would have none either if a replacement does not get the recommended requests.
func (p *Pass) NeedsDryRun(d decision.Decision) bool {
	return !p.b.UpstreamRules && d.Do != decision.Leave && d.Do != decision.Resize && p.w.Ledger.NeedsDryRun(d.Pod.Workload())
}

// Unsized returns why a decision is not carried out, if a dry run in this pass has shown that replacements of the workload do not get the
// recommended requests. The caller reports that with Stopped.
func (p *Pass) Unsized(d decision.Decision) (decision.Reason, bool) { return p.notSized(d.Pod) }

// DryRun records the replacement of a pod in a dry run: its containers or, if it is nil, why it would not be created. If it would not get
// the recommended requests, DryRun returns why the decision is not carried out, as Unsized does.
func (p *Pass) DryRun(d decision.Decision, replacement *cluster.Pod, failed string) (decision.Reason, bool) {
	if p.w.Ledger.DryRun(p.now, p.entries[p.at(d)].attempt(p.now, d), replacement, failed) {
		return decision.Reason{}, false
	}
	r, _ := p.notSized(d.Pod)
	return r, true
}

// maxDiagnoses is the maximum number of workloads that one pass diagnoses.
const maxDiagnoses = 10

// Undiagnosed returns one pod of each workload whose last eviction had no effect for an unknown cause. A dry run of its replacement may show
// the cause, see Diagnosed. After a dry run that did not, see NotDiagnosed, the next one is made after the first delay of evictions without
// effect, and after those of other workloads. It is called after Learn.
func (p *Pass) Undiagnosed() []decision.Decision {
	if p.b.UpstreamRules {
		return nil // the cause would have no consequence
	}
	type open struct {
		decision.Decision
		asked time.Time
	}
	var all []open
	seen := map[cluster.Workload]bool{}
	for i := range p.ds {
		d := &p.ds[i]
		w := d.Pod.Workload()
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
	p.w.Ledger.DryRunFailed(p.now, d.Pod.Workload())
}

// Diagnosed reports the replacement of a pod in a dry run, as DryRun does. Pods of the workload that are left because evictions have no
// effect get the cause as their reason.
func (p *Pass) Diagnosed(d decision.Decision, replacement *cluster.Pod, failed string) {
	w := d.Pod.Workload()
	if p.w.Ledger.DryRun(p.now, p.entries[p.at(d)].attempt(p.now, d), replacement, failed) {
		return
	}
	for i := range p.entries {
		own := &p.entries[i]
		isOfEviction := own.Reason.Code == decision.BackingOff && p.w.Ledger.Undone(own.Pod) == 0
		if own.Do == decision.Leave && isOfEviction && own.Pod.Workload() == w {
			own.Reason, _ = p.notSized(own.Pod)
		}
	}
}

// notSized returns the reason to leave a pod if the last dry run for its workload shows that replacements do not get the recommended
// requests. The next dry run is made after the first delay of evictions without effect, which does not double: it disrupts nothing.
func (s *pass) notSized(pod *cluster.Pod) (decision.Reason, bool) {
	u, found := s.w.Ledger.LastUnsized(pod.Workload())
	if !found {
		return decision.Reason{}, false
	}
	r := decision.Reason{
		Code: decision.NotSizedAtAdmission, Until: u.At.Add(s.b.EvictionBackoff), Text: u.Failed,
		Container: need.NameUnlessSole(pod)(u.Container), Resource: u.Resource, From: u.Got, To: u.Want,
	}
	if u.Called {
		r.Want = 1
	}
	return r, s.now.Before(r.Until)
}

// Each eviction is a probe: its replacement shows whether an eviction helps. Otherwise a workload whose replacements do not get the
// recommended requests would lose as many pods as its disruption budget allows, and all those that are down, before that is known. At most
// openEvictions of a workload are without a replacement. After evictions without effect and the back-off, it is one. The oldest pod is then
// the probe, so that a replacement without the expected requests goes to the end of the queue and another pod is the next probe.

// openEvictions is the maximum number of evictions of a workload whose effect is not known yet.
const openEvictions = 2

// hadNoEffect reports whether the last eviction of the workload had no effect.
func (s *pass) hadNoEffect(d *entry) bool {
	if s.b.UpstreamRules {
		return false
	}
	n, _ := s.w.Ledger.IneffectiveEvictions(d.Pod.Workload(), d.scope.effective)
	return n > 0
}

// probe records that this pass evicts the pod.
func (s *pass) probe(d *entry) {
	if d.scope.probes == nil {
		d.scope.probes = map[cluster.Workload][]*cluster.Pod{}
	}
	if w := d.Pod.Workload(); !slices.Contains(d.scope.probes[w], d.Pod) {
		d.scope.probes[w] = append(d.scope.probes[w], d.Pod)
	}
}

// endProbe allows another pod to be the probe instead of this one.
func (s *pass) endProbe(d *entry) {
	if d.scope == nil || d.scope.probes == nil {
		return
	}
	w := d.Pod.Workload()
	d.scope.probes[w] = slices.DeleteFunc(d.scope.probes[w], func(p *cluster.Pod) bool { return p == d.Pod })
}

// isProbing reports whether the pod must wait until it is known whether the evictions of other pods of the workload help.
func (s *pass) isProbing(d *entry) bool {
	w := d.Pod.Workload()
	probes := d.scope.probes[w]
	if s.b.UpstreamRules || slices.Contains(probes, d.Pod) {
		return false
	}
	if s.hadNoEffect(d) {
		return len(probes) > 0
	}
	others := d.scope.open[w]
	if s.w.Ledger.MayBeEvicted(s.now, d.Pod) || s.w.Ledger.IsUnproven(d.Pod) { // it counts already
		others--
	}
	return len(probes)+others >= openEvictions
}

// probing blocks an eviction while it is not known whether those of other pods of the workload help.
func (t *candidate) probing() (decision.Reason, bool) {
	return decision.Reason{Code: decision.Probing}, t.isProbing(t.d)
}

// order sorts the pods of one autoscaler in the order of decision: by priority or, while evictions have no effect, the oldest pod
// first.
func (s *pass) order(ds []entry) {
	if slices.ContainsFunc(ds, func(d entry) bool { return d.scope != nil && s.hadNoEffect(&d) }) {
		slices.SortFunc(ds, func(a, b entry) int {
			return cmp.Or(a.refused.Compare(b.refused), a.Pod.Created.Compare(b.Pod.Created), byPriority(a, b))
		})
	}
	for i := range ds {
		ds[i].rank = i
	}
}
