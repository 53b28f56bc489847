// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package quota tells whether the ResourceQuotas of a namespace would refuse a new size of a pod. Where podfit may read them, a Book has what they
// leave, and what the decisions of a pass reserve of it. Where it may not, Siblings conclude from refused resizes of other pods of the workload.
// It decides only about quotas; the caller decides what to do instead.
package quota

import (
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// A Book is what the quotas of the namespaces leave, and what the decisions of a pass reserve of them, so that no two use the same. It is not safe
// for concurrent use.
type Book struct {
	Limits map[string]policy.Limits
	Ledger *ledger.Ledger

	reserved map[string][]cluster.PodResources // of each quota of a namespace
	takes    map[string][]cluster.PodResources // what the action on a pod has reserved of each quota of its namespace, by UID
}

// IsKnown reports whether the quotas of a namespace are known.
func (b *Book) IsKnown(namespace string) bool { return b.Limits[namespace].Quotas != nil }

// Replacement returns why the replacement of an evicted pod would not get the new requests: the admission controller does not change a pod that
// would exceed a quota. It refuses nothing if the quotas are not known.
//
// The evicted pod counts until it is gone. So the replacement must fit beside it; or the replacement is refused with any size until
// the evicted pod is gone, and fits then. The latter is known only of a pod that is as its template has it, and of one that grows in
// nothing, unless it was resized in place: its template may be so small that the quota admits the replacement at once, with that size.
func (b *Book) Replacement(d *decision.Decision) (decision.Reason, bool) {
	v, known := b.view(d)
	if !known {
		return decision.Reason{}, false
	}
	r := v.tooMany
	if !r.Refused() {
		r = v.beside()
	}
	// The pod has the requests of its template if the admission controller has not changed it and the mode does not resize. After a resize, its
	// requests do not show how large it was created.
	asTemplate := !d.Pod.Sized && !d.Autoscaler.Mode.Resizes()
	wasResized := d.Pod.IsResizing() || !b.Ledger.LastResize(d.Pod).IsZero()
	if !r.Refused() || (asTemplate || !v.grows() && !wasResized) && v.fitsAfterwards() {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.OverQuota, Text: v.text(r, v.beside)}, true
}

// Resize returns why a quota would refuse a resize. It refuses nothing if the quotas are not known.
func (b *Book) Resize(d *decision.Decision) (decision.Reason, bool) {
	v, known := b.view(d)
	if !known {
		return decision.Reason{}, false
	}
	v.fitted = b.whileResized(d)
	r := v.tooMany
	if !r.Refused() {
		r = v.inPlace()
	}
	return decision.Reason{Code: decision.OverQuota, Text: v.text(r, v.inPlace)}, r.Refused()
}

// AdmitsBeside reports whether the quotas admit one more pod of the new size beside all others, as far as they are known.
func (b *Book) AdmitsBeside(d *decision.Decision) bool {
	v, known := b.view(d)
	return !known || !v.firstRefusal(func(*cluster.Quota) {}).Refused()
}

// mostMissing is the largest number of missing pods for which MakesRoom looks for room. The number of replicas is what a tenant writes, up to 2³¹.
const mostMissing = 100

// MakesRoom reports whether the eviction of a pod frees enough of the quotas for missing pods: now they refuse one more pod of the new size, and
// without the pod they admit its replacement and the missing ones, all of that size. It is false if the quotas are not known.
func (b *Book) MakesRoom(d *decision.Decision, missing int) bool {
	v, known := b.view(d)
	if missing > mostMissing || !known || v.tooMany.Refused() || b.AdmitsBeside(d) {
		return false
	}
	most := v.fitted.Most()
	return !v.firstRefusal(func(q *cluster.Quota) {
		v.giveBack(q)
		for range missing {
			q.Left = difference(q.Left, most)
			q.PodsLeft--
		}
	}).Refused()
}

// Reserve reserves what an action needs of each quota of the namespace. It stays reserved until the next pass, unless the API server refuses the
// action.
func (b *Book) Reserve(d *decision.Decision, do decision.Act) {
	v, known := b.view(d)
	if !known {
		return
	}
	if do == decision.Resize {
		v.fitted = b.whileResized(d)
	}
	grows := v.fitted.Growth(&v.own)
	takes := atLeastNone(grows)
	if (do == decision.Evict || do == decision.Surge) && !v.beside().Refused() {
		takes = v.fitted.Most()
	}
	out := make([]cluster.PodResources, len(v.quotas))
	for i := range v.quotas {
		if v.fitted.Counted(&v.quotas[i]) != cluster.No {
			v.reserved[i] = sum(v.reserved[i], takes)
			out[i] = takes
		}
	}
	cluster.Put(&b.reserved, d.Pod.Namespace, v.reserved)
	cluster.Put(&b.takes, d.Pod.UID, out)
}

// Release returns what an action had reserved that is not done.
func (b *Book) Release(p *cluster.Pod) {
	of := b.reserved[p.Namespace]
	for i, takes := range b.takes[p.UID] {
		of[i] = difference(of[i], takes)
	}
	delete(b.takes, p.UID)
}

// Growth returns what a quota counts for a pod with new requests in addition to its current ones.
func (b *Book) Growth(p *cluster.Pod, with []policy.Fitted) cluster.PodResources {
	standing := StandingOf(p)
	fitted := admissible.DemandOf(b.Limits[p.Namespace], p, standing, with)
	own := admissible.DemandOf(policy.Limits{}, p, standing, nil)
	return fitted.Growth(&own)
}

// StandingOf returns which quota scopes are known for a pod. Built-in controllers of long-running pods create no pods with a
// deadline. The priority class and affinity of a pod are not stored: a quota with such a scope is assumed to count the pod.
func StandingOf(p *cluster.Pod) cluster.Standing {
	type kind struct{ group, kind string }
	switch (kind{p.Controller.Group, p.Controller.Kind}) {
	case kind{"apps", "ReplicaSet"}, kind{"apps", "StatefulSet"}, kind{"apps", "DaemonSet"}, kind{"", "ReplicationController"}:
		return cluster.Standing{Terminating: cluster.No}
	}
	return cluster.Standing{}
}
