// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"

	"podfit.dev/podfit/internal/core/decision"
)

// A GateName identifies a condition that a change of a pod must meet. It is a stable name for output.
type GateName string

// The gates of every pod, before it is a candidate.
const (
	GateMode           GateName = "UpdateMode"     // the update mode changes running pods
	GateRecommendation GateName = "Recommendation" // there is one for the pod
	GateController     GateName = "Controller"     // a controller would replace the pod
	GateNeed           GateName = "Need"           // the requests differ enough from the recommendation
	GateState          GateName = "State"          // the state of the pod, its resize and its node allows a change
)

// The gates of candidates, one for each check.
const (
	GateInterruption    GateName = "Interruption"    // it is known which pods the last updater changed
	GateWindow          GateName = "Window"          // there is no freeze, and a change window is open
	GateSurge           GateName = "Surge"           // no surge of the workload is in progress
	GateSize            GateName = "Size"            // a replacement would get other requests
	GateAdmission       GateName = "Admission"       // the API server would accept the new requests
	GateQuota           GateName = "Quota"           // the ResourceQuotas have room
	GateSiblingQuota    GateName = "SiblingQuota"    // no quota refused the same change of another pod
	GateNodeSize        GateName = "NodeSize"        // a node can hold the new requests
	GateRequirements    GateName = "Requirements"    // the eviction requirements of the VPA hold
	GateReplacements    GateName = "Replacements"    // evicted pods have their replacements
	GateEvictionEffect  GateName = "EvictionEffect"  // earlier evictions had an effect, or long ago
	GateResizeEffect    GateName = "ResizeEffect"    // earlier resizes lasted
	GateProbe           GateName = "Probe"           // no other pod is evicted as a test
	GateFrequency       GateName = "Frequency"       // the pods were not replaced too often
	GateEvictionRefusal GateName = "EvictionRefusal" // the API server refused no eviction, or long ago
	GateResizeRefusal   GateName = "ResizeRefusal"   // the API server refused no resize, or long ago
	GateReplicas        GateName = "Replicas"        // the number of replicas is known
	GateMinReplicas     GateName = "MinReplicas"     // there are enough replicas
	GateWayBack         GateName = "WayBack"         // the previous size can be restored if a canary fails
	GateCanary          GateName = "Canary"          // no canary is tested
	GateHourlyShare     GateName = "HourlyShare"     // the share of requests that may change in an hour is not used up
	GateSurgeEffect     GateName = "SurgeEffect"     // no surge failed, or long ago
	GateBudget          GateName = "Budget"          // the eviction tolerance allows one more pod
	GateResizing        GateName = "Resizing"        // no resize is in progress
	GateStarted         GateName = "Started"         // the pod runs
	GateKills           GateName = "Kills"           // enough OOM kills for a deletion
	GateData            GateName = "Data"            // a deletion loses no data
	GateRescue          GateName = "Rescue"          // no other pod is deleted as a rescue
	GateOthers          GateName = "Others"          // the disruption budget lacks only OOM-killed pods
	GateAnnouncement    GateName = "Announcement"    // the updater can store that it acts, or the action needs no announcement
	GateDeletionRefusal GateName = "DeletionRefusal" // the API server refused no deletion, or long ago
)

// A Gate is the result of a condition for a change of a pod.
type Gate struct {
	Name    GateName
	Blocked bool
	Reason  decision.Reason // why the gate blocks; of a gate that does not, only GateNeed has one
}

// rulesOfPodfit are the gates that upstream does not have, and that Budget.UpstreamRules turns off. These rules are turned off where they are
// applied: the age of the autoscaler, ready pods in the budget, unscheduled pods, and what follows a refused resize.
var rulesOfPodfit = map[GateName]bool{
	GateSize: true, GateAdmission: true, GateQuota: true, GateSiblingQuota: true, GateReplacements: true, GateEvictionEffect: true, GateProbe: true,
	GateFrequency: true, GateEvictionRefusal: true, GateResizeRefusal: true,
}

// run returns the reason of a check that applies and blocks.
func (t *decider) run(c *check) (decision.Reason, bool) {
	if t.b.UpstreamRules && rulesOfPodfit[c.gate] {
		return decision.Reason{}, false
	}
	return c.blocks(&t.candidate)
}

// A check returns the reason why a change is blocked now, and false if it is not.
type check struct {
	gate   GateName
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
	{GateSize, evict | rescueEvict | surgePod | replaceUnscheduled, (*candidate).sameSize},
	{GateInterruption, move | moveBySurge, (*candidate).interrupted},
	{GateWindow, atStart | evict | move | anySurge | resize | shrink | deletePod, (*candidate).switchedOff},
	{GateInterruption, atStart | shrink, (*candidate).interrupted},
	{GateSurge, atStart, (*candidate).underSurge},
	{GateResizing, unboost, (*candidate).resizing},
	{GateStarted, unboost, (*candidate).starting},
	{GateCanary, shrink, (*candidate).awaitsCanary},
	{GateResizeEffect, anyResize, (*candidate).undone},
	{GateResizeRefusal, anyResize, (*candidate).resizeRefused},
	{GateKills, deletePod, (*candidate).fewKills},
	{GateData, deletePod, (*candidate).dataWouldBeLost},
	{GateAdmission, anyReplacement | anyResize, (*candidate).replacementRefused},
	{GateQuota, anyReplacement, (*candidate).replacementOverQuota},
	{GateQuota, resize | rescueResize, (*candidate).resizeOverQuota},
	{GateSiblingQuota, anyEviction | anySurge, (*candidate).siblingOverQuota},
	{GateNodeSize, anyEviction | anySurge | resize | rescueResize, (*candidate).unplaceable},
	{GateRequirements, anyReplacement, (*candidate).requirementsUnmet},
	{GateReplacements, anyReplacement, (*candidate).replacementMissing},
	{GateEvictionEffect, anyReplacement, (*candidate).backingOff},
	{GateProbe, replaceUnscheduled, (*candidate).probing},
	{GateFrequency, evict | move, (*candidate).changesTooOften},
	{GateFrequency, rescueEvict, (*candidate).rescuedTooOften},
	{GateEvictionRefusal, anyEviction | replaceUnscheduled, (*candidate).evictionRefused},
	{GateReplicas, anyEviction | anySurge | anyResize | deletePod, (*candidate).replicasUnknown},
	{GateMinReplicas, evict | move, (*candidate).tooFewReplicas},
	{GateMinReplicas, rescueEvict, (*candidate).tooFewToRescue},
	{GateMinReplicas, resize | shrink, (*candidate).tooFewReplicasInPlace},
	{GateMinReplicas, rescueResize, (*candidate).tooFewToRescueInPlace},
	{GateRescue, deletePod, (*candidate).rescueInProgress},
	{GateOthers, deletePod, (*candidate).budgetOfOthers},
	{GateProbe, deletePod, (*candidate).probing},
	{GateSurge, anySurge, (*candidate).surging},
	{GateSurgeEffect, anySurge, (*candidate).surgeFailed},
	{GateWayBack, evict | move, (*candidate).noWayBack},
	{GateCanary, evict | move | replaceUnscheduled | anySurge | resize, (*candidate).awaitsCanary},
	{GateHourlyShare, evict | move | replaceUnscheduled | anySurge | resize, (*candidate).overRadius},
	{GateSurgeEffect, evict | move, (*candidate).surgeNotReady},
	{GateAnnouncement, anyEviction | replaceUnscheduled, notAnnounced(decision.Evict)},
	{GateAnnouncement, anySurge, notAnnounced(decision.Surge)},
	{GateAnnouncement, anyResize, notAnnounced(decision.Resize)},
	{GateAnnouncement, deletePod, notAnnounced(decision.Delete)},
	{GateDeletionRefusal, deletePod, (*candidate).deletionRefused},
	{GateBudget, anyEviction, (*candidate).overBudget},
	{GateBudget, resize | rescueResize | unboost, (*candidate).overBudgetInPlace},
	{GateProbe, anyEviction, (*candidate).probing},
}

// checksOf returns the checks of a kind, in order.
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
	if !t.w.Surges.Removes(t.d.Pod) {
		return decision.Reason{}, false
	}
	r, _ := t.surging()
	return r, true
}

// firstBlocked returns the reason of the first check that blocks, and false if none does. For the pods of World.Explained, it evaluates and
// records the other checks, too.
func (t *decider) firstBlocked(against kind) (first decision.Reason, blocked bool) {
	explained := t.w.Explained[t.d.Pod.UID]
	if explained {
		t.forgetGates(against)
	}
	for c := range checksOf(against) {
		r, blocks := t.run(c)
		if explained {
			t.recordGate(c.gate, r, blocks)
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

// forgetGates forgets the gates of earlier kinds. Those of the start are kept while another kind is checked.
func (t *decider) forgetGates(against kind) {
	kept := 0
	if against != atStart {
		for range checksOf(atStart) {
			kept++
		}
	}
	t.d.gates = t.d.gates[:min(kept, len(t.d.gates))]
}

func (t *decider) recordGate(name GateName, r decision.Reason, blocked bool) {
	if !blocked {
		r = decision.Reason{}
	}
	t.d.gates = append(t.d.gates, Gate{Name: name, Blocked: blocked, Reason: r})
}

// earlyGates are the gates at which judge leaves a pod, by reason. A pod with another reason is left at GateState.
var earlyGates = map[decision.ReasonCode]GateName{
	decision.ModeOff: GateMode, decision.GateOff: GateMode, decision.NoAdvice: GateRecommendation, decision.NoController: GateController,
	decision.Fits: GateNeed, decision.PodTooYoung: GateNeed, decision.AutoscalerTooYoung: GateNeed, decision.SmallChange: GateNeed,
	decision.SameSize: GateNeed, decision.LeftToHPA: GateNeed,
}

// earlyOrder is the order of the gates before the checks.
var earlyOrder = []GateName{GateMode, GateRecommendation, GateController, GateNeed}

// Gates returns all gates of a pod of World.Explained in the order of their evaluation. If the pod is left, the reason of the first gate
// that blocks is the reason of its decision. If it is changed, no gate blocks. It returns none for other pods.
func (p *Pass) Gates(uid string) []Gate {
	if !p.w.Explained[uid] {
		return nil
	}
	for i := range p.entries {
		if p.entries[i].Pod.UID == uid {
			return p.entries[i].allGates()
		}
	}
	return nil
}

// allGates returns the gates of an entry.
func (d *entry) allGates() []Gate {
	var out []Gate
	leaves := d.Do == decision.Leave
	at, early := earlyGates[d.Reason.Code]
	stopped := leaves && d.Wanted.Code == decision.Fits
	if stopped && !early {
		at = GateState
	}
	for _, name := range earlyOrder {
		if stopped && name == at {
			return append(out, Gate{Name: name, Blocked: true, Reason: d.Reason})
		}
		g := Gate{Name: name}
		if name == GateNeed {
			g.Reason = d.Wanted
		}
		out = append(out, g)
	}
	if stopped {
		return append(out[:len(out)-1], Gate{Name: GateState, Blocked: true, Reason: d.Reason})
	}
	return append(out, d.checkGates(leaves)...)
}

// checkGates returns the gates of the checks. A reason that follows from no check, but from the state of the pod, its node or the other
// decisions of the pass, is one more gate.
func (d *entry) checkGates(leaves bool) []Gate {
	out := slices.Clone(d.gates)
	if !leaves { // a check that blocked another change does not block this one
		return slices.DeleteFunc(out, func(g Gate) bool { return g.Blocked })
	}
	first := slices.IndexFunc(out, func(g Gate) bool { return g.Blocked })
	switch {
	case first < 0:
		first = len(out)
	case out[first].Reason == d.Reason:
		return out
	}
	return slices.Insert(out, first, Gate{Name: GateState, Blocked: true, Reason: d.Reason})
}

// EvictionGates returns the gates that the eviction of a pod would have to pass now. It returns none for a pod that should not change, that
// is not among World.Explained, or whose update mode does not allow an eviction.
func (p *Pass) EvictionGates(uid string) []Gate {
	i := slices.IndexFunc(p.entries, func(d entry) bool { return d.Pod.UID == uid })
	if i < 0 || !p.w.Explained[uid] {
		return nil
	}
	d := p.entries[i] // a copy: its gates are not those of the decision
	if d.scope == nil || d.Wanted.Code == decision.Fits || !d.Autoscaler.Mode.Evicts() {
		return nil
	}
	t := p.decider(&d)
	d.gates = nil
	for c := range checksOf(t.evictionKind()) {
		r, blocked := t.run(c)
		t.recordGate(c.gate, r, blocked)
		if blocked && t.g == nil {
			break
		}
	}
	return d.gates
}
