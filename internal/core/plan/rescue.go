// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/rescue"
)

// judgeRescue makes a pod change at once, whatever its age, if a container was OOM-killed and gets more memory. A pod that is in service
// and would be restarted changes at once only if the container was killed soon after its start (--evict-after-oom-threshold), and with
// evictAfterOOMSeconds of the autoscaler that applies to each pod.
func (s *pass) judgeRescue(d *entry) {
	if s.b.Rescue == rescue.Off {
		return
	}
	kill, ok := rescue.KillOf(s.now, s.b.RescueFor, d.Autoscaler, d.Pod, d.With)
	if !ok {
		return
	}
	disrupts := !s.counter.Health(d.Pod).IsDown() && (!d.Autoscaler.Mode.Resizes() || change.Restarts(d.Pod, d.With))
	own := s.b.PerVPAConfig && d.Autoscaler.EvictAfterOOM > 0
	if (disrupts || own) && kill.Lived >= s.b.QuickOOMOf(d.Autoscaler) {
		return
	}
	d.Rescue = true
	requests, _ := kill.Container.Running()
	to := requests.Memory
	for i := range d.With {
		if d.With[i].Container == kill.Container.Name {
			to = d.With[i].Requests.Or(requests).Memory
		}
	}
	d.Wanted = decision.Reason{
		Code: decision.OutOfMemory, Container: need.NameUnlessSole(d.Pod)(kill.Container.Name), Resource: cluster.Memory,
		From: requests.Memory, To: to, For: kill.Lived,
	}
	if !kill.AtLimit {
		d.Wanted.Code = decision.NodeOutOfMemory
	}
	i := slices.IndexFunc(s.w.Nodes, func(n cluster.Node) bool { return n.Name == d.Pod.Node })
	if i >= 0 && s.w.Nodes[i].LowMemory {
		d.Wanted.Text = d.Pod.Node
	}
}

// evictionKind returns the kind of an eviction of the pod.
func (t *decider) evictionKind() kind {
	if t.d.Rescue {
		return rescueEvict
	}
	return evict
}

// resizeKind returns the kind of a resize of the pod.
func (t *decider) resizeKind() kind {
	if t.d.Rescue {
		return rescueResize
	}
	return resize
}

// rescueBase and rescueMost are the back-off between the rescue of a pod and that of its replacement. It is the back-off of the kubelet for
// containers that crash: the first restart follows at once.
const (
	rescueBase = 10 * time.Second
	rescueMost = 5 * time.Minute
)

// rescuedTooOften blocks the rescue of a replacement during the back-off after the last eviction of the workload.
func (t *candidate) rescuedTooOften() (decision.Reason, bool) {
	r, next := t.w.Ledger.NextRescue(t.d.Pod)
	if !next || r.Count < 2 {
		return decision.Reason{}, false
	}
	until := r.At.Add(attempt.Doubled(rescueBase, rescueMost, r.Count-1))
	return decision.Reason{Code: decision.ChangesTooOften, Until: until, Have: r.Count}, t.now.Before(until)
}

func (t *candidate) tooFewToRescue() (decision.Reason, bool) {
	if t.health().IsDown() {
		return decision.Reason{}, false
	}
	return t.tooFewReplicas()
}

func (t *candidate) tooFewToRescueInPlace() (decision.Reason, bool) {
	if t.health().IsDown() || !change.Restarts(t.d.Pod, t.d.With) {
		return decision.Reason{}, false
	}
	return t.tooFewReplicasInPlace()
}

// isStuckResizing reports whether a pod that is down has a resize that waits or has failed, and may be evicted instead.
func (t *decider) isStuckResizing() bool {
	r := t.d.Pod.Resize
	if r == nil || resizeCodes[r.State] == decision.Fits || r.Problem == cluster.MemoryInUse {
		return false
	}
	return t.d.Autoscaler.Mode.Evicts() && t.health().IsDown()
}

// resizeBegan returns when the kubelet was asked for the resize of the pod that it has not completed: as it reports in the condition of
// the pod, or when podfit asked, if it reports nothing. It returns the zero time if there is no such resize.
func (t *decider) resizeBegan() time.Time {
	p := t.d.Pod
	switch {
	case p.Resize != nil && p.Resize.State == cluster.ResizeInProgress:
		return p.Resize.Since
	case !p.IsResizing() && change.IsAsked(p, t.d.With) && !change.SameSize(p, t.d.With):
		return t.w.Ledger.LastResize(p)
	}
	return time.Time{}
}

// rescueWaitsUntil returns when the rescue of a pod that is down goes on to its eviction, because the kubelet has not completed its resize
// within Limits.StuckFor. It returns the zero time if the pod does not wait for that.
func (t *decider) rescueWaitsUntil() time.Time {
	began := t.resizeBegan()
	if !t.d.Rescue || !t.health().IsDown() || began.IsZero() {
		return time.Time{}
	}
	return began.Add(t.b.StuckFor)
}

// resizeStalled reports whether the rescue of a pod does not wait for the kubelet any longer. If the update mode does not evict, the pod is
// left with a reason that is reported.
func (t *decider) resizeStalled() bool {
	until := t.rescueWaitsUntil()
	return !until.IsZero() && !t.now.Before(until)
}

// resizeCodes are the reasons for which a pod that is down does not wait for its resize.
var resizeCodes = map[cluster.ResizeState]decision.ReasonCode{
	cluster.ResizeDeferred: decision.ResizeWaiting, cluster.ResizeInfeasible: decision.ResizeImpossible,
	cluster.ResizeError: decision.ResizeFailed, cluster.ResizeUnknown: decision.ResizeUnclear,
}

// evict decides on a surge or an eviction, or on a deletion if a disruption budget has refused the eviction of a pod to rescue.
func (t *decider) evict(because decision.ReasonCode) {
	if t.surges(false) {
		t.try(decision.Surge, surgePod, because)
		return
	}
	t.try(decision.Evict, t.evictionKind(), because)
	if t.d.Do == decision.Leave && t.d.Reason.Code == decision.DisruptionBudget {
		t.delete()
	}
}

// delete decides on the deletion of a pod to rescue, if no check blocks it. If one does, it is the reason to leave the pod.
func (t *decider) delete() {
	if !t.d.Rescue || t.b.Rescue != rescue.ByDeletion || !t.rescue.IsCrashing(t.d.Pod) {
		return
	}
	if r, blocked := t.firstBlocked(deletePod); blocked {
		t.leave(r)
		return
	}
	t.d.Do, t.d.Reason, t.d.Fallback = decision.Delete, t.d.Wanted, false
	t.d.Reason.Fallback = decision.DisruptionBudget
	t.d.again = t.rescue.IsRepeated(t.d.Pod)
	t.pass.reserve(t.d, decision.Evict)
	t.probe(t.d)
	t.rescue.Begin(t.d.Pod)
}

// deleteInstead decides on the deletion of a pod whose eviction a disruption budget has just refused. It reports whether the pod is
// to be deleted.
func (p *Pass) deleteInstead(d *entry, last ledger.FailedAttempt) bool {
	if d.scope == nil {
		return false
	}
	p.leave(d, last.Reason(p.b.Delays, decision.Evict))
	p.decider(d).delete()
	return d.Do == decision.Delete
}

// endRescue lets the next pass delete a pod of the workload if the deletion of this one was not carried out.
func (s *pass) endRescue(d *entry, why decision.RefusalKind) {
	if d.scope != nil && d.Do == decision.Delete && why != decision.OutcomeIsUnknown {
		d.scope.rescue.End(d.Pod)
	}
}

// deletionRefused blocks a deletion during the back-off after a refusal.
func (t *candidate) deletionRefused() (decision.Reason, bool) {
	r, ok := t.w.Ledger.LastFailure(t.d.Pod, decision.Delete)
	if !ok || !t.now.Before(r.Until(t.b.Delays)) {
		return decision.Reason{}, false
	}
	return r.Reason(t.b.Delays, decision.Delete), true
}

func (t *candidate) fewKills() (decision.Reason, bool) {
	most := 0
	for i := range t.d.Pod.Containers {
		if e := t.d.Pod.Containers[i].Exit; e != nil && e.OOM {
			most = max(most, int(e.Kills))
		}
	}
	return decision.Reason{Code: decision.FewKills, Have: most, Want: rescue.MinKills}, most < rescue.MinKills
}

func (t *candidate) dataWouldBeLost() (decision.Reason, bool) {
	return decision.Reason{Code: decision.DataWouldBeLost}, t.d.Pod.OwnVolume
}

func (t *candidate) budgetOfOthers() (decision.Reason, bool) { return t.rescue.BudgetOfOthers(t.d.Pod) }

// rescueInProgress blocks a deletion until the last one of the workload has helped, or its back-off has ended.
func (t *candidate) rescueInProgress() (decision.Reason, bool) {
	return t.rescue.InProgress(t.d.Decision)
}
