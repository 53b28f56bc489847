// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger records the attempts to change pods and their effects: refusals with their back-off, evicted pods without a replacement,
// resizes that others undid, and the state of every step that takes longer than one pass. A Ledger can be stored and restored.
//
// The ledger decides nothing. Package plan reads it when it decides, reports the outcome of each attempt, and gives it the decisions and a
// View of the cluster once in each pass, from which it learns.
package ledger

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/headroom"
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

	evicted map[string]time.Time                // when a pod was evicted that the watch may still show as running, by UID
	waiting map[cluster.Workload][]WaitingState // pods that the last pass left unchanged, see PassEnded

	pods        map[string]podRef                 // the pods of resizes, refusals and evicted, by UID
	interrupted map[cluster.Workload]announcement // restored workloads: a pass whose outcomes are not recorded

	Headroom *headroom.Record // of requests for capacity
	Guard    guard.Book       // of nodes that are nearly out of memory, and of the moves from them, which are not stored
}

type turnRecords struct {
	served map[string]time.Time // when an action was last tried, by namespace
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		evictionRecords:    evictionRecords{evictions: map[cluster.Workload]eviction{}},
		resizeRecords:      resizeRecords{resizes: map[string]resize{}},
		deletionRecords:    deletionRecords{rescues: map[cluster.Workload]DeletionState{}},
		canaryRecords:      canaryRecords{canaries: map[cluster.Workload]rollout.State{}},
		spendRecords:       spendRecords{spends: map[string]spend{}},
		changeRecords:      changeRecords{changes: map[cluster.Workload][]rollout.Change{}},
		replacementRecords: replacementRecords{pending: map[cluster.Workload]pendingReplacements{}},
		turnRecords:        turnRecords{served: map[string]time.Time{}},
		refusalRecords:     refusalRecords{refusals: map[refusedKey]FailedAttempt{}, progress: map[cluster.Workload]time.Time{}},
		roundRecords:       roundRecords{rounds: map[cluster.Workload]RoundsState{}, allRounds: map[cluster.Workload]RoundsState{}},
		roomRecords:        roomRecords{lacking: map[string]ShortageState{}, yielding: map[string]time.Time{}, Searches: attempt.Turns{}},
		evicted:            map[string]time.Time{},
		pods:               map[string]podRef{},
		interrupted:        map[cluster.Workload]announcement{},
		Headroom:           headroom.NewRecord(),
	}
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
		l.Headroom.Evicted(d.Pod.Workload())
	case decision.Surge:
		l.expect(now, d)
		l.noteMove(now, d)
	case decision.Resize:
		l.resizes[d.Pod.UID] = resize{at: now, with: d.With, ineffective: l.undoneBefore(d.Pod), part: d.Part}
		l.notePart(now, d)
	case decision.Leave: // nothing was done
	}
}

// Learn records the observations of a pass: whether evicted pods have replacements with the expected requests. It is called with
// the view and all decisions of the pass, and forgets pods and workloads that are gone.
func (l *Ledger) Learn(now time.Time, v View, ds []decision.Decision) {
	l.refute(now, ds)
	l.confirm(ds)
	l.noteShown(ds)
	l.forgetShortages(ds)
	l.noteYielding(now, ds)
	l.Headroom.Learn(now, v.Requests, ds)
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
	l.noteReplacements(ds, missing)
	l.forgetAssumptions(now)
	maps.DeleteFunc(l.served, func(_ string, at time.Time) bool { return now.Sub(at) > attempt.HistoryTTL })
	l.Searches.Forget(now)
	maps.DeleteFunc(l.spends, func(_ string, s spend) bool { return !now.Before(s.until) })
	l.forgetChanges(now)
	l.canaries = l.ObserveCanaries(now, v)
	l.forgetRescues(now, ds)
	maps.DeleteFunc(l.progress, func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > attempt.HistoryTTL })
	for _, rounds := range []map[cluster.Workload]RoundsState{l.rounds, l.allRounds} {
		maps.DeleteFunc(rounds, func(_ cluster.Workload, r RoundsState) bool { return now.Sub(r.At) > roundsTTL })
	}
	maps.DeleteFunc(l.evicted, func(_ string, at time.Time) bool { return now.Sub(at) > attempt.WatchDelay })
	maps.DeleteFunc(l.interrupted, func(w cluster.Workload, a announcement) bool { // it counts until the effect of its evictions is known
		return now.Sub(a.since) > attempt.WatchDelay && !l.isAssumed(w)
	})
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
		if !ok || !d.Pod.Created.After(e.Newest) {
			continue
		}
		if e.assumed && e.With == nil {
			e.With = d.With
		}
		help, known := l.hasHelped(&e, d)
		if !known {
			continue
		}
		if d.Pod.Node == "" && !d.Pod.IsBoosted() {
			// An unscheduled pod has no wanted change, whether or not it has the expected requests.
			help = change.IsAsked(d.Pod, e.With) || change.IsAsked(d.Pod, d.With)
			if !help && d.Wanted.Code != decision.TooBigToPlace && (hasRequests(d.Pod, e.With) || hasRequests(d.Pod, d.With)) {
				continue // a small difference may decide whether a node can hold it, which is not known yet
			}
		}
		if before, ok := out[w]; !ok || before {
			out[w] = help
		}
	}
	return out
}

// Served returns when an action on a pod of a namespace was last tried.
func (l *turnRecords) Served(namespace string) time.Time { return l.served[namespace] }

// MarkServed records that an action on a pod was tried.
func (l *turnRecords) MarkServed(now time.Time, p *cluster.Pod) { l.served[p.Namespace] = now }

// A View is what a pass has observed.
type View struct {
	Governed []cluster.Governed
	Scales   map[cluster.Workload]cluster.Scale
	Requests map[cluster.Key]*cluster.CapacityRequest // that live, by name

	// Throttling is the CPU throttling of the canaries. Nil means that there is no Prometheus. A workload that is not in it has no answer
	// yet.
	Throttling map[cluster.Workload]rollout.Throttling
}
