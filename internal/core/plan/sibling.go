// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// A quotaRefusal is the last refusal of a resize of a controller's pod by a quota. Without the permission to read quotas, it shows
// that the quota has no room for the replacement of another pod that grows as much.
type quotaRefusal struct {
	at    time.Time
	text  string // of the API server
	with  []policy.Fitted
	grows cluster.PodResources // what the resize asked for in addition
	total cluster.PodResources // what the pods of the workload requested
}

// siblingOverQuota blocks an eviction if the quotas cannot be read, and one of them refused a resize of a pod of the same controller
// that grows no more. That resize is tried again after its back-off, which shows whether the quota has room by now. After such a refusal, a
// pod that grows also waits for pods of the controller that shrink, because the quota may have no room before that.
func (t *candidate) siblingOverQuota() (decision.Reason, bool) {
	if t.w.Limits[t.d.Pod.Namespace].Quotas != nil {
		return decision.Reason{}, false
	}
	refusals := t.quotaRefusals(t.scope)[t.d.Pod.Controller]
	if len(refusals) == 0 {
		return decision.Reason{}, false
	}
	grows := t.growth(t.d.Pod, t.d.With)
	waits := change.Grows(t.d.Pod, t.d.With) && t.shrinking[t.d.Pod.Controller]
	for _, r := range refusals {
		if t.hasFreed(t.d, r.total, grows) {
			continue
		}
		if waits {
			return decision.Reason{Code: decision.OverQuota, Text: r.text}, true
		}
		if !change.AsksSmaller(t.d.With, r.with, 0) && covers(grows, r.grows) {
			return decision.Reason{Code: decision.OverQuota, Text: r.text}, true
		}
	}
	return decision.Reason{}, false
}

// noteShrinking records that a pod of a controller should only shrink.
func (sc *scope) noteShrinking(d *entry) {
	if !change.Shrinks(d.Pod, d.With) || change.Grows(d.Pod, d.With) {
		return
	}
	if sc.shrinking == nil {
		sc.shrinking = map[cluster.Workload]bool{}
	}
	sc.shrinking[d.Pod.Controller] = true
}

// DependsOnResizes reports whether the answer to a resize of the same controller may show that a quota would refuse the replacement of a
// pod that is to be evicted or deleted: its mode resizes, and the quotas cannot be read.
func (p *Pass) DependsOnResizes(d decision.Decision) bool {
	own := &p.entries[p.at(d)]
	removes := d.Do == decision.Evict || d.Do == decision.Delete
	return removes && own.scope != nil && d.Autoscaler.Mode.Resizes() && p.w.Limits[d.Pod.Namespace].Quotas == nil
}

// OverQuota reports whether a quota has refused a resize of the same controller, possibly since the eviction or deletion of a pod was
// decided on. The caller asks just before it sends the request, and reports a request that it does not send with Stopped.
func (p *Pass) OverQuota(d decision.Decision) (decision.Reason, bool) {
	if !p.DependsOnResizes(d) {
		return decision.Reason{}, false
	}
	return p.candidate(&p.entries[p.at(d)]).siblingOverQuota()
}

// maxQuotaRefusals is how many refusals with different increases are kept for one controller.
const maxQuotaRefusals = 8

// quotaRefusals returns the last refusals of resizes by a quota for each controller of a scope, one for each increase: the pods of a
// controller may have different sizes, so the refusal of a large increase does not show that a small one would be refused.
func (s *pass) quotaRefusals(sc *scope) map[cluster.Workload][]quotaRefusal {
	if !sc.quotasAsked {
		sc.quotasAsked = true
		for _, p := range sc.pods {
			s.noteQuotaRefusal(sc, p)
		}
	}
	return sc.overQuota
}

// turnFor is how long a refused resize may wait for its turn after its back-off.
const turnFor = 15 * time.Minute

// noteQuotaRefusal adds the refusal of a pod's resize by a quota. It counts until the resize must have been tried again, and at most for a
// day: if the later attempts were refused for another reason, they do not show whether the quota has room by now.
func (s *pass) noteQuotaRefusal(sc *scope, p *cluster.Pod) {
	last, ok := s.w.Ledger.LastFailure(p, decision.Resize)
	if !ok || last.OverQuota == nil || s.now.Sub(last.OverQuotaAt) >= ledger.HistoryTTL || !s.now.Before(last.Until(s.b.Delays).Add(turnFor)) {
		return
	}
	r := quotaRefusal{at: last.OverQuotaAt, with: last.OverQuota, grows: s.growth(p, last.OverQuota), total: last.OverQuotaTotal}
	if last.Kind == decision.DeniedByQuota {
		r.text = last.Text
	}
	if sc.overQuota == nil {
		sc.overQuota = map[cluster.Workload][]quotaRefusal{}
	}
	known := sc.overQuota[p.Controller]
	i := slices.IndexFunc(known, func(k quotaRefusal) bool { return k.grows == r.grows })
	switch {
	case i < 0:
		if len(known) == maxQuotaRefusals {
			known = known[1:]
		}
		sc.overQuota[p.Controller] = append(known, r)
	case r.at.After(known[i].at):
		known[i] = r
	}
}

// growth returns what a quota counts for a pod with new requests in addition to its current ones.
func (s *pass) growth(p *cluster.Pod, with []policy.Fitted) cluster.PodResources {
	standing := standingOf(p)
	fitted, own := policy.DemandOf(s.w.Limits[p.Namespace], p, standing, with), policy.DemandOf(policy.Limits{}, p, standing, nil)
	return fitted.Growth(&own)
}

// covers reports whether an increase is at least as large as another one in every amount that the other one increases.
func covers(grows, other cluster.PodResources) bool {
	any := false
	for _, of := range [...]struct{ grows, other cluster.Resources }{{grows.Requests, other.Requests}, {grows.Limits, other.Limits}} {
		for _, res := range cluster.All {
			least := of.other.Amount(res)
			if least > 0 && of.grows.Amount(res) < least {
				return false
			}
			any = any || least > 0
		}
	}
	return any
}
