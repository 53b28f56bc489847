// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// A Ledger records attempts to change pods and their effects. Done and Refused write the outcomes, and Learn writes the observations of
// each pass. It is not safe for concurrent use.
//
// It answers two questions that the current pods do not answer. Does a replacement get the requests for which a pod was evicted? It
// does not if the webhook was not called or another component sets the requests afterwards; without the ledger, the updater would
// evict every minute (W-13 in docs/migrate.md). And does a resized pod keep its requests, or was the resize refused?
type Ledger struct {
	evictions map[cluster.Workload]eviction
	resizes   map[string]resize // by pod UID
	refusals  map[refusedKey]FailedAttempt
	pending   map[cluster.Workload]pendingReplacements // by direct controller
	evicted   map[string]time.Time                     // when a pod was evicted that the watch may still show as running, by UID
	progress  map[cluster.Workload]time.Time           // when a pod of the workload was last evicted
	rescues   map[cluster.Workload]DeletionState       // the last deletion of a pod of the workload
	served    map[string]time.Time                     // when an action was last tried, by namespace
	rounds    map[cluster.Workload]RoundsState         // evictions of all pods of a workload
	waiting   map[cluster.Workload][]WaitingState      // pods that the last pass left unchanged, see PassEnded
	lacking   map[string]RoomShortage                  // pods whose node was too full for their resize, by UID
	yielding  map[string]time.Time                     // since when pods have left free room to other pods, by UID; not stored
	asks      map[cluster.Workload]CapacityState       // the last request for capacity before an eviction
	keeps     map[string]keptRequest                   // requests for capacity whose deletion was refused, by UID
	ignored   time.Time                                // when a ProvisioningRequest expired that no autoscaler had accepted; zero if none did
	spends    map[string]spend                         // what changes took from disruption budgets, by pod UID
	doubt     bool                                     // the last eviction whose effect became known had none

	canaries     map[cluster.Workload]rollout.State
	changes      map[cluster.Workload][]rollout.Change // requests that were changed in the last hour, if their share is limited
	changesSince time.Time                             // before this time, changes are unknown; zero if all are known

	pods        map[string]podRef                 // the pods of resizes, refusals and evicted, by UID
	interrupted map[cluster.Workload]announcement // restored workloads: a pass whose outcomes are not recorded

	acting   map[cluster.Workload]announcement // workloads that are announced in the state of their namespace, see Announce
	inherits map[cluster.Workload]announcement // likewise by the updater before this one
	replaced map[string]bool                   // pods of evicted that are gone, by UID
}

// An eviction is the last eviction of a pod of a workload.
type eviction struct {
	at          time.Time
	newest      time.Time       // creation of the newest pod of the workload at that time, by the API server's clock
	with        []policy.Fitted // requests and limits that the replacement should get
	ineffective int             // consecutive evictions without effect before this one
	judged      bool            // the effect of this eviction is counted
	unsized     *Unsized        // the last dry run since: a replacement would not get the requests; nil if there was none, or it would
	diagnosed   bool            // there was a dry run since
	asked       time.Time       // of the last dry run since that did not show whether a replacement would get the requests

	uncertain string    // UID of the pod if the eviction had no answer, so that it may not have been carried out
	assumed   bool      // only the announcement of this eviction is known, see assume
	before    *eviction // the last eviction whose outcome is certain, if this one is not; nil if there is none
}

// A resize is the last resize of a pod.
type resize struct {
	at          time.Time
	with        []policy.Fitted
	ineffective int  // consecutive resizes that were undone before this one
	shown       bool // the watch has shown the requests of the resize
	part        bool // the rest of the increase follows
}

// HistoryTTL is how long the ledger keeps a workload after its last eviction, and a resize. It is longer than every back-off.
const HistoryTTL = 24 * time.Hour

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		evictions: map[cluster.Workload]eviction{}, resizes: map[string]resize{}, refusals: map[refusedKey]FailedAttempt{},
		pending: map[cluster.Workload]pendingReplacements{}, evicted: map[string]time.Time{}, progress: map[cluster.Workload]time.Time{},
		rescues: map[cluster.Workload]DeletionState{}, served: map[string]time.Time{}, pods: map[string]podRef{}, interrupted: map[cluster.Workload]announcement{},
		acting: map[cluster.Workload]announcement{}, inherits: map[cluster.Workload]announcement{}, replaced: map[string]bool{},
		lacking: map[string]RoomShortage{}, yielding: map[string]time.Time{}, spends: map[string]spend{}, rounds: map[cluster.Workload]RoundsState{},
		canaries: map[cluster.Workload]rollout.State{}, changes: map[cluster.Workload][]rollout.Change{},
		asks: map[cluster.Workload]CapacityState{}, keeps: map[string]keptRequest{},
	}
}

// An Attempt is an action on a pod that was tried.
type Attempt struct {
	Pod        *cluster.Pod
	Autoscaler cluster.Key
	Do         decision.Act
	With       []policy.Fitted // the requests and limits of the containers that were asked for

	Newest   time.Time            // when the newest pod of the workload was created, by the API server's clock; zero if it is not known
	Rescue   bool                 // a container was OOM-killed and gets more memory
	Part     bool                 // Resize: With is a part of the increase; the rest follows when the node has room
	RoomFor  *cluster.Pod         // the pod that gets the room of this one; nil if there is none
	Memory   int64                // Delete: bytes that the replacement gets
	Repeated bool                 // Delete: the replacement of an earlier deletion was OOM-killed, too
	Total    cluster.PodResources // Resize: what the pods of the workload requested at least, if a quota refused it; zero if unknown
	Early    bool                 // the attempt was made before the end of the back-off, because more pods are ready
	Replicas int                  // the number of replicas that the controller should have; zero if unknown
}

// newest returns when the newest pod of the workload was created, by the API server's clock.
func (d *Attempt) newest(now time.Time) time.Time {
	if d.Newest.IsZero() {
		return now.Truncate(time.Second).Add(-1)
	}
	return d.Newest
}

// Done records that an action was carried out. A resize that fell back to an eviction has Do set to Evict.
func (l *Ledger) Done(now time.Time, d Attempt) {
	l.MarkServed(now, d.Pod)
	l.note(d.Pod)
	if d.Do != decision.Surge { // a surge that has begun may still fail
		delete(l.refusals, refusedKey{d.Pod.UID, d.Do})
	}
	switch d.Do {
	case decision.Evict, decision.Delete:
		if d.Do == decision.Delete {
			l.recordRescue(now, d)
		}
		l.noteRound(now, d)
		l.addPending(now, d)
		l.expect(now, d)
		l.evicted[d.Pod.UID] = now
		l.progress[WorkloadOf(d.Pod)] = now
		l.noteMove(now, d)
		delete(l.asks, WorkloadOf(d.Pod))
	case decision.Surge:
		l.expect(now, d)
		l.noteMove(now, d)
	case decision.Resize:
		l.resizes[d.Pod.UID] = resize{at: now, with: d.With, ineffective: l.undoneBefore(d.Pod), part: d.Part}
		l.notePart(now, d)
	case decision.Leave: // nothing was done
	}
}

// expect records that a pod was evicted, or may have been, and the requests that its replacement should get. If it is not known yet
// whether the last eviction had an effect, its replacement shows that for this one, too: otherwise pods that take turns would be evicted
// again and again, each before it is known whether the replacement of the other one can be scheduled.
func (l *Ledger) expect(now time.Time, d Attempt) {
	last, open := l.evictions[WorkloadOf(d.Pod)]
	next := eviction{at: now, newest: d.newest(now), with: d.With, ineffective: last.ineffective}
	if open && !last.judged && last.uncertain == "" && (last.assumed || sameRequests(last.with, d.With)) {
		next.newest = last.newest
	}
	l.evictions[WorkloadOf(d.Pod)] = next
}

// sameRequests reports whether two replacements should get the same requests.
func sameRequests(a, b []policy.Fitted) bool {
	return slices.EqualFunc(a, b, func(a, b policy.Fitted) bool { return a.Container == b.Container && a.Requests == b.Requests })
}

// Learn records the observations of a pass: whether evicted pods have replacements with the expected requests. It is called with
// the view and all decisions of the pass, and forgets pods and workloads that are gone.
func (l *Ledger) Learn(now time.Time, v View, ds []decision.Decision) {
	l.refute(now, ds)
	l.confirm(ds)
	l.noteShown(ds)
	l.forgetShortages(ds)
	l.noteYielding(now, ds)
	l.learnCapacity(now, v.Requests, ds)
	l.specify(ds)
	l.judge(now, l.Effective(ds))
	for _, c := range l.replacementStates(now, v) {
		if c.isComplete(now) {
			delete(l.pending, c.controller)
			continue
		}
		l.pending[c.controller] = c.remaining(now)
	}
	l.forgetAssumptions(now)
	l.forgetServed(now)
	l.forgetSpends(now)
	l.forgetChanges(now)
	l.canaries = l.ObserveCanaries(now, v)
	l.forgetRescues(now, ds)
	maps.DeleteFunc(l.progress, func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > HistoryTTL })
	maps.DeleteFunc(l.rounds, func(_ cluster.Workload, r RoundsState) bool { return now.Sub(r.At) > roundsTTL })
	maps.DeleteFunc(l.evicted, func(_ string, at time.Time) bool { return now.Sub(at) > WatchDelay })
	l.forgetAnnouncements(now)
	l.noteReplaced(now, ds)
	maps.DeleteFunc(l.resizes, func(_ string, r resize) bool { return now.Sub(r.at) > HistoryTTL })
	defer l.forgetPods(ds)
	if len(l.resizes)+len(l.refusals) == 0 {
		return
	}
	live := make(map[string]bool, len(l.resizes)+len(l.refusals))
	for i := range ds {
		live[ds[i].Pod.UID] = true
	}
	maps.DeleteFunc(l.resizes, func(uid string, _ resize) bool { return !live[uid] })
	maps.DeleteFunc(l.refusals, func(k refusedKey, _ FailedAttempt) bool { return !live[k.uid] })
}

// judge records which evictions had an effect. If one had none, those of other workloads are in doubt until one has.
func (l *Ledger) judge(now time.Time, effective map[cluster.Workload]bool) {
	helped, failed := false, false
	for workload, help := range effective {
		e := l.evictions[workload]
		switch {
		case help && e.assumed && now.Before(e.at.Add(WatchDelay)): // the watch may not show the replacement yet
		case help:
			helped = true
			delete(l.evictions, workload)
		case !e.judged:
			failed = true
			if e.assumed { // now it is known
				e.assumed, e.before = false, nil
			}
			e.ineffective, e.judged = e.ineffective+1, true
			l.evictions[workload] = e
		}
	}
	if helped || failed {
		l.doubt = failed
	}
}

// Effective reports for each workload whose last eviction has a replacement whether the eviction had an effect. One replacement
// without the expected requests means that it had none.
func (l *Ledger) Effective(ds []decision.Decision) map[cluster.Workload]bool {
	out := map[cluster.Workload]bool{}
	if len(l.evictions) == 0 {
		return out
	}
	for i := range ds {
		d := &ds[i]
		w := WorkloadOf(d.Pod)
		e, ok := l.evictions[w]
		// Creation times are only compared with each other, because the API server's clock may differ.
		if !ok || !d.Pod.Created.After(e.newest) {
			continue
		}
		if e.assumed && e.with == nil {
			e.with = d.With
		}
		help, known := l.hasHelped(&e, d)
		if !known {
			continue
		}
		if d.Pod.Node == "" && !isBoosted(d.Pod) {
			// An unscheduled pod has no wanted change, whether or not it has the expected requests.
			help = change.IsAsked(d.Pod, e.with) || change.IsAsked(d.Pod, d.With)
			if !help && d.Wanted.Code != decision.TooBigToPlace && (hasRequests(d.Pod, e.with) || hasRequests(d.Pod, d.With)) {
				continue // a small difference may decide whether a node can hold it, which is not known yet
			}
		}
		if before, ok := out[w]; !ok || before {
			out[w] = help
		}
	}
	return out
}

// hasHelped reports whether a replacement on a node shows that the eviction had an effect. A replacement that got the requests by a resize in
// place shows none, and the node may still refuse the resize while it is not completed.
func (l *Ledger) hasHelped(e *eviction, d *decision.Decision) (help, known bool) {
	if isBoosted(d.Pod) {
		return boostedHelp(e, d)
	}
	if d.With == nil && (e.assumed || !hasRequests(d.Pod, e.with)) {
		return false, false // nothing is recommended for it, for example because the update mode is Off now
	}
	if _, resized := l.resizes[d.Pod.UID]; e.judged && (resized || d.Pod.IsResizing()) {
		return false, true
	}
	// A replacement that got the expected requests and should change again has a newer recommendation, if that differs much.
	return d.Wanted.Code == decision.Fits || hasRequests(d.Pod, e.with) && !hasRequests(d.Pod, d.With), true
}

// boostedHelp is hasHelped for a replacement with a CPU startup boost. Its boosted CPU says nothing, and the end of the boost is no change
// that an eviction should have made unnecessary.
func boostedHelp(e *eviction, d *decision.Decision) (help, known bool) {
	has := func(with []policy.Fitted) bool { return len(with) > 0 && hasRequests(unboosted(d.Pod, with), with) }
	boostOnly := d.With == nil || d.Wanted.Code == decision.BoostOver
	switch {
	case e.with == nil && e.assumed, boostOnly && !has(e.with) && !has(d.With):
		return false, false
	case boostOnly:
		return true, true
	}
	return has(e.with) && !has(d.With), true
}

// IneffectiveEvictions returns the number of consecutive evictions of a workload without effect, and the time of the last one.
func (l *Ledger) IneffectiveEvictions(w cluster.Workload, effective map[cluster.Workload]bool) (int, time.Time) {
	e, ok := l.evictions[w]
	if !ok {
		return 0, time.Time{}
	}
	help, known := effective[w]
	switch {
	case known && help:
		return 0, time.Time{}
	case known && !e.judged:
		return e.ineffective + 1, e.at
	case e.assumed && e.before == nil:
		return 0, time.Time{}
	case e.assumed: // nothing shows that it was carried out
		return e.before.ineffective, e.before.at
	}
	return e.ineffective, e.at
}

// Undone returns the number of consecutive resizes of a pod that were undone: its spec has other requests again.
func (l *Ledger) Undone(p *cluster.Pod) int {
	r, ok := l.resizes[p.UID]
	if !ok || change.IsAsked(p, r.with) {
		return 0
	}
	return r.ineffective + 1
}

// undoneBefore returns the number of consecutive resizes of a pod that were undone before a new one. A resize by a part, or one that the
// kubelet has not completed, is followed by others for the same increase, and all of them are undone together, so it does not end the row.
func (l *Ledger) undoneBefore(p *cluster.Pod) int {
	n := l.Undone(p)
	if last := l.resizes[p.UID]; n == 0 && (last.part || !change.SameSize(p, last.with)) {
		return last.ineffective
	}
	return n
}

// IsAwaited reports whether the watch may not show yet that the pod was resized: it has not shown the requests of the resize, and WatchDelay has
// not passed.
func (l *Ledger) IsAwaited(now time.Time, p *cluster.Pod) bool {
	r, ok := l.resizes[p.UID]
	return ok && !r.shown && now.Before(r.at.Add(WatchDelay)) && !change.IsAsked(p, r.with)
}

// noteShown records which resizes the watch has shown.
func (l *Ledger) noteShown(ds []decision.Decision) {
	if len(l.resizes) == 0 {
		return
	}
	for i := range ds {
		r, ok := l.resizes[ds[i].Pod.UID]
		if ok && !r.shown && change.IsAsked(ds[i].Pod, r.with) {
			r.shown = true
			l.resizes[ds[i].Pod.UID] = r
		}
	}
}

// LastResize returns when a pod was last resized; zero if it was not.
func (l *Ledger) LastResize(p *cluster.Pod) time.Time {
	return l.resizes[p.UID].at
}

// hasRequests reports whether a pod was created with about the given requests. The webhook may have used a newer recommendation.
func hasRequests(p *cluster.Pod, with []policy.Fitted) bool {
	const close = 0.1
	for i := range with {
		if !with[i].Inserted && p.Container(with[i].Container) == nil {
			return false
		}
	}
	return !change.AsksOther(p, with, close)
}

// WorkloadOf returns the workload under which the ledger records evictions of a pod. It is the topmost controller where that is known,
// because the direct controller of a Deployment's pods changes with each rollout.
func WorkloadOf(p *cluster.Pod) cluster.Workload {
	if p.Top.IsZero() {
		return p.Controller
	}
	return p.Top
}

// Served returns when an action on a pod of a namespace was last tried.
func (l *Ledger) Served(namespace string) time.Time { return l.served[namespace] }

// MarkServed records that an action on a pod was tried.
func (l *Ledger) MarkServed(now time.Time, p *cluster.Pod) { l.served[p.Namespace] = now }

// forgetServed forgets namespaces without an action for HistoryTTL.
func (l *Ledger) forgetServed(now time.Time) {
	maps.DeleteFunc(l.served, func(_ string, at time.Time) bool { return now.Sub(at) > HistoryTTL })
}
