// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

func (t *candidate) knowsQuotas() bool { return t.quotas.IsKnown(t.d.Pod.Namespace) }

// siblingOverQuota blocks an eviction if the quotas cannot be read, and one of them refused a resize of another pod.
func (t *candidate) siblingOverQuota() (decision.Reason, bool) {
	if t.b.UpstreamRules || t.knowsQuotas() {
		return decision.Reason{}, false
	}
	return t.siblings.Replacement(t.d.Pod, t.d.With)
}

// release returns what a decision had reserved of the quotas of its namespace and of the nodes that can be added, unless it may have been carried out.
func (s *pass) release(d *entry) {
	if !d.unanswered {
		s.quotas.Release(d.Pod)
		s.sizes.Growth.Release(d.Pod)
	}
}

// lastResize returns the last failed resize of a pod. What a quota refused is left out if the workload has freed enough of the quota since.
func (s *pass) lastResize(d *entry) (ledger.FailedAttempt, bool) {
	return d.scope.siblings.LastResize(d.Pod, d.With)
}

// DependsOnResizes reports whether the answer to a resize of the same controller may show that a quota would refuse the replacement of a
// pod that is to be evicted or deleted: its mode resizes, and the quotas cannot be read.
func (p *Pass) DependsOnResizes(d decision.Decision) bool {
	removes := d.Do == decision.Evict || d.Do == decision.Delete
	return removes && d.Autoscaler.Mode.Resizes() && !p.quotas.IsKnown(d.Pod.Namespace)
}

// OverQuota reports whether a quota has refused a resize of the same controller, possibly since the eviction or deletion of a pod was
// decided on. The caller asks just before it sends the request, and reports a request that it does not send with Stopped.
func (p *Pass) OverQuota(d decision.Decision) (decision.Reason, bool) {
	if !p.DependsOnResizes(d) {
		return decision.Reason{}, false
	}
	return p.decider(p.entryOf(d.Pod)).siblingOverQuota()
}
