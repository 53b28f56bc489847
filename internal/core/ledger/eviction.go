// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// An eviction is the last eviction of a pod of a workload.
type eviction struct {
	EvictionState
	unsized   *Unsized  // the last dry run since: a replacement would not get the requests; nil if there was none, or it would
	diagnosed bool      // there was a dry run since
	asked     time.Time // of the last dry run since that did not show whether a replacement would get the requests
	assumed   bool      // only the announcement of this eviction is known, see assume
	before    *eviction // EvictionState.Before, which is set only in an exported state
}

// evictionRecords are the last eviction of each workload, and what is known of its effect.
type evictionRecords struct {
	evictions map[cluster.Workload]eviction
	doubt     bool // the last eviction whose effect became known had none
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
	Guard    bool                 // the node of the pod is nearly out of memory
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

// expect records that a pod was evicted, or may have been, and the requests that its replacement should get. If it is not known yet
// whether the last eviction had an effect, its replacement shows that for this one, too: otherwise pods that take turns would be evicted
// again and again, each before it is known whether the replacement of the other one can be scheduled.
func (l *evictionRecords) expect(now time.Time, d Attempt) {
	last, open := l.evictions[d.Pod.Workload()]
	next := eviction{EvictionState: EvictionState{At: now, Newest: d.newest(now), With: d.With, Ineffective: last.Ineffective, UnknownEffect: last.UnknownEffect, Previous: requestsOf(d.Pod)}}
	if open && !last.Judged {
		if last.assumed || sameRequests(last.With, d.With) {
			next.Newest = last.Newest
			next.Superseded = last.Superseded
		} else {
			next.Superseded = last.With
		}
	}
	l.evictions[d.Pod.Workload()] = next
}

// sameRequests reports whether two replacements should get the same requests.
func sameRequests(a, b []policy.Fitted) bool {
	return slices.EqualFunc(a, b, func(a, b policy.Fitted) bool { return a.Container == b.Container && a.Requests == b.Requests })
}

// judge records which evictions had an effect. If one had none, those of other workloads are in doubt until one has. A workload that misses
// replacements of other pods is judged again when they exist.
func (l *evictionRecords) judge(now time.Time, effective, missing map[cluster.Workload]bool) {
	helped, failed := false, false
	for workload, help := range effective {
		e := l.evictions[workload]
		switch {
		case help && e.assumed && now.Before(e.At.Add(attempt.WatchDelay)): // the watch may not show the replacement yet
		case help && missing[workload]:
			l.evictions[workload] = eviction{EvictionState: EvictionState{At: e.At, Newest: e.Newest, With: e.With, Superseded: e.Superseded, Previous: e.Previous}}
		case help:
			helped = true
			delete(l.evictions, workload)
		case !e.Judged:
			failed = true
			e.hadNoEffect()
			l.evictions[workload] = e
		}
	}
	if helped || failed {
		l.doubt = failed
	}
}

// hadNoEffect counts an eviction as one without effect. So it is known that it was carried out.
func (e *eviction) hadNoEffect() {
	e.assumed = false
	e.Uncertain = ""
	e.before = nil
	e.Ineffective++
	e.Judged = true
}

// noteReplacements records the size of replacements that got a newer recommendation than that of the eviction, while other replacements of the
// workload are missing. When the recommendation changes again, such a replacement does not count as an eviction without effect.
//
// If the newer recommendation is the old size, the effect of the eviction is unknown, and the next one waits as after an eviction without effect.
// Otherwise, without an admission controller, each fall to the old size and rise of the recommendation would lead to an eviction.
func (l *evictionRecords) noteReplacements(ds []decision.Decision, missing map[cluster.Workload]bool) {
	if len(l.evictions) == 0 {
		return
	}
	for i := range ds {
		d := &ds[i]
		w := d.Pod.Workload()
		e, open := l.evictions[w]
		switch {
		case !open || e.Judged || !d.Pod.Created.After(e.Newest):
		case missing[w]:
			if hasRequests(d.Pod, d.With) && !sameRequests(d.With, e.With) {
				e.Superseded = d.With
				l.evictions[w] = e
			}
		case d.With != nil && e.showsNothing(d.Pod, d.With):
			e.hadNoEffect()
			e.UnknownEffect = e.Ineffective
			l.evictions[w] = e
		}
	}
}

// hasHelped reports whether a replacement on a node shows that the eviction had an effect. A replacement that got the requests by a resize in
// place shows none, and the node may still refuse the resize while it is not completed.
func (l *Ledger) hasHelped(e *eviction, d *decision.Decision) (help, known bool) {
	if d.Pod.IsBoosted() {
		return boostedHelp(e, d)
	}
	if d.With == nil && (e.assumed || !hasRequests(d.Pod, e.With)) {
		return false, false // nothing is recommended for it, for example because the update mode is Off now
	}
	_, resized := l.resizes[d.Pod.UID]
	if e.Judged && (resized || l.isUnconfirmed(d.Pod) || d.Pod.IsResizing()) {
		return false, true
	}
	p := withRunning(d.Pod)
	asExpected := hasRequests(p, e.With)
	asNow := hasRequests(p, d.With)
	if policy.HasLimitByPeaks(d.With) && change.IsAsked(p, e.With) && !change.IsAsked(p, d.With) { // it was killed at its new limit, too
		asNow = false
	}
	if !e.Judged && e.showsNothing(d.Pod, d.With) {
		return false, false
	}
	shown := !e.isAsBefore(d.Pod) || change.IsAsked(d.Pod, e.With)
	// A replacement that got the expected requests and should change again has a newer recommendation, if that differs much.
	help = shown && asExpected && !asNow
	if d.Wanted.Code == decision.Fits { // also a replacement with the old size, if that is within the bounds, as long as it is young
		help = shown && (asExpected || asNow)
	}
	// It may replace an earlier pod, whose recommendation was another one, or it got one in between. If podfit has resized it since, it was judged
	// before, and its present requests do not show with which it was created.
	isOther := e.Superseded != nil && hasRequests(d.Pod, e.Superseded) || !e.isAsBefore(d.Pod) && isBetween(d.Pod, e.With, d.With)
	return help, help || !isOther && !resized
}

// showsNothing reports whether a replacement does not show whether the eviction had an effect: the recommendation is the old size now, and the
// replacement has that with and without the admission controller.
func (e *eviction) showsNothing(p *cluster.Pod, with []policy.Fitted) bool {
	return !p.IsBoosted() && e.isAsBefore(p) && !change.IsAsked(p, e.With) && change.IsAsked(withRunning(p), with)
}

// isAsBefore reports whether a replacement runs with the requests of the evicted pod. They may be close to the expected ones.
func (e *eviction) isAsBefore(p *cluster.Pod) bool { return sameRequests(requestsOf(p), e.Previous) }

// withRunning returns a pod with the requests and limits that its containers run with: the spec of a pod whose resize is not completed says
// nothing about how the pod was created.
func withRunning(p *cluster.Pod) *cluster.Pod {
	if !p.IsResizing() {
		return p
	}
	out := *p
	out.Containers = slices.Clone(p.Containers)
	for i := range out.Containers {
		c := &out.Containers[i]
		c.Requests, c.Limits = c.Running()
		c.Applied = nil
	}
	return &out
}

func requestsOf(p *cluster.Pod) []policy.Fitted {
	return cluster.Each(p.Containers, func(c *cluster.Container) policy.Fitted {
		requests, _ := c.Running()
		return policy.Fitted{Container: c.Name, Requests: requests}
	})
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

// IsUnproven reports whether a pod without a node may be a replacement that does not show yet whether evictions have an effect. It shows that
// if it has the expected requests, or a recommendation from then until now. with is the present one, or nil if it is not known.
func (l *evictionRecords) IsUnproven(p *cluster.Pod, with []policy.Fitted) bool {
	e, open := l.evictions[p.Workload()]
	if !open || e.Judged || p.Node != "" || !p.Created.After(e.Newest) || len(e.With) == 0 || change.IsAsked(p, e.With) {
		return false
	}
	return e.isAsBefore(p) || !isBetween(p, e.With, with)
}

// boostedHelp is hasHelped for a replacement with a CPU startup boost. Its boosted CPU says nothing, and the end of the boost is no change
// that an eviction should have made unnecessary.
func boostedHelp(e *eviction, d *decision.Decision) (help, known bool) {
	has := func(with []policy.Fitted) bool { return len(with) > 0 && hasRequests(unboosted(d.Pod, with), with) }
	boostOnly := d.With == nil || d.Wanted.Code == decision.BoostOver
	switch {
	case e.With == nil && e.assumed, boostOnly && !has(e.With) && !has(d.With):
		return false, false
	case boostOnly:
		return true, true
	}
	return has(e.With) && !has(d.With), true
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
	case known && !e.Judged:
		return e.Ineffective + 1, e.At
	case e.assumed && e.before == nil:
		return 0, time.Time{}
	case e.assumed: // nothing shows that it was carried out
		return e.before.Ineffective, e.before.At
	}
	return e.Ineffective, e.At
}

// UnknownEffect returns how many of these evictions happened up to the last one with an unknown effect. They count for the back-off, and are not
// reported as evictions without effect.
func (l *evictionRecords) UnknownEffect(w cluster.Workload) int {
	e := l.evictions[w]
	if e.assumed && e.before != nil {
		e = *e.before
	}
	return e.UnknownEffect
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

// deletionRecords are the deletions of pods to rescue them.
type deletionRecords struct {
	rescues map[cluster.Workload]DeletionState // the last deletion of a pod of the workload
}

// LastDeletion returns the last deletion of a pod of a workload, and whether there is one.
func (l *deletionRecords) LastDeletion(w cluster.Workload) (DeletionState, bool) {
	d, ok := l.rescues[w]
	return d, ok
}

// recordRescue records that a pod was deleted, or may have been.
func (l *deletionRecords) recordRescue(now time.Time, d Attempt) {
	next := DeletionState{At: now, Newest: cmp.Or(d.Newest, d.Pod.Created), UID: d.Pod.UID, Memory: d.Memory}
	if d.Repeated {
		next.Again = l.rescues[d.Pod.Workload()].Again + 1
	}
	l.rescues[d.Pod.Workload()] = next
}

// forgetRescues forgets deletions after HistoryTTL, but not while pods of the workload are not ready because of OOM kills.
func (l *deletionRecords) forgetRescues(now time.Time, ds []decision.Decision) {
	if len(l.rescues) == 0 {
		return
	}
	crashing := map[cluster.Workload]bool{}
	for i := range ds {
		if p := ds[i].Pod; p.Crash != nil {
			crashing[p.Workload()] = true
		}
	}
	maps.DeleteFunc(l.rescues, func(w cluster.Workload, r DeletionState) bool {
		return !crashing[w] && now.Sub(r.At) > attempt.HistoryTTL
	})
}
