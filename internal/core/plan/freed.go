// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// lastResize returns the last failed resize of a pod. What a quota refused is left out if the workload has freed enough of the quota since.
func (s *pass) lastResize(d *entry) (ledger.FailedAttempt, bool) {
	last, failed := s.w.Ledger.LastFailure(d.Pod, decision.Resize)
	if failed && last.OverQuota != nil && s.hasFreed(d, last.OverQuotaTotal, s.growth(d.Pod, d.With)) {
		last.OverQuota = nil
	}
	return last, failed
}

// hasFreed reports whether the pods of a workload, one of which grows, request no more than when a quota refused a resize. The quota
// admitted that much, so it admits the pod, unless other workloads have taken what the workload has freed. Without the permission to read
// quotas, podfit cannot know that. Then the replacement of one pod is missing, and no other pod of the workload is evicted until it exists.
//
// Missing pods have freed nothing, because the controller creates them again.
func (s *pass) hasFreed(d *entry, before, grows cluster.PodResources) bool {
	if before == (cluster.PodResources{}) || d.scope == nil {
		return false
	}
	now, complete := s.requestedAtMost(d)
	if !complete {
		return false
	}
	some := false
	for _, of := range [...]struct{ before, now, grows cluster.Resources }{
		{before.Requests, now.Requests, grows.Requests}, {before.Limits, now.Limits, grows.Limits},
	} {
		for _, res := range cluster.All {
			more := of.grows.Amount(res)
			if more > 0 && of.now.Amount(res)+more > of.before.Amount(res) {
				return false
			}
			some = some || more > 0
		}
	}
	return some
}

// requestedAtMost returns what the pods of a workload request, those too that are being deleted, and with what the replacements of others
// add that this pass evicts. It returns false if pods may be missing, or the watch may not show the requests of a resize yet. A resize that
// this pass plans may be refused. The evictions of a pass wait for its resizes, and are checked again then.
func (s *pass) requestedAtMost(d *entry) (sum cluster.PodResources, complete bool) {
	existing := map[cluster.Workload]int{}
	for _, p := range d.scope.pods {
		if isFinished(p) {
			continue
		}
		if s.w.Ledger.IsAwaited(s.now, p) {
			return sum, false
		}
		existing[p.Controller] += s.existing(p)
		sum = plusBoth(sum, mostOf(p))
	}
	for controller, n := range existing {
		if wanted, known := s.wantedBy(controller, n); !known || n < wanted {
			return sum, false
		}
	}
	for i := range d.scope.judged {
		o := &d.scope.judged[i]
		if o.Do == decision.Leave || o.Do == decision.Resize || o.Pod == d.Pod {
			continue
		}
		grows := s.growth(o.Pod, o.With)
		sum = plusBoth(sum, cluster.PodResources{Requests: atLeastNone(grows.Requests), Limits: atLeastNone(grows.Limits)})
	}
	return sum, true
}

// requestedAtLeast returns what the pods of a workload request, without those that a controller has deleted or is going to delete. It
// returns nothing if their number is unknown.
func (s *pass) requestedAtLeast(sc *scope) (sum cluster.PodResources) {
	existing, largest := map[cluster.Workload]int{}, map[cluster.Workload]cluster.PodResources{}
	for _, p := range sc.pods {
		if isFinished(p) || s.existing(p) == 0 {
			continue
		}
		demand := policy.DemandOf(policy.Limits{}, p, standingOf(p), nil)
		own := demand.Least()
		sum = plusBoth(sum, own)
		existing[p.Controller]++
		largest[p.Controller] = cluster.PodResources{
			Requests: higher(own.Requests, largest[p.Controller].Requests), Limits: higher(own.Limits, largest[p.Controller].Limits),
		}
	}
	for controller, n := range existing {
		wanted, known := s.wantedBy(controller, n)
		if !known {
			return cluster.PodResources{}
		}
		for range n - wanted { // the watch may show pods that the controller has deleted
			surplus := largest[controller]
			sum.Requests, sum.Limits = minus(sum.Requests, surplus.Requests), minus(sum.Limits, surplus.Limits)
		}
	}
	return cluster.PodResources{Requests: atLeastNone(sum.Requests), Limits: atLeastNone(sum.Limits)}
}

// wantedBy returns how many pods a controller should have, of which n exist, and false if that is unknown.
func (s *pass) wantedBy(controller cluster.Workload, n int) (int, bool) {
	scale := s.w.Scales[controller]
	wanted, known := scale.Wanted(controller, n)
	return wanted, known || scale.Known && scale.Replicas == 0
}

// existing returns 1, or 0 for a pod that is being deleted, or was or may have been evicted.
func (s *pass) existing(p *cluster.Pod) int {
	if p.Deleting || s.w.Ledger.IsEvicted(s.now, p) || s.w.Ledger.MayBeEvicted(s.now, p) {
		return 0
	}
	return 1
}

func isFinished(p *cluster.Pod) bool {
	return p.Phase == cluster.Succeeded || p.Phase == cluster.Failed
}

// mostOf returns what quotas count for a pod as it is: during a resize, the higher of the current and the new amounts.
func mostOf(p *cluster.Pod) cluster.PodResources {
	var fits []policy.Fitted
	if p.IsResizing() {
		for i := range p.Containers {
			c := &p.Containers[i]
			fits = append(fits, policy.Fitted{Container: c.Name, Requests: c.Requests, Limits: c.Limits})
		}
		fits = notBelow(p, fits)
	}
	own := policy.DemandOf(policy.Limits{}, p, standingOf(p), fits)
	return own.Most()
}

func plusBoth(a, b cluster.PodResources) cluster.PodResources {
	return cluster.PodResources{Requests: a.Requests.Add(b.Requests), Limits: a.Limits.Add(b.Limits)}
}
