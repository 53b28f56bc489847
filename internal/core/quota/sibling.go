// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// Siblings are the pods of one autoscaler. If the quotas cannot be read, the refused resizes of some show that a quota has no room for others. They
// are not safe for concurrent use.
type Siblings struct {
	Now    time.Time
	Pods   []*cluster.Pod
	Judged []decision.Decision // about those of the pods that live
	Scales map[cluster.Workload]cluster.Scale
	Ledger *ledger.Ledger
	Delays *attempt.Delays
	Book   *Book

	refusals  map[cluster.Workload][]refusal // by controller; nil until they are needed
	shrinking map[cluster.Workload]bool      // controllers with pods that should only shrink
}

// A refusal is the last refusal of a resize of a controller's pod by a quota. Without the permission to read quotas, it shows
// that the quota has no room for the replacement of another pod that grows as much.
type refusal struct {
	at    time.Time
	text  string // of the API server
	with  []policy.Fitted
	grows cluster.PodResources // what the resize asked for in addition
	total cluster.PodResources // what the pods of the workload requested
}

const (
	maxRefusals = 8                // refusals with different increases that are kept for one controller
	turnFor     = 15 * time.Minute // how long a refused resize may wait for its turn after its back-off
)

// NoteShrinking records that a pod should only shrink.
func (s *Siblings) NoteShrinking(p *cluster.Pod) { cluster.Put(&s.shrinking, p.Controller, true) }

// Replacement returns why an eviction must wait if the quotas cannot be read, and one of them refused a resize of a pod of the same controller
// that grows no more. That resize is tried again after its back-off, which shows whether the quota has room by now. After such a refusal, a
// pod that grows also waits for pods of the controller that shrink, because the quota may have no room before that.
func (s *Siblings) Replacement(p *cluster.Pod, with []policy.Fitted) (decision.Reason, bool) {
	if s.refusals == nil {
		s.refusals = map[cluster.Workload][]refusal{}
		for _, of := range s.Pods {
			s.note(of)
		}
	}
	refusals := s.refusals[p.Controller]
	if len(refusals) == 0 {
		return decision.Reason{}, false
	}
	grows := s.Book.Growth(p, with)
	waits := change.Grows(p, with) && s.shrinking[p.Controller]
	for _, r := range refusals {
		refusesThis := !change.AsksSmaller(with, r.with, 0) && covers(grows, r.grows)
		if (waits || refusesThis) && !s.hasFreed(p, r.total, grows) {
			return decision.Reason{Code: decision.OverQuota, Text: r.text}, true
		}
	}
	return decision.Reason{}, false
}

// Refused records that a quota has refused the resize of a pod in this pass.
func (s *Siblings) Refused(p *cluster.Pod) {
	if s.refusals != nil {
		s.note(p)
	}
}

// note adds the refusal of a pod's resize by a quota, one for each increase: the pods of a controller may have different sizes, so the refusal of a
// large increase does not show that a small one would be refused. It counts until the resize must have been tried again, and at most for a
// day: if the later attempts were refused for another reason, they do not show whether the quota has room by now.
func (s *Siblings) note(p *cluster.Pod) {
	last, ok := s.Ledger.LastFailure(p, decision.Resize)
	if !ok || last.OverQuota == nil || s.Now.Sub(last.OverQuotaAt) >= attempt.HistoryTTL || !s.Now.Before(last.Until(*s.Delays).Add(turnFor)) {
		return
	}
	r := refusal{at: last.OverQuotaAt, with: last.OverQuota, grows: s.Book.Growth(p, last.OverQuota), total: last.OverQuotaTotal}
	if last.Kind == decision.DeniedByQuota {
		r.text = last.Text
	}
	known := s.refusals[p.Controller]
	i := slices.IndexFunc(known, func(k refusal) bool { return k.grows == r.grows })
	switch {
	case i < 0:
		if len(known) == maxRefusals {
			known = known[1:]
		}
		s.refusals[p.Controller] = append(known, r)
	case r.at.After(known[i].at):
		known[i] = r
	case r.at.Equal(known[i].at): // in one pass: only the later refusal may count a resize that the quota admitted
		known[i].total = higher(known[i].total, r.total)
	}
}

// LastResize returns the last failed resize of a pod. What a quota refused is left out if the workload has freed enough of the quota since.
func (s *Siblings) LastResize(p *cluster.Pod, with []policy.Fitted) (ledger.FailedAttempt, bool) {
	last, failed := s.Ledger.LastFailure(p, decision.Resize)
	if failed && last.OverQuota != nil && s.hasFreed(p, last.OverQuotaTotal, s.Book.Growth(p, with)) {
		last.OverQuota = nil
	}
	return last, failed
}

// hasFreed reports whether the pods of a workload, one of which grows, request no more than when a quota refused a resize. The quota
// admitted that much, so it admits the pod, unless other workloads have taken what the workload has freed. Without the permission to read
// quotas, podfit cannot know that. Then the replacement of one pod is missing, and no other pod of the workload is evicted until it exists.
//
// Missing pods have freed nothing, because the controller creates them again.
func (s *Siblings) hasFreed(p *cluster.Pod, before, grows cluster.PodResources) bool {
	if before == (cluster.PodResources{}) {
		return false
	}
	now, complete := s.requestedAtMost(p)
	if !complete {
		return false
	}
	some := false
	had := amountsOf(before)
	has := amountsOf(now)
	for i, more := range amountsOf(grows) {
		if more > 0 && has[i]+more > had[i] {
			return false
		}
		some = some || more > 0
	}
	return some
}

// requestedAtMost returns what the pods of a workload request, those too that are being deleted, and with what the replacements of others
// add that this pass evicts. It returns false if pods may be missing, or the watch may not show the requests of a resize yet. A resize that
// this pass plans may be refused. The evictions of a pass wait for its resizes, and are checked again then.
func (s *Siblings) requestedAtMost(beside *cluster.Pod) (total cluster.PodResources, complete bool) {
	existing := map[cluster.Workload]int{}
	for _, p := range s.Pods {
		if p.HasFinished() {
			continue
		}
		if s.Ledger.Awaited(s.Now, p) != nil {
			return total, false
		}
		existing[p.Controller] += s.existing(p)
		total = sum(total, mostOf(p))
	}
	for controller, n := range existing {
		if wanted, known := s.wantedBy(controller, n); !known || n < wanted {
			return total, false
		}
	}
	for i := range s.Judged {
		o := &s.Judged[i]
		if o.Do == decision.Leave || o.Do == decision.Resize || o.Pod == beside {
			continue
		}
		total = sum(total, atLeastNone(s.Book.Growth(o.Pod, o.With)))
	}
	return total, true
}

// RequestedAtLeast returns what the pods of a workload request, without those that a controller has deleted or is going to delete. It
// returns nothing if their number is unknown.
func (s *Siblings) RequestedAtLeast() (total cluster.PodResources) {
	existing, largest := map[cluster.Workload]int{}, map[cluster.Workload]cluster.PodResources{}
	for _, p := range s.Pods {
		if p.HasFinished() || s.existing(p) == 0 {
			continue
		}
		demand := admissible.DemandOf(policy.Limits{}, p, StandingOf(p), s.Ledger.Awaited(s.Now, p))
		own := demand.Least()
		total = sum(total, own)
		existing[p.Controller]++
		largest[p.Controller] = higher(own, largest[p.Controller])
	}
	for controller, n := range existing {
		wanted, known := s.wantedBy(controller, n)
		if !known {
			return cluster.PodResources{}
		}
		for range n - wanted { // the watch may show pods that the controller has deleted
			total = difference(total, largest[controller])
		}
	}
	return atLeastNone(total)
}

// wantedBy returns how many pods a controller should have, of which n exist, and false if that is unknown.
func (s *Siblings) wantedBy(controller cluster.Workload, n int) (int, bool) {
	scale := s.Scales[controller]
	wanted, known := scale.Wanted(controller, n)
	return wanted, known || scale.Known && scale.Replicas == 0
}

// existing returns 1, or 0 for a pod that is being deleted, or was or may have been evicted.
func (s *Siblings) existing(p *cluster.Pod) int {
	if p.Deleting || s.Ledger.IsEvicted(s.Now, p) || s.Ledger.MayBeEvicted(s.Now, p) {
		return 0
	}
	return 1
}

// mostOf returns what quotas count for a pod as it is: during a resize, the higher of the current and the new amounts.
func mostOf(p *cluster.Pod) cluster.PodResources {
	var fits []policy.Fitted
	if p.IsResizing() {
		fits = notBelow(p, cluster.Each(p.Containers, func(c *cluster.Container) policy.Fitted {
			return policy.Fitted{Container: c.Name, Requests: c.Requests, Limits: c.Limits}
		}))
	}
	own := admissible.DemandOf(policy.Limits{}, p, StandingOf(p), fits)
	return own.Most()
}

// covers reports whether an increase is at least as large as another one in every amount that the other one increases.
func covers(grows, other cluster.PodResources) bool {
	any := false
	has := amountsOf(grows)
	for i, least := range amountsOf(other) {
		if least > 0 && has[i] < least {
			return false
		}
		any = any || least > 0
	}
	return any
}

// amountsOf returns all amounts, 0 for those that are not set.
func amountsOf(r cluster.PodResources) [4]int64 {
	return [...]int64{r.Requests.CPU, r.Requests.Memory, r.Limits.CPU, r.Limits.Memory}
}
