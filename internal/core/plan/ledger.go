// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// A Ledger remembers what was tried on which workload and pod, and whether it helped. The outcomes of a Pass and what each
// pass saw (Learn) are written to it; Plan only reads. It is not safe for concurrent use.
//
// It answers two questions that a look at the pods does not. Does a replacement come back with the size that the
// eviction was for? It does not when the webhook was not asked, or when somebody else sets requests after it; evicting
// again each minute would never end (W-13). And does a resized pod keep its size, or was it refused?
type Ledger struct {
	evictions map[cluster.Workload]eviction
	resizes   map[string]resize // by pod UID
	refusals  map[refusedKey]refused
	owed      map[cluster.Workload]debt      // by direct controller
	evicted   map[string]time.Time           // when a pod was evicted that may still be shown as running, by UID
	progress  map[cluster.Workload]time.Time // when a pod was evicted last
	served    map[string]time.Time           // when an action was tried last, by namespace
}

// An eviction is the last one of a workload's pods.
type eviction struct {
	at     time.Time
	newest time.Time       // when the newest pod of the workload was created then, by the API server's clock
	with   []policy.Fitted // what its replacement should get
	futile int             // evictions in a row that did not help, without this one
	judged bool            // this one is counted

	uncertain string    // UID of the pod if the eviction had no answer, so that it may not have been carried out
	before    *eviction // the last one whose outcome is certain, if this one is not; nil if there is none
}

// A resize is the last one of a pod.
type resize struct {
	at     time.Time
	with   []policy.Fitted
	futile int // resizes in a row that were undone, without this one
}

// How long the ledger remembers a workload after its last eviction.
const remember = 24 * time.Hour

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		evictions: map[cluster.Workload]eviction{}, resizes: map[string]resize{}, refusals: map[refusedKey]refused{},
		owed: map[cluster.Workload]debt{}, evicted: map[string]time.Time{}, progress: map[cluster.Workload]time.Time{},
		served: map[string]time.Time{},
	}
}

// Done notes that a decision was executed. A resize that fell back to an eviction is noted with its Do set to Evict.
func (l *Ledger) Done(now time.Time, d Decision) {
	l.serve(now, d)
	delete(l.refusals, refusedKey{d.Pod.UID, d.Do})
	switch d.Do {
	case Evict:
		l.owe(now, d)
		l.expect(now, d)
		l.evicted[d.Pod.UID] = now
		l.progress[workloadOf(d.Pod)] = now
	case Resize:
		l.resizes[d.Pod.UID] = resize{at: now, with: d.With, futile: l.undone(d.Pod)}
	}
}

// expect notes that a pod was evicted, or may have been, and that its replacement should get what was decided.
func (l *Ledger) expect(now time.Time, d Decision) {
	e := l.evictions[workloadOf(d.Pod)]
	next := eviction{at: now, newest: now.Truncate(time.Second).Add(-1), with: d.With, futile: e.futile}
	if d.scope != nil {
		next.newest = d.scope.newest
	}
	l.evictions[workloadOf(d.Pod)] = next
}

// Learn notes what a pass saw: whether evicted pods have replacements, and whether those are what they should be. It is
// called with the world and all decisions of a pass, and forgets what concerns pods and workloads that are gone.
func (l *Ledger) Learn(now time.Time, w World, ds []Decision) {
	l.refute(now, ds)
	for workload, help := range l.helped(ds) {
		e := l.evictions[workload]
		switch {
		case help:
			delete(l.evictions, workload)
		case !e.judged:
			e.futile, e.judged = e.futile+1, true
			l.evictions[workload] = e
		}
	}
	for _, c := range l.claims(now, w) {
		if c.isSettled(now) {
			delete(l.owed, c.controller)
			continue
		}
		l.owed[c.controller] = c.unpaid()
	}
	maps.DeleteFunc(l.evictions, func(_ cluster.Workload, e eviction) bool { return now.Sub(e.at) > remember })
	l.forgetServed(now)
	maps.DeleteFunc(l.progress, func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > remember })
	maps.DeleteFunc(l.evicted, func(_ string, at time.Time) bool { return now.Sub(at) > lateFor })
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

// helped says for the workloads whose last eviction has a replacement whether that is as it should be. One replacement
// that is not decides.
func (l *Ledger) helped(ds []Decision) map[cluster.Workload]bool {
	out := map[cluster.Workload]bool{}
	if l == nil || len(l.evictions) == 0 {
		return out
	}
	for i := range ds {
		d := &ds[i]
		w := workloadOf(d.Pod)
		e, ok := l.evictions[w]
		// Times of creation are compared with each other only: the API server's clock may be another.
		if !ok || !d.Pod.Created.After(e.newest) {
			continue
		}
		// A replacement that has what it was to get and is wrong again was overtaken by a newer recommendation, if
		// that is much different.
		help := d.Wanted.Code == Fits || given(d.Pod, e.with) && !given(d.Pod, d.With)
		if d.Pod.Node == "" {
			// That nothing is wanted of a pod that waits for a node does not mean that it has its size.
			help = given(d.Pod, e.with) || given(d.Pod, d.With)
		}
		if before, ok := out[w]; !ok || before {
			out[w] = help
		}
	}
	return out
}

// futileEvictions returns how many evictions of a workload in a row did not help, and when the last was.
func (l *Ledger) futileEvictions(w cluster.Workload, helped map[cluster.Workload]bool) (int, time.Time) {
	if l == nil {
		return 0, time.Time{}
	}
	e, ok := l.evictions[w]
	if !ok {
		return 0, time.Time{}
	}
	help, known := helped[w]
	switch {
	case known && help:
		return 0, time.Time{}
	case known && !e.judged:
		return e.futile + 1, e.at
	}
	return e.futile, e.at
}

// undone returns how many resizes of a pod in a row came to nothing: the pod asks for something else again by now.
func (l *Ledger) undone(p *cluster.Pod) int {
	if l == nil {
		return 0
	}
	r, ok := l.resizes[p.UID]
	if !ok || alreadyAsked(p, r.with) {
		return 0
	}
	return r.futile + 1
}

// lastResize returns the last resize of a pod.
func (l *Ledger) lastResize(p *cluster.Pod) (resize, bool) {
	if l == nil {
		return resize{}, false
	}
	r, ok := l.resizes[p.UID]
	return r, ok
}

// given reports whether a pod was created with about what it should get. The webhook may know a newer recommendation.
func given(p *cluster.Pod, with []policy.Fitted) bool {
	const close = 0.1
	for i := range with {
		if !with[i].Inserted && p.Container(with[i].Container) == nil {
			return false
		}
	}
	return !asksOther(p, with, close)
}

// workloadOf returns what a pod's evictions are remembered by: a Deployment's pods change their controller.
func workloadOf(p *cluster.Pod) cluster.Workload {
	if p.Top.IsZero() {
		return p.Controller
	}
	return p.Top
}

// backoff returns how long to leave something alone after n futile attempts.
func backoff(b Budget, n int) time.Duration { return doubled(b.BackoffBase, b.BackoffMax, n) }

// doubled returns base for n = 1, twice as much for each further one, and no more than most.
func doubled(base, most time.Duration, n int) time.Duration {
	d := base
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}
