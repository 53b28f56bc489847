// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A group is the pods of one controller that one autoscaler governs. Disruptions are counted for each group.
type group struct {
	wanted    int  // replicas that the controller should have
	known     bool // wanted is known and not zero
	tolerance int  // number of replicas that may be unavailable
	live      int  // scheduled pods that are not terminating or finished
	ready     int  // live pods that are in service
	gone      int  // evicted pods that the watch still shows
	spent     int  // pods that this pass takes out of service, or that an earlier one did within Budget.Window
	revived   int  // stuck pods that this pass changes, or that an earlier one did within Budget.Window
	replaced  int  // evicted pods that have no replacement yet, and pods that are down and that this pass changes
	least     int  // minimum number of live pods
	below     bool // fewer live pods than the minimum
	unclear   int  // live pods that may have been evicted: their eviction had no answer
	changed   int  // pods that were changed in this pass, or may have been, and took from the budget
	trial     bool // this pass evicts a pod to test whether its replacement is refused too
}

// groupsOf returns the groups of an autoscaler's pods, by controller.
func (s *pass) groupsOf(a *cluster.Autoscaler, pods []*cluster.Pod) map[cluster.Workload]*group {
	b, scales := s.b, s.w.Scales
	groups := map[cluster.Workload]*group{}
	present := map[cluster.Workload]int{}  // pods that have not finished, with terminating ones, which will be replaced
	existing := map[cluster.Workload]int{} // the same without terminating and evicted ones
	for _, p := range pods {
		if p.Controller.IsZero() || p.Phase == cluster.Succeeded || p.Phase == cluster.Failed {
			continue
		}
		g := groups[p.Controller]
		if g == nil {
			g = &group{}
			groups[p.Controller] = g
		}
		present[p.Controller]++
		if !p.Deleting && s.w.Ledger.IsEvicted(s.now, p) {
			g.gone++
			continue
		}
		if !p.Deleting {
			existing[p.Controller]++
		}
		if p.Deleting || p.Node == "" {
			continue
		}
		g.live++
		switch {
		case s.w.Ledger.MayBeEvicted(s.now, p):
			g.unclear++
		case p.Serves():
			g.ready++
		}
	}
	required := b.MinReplicas
	if a.MinReplicas > 0 {
		required = int(a.MinReplicas)
	}
	s.addSpends(groups, pods)
	for controller, g := range groups {
		g.wanted, g.known = scales[controller].Wanted(controller, present[controller])
		g.tolerance = int(float64(g.wanted) * b.Tolerance)
		surplus, missing := g.live+g.gone-g.wanted, 0
		if !s.complete[controller] {
			missing = s.w.Ledger.Missing(controller)
		}
		g.replaced = max(0, min(missing, g.wanted-existing[controller]))
		if g.known && (surplus > 0 || missing > 0 && existing[controller] >= g.wanted && s.w.Ledger.IsScaledDown(controller, g.wanted)) {
			// After a scale-down, the watch may still show pods that the controller has deleted or is going to delete. These may be
			// the ready ones. A StatefulSet deletes the pods with the highest ordinals even if the evicted ones below have no
			// replacement.
			g.live, g.ready = min(g.live, g.wanted), max(0, g.ready-max(0, surplus)-missing)
		}
		g.least, g.below = required, g.live < required
	}
	return groups
}

// readyBeside returns the number of ready pods without a pod of the group. The eviction of a pod leaves that many, whether or not it is ready.
func (g *group) readyBeside(p *cluster.Pod) int {
	if p.Serves() {
		return max(0, g.ready-1)
	}
	return g.ready
}

// health is the state of a pod that determines what its disruption takes from the budget.
type health uint8

const (
	serving   health = iota // ready, or not ready for a short time: its disruption takes from the budget
	stuck                   // not ready for so long that it does not recover by itself
	down                    // OOM-killed again and again
	unstarted               // no container has started
)

// isDown reports whether a pod is not in service, and was not recently.
func (h health) isDown() bool { return h == down || h == unstarted }

func healthOf(now time.Time, b Budget, p *cluster.Pod) health {
	switch {
	case p.Phase == cluster.Pending:
		return unstarted
	case p.Ready:
		return serving
	}
	for i := range p.Containers {
		if e := p.Containers[i].Exit; e != nil && e.OOM && (e.Now || now.Sub(e.Finished) < b.QuickOOM) {
			return down
		}
	}
	since := p.ReadySince
	if since.IsZero() {
		since = p.Started
	}
	if !since.IsZero() && now.Sub(since) >= b.StuckFor {
		return stuck
	}
	return serving
}

// mayChange reports whether the budget allows changing a pod. A pod that is down, stuck or not started is not in service. But a quota or an
// admission webhook may refuse its replacement, so no more pods that are down or stuck are evicted than may be unavailable until their
// replacements exist; for pods that have not started, upstream has no limit. And stuck pods may be kept unready on purpose, as standbys, so
// no more of them are changed at once.
func (g *group) mayChange(h health) bool {
	most := max(1, g.tolerance)
	switch h {
	case unstarted:
		return true
	case down:
		return g.replaced < most
	case stuck:
		return g.replaced < most && g.revived < most
	default:
		return g.canSpare()
	}
}

// take takes the change of a pod from the budget.
func (g *group) take(h health) {
	switch h {
	case serving:
		g.spent++
	case stuck:
		g.revived++
	case down:
		g.replaced++
	case unstarted: // it is not in service
	}
}

// giveBack returns the budget of a pod that was not changed.
func (g *group) giveBack(h health) {
	switch h {
	case serving:
		g.spent--
	case stuck:
		g.revived--
	case down:
		g.replaced--
	case unstarted: // it is not in service
	}
}

// canSpare reports whether one more pod may be taken out of service: more pods are ready than required, or all are ready, the
// tolerance is zero, and this is the first disruption.
func (g *group) canSpare() bool {
	return g.ready-g.spent > g.wanted-g.tolerance ||
		g.ready == g.wanted && g.tolerance == 0 && g.spent == 0
}

// budgetReason returns why the budget does not allow changing a pod.
func (g *group) budgetReason(h health) decision.Reason {
	if h == serving && g.spent == 0 && g.ready < g.wanted {
		return decision.Reason{Code: decision.NotReady, Have: g.ready, Want: g.wanted}
	}
	return decision.Reason{Code: decision.BudgetSpent, Have: g.spent + g.revived + g.replaced, Want: g.wanted}
}
