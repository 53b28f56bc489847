// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A group is the pods of one controller that one autoscaler governs: what disruption is counted over.
type group struct {
	wanted    int  // replicas that should be there
	known     bool // wanted could be found out, and is not zero
	tolerance int  // how many of them may be missing
	live      int  // scheduled pods that run or will
	ready     int  // of them those that serve
	gone      int  // pods that were evicted, and that the watch still shows
	spent     int  // pods that this pass takes out of service
	revived   int  // stuck pods that this pass changes
	below     bool // fewer live pods than the minimum
	changed   int  // pods that served and were changed in this pass, or may have been
	trial     bool // this pass evicts a pod to find out whether its replacement is refused, too
}

// groupsOf counts the groups of an autoscaler's pods.
func (s *pass) groupsOf(a *cluster.Autoscaler, pods []*cluster.Pod) map[cluster.Workload]*group {
	b, scales := s.b, s.w.Scales
	groups := map[cluster.Workload]*group{}
	present := map[cluster.Workload]int{} // pods that have not finished; those being deleted will be replaced
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
		if !p.Deleting && s.w.Ledger.isEvicted(s.now, p) {
			g.gone++
			continue
		}
		if p.Deleting || p.Node == "" {
			continue
		}
		g.live++
		if serves(p) && !s.w.Ledger.mayBeEvicted(s.now, p) {
			g.ready++
		}
	}
	required := b.MinReplicas
	if a.MinReplicas > 0 {
		required = int(a.MinReplicas)
	}
	for controller, g := range groups {
		g.wanted, g.known = replicas(controller, scales[controller], present[controller])
		g.tolerance = int(float64(g.wanted) * b.Tolerance)
		if surplus := g.live + g.gone - g.wanted; g.known && surplus > 0 {
			// After a scale-down the watch shows pods for a while that the controller has deleted, or is about to. They may be
			// those that are ready.
			g.live, g.ready = min(g.live, g.wanted), max(0, g.ready-surplus)
		}
		g.below = g.live < required
	}
	return groups
}

// replicas returns how many pods a controller should have, and false when that is none or cannot be said. Kubernetes'
// own replicated controllers always say; so a group whose controller is not known is left alone, and so is one whose
// scale has not been read yet. A Job, and a controller of another kind that cannot be scaled, should have as many pods as
// there are, counting those on their way out (W-14).
func replicas(controller cluster.Workload, s cluster.Scale, present int) (int, bool) {
	type kind struct{ group, kind string }
	switch (kind{controller.Group, controller.Kind}) {
	case kind{"batch", "Job"}:
		return present, true
	case kind{"apps", "ReplicaSet"}, kind{"apps", "StatefulSet"}, kind{"apps", "DaemonSet"}, kind{"", "ReplicationController"}:
		return int(s.Replicas), s.Known && s.Replicas > 0
	}
	if s.Unscalable {
		return present, true
	}
	return int(s.Replicas), s.Known && s.Replicas > 0
}

// serves reports whether a pod counts as running: it is started and ready (W-14).
func serves(p *cluster.Pod) bool { return p.Phase != cluster.Pending && p.Ready }

// A health says how much a pod would be missed.
type health uint8

const (
	serving health = iota // or about to: it counts against the budget
	stuck                 // not ready for so long that it will not be without help
	down                  // it has not started, or is killed for memory over and over
)

func healthOf(now time.Time, b Budget, p *cluster.Pod) health {
	switch {
	case p.Phase == cluster.Pending:
		return down
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

// canTake reports whether a pod may be changed. One that is down takes nothing out of service. Stuck ones do not either,
// but as some are kept unready on purpose, as stand-ins, no more of them go at once than may be missing.
func (g *group) mayChange(h health) bool {
	switch h {
	case down:
		return true
	case stuck:
		return g.revived < max(1, g.tolerance)
	}
	return g.canSpare()
}

// take counts a pod that is changed.
func (g *group) take(h health) {
	switch h {
	case serving:
		g.spent++
	case stuck:
		g.revived++
	}
}

// giveBack undoes take for a pod that was not changed.
func (g *group) giveBack(h health) {
	switch h {
	case serving:
		g.spent--
	case stuck:
		g.revived--
	}
}

// canSpare reports whether one more pod may be taken out of service: more serve than must, or all serve, none may be
// missing, and this is the first.
func (g *group) canSpare() bool {
	return g.ready-g.spent > g.wanted-g.tolerance ||
		g.ready == g.wanted && g.tolerance == 0 && g.spent == 0
}

// whyNot returns why a pod may not be changed.
func (g *group) budgetReason(h health) Reason {
	if h == serving && g.spent == 0 && g.ready < g.wanted {
		return Reason{Code: NotReady, Have: g.ready, Want: g.wanted}
	}
	return Reason{Code: BudgetSpent, Have: g.spent + g.revived, Want: g.wanted}
}
