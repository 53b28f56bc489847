// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// A Ledger records attempts to change pods and their effects. A Pass writes the outcomes, Learn writes the observations of each
// pass, and Plan only reads. It is not safe for concurrent use.
//
// It answers two questions that the current pods do not answer. Does a replacement get the requests for which a pod was evicted? It
// does not if the webhook was not called or another component sets the requests afterwards; without the ledger, the updater would
// evict every minute (W-13). And does a resized pod keep its requests, or was the resize refused?
type Ledger struct {
	evictions map[cluster.Workload]eviction
	resizes   map[string]resize // by pod UID
	refusals  map[refusedKey]refused
	pending   map[cluster.Workload]pendingReplacements // by direct controller
	evicted   map[string]time.Time                     // when a pod was evicted that the watch may still show as running, by UID
	progress  map[cluster.Workload]time.Time           // when a pod of the workload was last evicted
	rescues   map[cluster.Workload]rescue              // the last deletion of a pod of the workload
	served    map[string]time.Time                     // when an action was last tried, by namespace
	rounds    map[cluster.Workload]rounds              // evictions of all pods of a workload
	lacking   map[string]shortOfRoom                   // pods whose node was too full for their resize, by UID
	asks      map[cluster.Workload]capacityRequest     // the last request for capacity before an eviction

	keeps      map[string]keptRequest // requests for capacity whose deletion was refused, by UID
	unanswered time.Time              // when a ProvisioningRequest expired that no autoscaler had accepted; zero if none did
	spends     map[string]spend       // what changes took from disruption budgets, by pod UID

	canaries     map[cluster.Workload]rollout.State
	changes      map[cluster.Workload][]rollout.Change // requests that were changed in the last hour, if their share is limited
	changesSince time.Time                             // before this time, changes are unknown; zero if all are known

	pods        map[string]podRef              // the pods of resizes, refusals and evicted, by UID
	interrupted map[cluster.Workload]time.Time // restored workloads: the start of a pass whose outcomes are not recorded
}

// An eviction is the last eviction of a pod of a workload.
type eviction struct {
	at          time.Time
	newest      time.Time       // creation of the newest pod of the workload at that time, by the API server's clock
	with        []policy.Fitted // requests and limits that the replacement should get
	ineffective int             // consecutive evictions without effect before this one
	judged      bool            // the effect of this eviction is counted

	uncertain string    // UID of the pod if the eviction had no answer, so that it may not have been carried out
	before    *eviction // the last eviction whose outcome is certain, if this one is not; nil if there is none
}

// A resize is the last resize of a pod.
type resize struct {
	at          time.Time
	with        []policy.Fitted
	ineffective int // consecutive resizes that were undone before this one
}

// historyTTL is how long the ledger keeps a workload after its last eviction, and a resize. It is longer than every back-off.
const historyTTL = 24 * time.Hour

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		evictions: map[cluster.Workload]eviction{}, resizes: map[string]resize{}, refusals: map[refusedKey]refused{},
		pending: map[cluster.Workload]pendingReplacements{}, evicted: map[string]time.Time{}, progress: map[cluster.Workload]time.Time{},
		rescues: map[cluster.Workload]rescue{}, served: map[string]time.Time{}, pods: map[string]podRef{}, interrupted: map[cluster.Workload]time.Time{},
		lacking: map[string]shortOfRoom{}, spends: map[string]spend{}, rounds: map[cluster.Workload]rounds{},
		canaries: map[cluster.Workload]rollout.State{}, changes: map[cluster.Workload][]rollout.Change{},
		asks: map[cluster.Workload]capacityRequest{}, keeps: map[string]keptRequest{},
	}
}

// Done records that a decision was carried out. A resize that fell back to an eviction has Do set to Evict.
func (l *Ledger) Done(now time.Time, d Decision) {
	l.markServed(now, d)
	l.note(d.Pod)
	if d.Do != Surge { // a surge that has begun may still fail
		delete(l.refusals, refusedKey{d.Pod.UID, d.Do})
	}
	switch d.Do {
	case Evict, Delete:
		if d.Do == Delete {
			l.recordRescue(now, d)
		}
		l.noteRound(now, d)
		l.addPending(now, d)
		l.expect(now, d)
		l.evicted[d.Pod.UID] = now
		l.progress[workloadOf(d.Pod)] = now
		l.noteMove(now, d)
		delete(l.asks, workloadOf(d.Pod))
	case Surge:
		l.expect(now, d)
		l.noteMove(now, d)
	case Resize:
		l.resizes[d.Pod.UID] = resize{at: now, with: d.With, ineffective: l.undone(d.Pod)}
		l.notePart(now, d)
	case Leave: // nothing was done
	}
}

// expect records that a pod was evicted, or may have been, and the requests that its replacement should get.
func (l *Ledger) expect(now time.Time, d Decision) {
	e := l.evictions[workloadOf(d.Pod)]
	l.evictions[workloadOf(d.Pod)] = eviction{at: now, newest: d.newest(now), with: d.With, ineffective: e.ineffective}
}

// newest returns when the newest pod of the workload was created, by the API server's clock.
func (d Decision) newest(now time.Time) time.Time {
	if d.scope == nil {
		return now.Truncate(time.Second).Add(-1)
	}
	return d.scope.newest
}

// Learn records the observations of a pass: whether evicted pods have replacements with the expected requests. It is called with
// the world and all decisions of the pass, and forgets pods and workloads that are gone.
func (l *Ledger) Learn(now time.Time, w World, ds []Decision) {
	l.refute(now, ds)
	l.forgetShortages(ds)
	l.learnCapacity(now, w, ds)
	for workload, help := range l.effective(ds) {
		e := l.evictions[workload]
		switch {
		case help:
			delete(l.evictions, workload)
		case !e.judged:
			e.ineffective, e.judged = e.ineffective+1, true
			l.evictions[workload] = e
		}
	}
	for _, c := range l.replacementStates(now, w) {
		if c.isComplete(now) {
			delete(l.pending, c.controller)
			continue
		}
		l.pending[c.controller] = c.remaining(now)
	}
	maps.DeleteFunc(l.evictions, func(_ cluster.Workload, e eviction) bool { return now.Sub(e.at) > historyTTL })
	l.forgetServed(now)
	l.forgetSpends(now)
	l.forgetChanges(now)
	l.learnCanaries(now, w, ds)
	l.forgetRescues(now, ds)
	maps.DeleteFunc(l.progress, func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > historyTTL })
	maps.DeleteFunc(l.rounds, func(_ cluster.Workload, r rounds) bool { return now.Sub(r.at) > roundsTTL })
	maps.DeleteFunc(l.evicted, func(_ string, at time.Time) bool { return now.Sub(at) > watchDelay })
	maps.DeleteFunc(l.interrupted, func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > watchDelay })
	maps.DeleteFunc(l.resizes, func(_ string, r resize) bool { return now.Sub(r.at) > historyTTL })
	defer l.forgetPods(ds)
	if len(l.resizes)+len(l.refusals) == 0 {
		return
	}
	live := make(map[string]bool, len(l.resizes)+len(l.refusals))
	for i := range ds {
		live[ds[i].Pod.UID] = true
	}
	maps.DeleteFunc(l.resizes, func(uid string, _ resize) bool { return !live[uid] })
	maps.DeleteFunc(l.refusals, func(k refusedKey, _ refused) bool { return !live[k.uid] })
}

// effective reports for each workload whose last eviction has a replacement whether the eviction had an effect. One replacement
// without the expected requests means that it had none.
func (l *Ledger) effective(ds []Decision) map[cluster.Workload]bool {
	out := map[cluster.Workload]bool{}
	if l == nil || len(l.evictions) == 0 {
		return out
	}
	for i := range ds {
		d := &ds[i]
		w := workloadOf(d.Pod)
		e, ok := l.evictions[w]
		// Creation times are only compared with each other, because the API server's clock may differ.
		if !ok || !d.Pod.Created.After(e.newest) {
			continue
		}
		// A replacement that got the expected requests and should change again has a newer recommendation, if that differs much.
		help := d.Wanted.Code == Fits || hasRequests(d.Pod, e.with) && !hasRequests(d.Pod, d.With)
		if d.Pod.Node == "" {
			// An unscheduled pod has no wanted change, whether or not it has the expected requests.
			help = alreadyAsked(d.Pod, e.with) || alreadyAsked(d.Pod, d.With)
			if !help && d.Wanted.Code != TooBigToPlace && (hasRequests(d.Pod, e.with) || hasRequests(d.Pod, d.With)) {
				continue // a small difference may decide whether a node can hold it, which is not known yet
			}
		}
		if before, ok := out[w]; !ok || before {
			out[w] = help
		}
	}
	return out
}

// ineffectiveEvictions returns the number of consecutive evictions of a workload without effect, and the time of the last one.
func (l *Ledger) ineffectiveEvictions(w cluster.Workload, effective map[cluster.Workload]bool) (int, time.Time) {
	if l == nil {
		return 0, time.Time{}
	}
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
	}
	return e.ineffective, e.at
}

// undone returns the number of consecutive resizes of a pod that were undone: its spec has other requests again.
func (l *Ledger) undone(p *cluster.Pod) int {
	if l == nil {
		return 0
	}
	r, ok := l.resizes[p.UID]
	if !ok || alreadyAsked(p, r.with) {
		return 0
	}
	return r.ineffective + 1
}

// lastResize returns the last resize of a pod.
func (l *Ledger) lastResize(p *cluster.Pod) (resize, bool) {
	if l == nil {
		return resize{}, false
	}
	r, ok := l.resizes[p.UID]
	return r, ok
}

// hasRequests reports whether a pod was created with about the given requests. The webhook may have used a newer recommendation.
func hasRequests(p *cluster.Pod, with []policy.Fitted) bool {
	const close = 0.1
	for i := range with {
		if !with[i].Inserted && p.Container(with[i].Container) == nil {
			return false
		}
	}
	return !asksOther(p, with, close)
}

// workloadOf returns the workload under which the ledger records evictions of a pod. It is the topmost controller where that is known,
// because the direct controller of a Deployment's pods changes with each rollout.
func workloadOf(p *cluster.Pod) cluster.Workload {
	if p.Top.IsZero() {
		return p.Controller
	}
	return p.Top
}

// backoff returns the back-off after n attempts without effect.
func backoff(b Budget, n int) time.Duration { return doubled(b.BackoffBase, b.BackoffMax, n) }

// doubled returns base, doubled n-1 times, but at most most.
func doubled(base, most time.Duration, n int) time.Duration {
	d := base
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}
