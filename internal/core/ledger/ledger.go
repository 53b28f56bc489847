// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
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
	evictionRecords
	resizeRecords
	deletionRecords
	canaryRecords
	spendRecords
	changeRecords
	replacementRecords
	turnRecords
	refusalRecords
	roundRecords
	roomRecords
	announcementRecords

	evicted map[string]time.Time                // when a pod was evicted that the watch may still show as running, by UID
	waiting map[cluster.Workload][]WaitingState // pods that the last pass left unchanged, see PassEnded

	pods        map[string]podRef                 // the pods of resizes, refusals and evicted, by UID
	interrupted map[cluster.Workload]announcement // restored workloads: a pass whose outcomes are not recorded
	replaced    map[string]bool                   // pods of evicted that are gone, by UID

	headroom *headroom.Record
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
	superseded  []policy.Fitted // the requests that the replacement of the eviction before should get, if it was not observed and these differ
	previous    []policy.Fitted // the requests with which the evicted pod ran
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

// evictionRecords are the last eviction of each workload, and what is known of its effect.
type evictionRecords struct {
	evictions map[cluster.Workload]eviction
	doubt     bool // the last eviction whose effect became known had none
}

// resizeRecords are the last resize of each pod.
type resizeRecords struct {
	resizes map[string]resize // by pod UID
}

// turnRecords are when the namespaces had their turn.
type turnRecords struct {
	served map[string]time.Time // when an action was last tried, by namespace
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		evictionRecords:     evictionRecords{evictions: map[cluster.Workload]eviction{}},
		resizeRecords:       resizeRecords{resizes: map[string]resize{}},
		deletionRecords:     deletionRecords{rescues: map[cluster.Workload]DeletionState{}},
		canaryRecords:       canaryRecords{canaries: map[cluster.Workload]rollout.State{}},
		spendRecords:        spendRecords{spends: map[string]spend{}},
		changeRecords:       changeRecords{changes: map[cluster.Workload][]rollout.Change{}},
		replacementRecords:  replacementRecords{pending: map[cluster.Workload]pendingReplacements{}},
		turnRecords:         turnRecords{served: map[string]time.Time{}},
		refusalRecords:      refusalRecords{refusals: map[refusedKey]FailedAttempt{}, progress: map[cluster.Workload]time.Time{}},
		roundRecords:        roundRecords{rounds: map[cluster.Workload]RoundsState{}, allRounds: map[cluster.Workload]RoundsState{}},
		roomRecords:         roomRecords{lacking: map[string]ShortageState{}, yielding: map[string]time.Time{}, searched: attempt.Turns{}},
		announcementRecords: announcementRecords{acting: map[cluster.Workload]announcement{}, inherits: map[cluster.Workload]announcement{}},
		evicted:             map[string]time.Time{},
		pods:                map[string]podRef{},
		interrupted:         map[cluster.Workload]announcement{},
		replaced:            map[string]bool{},
		headroom:            headroom.NewRecord(),
	}
}

// Headroom returns the record of requests for capacity.
func (l *Ledger) Headroom() *headroom.Record { return l.headroom }

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
		l.progress[d.Pod.Workload()] = now
		l.noteMove(now, d)
		l.headroom.Evicted(d.Pod.Workload())
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
func (l *evictionRecords) expect(now time.Time, d Attempt) {
	last, open := l.evictions[d.Pod.Workload()]
	next := eviction{at: now, newest: d.newest(now), with: d.With, ineffective: last.ineffective, previous: requestsOf(d.Pod)}
	if open && !last.judged {
		if last.assumed || sameRequests(last.with, d.With) {
			next.newest = last.newest
			next.superseded = last.superseded
		} else {
			next.superseded = last.with
		}
	}
	l.evictions[d.Pod.Workload()] = next
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
	l.headroom.Learn(now, v.Requests, ds)
	l.specify(ds)
	missing := map[cluster.Workload]bool{}
	for _, c := range l.replacementStates(now, v) {
		if c.isComplete(now) {
			delete(l.pending, c.Controller)
			continue
		}
		l.pending[c.Controller] = c.remaining(now)
		missing[c.workload] = true
	}
	l.judge(now, l.Effective(ds), missing)
	l.forgetAssumptions(now)
	l.forgetServed(now)
	l.searched.Forget(now)
	l.forgetSpends(now)
	l.forgetChanges(now)
	l.canaries = l.ObserveCanaries(now, v)
	l.forgetRescues(now, ds)
	maps.DeleteFunc(l.progress, func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > attempt.HistoryTTL })
	for _, rounds := range []map[cluster.Workload]RoundsState{l.rounds, l.allRounds} {
		maps.DeleteFunc(rounds, func(_ cluster.Workload, r RoundsState) bool { return now.Sub(r.At) > roundsTTL })
	}
	maps.DeleteFunc(l.evicted, func(_ string, at time.Time) bool { return now.Sub(at) > attempt.WatchDelay })
	l.forgetAnnouncements(now)
	l.noteReplaced(now, ds)
	maps.DeleteFunc(l.resizes, func(_ string, r resize) bool { return now.Sub(r.at) > attempt.HistoryTTL })
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

// judge records which evictions had an effect. If one had none, those of other workloads are in doubt until one has. A workload that misses
// replacements of other pods is judged again when they exist.
func (l *evictionRecords) judge(now time.Time, effective, missing map[cluster.Workload]bool) {
	helped, failed := false, false
	for workload, help := range effective {
		e := l.evictions[workload]
		switch {
		case help && e.assumed && now.Before(e.at.Add(attempt.WatchDelay)): // the watch may not show the replacement yet
		case help && missing[workload]:
			l.evictions[workload] = eviction{at: e.at, newest: e.newest, with: e.with, superseded: e.superseded, previous: e.previous}
		case help:
			helped = true
			delete(l.evictions, workload)
		case !e.judged:
			failed = true
			e.assumed = false // now it is known
			e.uncertain = ""
			e.before = nil
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
		w := d.Pod.Workload()
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
		if d.Pod.Node == "" && !d.Pod.IsBoosted() {
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
	if d.Pod.IsBoosted() {
		return boostedHelp(e, d)
	}
	if d.With == nil && (e.assumed || !hasRequests(d.Pod, e.with)) {
		return false, false // nothing is recommended for it, for example because the update mode is Off now
	}
	if _, resized := l.resizes[d.Pod.UID]; e.judged && (resized || l.isUnconfirmed(d.Pod) || d.Pod.IsResizing()) {
		return false, true
	}
	asExpected, asNow := hasRequests(d.Pod, e.with), hasRequests(d.Pod, d.With)
	shown := !e.isAsBefore(d.Pod) || change.IsAsked(d.Pod, e.with) || change.IsAsked(d.Pod, d.With)
	// A replacement that got the expected requests and should change again has a newer recommendation, if that differs much.
	help = shown && asExpected && !asNow
	if d.Wanted.Code == decision.Fits { // also a replacement with the old size, if that is within the bounds, as long as it is young
		help = shown && (asExpected || asNow)
	}
	// It may replace an earlier pod, whose recommendation was another one, or it got one in between.
	isOther := e.superseded != nil && hasRequests(d.Pod, e.superseded) || !e.isAsBefore(d.Pod) && isBetween(d.Pod, e.with, d.With)
	return help, help || !isOther
}

// isAsBefore reports whether a replacement runs with the requests of the evicted pod. They may be close to the expected ones.
func (e *eviction) isAsBefore(p *cluster.Pod) bool { return sameRequests(requestsOf(p), e.previous) }

func requestsOf(p *cluster.Pod) []policy.Fitted {
	out := make([]policy.Fitted, len(p.Containers))
	for i := range p.Containers {
		out[i].Container = p.Containers[i].Name
		out[i].Requests, _ = p.Containers[i].Running()
	}
	return out
}

// isBetween reports whether each request and limit of a pod is between those of two recommendations that differ, by a factor of two at most.
func isBetween(p *cluster.Pod, a, b []policy.Fitted) bool {
	if len(a) == 0 || len(b) == 0 || sameRequests(a, b) {
		return false
	}
	ofA := slices.Collect(change.Pairs(p, a, true))
	for x := range change.Pairs(p, b, true) {
		if len(ofA) == 0 || max(x.To, ofA[0].To)/2 > min(x.To, ofA[0].To) ||
			change.Compare(x.Resource, x.To, x.From)*change.Compare(x.Resource, ofA[0].To, x.From) > 0 {
			return false
		}
		ofA = ofA[1:]
	}
	return len(ofA) == 0
}

// IsUnproven reports whether a pod without a node may be a replacement that does not show yet whether evictions have an effect.
func (l *evictionRecords) IsUnproven(p *cluster.Pod) bool {
	e, open := l.evictions[p.Workload()]
	return open && !e.judged && p.Node == "" && p.Created.After(e.newest) && len(e.with) > 0 && !change.IsAsked(p, e.with)
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
func (l *evictionRecords) IneffectiveEvictions(w cluster.Workload, effective map[cluster.Workload]bool) (int, time.Time) {
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
func (l *resizeRecords) Undone(p *cluster.Pod) int {
	r, ok := l.resizes[p.UID]
	if !ok || change.IsAsked(p, r.with) {
		return 0
	}
	return r.ineffective + 1
}

// undoneBefore returns the number of consecutive resizes of a pod that were undone before a new one. A resize by a part, or one that the
// kubelet has not completed, is followed by others for the same increase, and all of them are undone together, so it does not end the row.
func (l *resizeRecords) undoneBefore(p *cluster.Pod) int {
	n := l.Undone(p)
	if last := l.resizes[p.UID]; n == 0 && (last.part || !change.SameSize(p, last.with)) {
		return last.ineffective
	}
	return n
}

// IsAwaited reports whether the watch may not show yet that the pod was resized: it has not shown the requests of the resize, and WatchDelay has
// not passed.
func (l *resizeRecords) IsAwaited(now time.Time, p *cluster.Pod) bool {
	r, ok := l.resizes[p.UID]
	return ok && !r.shown && now.Before(r.at.Add(attempt.WatchDelay)) && !change.IsAsked(p, r.with)
}

// noteShown records which resizes the watch has shown.
func (l *resizeRecords) noteShown(ds []decision.Decision) {
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
func (l *resizeRecords) LastResize(p *cluster.Pod) time.Time {
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

// Served returns when an action on a pod of a namespace was last tried.
func (l *turnRecords) Served(namespace string) time.Time { return l.served[namespace] }

// MarkServed records that an action on a pod was tried.
func (l *turnRecords) MarkServed(now time.Time, p *cluster.Pod) { l.served[p.Namespace] = now }

// forgetServed forgets namespaces without an action for HistoryTTL.
func (l *turnRecords) forgetServed(now time.Time) {
	maps.DeleteFunc(l.served, func(_ string, at time.Time) bool { return now.Sub(at) > attempt.HistoryTTL })
}
