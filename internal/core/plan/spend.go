// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// A spend is the disruption budget that the change of a pod took. It stays spent for Budget.Window, because a pod that was resized is
// still ready until the kubelet restarts its container, and a pod that replaces a stuck one needs time to become ready. So the number
// of pods that are changed at once does not depend on how often passes run. A resize without a restart ends earlier, when the kubelet has
// applied it.
//
// Evicted pods that were in service need no record: they count as gone until the watch shows them as deleted, and their
// replacements count when they are ready.
type spend struct {
	controller cluster.Workload
	health     health
	until      time.Time
	with       []policy.Fitted // of a resize that restarts no container; nil: another change
}

// spendOn records that a change of the pod has taken from the budget, or may have.
func (l *Ledger) spendOn(now time.Time, d *entry, b Budget) {
	if b.Window == 0 || d.health == down {
		return
	}
	s := spend{controller: d.Pod.Controller, health: d.health, until: now.Add(b.Window)}
	if d.Do == decision.Resize && !change.Restarts(d.Pod, d.With) {
		s.with = d.With
	}
	l.spends[d.Pod.UID] = s
}

// hasSpent reports whether an earlier pass has taken the budget for a change of the pod within Budget.Window.
func (l *Ledger) hasSpent(now time.Time, b Budget, p *cluster.Pod, h health) bool {
	if l == nil || b.Window == 0 {
		return false
	}
	s, ok := l.spends[p.UID]
	return ok && s.health == h && now.Before(s.until) && !(s.with != nil && isApplied(p, s.with))
}

// isApplied reports whether the kubelet has given the pod the requests and limits.
func isApplied(p *cluster.Pod, with []policy.Fitted) bool {
	return change.IsAsked(p, with) && !p.IsResizing() && !slices.ContainsFunc(p.Containers, func(c cluster.Container) bool { return c.Applied != nil })
}

// addSpends adds what earlier passes have spent to the groups.
func (s *pass) addSpends(groups map[cluster.Workload]*group, pods []*cluster.Pod) {
	if s.w.Ledger == nil || len(s.w.Ledger.spends) == 0 || s.b.Window == 0 {
		return
	}
	for _, p := range pods {
		g := groups[p.Controller]
		if g != nil && !p.Deleting && p.Node != "" && serves(p) && s.w.Ledger.hasSpent(s.now, s.b, p, serving) &&
			!s.w.Ledger.isEvicted(s.now, p) && !s.w.Ledger.mayBeEvicted(s.now, p) {
			g.spent++
		}
	}
	for controller, g := range groups {
		g.revived = s.revived()[controller]
	}
}

// revived returns the number of stuck pods that earlier passes have changed within Budget.Window, by controller.
func (s *pass) revived() map[cluster.Workload]int {
	if s.revivals != nil {
		return s.revivals
	}
	s.revivals = map[cluster.Workload]int{}
	for _, x := range s.w.Ledger.spends {
		if x.health == stuck && s.now.Before(x.until) {
			s.revivals[x.controller]++
		}
	}
	return s.revivals
}

// restoreSpend makes a stored resize count in the budget. Whether it took from the budget is not stored, and neither are the changes of
// stuck pods.
func (l *Ledger) restoreSpend(now time.Time, uid string, at time.Time) {
	if until := at.Add(DefaultBudget().Window); now.Before(until) {
		addNew(l.spends, uid, spend{health: serving, until: until})
	}
}

// forgetSpends forgets what is no longer spent.
func (l *Ledger) forgetSpends(now time.Time) {
	maps.DeleteFunc(l.spends, func(_ string, s spend) bool { return !now.Before(s.until) })
}
