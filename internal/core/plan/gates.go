// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
)

// rulesOfPodfit are the gates that upstream does not have, and that Budget.UpstreamRules turns off. These rules are turned off where they are
// applied: the age of the autoscaler, ready pods in the budget, unscheduled pods, and what follows a refused resize.
var rulesOfPodfit = map[gate.Name]bool{
	gate.Size: true, gate.Admission: true, gate.Quota: true, gate.SiblingQuota: true, gate.Replacements: true, gate.EvictionEffect: true, gate.Probe: true,
	gate.Frequency: true, gate.EvictionRefusal: true, gate.ResizeRefusal: true, gate.Protection: true,
}

func (t *decider) run(c *check) (decision.Reason, bool) {
	if t.b.UpstreamRules && rulesOfPodfit[c.gate] {
		return decision.Reason{}, false
	}
	return c.blocks(&t.candidate)
}

// A check returns the reason why a change is blocked now, and false if it is not.
type check struct {
	gate   gate.Name
	kinds  kind // the changes that it may block
	blocks func(*candidate) (decision.Reason, bool)
}

// A kind is a kind of change, as a bit.
type kind uint16

// The kinds of changes.
const (
	atStart            kind = 1 << iota // every change, before its kind is chosen
	evict                               // an eviction
	rescueEvict                         // the eviction of an OOM-killed pod
	move                                // an eviction that makes room for another pod: the size of the pod need not change
	replaceUnscheduled                  // the eviction of an unscheduled pod, which takes nothing out of service
	surgePod                            // a surge: it takes nothing out of service, and there is at most one of a workload at a time
	moveBySurge                         // a surge that makes room for another pod
	resize                              // a resize
	rescueResize                        // the resize of an OOM-killed pod
	unboost                             // the end of a startup boost: it never leads to an eviction, and applies to a single pod too
	shrink                              // a resize that makes room for another pod
	deletePod                           // a deletion, after a disruption budget has refused the eviction of an OOM-killed pod

	anyEviction    = evict | rescueEvict | move
	anySurge       = surgePod | moveBySurge
	anyReplacement = anyEviction | anySurge | replaceUnscheduled
	anyResize      = resize | rescueResize | unboost | shrink
)

// checks are all checks. Those of a kind run in this order, and the first one that blocks is the reason to leave the pod.
var checks = []check{
	{gate.Size, evict | rescueEvict | surgePod | replaceUnscheduled, func(t *candidate) (decision.Reason, bool) {
		return decision.Reason{Code: decision.SameSize}, change.SameSize(t.d.Pod, t.d.With)
	}},
	{gate.Interruption, move | moveBySurge, (*candidate).interrupted},
	{gate.Window, atStart | evict | move | anySurge | resize | shrink | deletePod, (*candidate).switchedOff},
	{gate.Interruption, atStart | shrink, (*candidate).interrupted},
	{gate.Surge, atStart, (*candidate).underSurge},
	{gate.Resizing, unboost, func(t *candidate) (decision.Reason, bool) {
		r := t.d.Pod.Resize // one that waits or has failed would keep the boost without end
		return decision.Reason{Code: decision.ResizeRunning}, r != nil && r.State == cluster.ResizeInProgress && t.now.Sub(r.Since) <= t.b.InProgressFor
	}},
	{gate.Started, unboost, func(t *candidate) (decision.Reason, bool) {
		return decision.Reason{Code: decision.Starting}, t.d.Pod.Phase == cluster.Pending
	}},
	{gate.Canary, shrink, func(t *candidate) (decision.Reason, bool) { return t.canary.Awaits(t.d.Decision) }},
	{gate.ResizeEffect, anyResize, func(t *candidate) (decision.Reason, bool) { return t.backoff.Undone(t.d.Pod) }},
	{gate.ResizeRefusal, anyResize, (*candidate).resizeRefused},
	{gate.Kills, deletePod, func(t *candidate) (decision.Reason, bool) { return t.rescue.FewKills(t.d.Pod) }},
	{gate.Data, deletePod, func(t *candidate) (decision.Reason, bool) {
		return decision.Reason{Code: decision.DataWouldBeLost}, t.d.Pod.OwnVolume
	}},
	{gate.Admission, anyReplacement | anyResize, (*candidate).replacementRefused},
	{gate.Protection, anyEviction | anySurge | deletePod, (*candidate).protected},
	{gate.Quota, anyReplacement, func(t *candidate) (decision.Reason, bool) { return t.quotas.Replacement(t.d.Decision) }},
	{gate.Quota, resize | rescueResize, func(t *candidate) (decision.Reason, bool) { return t.quotas.Resize(t.d.Decision) }},
	{gate.SiblingQuota, anyEviction | anySurge, (*candidate).siblingOverQuota},
	{gate.NodeSize, anyEviction | anySurge, func(t *candidate) (decision.Reason, bool) { return t.unplaceable(t.d.Replacement()) }},
	{gate.NodeSize, resize | rescueResize, func(t *candidate) (decision.Reason, bool) { return t.unplaceable(t.d.With) }},
	{gate.Requirements, anyReplacement, func(t *candidate) (decision.Reason, bool) {
		return decision.Reason{Code: decision.RequirementsUnmet}, !t.b.RequirementsMet(t.d.Autoscaler, t.d.Pod, t.d.With)
	}},
	{gate.Requirements, resize | rescueResize, func(t *candidate) (decision.Reason, bool) {
		return decision.Reason{Code: decision.RequirementsUnmet}, t.b.UpstreamRules && !t.b.RequirementsMet(t.d.Autoscaler, t.d.Pod, t.d.With)
	}},
	{gate.Replacements, anyReplacement, (*candidate).replacementMissing},
	{gate.EvictionEffect, anyReplacement, func(t *candidate) (decision.Reason, bool) { return t.backoff.Ineffective(t.d.Pod) }},
	{gate.Probe, replaceUnscheduled, (*candidate).probing},
	{gate.Frequency, evict | move, func(t *candidate) (decision.Reason, bool) { return t.backoff.TooOften(t.d.Pod, false) }},
	{gate.Frequency, rescueEvict, func(t *candidate) (decision.Reason, bool) { return t.backoff.TooOften(t.d.Pod, true) }},
	{gate.EvictionRefusal, anyEviction | replaceUnscheduled, func(t *candidate) (decision.Reason, bool) { return t.backoff.EvictionRefused(t.d.Pod, t.g) }},
	{gate.Replicas, anyEviction | anySurge | anyResize | deletePod, func(t *candidate) (decision.Reason, bool) {
		return decision.Reason{Code: decision.ReplicasUnknown}, t.g == nil || !t.g.Known
	}},
	{gate.MinReplicas, evict | move, (*candidate).tooFewReplicas},
	{gate.MinReplicas, rescueEvict, unless((*candidate).isDown, (*candidate).tooFewReplicas)},
	{gate.MinReplicas, resize | shrink, unless((*candidate).isInPlace, (*candidate).tooFewReplicas)},
	{gate.MinReplicas, rescueResize, unless((*candidate).isSafeToRescue, (*candidate).tooFewReplicas)},
	{gate.Rescue, deletePod, func(t *candidate) (decision.Reason, bool) { return t.rescue.InProgress(t.d.Decision, t.isFirst()) }},
	{gate.Others, deletePod, (*candidate).budgetOfOthers},
	{gate.Probe, deletePod, (*candidate).probing},
	{gate.Surge, anySurge, func(t *candidate) (decision.Reason, bool) { return t.surge.InProgress(t.d.Pod) }},
	{gate.SurgeEffect, anySurge, func(t *candidate) (decision.Reason, bool) { return t.surge.Failed() }},
	{gate.WayBack, evict | move, func(t *candidate) (decision.Reason, bool) { return t.canary.NoWayBack(t.d.Decision) }},
	{gate.Canary, evict | move | replaceUnscheduled | anySurge | resize, func(t *candidate) (decision.Reason, bool) { return t.canary.Awaits(t.d.Decision) }},
	{gate.HourlyShare, evict | move | replaceUnscheduled | anySurge | resize, unless((*candidate).isUnwell, func(t *candidate) (decision.Reason, bool) {
		return t.radius.Exceeded(t.d.Pod)
	})},
	{gate.SurgeEffect, evict | move, func(t *candidate) (decision.Reason, bool) { return t.surge.NotReady() }},
	{gate.Announcement, anyEviction | replaceUnscheduled, notAnnounced(decision.Evict)},
	{gate.Announcement, anySurge, notAnnounced(decision.Surge)},
	{gate.Announcement, anyResize, notAnnounced(decision.Resize)},
	{gate.Announcement, deletePod, notAnnounced(decision.Delete)},
	{gate.DeletionRefusal, deletePod, func(t *candidate) (decision.Reason, bool) { return t.rescue.Refused(t.d.Pod) }},
	{gate.Budget, anyEviction, (*candidate).overBudget},
	{gate.Budget, resize | rescueResize | unboost, unless((*candidate).isWaived, (*candidate).overBudget)},
	{gate.Probe, anyEviction, (*candidate).probing},
}

// unless returns a check that does not block if a condition holds.
func unless(holds func(*candidate) bool, blocks func(*candidate) (decision.Reason, bool)) func(*candidate) (decision.Reason, bool) {
	return func(t *candidate) (decision.Reason, bool) {
		if holds(t) {
			return decision.Reason{}, false
		}
		return blocks(t)
	}
}

func checksOf(k kind) iter.Seq[*check] {
	return func(yield func(*check) bool) {
		for i := range checks {
			if checks[i].kinds&k != 0 && !yield(&checks[i]) {
				return
			}
		}
	}
}

// underSurge blocks a change of a pod that a surge removes.
func (t *candidate) underSurge() (decision.Reason, bool) {
	r, _ := t.surge.InProgress(t.d.Pod)
	return r, t.w.Surges.Removes(t.d.Pod)
}

// firstBlocked returns the reason of the first check that blocks, and false if none does. For the pods of World.Explained, it evaluates and
// records the other checks, too.
func (t *decider) firstBlocked(against kind) (first decision.Reason, blocked bool) {
	explained := t.w.Explained[t.d.Pod.UID]
	if explained { // the gates of earlier kinds are forgotten, but those of the start are kept while another kind is checked
		kept := 0
		if against != atStart {
			kept = len(slices.Collect(checksOf(atStart)))
		}
		t.d.gates = t.d.gates[:min(kept, len(t.d.gates))]
	}
	for c := range checksOf(against) {
		r, blocks := t.run(c)
		if explained {
			t.d.gates = append(t.d.gates, gate.Of(c.gate, r, blocks))
		}
		if blocks && !blocked {
			first, blocked = r, true
		}
		if blocked && (!explained || t.g == nil) { // the checks of a group need one
			return first, true
		}
	}
	return first, blocked
}

// Gates returns all gates of a pod of World.Explained in the order of their evaluation. If the pod is left, the reason of the first gate
// that blocks is the reason of its decision. If it is changed, no gate blocks. It returns none for other pods.
func (p *Pass) Gates(uid string) []gate.Gate {
	d := p.entryOfUID(uid)
	if d == nil || !p.w.Explained[uid] {
		return nil
	}
	return gate.All(d.Decision, d.gates)
}

// EvictionGates returns the gates that the eviction of a pod would have to pass now. It returns none for a pod that should not change, that
// is not among World.Explained, or whose update mode does not allow an eviction.
func (p *Pass) EvictionGates(uid string) []gate.Gate {
	own := p.entryOfUID(uid)
	if own == nil || !p.w.Explained[uid] {
		return nil
	}
	d := *own // its gates are not those of the decision
	if d.scope == nil || d.Wanted.Code == decision.Fits || !d.Autoscaler.Mode.Evicts() {
		return nil
	}
	d.gates = nil
	t := p.decider(&d)
	t.firstBlocked(t.kindOf(evict))
	return d.gates
}
