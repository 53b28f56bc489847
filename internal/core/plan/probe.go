// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A probe is the eviction of one pod of a workload whose last evictions had no effect, after the back-off. More pods are evicted
// only if the replacement of the probe has the expected requests. The oldest pod is the probe, so that a replacement without the
// expected requests goes to the end of the queue and another pod is the next probe.

// isProbed reports whether an eviction of the pod would be a probe.
func (s *pass) isProbed(d *entry) bool {
	n, _ := s.w.Ledger.IneffectiveEvictions(ledger.WorkloadOf(d.Pod), d.scope.effective)
	return n > 0
}

// probe records the eviction of the pod as a probe, if it is one.
func (s *pass) probe(d *entry) {
	if !s.isProbed(d) {
		return
	}
	if d.scope.probes == nil {
		d.scope.probes = map[cluster.Workload]*cluster.Pod{}
	}
	d.scope.probes[ledger.WorkloadOf(d.Pod)] = d.Pod
}

// endProbe allows another pod to be the probe instead of this one.
func (s *pass) endProbe(d *entry) {
	if d.scope != nil && d.scope.probes[ledger.WorkloadOf(d.Pod)] == d.Pod {
		delete(d.scope.probes, ledger.WorkloadOf(d.Pod))
	}
}

// hasProbe reports whether this pass evicts another pod of the workload as a probe.
func (s *pass) hasProbe(d *entry) bool {
	p := d.scope.probes[ledger.WorkloadOf(d.Pod)]
	return p != nil && p != d.Pod
}

// probing blocks an eviction while another pod of the workload is the probe.
func (t *candidate) probing() (decision.Reason, bool) {
	return decision.Reason{Code: decision.Probing}, t.hasProbe(t.d)
}

// order sorts the pods of one autoscaler in the order of decision: by priority or, while evictions have no effect, the oldest pod
// first.
func (s *pass) order(ds []entry) {
	if slices.ContainsFunc(ds, func(d entry) bool { return d.scope != nil && s.isProbed(&d) }) {
		slices.SortFunc(ds, func(a, b entry) int {
			return cmp.Or(a.refused.Compare(b.refused), a.Pod.Created.Compare(b.Pod.Created), byPriority(a, b))
		})
	}
	for i := range ds {
		ds[i].rank = i
	}
}
