// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/rollout"
)

// A candidate is a pod that should change. Its methods are the checks, and what these ask. They decide nothing.
type candidate struct {
	*pass
	*scope
	d *entry
	g *disruption.Group // nil if the pod has no controller

	retries bool // the resize is tried although the back-off of the last refused one has not ended
}

// A decider decides on a candidate: it changes now, or a check blocks that.
type decider struct {
	candidate
}

func (t *decider) take() {
	if r, blocked := t.firstBlocked(atStart); blocked {
		t.d.leave(r)
		return
	}
	mode := t.d.Autoscaler.Mode
	p := t.d.Pod
	stuck, isStuck := t.rescue.Stuck(t.d.Decision)
	until := t.rescue.WaitsUntil(t.d.Decision)
	isStalled := !until.IsZero() && !t.now.Before(until) // if the mode does not evict, the pod is left with a reason that is reported
	switch {
	case t.d.Wanted.Code == decision.BoostOver:
		t.try(decision.Resize, unboost, decision.Fits)
	case t.d.Wanted.Code == decision.TooBigToPlace && !mode.Evicts():
		t.d.leave(decision.Reason{Code: decision.Unscheduled})
	case t.d.Wanted.Code == decision.TooBigToPlace:
		t.try(decision.Evict, replaceUnscheduled, decision.Fits)
	case isStalled:
		t.evictOr(decision.ResizeRunning, decision.Reason{Code: decision.ResizeStalled})
	case isStuck:
		t.evictOr(stuck.Code, stuck)
	case t.d.Wanted.Code == decision.LargerNode:
		t.evictOr(decision.ResizeImpossible, decision.Reason{Code: decision.ResizeImpossible})
	case mode.Resizes() && rescue.OfInit(t.d.Decision):
		t.evictOr(decision.NoContainerRunning, decision.Reason{Code: decision.NoContainerRunning})
	case p.Phase != cluster.Pending && p.IsResizing():
		t.whileResizing()
	case mode.Resizes():
		t.inPlace()
	default:
		t.evict(decision.Fits)
	}
}

// try decides on an action if no check blocks it, and takes it from the budget of the group.
func (t *decider) try(do decision.Act, against kind, because decision.ReasonCode) {
	if r, blocked := t.firstBlocked(against); blocked {
		t.d.leave(r)
		return
	}
	t.d.Do = do
	t.d.Reason = t.d.Wanted
	t.d.Reason.Fallback = because
	t.d.Reason.Surge = do == decision.Surge
	t.d.Fallback = do == decision.Resize && t.mayFallBack()
	if do != decision.Resize || t.d.Fallback {
		t.sizes.Take(t.d.Pod, change.Total(t.d.Pod, t.d.Replacement()))
	}
	t.quotas.Reserve(t.d.Decision, do)
	t.pass.radius.Plan(t.d.Pod)
	t.d.canary = t.canary.Choose(t.d.Decision)
	if do == decision.Evict {
		t.backoff.Begin(t.d.Pod)
	}
	if do == decision.Surge { // takes nothing out of service
		t.surge.Begin(t.d.Pod)
		return
	}
	t.d.health = t.health()
	if waived := do == decision.Resize && t.isWaived() && !t.d.Fallback; t.g != nil && !waived && !t.hasSpent() {
		t.d.taken = true
		t.g.Take(t.d.health)
	}
}

// mayFallBack reports whether the pod may be evicted if its resize is refused.
func (t *decider) mayFallBack() bool {
	return t.evictsInstead() && !t.isBlocked(t.d, t.kindOf(evict))
}

// evictsInstead reports whether the update mode allows an eviction of the pod if its resize is refused.
func (t *decider) evictsInstead() bool {
	return t.d.Autoscaler.Mode.Resizes() && t.d.Autoscaler.Mode.Evicts() && t.d.Wanted.Code != decision.BoostOver
}

// blocked returns why a change of the pod is not possible now, and false if it is. It records no gates.
func (t *decider) blocked(against kind) (decision.Reason, bool) {
	for c := range checksOf(against) {
		if r, blocked := t.run(c); blocked {
			return r, true
		}
	}
	return decision.Reason{}, false
}

// inPlace decides on a pod whose mode allows a resize, and that has no resize in progress.
func (t *decider) inPlace() {
	p := t.d.Pod
	with := t.d.With
	last, tried := t.lastResize(t.d)
	tried = tried && !t.b.UpstreamRules // upstream tries again in each pass
	isRefused := tried && last.Kind != decision.DeniedByNode && last.IsLasting() && t.now.Before(last.Until(t.b.Delays))
	lacks, short := t.occupancy.ShortOf(t.d.Decision)
	switch {
	case p.Phase == cluster.Pending:
		t.d.leave(decision.Reason{Code: decision.Starting})
	case change.IsAsked(p, with) && !change.SameSize(p, with):
		t.d.leave(decision.Reason{Code: decision.ResizeRunning, Until: t.rescue.WaitsUntil(t.d.Decision)}) // the kubelet has not reported a state yet, or no container has started since
	case !t.d.Rescue && !p.IsAnyRunning():
		t.evictOr(decision.NoContainerRunning, decision.Reason{Code: decision.NoContainerRunning})
	case change.ChangesQoS(t.w.Limits[p.Namespace], p, with):
		t.evictOr(decision.QoSChange, decision.Reason{Code: decision.QoSChange})
	case tried && last.Kind == decision.DeniedByNode && !t.backoff.AsksEnoughLess(last, with):
		t.evictOr(decision.ResizeImpossible, decision.Reason{Code: decision.NotSmallerThanRefused})
	case isRefused && t.triesAgain(last):
		t.retries = true
		t.try(decision.Resize, t.kindOf(resize), decision.Fits)
	case isRefused:
		t.evictInstead(last)
	case short:
		t.whileShortOfRoom(lacks)
	default:
		t.try(decision.Resize, t.kindOf(resize), decision.Fits)
	}
}

// evictOr evicts the pod if the mode allows it, and leaves it otherwise. A protected pod that waits for room keeps waiting, so that other pods
// make room for it.
func (t *decider) evictOr(because decision.ReasonCode, r decision.Reason) {
	why, protected := t.protected()
	switch {
	case !t.d.Autoscaler.Mode.Evicts():
		t.d.leave(r)
	case protected && (r.Code == decision.ResizeWaiting || r.Code == decision.AwaitingRoom):
		r.Note = why.String()
		t.d.leave(r)
	default:
		t.evict(because)
	}
}

// evict decides on a surge or an eviction, or on a deletion if a disruption budget has refused the eviction of a pod to rescue.
func (t *decider) evict(because decision.ReasonCode) {
	if t.surges(false) {
		t.try(decision.Surge, surgePod, because)
		return
	}
	t.try(decision.Evict, t.kindOf(evict), because)
	if t.d.Do == decision.Leave && t.d.Reason.Code == decision.DisruptionBudget {
		t.delete()
	}
}

// surges reports whether a surge replaces the pod, and not an eviction. forRoom is true if the pod moves to make room.
func (t *decider) surges(forRoom bool) bool {
	return t.surge.Replaces(t.d.Decision, forRoom) && t.quotas.AdmitsBeside(t.d.Decision) // the additional pod counts beside all others
}

// refusalTTL is how long the refusal of a resize counts when the pod may be evicted instead. A pod often waits longer for its turn, and
// what refused the resize may be gone by then.
const refusalTTL = 5 * time.Minute

// triesAgain reports whether the resize of a pod is tried once more before the pod is evicted, because the refusal of the last one is old, or
// was that of a smaller size. If it is refused again, the eviction takes its place in the same pass.
func (t *decider) triesAgain(last ledger.FailedAttempt) bool {
	if t.now.Sub(last.At) < refusalTTL && !t.mayExceedQuota(last) || last.Kind == decision.DeniedByNode || last.Kind == decision.Unsupported {
		return false
	}
	awaits := last.Kind.LeavesReplacementOpen() && t.g != nil && t.counter.IsAwaited(t.d.Pod.Controller, t.g)
	_, short := t.occupancy.ShortOf(t.d.Decision)
	return !short && !awaits && t.mayFallBack() && !t.surges(false)
}

// mayExceedQuota reports whether the pod should get more than in its last refused resize, and only the reply to a resize shows whether a quota
// has room for that.
func (t *decider) mayExceedQuota(last ledger.FailedAttempt) bool {
	return !t.knowsQuotas() && change.AsksLessThan(last.With, t.d.With, 0)
}

// evictInstead evicts a pod whose resize was refused, if the mode allows it.
func (t *decider) evictInstead(last ledger.FailedAttempt) {
	trial := last.Kind.LeavesReplacementOpen() && t.g != nil
	if trial && t.counter.IsAwaited(t.d.Pod.Controller, t.g) {
		r, missing := t.replacementMissing()
		if !missing {
			r = decision.Reason{Code: decision.AwaitingReplacement, Text: last.Text}
		}
		t.d.leave(r)
		return
	}
	t.evictOr(decision.ResizeRefused, last.Reason(t.b.Delays, decision.Resize))
	if t.d.Do == decision.Evict && trial {
		t.g.Trial = true
	}
}

// whileResizing decides on a pod with a resize in progress. Its duration counts from the last transition of the pod's condition
// (W-20 in docs/migrate.md).
func (t *decider) whileResizing() {
	p := t.d.Pod
	with := t.d.With
	takes := t.now.Sub(p.Resize.Since)
	r := decision.Reason{Text: p.Resize.Message}
	var failed, again bool // whether to evict if the mode allows it; whether to request another size
	_, protected := t.protected()
	inPlaceOnly := t.d.Autoscaler.Mode.OnlyInPlace() || protected && t.d.Autoscaler.Mode.Resizes()
	switch p.Resize.State {
	case cluster.ResizeDeferred:
		r.Code, failed = decision.ResizeWaiting, takes > t.b.DeferredFor && t.d.Wanted.Code != decision.Incomplete
		again = inPlaceOnly && change.AsksLess(p, with, t.b.Threshold)
	case cluster.ResizeInProgress:
		r.Code = decision.ResizeRunning
		failed = takes > t.b.InProgressFor
		r.Until = t.rescue.WaitsUntil(t.d.Decision)
	case cluster.ResizeInfeasible:
		r.Code = decision.ResizeImpossible
		failed = true
		again = inPlaceOnly && change.AsksLess(p, with, 0)
	case cluster.ResizeError:
		r.Code = decision.ResizeFailed
		failed = true
		again = inPlaceOnly && change.AsksOther(p, with, t.b.Threshold)
		if p.Resize.Problem == cluster.MemoryInUse && !t.b.UpstreamRules {
			// The resize completes when the usage falls or the limit rises, without an eviction (kubernetes/autoscaler#8434).
			r.Code = decision.MemoryInUse
			failed = false
			again = t.d.Autoscaler.Mode.Resizes() && change.RaisesMemoryLimit(p, with)
		}
	default:
		r.Code = decision.ResizeUnclear
		failed = true
	}
	switch {
	case again, failed && t.quotaRefusedBefore():
		t.try(decision.Resize, t.kindOf(resize), decision.Fits)
	case failed:
		t.evictOr(r.Code, r)
	default:
		t.d.leave(r)
	}
}

// quotaRefusedBefore reports whether a quota that podfit cannot read refused the resize of the pod. It is tried again, instead of an
// eviction, because only the reply shows whether the quota has room for the replacement by now.
func (t *decider) quotaRefusedBefore() bool {
	if t.knowsQuotas() || t.b.UpstreamRules || !t.d.Autoscaler.Mode.Resizes() {
		return false
	}
	last, failed := t.lastResize(t.d)
	return failed && last.IsOverQuota(t.now, t.d.With)
}

// interrupted blocks changes of a workload while it is not known which of its pods the last updater changed before it ended.
func (t *candidate) interrupted() (decision.Reason, bool) {
	until, interrupted := t.w.Ledger.Interrupted(t.now, t.d.Pod.Workload())
	return decision.Reason{Code: decision.Interrupted, Until: until}, interrupted
}

// protected returns the reason not to end a pod whose annotation forbids it, or whose role decides its size and can move: an eviction could move it to
// another pod, which would be evicted next. A pod without a node does not run, so it may be ended.
func (t *candidate) protected() (decision.Reason, bool) {
	p := t.d.Pod
	a := t.d.Autoscaler
	ignore := a.Rules.IgnoreProtection
	cause := rollout.AnnotationRoleLabel + ": " + a.Rules.RoleLabel
	switch {
	case p.Node == "":
		return decision.Reason{}, false
	case !a.SizesByNode() && a.HasGroups(p):
	case t.b.UpstreamRules, !p.IsProtected(), ignore == "always", ignore == "rescue" && t.d.Rescue:
		return decision.Reason{}, false
	default:
		cause = p.Marks.Protection
	}
	return decision.Reason{Code: decision.Protected, Text: cause}, true
}

// unplaceable blocks changes of pods that grow and would fit on no node. A pod that shrinks already fits on its node.
func (t *candidate) unplaceable(with []policy.Fitted) (decision.Reason, bool) {
	if !t.b.MustFit || t.sizes.Unknown || !change.Grows(t.d.Pod, with) {
		return decision.Reason{}, false
	}
	size := change.Total(t.d.Pod, with)
	if fits, _ := t.sizes.Fit(t.d.Pod, size); fits {
		return decision.Reason{}, false
	}
	return t.sizes.Misfit(t.d.Pod, size), true
}

func (t *candidate) tooFewReplicas() (decision.Reason, bool) {
	if r, few := t.tooFewIfEvicted(); few {
		return r, true
	}
	return decision.Reason{Code: decision.TooFewReplicas, Have: t.g.Live, Want: t.g.Least}, t.g.Below
}

// tooFewIfEvicted blocks the change of a pod if the group has too few live pods in case that others were evicted: their evictions had no
// answer, and the watch may not show them yet.
func (t *candidate) tooFewIfEvicted() (decision.Reason, bool) {
	others := t.g.Unclear
	if t.w.Ledger.MayBeEvicted(t.now, t.d.Pod) {
		others--
	}
	r := decision.Reason{Code: decision.NotReady, Have: max(0, t.g.Live-others), Want: t.g.Least}
	return r, others > 0 && !t.g.Below && r.Have < r.Want
}

// isInPlace reports whether the user waives the minimum for resizes.
func (t *candidate) isInPlace() bool { return t.b.SkipInPlace }

func (t *candidate) overBudget() (decision.Reason, bool) {
	h := t.health()
	resized := h == disruption.Down && !t.d.Autoscaler.Mode.Evicts() // no pod is lost
	g := *t.g
	if t.isFirst() {
		g.Replaced-- // not all: if the replacements are missing for another reason, one pod more is lost, and no other one
	}
	again := t.hasSpent() && !t.d.Pod.Serves() // the earlier change of a pod that serves may have had no effect, and other pods may be down since
	if t.counter.IsInSpent(t.d.Pod) {
		g.Spent--
	}
	if resized || again || g.MayChange(h) {
		return decision.Reason{}, false
	}
	return t.g.Reason(h), true
}

// hasSpent reports whether an earlier change of the pod counts in the budget of its group. Both changes together disrupt one pod.
func (t *candidate) hasSpent() bool { return t.counter.HasSpent(t.d.Pod, t.health()) }

// isWaived reports whether a resize needs no budget because it restarts no container: with --in-place-skip-disruption-budget, at the end
// of a startup boost, which removes CPU that the pod had only for its start, for an OOM rescue, and if it only lowers requests.
func (t *candidate) isWaived() bool {
	return (t.b.SkipInPlace || t.d.Wanted.Code == decision.BoostOver || t.d.Rescue || t.occupancy.GivesBack(t.d.Decision)) && !change.Restarts(t.d.Pod, t.d.With)
}

func (t *candidate) health() disruption.Health { return t.counter.Health(t.d.Pod) }

// replacementRefused blocks a change if the API server would refuse a pod with the new requests. An eviction would have no effect:
// the admission controller does not change such a pod.
func (t *candidate) replacementRefused() (decision.Reason, bool) {
	r := admissible.Refused(t.w.Limits[t.d.Pod.Namespace], t.d.Pod, t.d.With)
	if !r.Refused() {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.ReplacementRefused, Text: r.String()}, true
}

// resizeRefused blocks a resize during the back-off after a refusal.
func (t *candidate) resizeRefused() (decision.Reason, bool) {
	last, ok := t.lastResize(t.d)
	if !ok || t.retries {
		return decision.Reason{}, false
	}
	return t.backoff.ResizeRefused(last, t.d.With)
}

// replacementMissing blocks evictions while evicted pods have no replacement, but for a pod that makes room for them in a quota.
func (t *candidate) replacementMissing() (decision.Reason, bool) {
	s, short := t.short[t.d.Pod.Controller]
	blocked := short && !t.isFirst() && !t.quotas.MakesRoom(t.d.Decision, s.Wanted-s.Present)
	return decision.Reason{Code: decision.ReplacementMissing, Have: s.Present, Want: s.Wanted, For: t.now.Sub(s.Since)}, blocked
}

// isFirst reports whether the controller has not replaced evicted pods of the workload, because it waits for this pod.
func (t *candidate) isFirst() bool { return t.first[t.d.Pod.Controller] == t.d.Pod }

func (t *candidate) probing() (decision.Reason, bool) {
	return t.backoff.Probing(t.d.Decision, t.isFirst())
}
