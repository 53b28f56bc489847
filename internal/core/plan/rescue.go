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

// An OOM rescue gives an OOM-killed container more memory at once: in place if the update mode resizes, else by eviction, else by
// deletion. A pod that is down waits at most Budget.StuckFor for a resize that the kubelet carries out, and not at all for one that the
// kubelet defers or that failed.
//
// A deletion is no eviction, so no PodDisruptionBudget is asked. Therefore a pod is deleted only if all of this holds:
//
//   - a PodDisruptionBudget refused its eviction, and it would not if the OOM-killed pods were ready
//   - it is not ready, and a container was OOM-killed minKills times in a row
//   - its recommendation has more memory than it was killed with
//   - no data is lost with it, and its controller replaces it
//   - no other pod of the workload was deleted whose replacement is not ready yet, unless the replacement has been running for
//     Budget.StuckFor: the pods of some databases become ready only together
//
// The back-off of deletions grows while the replacements are OOM-killed too (ledger.Ledger.LastDeletion).

// A RescueMode selects what is done for OOM-killed pods (--oom-rescue).
type RescueMode uint8

// The rescue modes.
const (
	NoRescue         RescueMode = iota // upstream's rules only
	RescueByEviction                   // resize or evict at once
	RescueByDeletion                   // also delete pods that a disruption budget does not allow to be evicted
)

// minKills is the number of consecutive OOM kills after which a pod may be deleted.
const minKills = 3

// noticeablyMore is the factor by which the memory must grow before the next pod is deleted, if the replacement of the last one was
// OOM-killed too.
const noticeablyMore = 1.1

// A memoryKill is an OOM kill of a container that gets more memory by its recommendation.
type memoryKill struct {
	container *cluster.Container
	lived     time.Duration
	to        int64 // bytes: the new limit of the container or pod, or the new request if there is no limit
	atLimit   bool  // the container or the pod has a memory limit; otherwise the node was short of memory
}

// killOf returns the OOM kill within the given time for which the pod would get more memory; false if there is none.
func killOf(now time.Time, within time.Duration, a *cluster.Autoscaler, p *cluster.Pod, fits []policy.Fitted) (memoryKill, bool) {
	for i := range fits {
		c := p.Container(fits[i].Container)
		if c == nil || c.Role != cluster.Regular || c.Exit == nil || !c.Exit.OOM || !policy.Observed(p.ObservedContainers(), c.Name) {
			continue
		}
		if cp := a.Policy(c.Name); cp != nil && cp.Off || !c.Exit.Now && now.Sub(c.Exit.Finished) >= within {
			continue
		}
		kill := memoryKill{container: c, lived: c.Exit.Finished.Sub(c.Exit.Started)}
		var from int64
		from, kill.to, kill.atLimit = memoryOf(p, c, fits, &fits[i])
		if change.Compare(cluster.Memory, kill.to, from) > 0 {
			return kill, true
		}
	}
	return memoryKill{}, false
}

// memoryOf returns the amount of memory at which a container is killed, now and with fit, and whether it is a limit. Without a limit of
// the container or the pod it is the request, because the kernel kills the containers first that use more than they request.
func memoryOf(p *cluster.Pod, c *cluster.Container, fits []policy.Fitted, fit *policy.Fitted) (from, to int64, atLimit bool) {
	requests, limits := c.Running()
	if limits.Memory > 0 {
		return limits.Memory, fit.Limits.Or(limits).Memory, true
	}
	if p.PodLevel != nil && p.PodLevel.Limits.Memory > 0 {
		return p.PodLevel.Limits.Memory, policy.PodLevelOf(p, fits).Limits.Memory, true
	}
	return requests.Memory, fit.Requests.Or(requests).Memory, false
}

// judgeRescue makes a pod change at once, whatever its age, if a container was OOM-killed and gets more memory. A pod that is in service
// and would be restarted changes at once only if the container was killed soon after its start (--evict-after-oom-threshold).
func (s *pass) judgeRescue(d *entry) {
	if s.b.Rescue == NoRescue {
		return
	}
	kill, ok := killOf(s.now, s.b.RescueFor, d.Autoscaler, d.Pod, d.With)
	if !ok {
		return
	}
	disrupts := !healthOf(s.now, s.b, d.Pod).isDown() && (!d.Autoscaler.Mode.Resizes() || change.Restarts(d.Pod, d.With))
	if disrupts && kill.lived >= s.b.quickOOM(d.Autoscaler) {
		return
	}
	d.Rescue = true
	requests, _ := kill.container.Running()
	to := requests.Memory
	for i := range d.With {
		if d.With[i].Container == kill.container.Name {
			to = d.With[i].Requests.Or(requests).Memory
		}
	}
	d.Wanted = decision.Reason{
		Code: decision.OutOfMemory, Container: nameUnlessSole(d.Pod)(kill.container.Name), Resource: cluster.Memory,
		From: requests.Memory, To: to, For: kill.lived,
	}
	if !kill.atLimit {
		d.Wanted.Code = decision.NodeOutOfMemory
	}
	i := slices.IndexFunc(s.w.Nodes, func(n cluster.Node) bool { return n.Name == d.Pod.Node })
	if i >= 0 && s.w.Nodes[i].LowMemory {
		d.Wanted.Text = d.Pod.Node
	}
}

// evictionChecks returns the checks for an eviction.
func (t *candidate) evictionChecks() []check {
	if t.d.Rescue {
		return rescueChecks
	}
	return evictionChecks
}

// resizeChecks returns the checks for a resize.
func (t *candidate) resizeChecks() []check {
	if t.d.Rescue {
		return rescueInPlaceChecks
	}
	return resizeChecks
}

// rescueChecks are evictionChecks, but the minimum number of replicas protects only pods that are in service.
var rescueChecks = []check{
	{GateSize, (*candidate).sameSize},
	{GateAdmission, (*candidate).replacementRefused},
	{GateQuota, (*candidate).replacementOverQuota},
	{GateSiblingQuota, (*candidate).siblingOverQuota},
	{GateNodeSize, (*candidate).unplaceable},
	{GateRequirements, (*candidate).requirementsUnmet},
	{GateReplacements, (*candidate).replacementMissing},
	{GateEvictionEffect, (*candidate).backingOff},
	{GateProbe, (*candidate).probing},
	{GateEvictionRefusal, (*candidate).evictionRefused},
	{GateReplicas, (*candidate).replicasUnknown},
	{GateMinReplicas, (*candidate).tooFewToRescue},
	notAnnounced(decision.Evict),
	{GateBudget, (*candidate).overBudget},
}

// rescueInPlaceChecks are resizeChecks, but the minimum number of replicas and the disruption budget protect only pods in service that
// the resize restarts.
var rescueInPlaceChecks = []check{
	{GateResizeEffect, (*candidate).undone},
	{GateResizeRefusal, (*candidate).resizeRefused},
	{GateAdmission, (*candidate).replacementRefused},
	{GateQuota, (*candidate).resizeOverQuota},
	{GateNodeSize, (*candidate).unplaceable},
	{GateReplicas, (*candidate).replicasUnknown},
	{GateMinReplicas, (*candidate).tooFewToRescueInPlace},
	notAnnounced(decision.Resize),
	{GateBudget, (*candidate).overBudgetInPlace},
}

// deletionChecks are the checks for a deletion, after a disruption budget has refused the eviction.
var deletionChecks = []check{
	{GateWindow, (*candidate).switchedOff},
	{GateKills, (*candidate).fewKills},
	{GateData, (*candidate).dataWouldBeLost},
	{GateReplicas, (*candidate).replicasUnknown},
	{GateRescue, (*candidate).rescueInProgress},
	{GateOthers, (*candidate).budgetOfOthers},
	notAnnounced(decision.Delete),
	{GateDeletionRefusal, (*candidate).deletionRefused},
}

func (t *candidate) tooFewToRescue() (decision.Reason, bool) {
	if t.health().isDown() {
		return decision.Reason{}, false
	}
	return t.tooFewReplicas()
}

func (t *candidate) tooFewToRescueInPlace() (decision.Reason, bool) {
	if t.health().isDown() || !change.Restarts(t.d.Pod, t.d.With) {
		return decision.Reason{}, false
	}
	return t.tooFewReplicasInPlace()
}

// isStuckResizing reports whether a pod that is down has a resize that waits or has failed, and may be evicted instead.
func (t *candidate) isStuckResizing() bool {
	r := t.d.Pod.Resize
	if r == nil || resizeCodes[r.State] == decision.Fits || r.Problem == cluster.MemoryInUse {
		return false
	}
	return t.d.Autoscaler.Mode.Evicts() && t.health().isDown()
}

// resizeBegan returns when the kubelet was asked for the resize of the pod that it has not completed: as it reports in the condition of
// the pod, or when podfit asked, if it reports nothing. It returns the zero time if there is no such resize.
func (t *candidate) resizeBegan() time.Time {
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
// within Budget.StuckFor. It returns the zero time if the pod does not wait for that.
func (t *candidate) rescueWaitsUntil() time.Time {
	began := t.resizeBegan()
	if !t.d.Rescue || !t.health().isDown() || began.IsZero() {
		return time.Time{}
	}
	return began.Add(t.b.StuckFor)
}

// resizeStalled reports whether the rescue of a pod does not wait for the kubelet any longer. If the update mode does not evict, the pod is
// left with a reason that is reported.
func (t *candidate) resizeStalled() bool {
	until := t.rescueWaitsUntil()
	return !until.IsZero() && !t.now.Before(until)
}

// resizeCodes are the reasons for which a pod that is down does not wait for its resize.
var resizeCodes = map[cluster.ResizeState]decision.ReasonCode{
	cluster.ResizeDeferred: decision.ResizeWaiting, cluster.ResizeInfeasible: decision.ResizeImpossible,
	cluster.ResizeError: decision.ResizeFailed, cluster.ResizeUnknown: decision.ResizeUnclear,
}

// evict decides on a surge or an eviction, or on a deletion if a disruption budget has refused the eviction of a pod to rescue.
func (t *candidate) evict(because decision.ReasonCode) {
	if t.surges(false) {
		t.try(decision.Surge, surgeChecks, because)
		return
	}
	t.try(decision.Evict, t.evictionChecks(), because)
	if t.d.Do == decision.Leave && t.d.Reason.Code == decision.DisruptionBudget {
		t.delete()
	}
}

// delete decides on the deletion of a pod to rescue, if no check blocks it. If one does, it is the reason to leave the pod.
func (t *candidate) delete() {
	if !t.d.Rescue || t.b.Rescue != RescueByDeletion || !t.isCrashing(t.d.Pod) {
		return
	}
	if r, blocked := t.firstBlocked(deletionChecks); blocked {
		t.leave(r)
		return
	}
	t.d.Do, t.d.Reason, t.d.Fallback = decision.Delete, t.d.Wanted, false
	t.d.Reason.Fallback = decision.DisruptionBudget
	t.d.again = t.isRepeated()
	t.reserve(decision.Evict)
	if t.deleted == nil {
		t.deleted = map[cluster.Workload]*cluster.Pod{}
	}
	t.deleted[ledger.WorkloadOf(t.d.Pod)] = t.d.Pod
}

// deleteInstead decides on the deletion of a pod whose eviction a disruption budget has just refused. It reports whether the pod is
// to be deleted.
func (p *Pass) deleteInstead(d *entry, last ledger.FailedAttempt) bool {
	if d.scope == nil {
		return false
	}
	p.leave(d, last.Reason(p.b.Delays, decision.Evict))
	p.candidate(d).delete()
	return d.Do == decision.Delete
}

// endRescue lets the next pass delete a pod of the workload if the deletion of this one was not carried out.
func (s *pass) endRescue(d *entry, why decision.RefusalKind) {
	if d.scope != nil && d.Do == decision.Delete && why != decision.OutcomeIsUnknown {
		delete(d.scope.deleted, ledger.WorkloadOf(d.Pod))
	}
}

// isCrashing reports whether a pod is not ready because of OOM kills.
func (s *pass) isCrashing(p *cluster.Pod) bool {
	return p.Crash != nil && p.Live() && !p.Ready && healthOf(s.now, s.b, p).isDown()
}

// crashingIn returns the pods of a namespace that are not ready because of OOM kills.
func (s *pass) crashingIn(namespace string) []*cluster.Pod {
	if s.crashing == nil {
		s.crashing = map[string][]*cluster.Pod{}
		for _, g := range s.w.Governed {
			for _, p := range g.Pods {
				if s.isCrashing(p) {
					s.crashing[p.Namespace] = append(s.crashing[p.Namespace], p)
				}
			}
		}
	}
	return s.crashing[namespace]
}

// crashingOf returns how many of the pods that a disruption budget counts are not ready because of OOM kills. Each budget is counted once in a
// pass, so that many such pods of one tenant do not slow the pass for others.
func (s *pass) crashingOf(of *cluster.DisruptionBudget, namespace string) int32 {
	n, known := s.lacking[of]
	if known {
		return n
	}
	for _, p := range s.crashingIn(namespace) {
		if of.Selector.Matches(p.Crash.Labels) {
			n++
		}
	}
	if s.lacking == nil {
		s.lacking = map[*cluster.DisruptionBudget]int32{}
	}
	s.lacking[of] = n
	return n
}

func (t *candidate) fewKills() (decision.Reason, bool) {
	most := 0
	for i := range t.d.Pod.Containers {
		if e := t.d.Pod.Containers[i].Exit; e != nil && e.OOM {
			most = max(most, int(e.Kills))
		}
	}
	return decision.Reason{Code: decision.FewKills, Have: most, Want: minKills}, most < minKills
}

func (t *candidate) dataWouldBeLost() (decision.Reason, bool) {
	return decision.Reason{Code: decision.DataWouldBeLost}, t.d.Pod.LocalData
}

// budgetOfOthers blocks a deletion unless exactly one disruption budget selects the pod, and it would allow the eviction if the
// OOM-killed pods were ready.
func (t *candidate) budgetOfOthers() (decision.Reason, bool) {
	p := t.d.Pod
	all, known := t.w.Budgets[p.Namespace]
	if !known {
		return decision.Reason{Code: decision.BudgetsUnknown}, true
	}
	var of *cluster.DisruptionBudget
	for i := range all {
		if !all[i].Selector.Matches(p.Crash.Labels) {
			continue
		}
		if of != nil {
			return decision.Reason{Code: decision.BudgetOfOthers, Text: of.Name + ", " + all[i].Name}, true
		}
		of = &all[i]
	}
	if of == nil || !of.Current || of.AlwaysAllow || of.Healthy >= of.Desired {
		// The disruption budget has changed since, so the eviction is tried again after its back-off.
		r, _ := t.w.Ledger.LastFailure(p, decision.Evict)
		return r.Reason(t.b.Delays, decision.Evict), true
	}
	crashing := t.crashingOf(of, p.Namespace)
	return decision.Reason{Code: decision.BudgetOfOthers, Text: of.Name, Have: int(of.Healthy + crashing), Want: int(of.Desired)}, of.Healthy+crashing < of.Desired
}

// rescueInProgress blocks a deletion until the replacement of the last deleted pod of the workload is ready. If it was OOM-killed too,
// the next pod is deleted after a back-off, and only with noticeably more memory.
func (t *candidate) rescueInProgress() (decision.Reason, bool) {
	p, workload := t.d.Pod, ledger.WorkloadOf(t.d.Pod)
	if other := t.deleted[workload]; other != nil && other != p {
		return decision.Reason{Code: decision.RescueInProgress, Text: other.Name}, true
	}
	last, ok := t.w.Ledger.LastDeletion(workload)
	if !ok {
		return decision.Reason{}, false
	}
	state := t.stateOf(last)
	if state == replacementAbsent {
		return decision.Reason{Code: decision.RescueInProgress, For: t.now.Sub(last.At)}, true
	}
	if !t.isRepeated() {
		return decision.Reason{}, false
	}
	if until := last.At.Add(t.b.Backoff(last.Again + 1)); t.now.Before(until) {
		return decision.Reason{Code: decision.BackingOff, Until: until, Have: last.Again + 1, Text: "deletion"}, true
	}
	kill, _ := killOf(t.now, t.b.RescueFor, t.d.Autoscaler, p, t.d.With)
	return decision.Reason{Code: decision.NotEnoughMemory, From: last.Memory, To: kill.to}, float64(kill.to) < noticeablyMore*float64(last.Memory)
}

// isRepeated reports whether a deletion would follow one that did not help: the pod is a replacement itself, or the replacement of the
// last deleted pod is not ready because of OOM kills.
func (t *candidate) isRepeated() bool {
	last, ok := t.w.Ledger.LastDeletion(ledger.WorkloadOf(t.d.Pod))
	return ok && (t.d.Pod.Created.After(last.Newest) || t.stateOf(last) == replacementKilled)
}

// A rescueState is the state of the replacement of a deleted pod.
type rescueState uint8

const (
	replacementAbsent rescueState = iota // does not exist, or is not ready yet
	replacementServing
	replacementKilled // not ready because of OOM kills
	replacementStuck  // not ready for another reason, for so long that it does not recover by itself
)

// A rescueKey has what the state of a replacement depends on within a pass.
type rescueKey struct {
	controller          cluster.Workload
	deleted             string // UID
	missing, unreplaced bool   // some evicted pod has no replacement yet; the deleted one has none
}

// stateOf returns the state of the replacement of the last deleted pod. It is the same for all pods of a controller.
func (t *candidate) stateOf(last ledger.DeletionState) rescueState {
	controller := t.d.Pod.Controller
	missing := t.w.Ledger.Missing(controller) > 0 && !t.complete[controller]
	key := rescueKey{controller, last.UID, missing, missing && t.w.Ledger.IsMissing(controller, last.UID)}
	state, known := t.replacements[key]
	if known {
		return state
	}
	state = t.replacementOf(last, key)
	if t.replacements == nil {
		t.replacements = map[rescueKey]rescueState{}
	}
	t.replacements[key] = state
	return state
}

func (t *candidate) replacementOf(last ledger.DeletionState, key rescueKey) rescueState {
	workload := ledger.WorkloadOf(t.d.Pod)
	var serving, killed, waiting, isNew, isStuck bool
	settled := !t.now.Before(last.At.Add(ledger.WatchDelay))
	for _, p := range t.pods {
		switch {
		case ledger.WorkloadOf(p) != workload || !p.Live():
		case p.UID == last.UID:
			if settled {
				return replacementServing // the deletion, whose outcome was unknown, was not carried out
			}
		case !p.Created.After(last.Newest):
		case p.Serves():
			serving = true
		case t.isCrashing(p):
			killed = true
		case healthOf(t.now, t.b, p) == stuck:
			isStuck = true
		default:
			waiting = true
			isNew = isNew || t.now.Sub(p.Created) < t.b.StuckFor
		}
	}
	switch {
	case serving && (isNew || waiting && key.controller.Kind == "StatefulSet"):
		// Of several new pods, it is not known which one replaces the deleted pod. In a StatefulSet, each of them replaces a pod.
		return replacementAbsent
	case serving && !key.unreplaced: // otherwise it replaces a pod that was evicted before
		return replacementServing
	case killed:
		return replacementKilled
	case waiting:
		return replacementAbsent
	case isStuck:
		return replacementStuck
	case settled && !key.missing:
		return replacementServing // created within the second of the newest pod, so that its age does not show that it is newer
	}
	return replacementAbsent
}

// deletionRefused blocks a deletion during the back-off after a refusal.
func (t *candidate) deletionRefused() (decision.Reason, bool) {
	r, ok := t.w.Ledger.LastFailure(t.d.Pod, decision.Delete)
	if !ok || !t.now.Before(r.Until(t.b.Delays)) {
		return decision.Reason{}, false
	}
	return r.Reason(t.b.Delays, decision.Delete), true
}
