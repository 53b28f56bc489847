// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/integer"
)

// order sorts the pods of one autoscaler in the order of decision: by priority or, while evictions have no effect, the oldest pod
// first.
func (s *pass) order(ds []entry) {
	if slices.ContainsFunc(ds, func(d entry) bool { return d.scope != nil && d.scope.backoff.HadNoEffect(d.Pod.Workload()) }) {
		slices.SortFunc(ds, func(a, b entry) int {
			return cmp.Or(a.refused.Compare(b.refused), a.Pod.Created.Compare(b.Pod.Created), byPriority(a, b))
		})
	}
	for i := range ds {
		ds[i].rank = i
	}
}

// A slot is the position of an action in the order of execution. The namespaces alternate, the least recently served first, so that
// no namespace uses all requests and the whole rate limit for changes that are refused or fail.
type slot struct {
	round  int       // number of earlier actions of its namespace; -1: before all others
	served time.Time // when an action on a pod of the namespace was last tried
	late   bool      // a resize that needs room comes after the resizes on its node that give room back
}

func (s slot) compare(o slot) int {
	return cmp.Or(cmp.Compare(s.round, o.round), s.served.Compare(o.served), integer.FalseFirst(s.late, o.late))
}

// share assigns each action its slot.
func (s *pass) share(ds []entry) {
	acts := cluster.Where(ds, func(d *entry) bool { return d.Do != decision.Leave })
	slices.SortFunc(acts, func(a, b *entry) int { return byPriority(*a, *b) })
	rounds := map[string]int{}
	for _, d := range acts {
		ns := d.Pod.Namespace
		d.slot = slot{round: rounds[ns], served: s.w.Ledger.Served(ns)}
		rounds[ns]++
		if d.guardTo != "" {
			d.slot.round = -1 // its node is nearly out of memory; there are at most guardedNodes of these
		}
	}
	s.shrinkFirst(acts)
}

// inTurn orders decisions so that their namespaces alternate: the namespace whose last turn is the longest ago comes first. before orders the
// decisions of one namespace. The names of namespaces do not matter, so that no tenant comes first because of a name.
func inTurn(ds []*entry, last func(namespace string) time.Time, before func(a, b entry) int) []*entry {
	slices.SortFunc(ds, func(a, b *entry) int { return before(*a, *b) })
	rounds := make(map[*entry]int, len(ds))
	next := map[string]int{}
	for _, d := range ds {
		rounds[d] = next[d.Pod.Namespace]
		next[d.Pod.Namespace]++
	}
	slices.SortFunc(ds, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(rounds[a], rounds[b]), last(a.Pod.Namespace).Compare(last(b.Pod.Namespace)), byNeed(*a, *b), strings.Compare(a.Pod.UID, b.Pod.UID))
	})
	return ds
}

// awaitsOthers are the reasons of pods that may change if others of their controller do not.
var awaitsOthers = map[decision.ReasonCode]bool{decision.BudgetSpent: true, decision.Probing: true, decision.AwaitingCanary: true, decision.ObjectiveMissed: true}

// offerBudget gives what pods that wait for capacity, or for the room of others, had of the budget and of quotas to other pods of their controllers and
// namespaces. These may be on a node with room. If the pod that waits was to be the canary, another one is. hold leaves those that lack room, too.
func (s *pass) offerBudget(ds []entry, withdrawn map[cluster.Workload]bool, hold func(*entry)) {
	var offers []*entry
	for i := range ds {
		d := &ds[i]
		waits := awaitsOthers[d.Reason.Code] && withdrawn[d.Pod.Controller] || d.Reason.Code == decision.OverQuota && withdrawn[cluster.Workload{Namespace: d.Pod.Namespace}]
		if waits && d.Do == decision.Leave {
			offers = append(offers, d)
		}
	}
	for _, d := range inTurn(offers, s.w.Ledger.Served, func(a, b entry) int { return cmp.Or(cmp.Compare(a.rank, b.rank), byName(a, b)) }) {
		s.decider(d).take()
		hold(d)
	}
}

// endProbe allows another pod to be the probe, or to be surged, instead of this one.
func (s *pass) endProbe(d *entry) {
	d.scope.backoff.End(d.Pod)
	d.scope.surge.End(d.Pod)
}

// withdraw leaves a pod instead of changing it, and returns its budget and what it had reserved of quotas.
func (s *pass) withdraw(d *entry, r decision.Reason) {
	s.release(d)
	s.endProbe(d)
	g := d.group()
	if d.Reason.Fallback == decision.ResizeRefused && g != nil {
		g.Trial = false
	}
	if d.taken {
		d.taken = false
		g.GiveBack(d.health)
	}
	if d.canary {
		d.canary = false
		d.scope.canary.End(d.Pod.Workload())
	}
	s.radius.Withdraw(d.Pod)
	d.leave(r)
}

// governedInOrder returns the governed pods in the order in which decisions are made: by autoscaler. If the share of the cluster is limited, the
// least recently served namespaces come first, so that the same namespaces do not use it up again and again.
func (s *pass) governedInOrder() []cluster.Governed {
	out := slices.Clone(s.w.Governed)
	slices.SortFunc(out, func(a, b cluster.Governed) int {
		turn := 0
		if s.b.ClusterShare < 1 {
			turn = s.w.Ledger.Served(a.Autoscaler.Namespace).Compare(s.w.Ledger.Served(b.Autoscaler.Namespace))
		}
		return cmp.Or(turn, a.Autoscaler.Key.Compare(b.Autoscaler.Key))
	})
	return out
}
