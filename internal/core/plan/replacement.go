// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A debt is what a controller owes: replacements of pods that were evicted, and that have not been seen yet.
type debt struct {
	autoscaler cluster.Key
	evictions  []owed // oldest first
}

// An owed eviction is one whose replacement has not been seen yet.
type owed struct {
	at  time.Time
	uid string // of the pod
}

// mostOwed bounds the evictions of one controller that are remembered for want of a replacement.
const mostOwed = 1000

// lateFor is how long an evicted pod that the watch still shows as running counts as gone.
const lateFor = 5 * time.Minute

// owe notes that a pod was evicted, or may have been, and needs a replacement.
func (l *Ledger) owe(now time.Time, d Decision) {
	if d.Pod.Controller.IsZero() {
		return
	}
	o, ok := l.owed[d.Pod.Controller]
	if !ok {
		o.autoscaler = d.Autoscaler.Key
	}
	o.evictions = append(slices.Clone(last(o.evictions, mostOwed-1)), owed{now, d.Pod.UID})
	l.owed[d.Pod.Controller] = o
}

// Owing returns the controllers whose evicted pods have no replacement yet, sorted. The next World should have their
// scales, even when they have no pods.
func (l *Ledger) Owing() []cluster.Workload {
	out := make([]cluster.Workload, 0, len(l.owed))
	for c := range l.owed {
		out = append(out, c)
	}
	slices.SortFunc(out, cluster.Workload.Compare)
	return out
}

// isEvicted reports whether a pod that the watch still shows was evicted a short while ago.
func (l *Ledger) isEvicted(now time.Time, p *cluster.Pod) bool {
	if l == nil || len(l.evicted) == 0 {
		return false
	}
	at, ok := l.evicted[p.UID]
	return ok && now.Before(at.Add(lateFor))
}

// mayBeEvicted reports whether the outcome of an eviction a short while ago is unknown, of a pod that the watch still shows.
func (l *Ledger) mayBeEvicted(now time.Time, p *cluster.Pod) bool {
	r, ok := l.refusal(p, Evict)
	return ok && now.Before(r.lost.Add(lateFor))
}

// A Shortage is a controller that did not replace evicted pods in time.
type Shortage struct {
	Controller      cluster.Workload
	Autoscaler      *cluster.Autoscaler
	Evicted         int
	Present, Wanted int // pods that are there, waiting for a node or being deleted; pods that should be there
	Since           time.Time
}

// A claim is what a controller owes, held against the pods that it has.
type claim struct {
	debt
	controller     cluster.Workload
	governor       *cluster.Autoscaler // nil when its autoscaler governs nothing any more
	there, leaving int
	wanted         int
	known          bool // wanted could be found out
	none           bool // the controller is known to want none
}

// claims returns what all controllers owe, sorted by controller.
func (l *Ledger) claims(now time.Time, w World) []claim {
	if l == nil || len(l.owed) == 0 {
		return nil
	}
	type count struct{ there, leaving int }
	counts := map[cluster.Workload]count{}
	as := map[cluster.Key]*cluster.Autoscaler{}
	live := map[string]bool{}
	for _, g := range w.Governed {
		as[g.Autoscaler.Key] = g.Autoscaler
		for _, p := range g.Pods {
			if _, owes := l.owed[p.Controller]; !owes || p.Phase == cluster.Succeeded || p.Phase == cluster.Failed {
				continue
			}
			c := counts[p.Controller]
			if p.Deleting || l.isEvicted(now, p) || l.mayBeEvicted(now, p) {
				c.leaving++
			} else {
				c.there++
				live[p.UID] = true
			}
			counts[p.Controller] = c
		}
	}
	out := make([]claim, 0, len(l.owed))
	for _, controller := range l.Owing() {
		o, n := l.owed[controller], counts[controller]
		// The outcome of an eviction without an answer is known by now: a pod that lives was not evicted.
		o.evictions = slices.DeleteFunc(slices.Clone(o.evictions), func(e owed) bool { return live[e.uid] })
		c := claim{debt: o, controller: controller, governor: as[o.autoscaler], there: n.there, leaving: n.leaving}
		c.wanted, c.known = replicas(controller, w.Scales[controller], n.there)
		c.none = !c.known && w.Scales[controller].Known && c.wanted <= 0
		out = append(out, c)
	}
	return out
}

// isSettled reports whether the controller has all its pods again, or there is nothing of it to evict any more.
func (c *claim) isSettled(now time.Time) bool {
	if len(c.evictions) == 0 {
		return true
	}
	gone := c.there+c.leaving == 0 && now.Sub(last(c.evictions, 1)[0].at) > remember
	return c.governor == nil || gone || c.none || c.known && c.there >= c.wanted
}

// unpaid returns the debt without the evictions that must have been replaced, going by how many pods there are.
func (c *claim) unpaid() debt {
	if !c.known {
		return c.debt
	}
	return debt{autoscaler: c.autoscaler, evictions: last(c.evictions, c.wanted-c.there)}
}

// missingSince returns since when so many pods have been missing as are now, at the least: it takes the last evictions for
// those that have not been replaced yet. It returns false when none is missing.
func (c *claim) missingSince() (time.Time, bool) {
	missing := c.wanted - c.there - c.leaving
	if !c.known || missing <= 0 {
		return time.Time{}, false
	}
	return last(c.evictions, missing)[0].at, true
}

// last returns the last n evictions, or all when there are fewer.
func last(evictions []owed, n int) []owed { return evictions[max(0, len(evictions)-n):] }

// shortages returns the controllers that have had fewer pods than they want since one was evicted a while ago. It also
// returns those that have settled.
func (l *Ledger) shortages(now time.Time, w World, b Budget) (short map[cluster.Workload]Shortage, settled map[cluster.Workload]bool) {
	short, settled = map[cluster.Workload]Shortage{}, map[cluster.Workload]bool{}
	for _, c := range l.claims(now, w) {
		if c.isSettled(now) {
			settled[c.controller] = true
			continue
		}
		if since, missing := c.missingSince(); missing && !now.Before(since.Add(b.ReplacementFor)) {
			short[c.controller] = Shortage{
				Controller: c.controller, Autoscaler: c.governor, Evicted: len(c.evictions),
				Present: c.there + c.leaving, Wanted: c.wanted, Since: since,
			}
		}
	}
	return short, settled
}

// isAwaited reports whether evicted pods of the group have no replacement yet, or one is evicted in this pass to
// find out whether it gets one.
func (s *pass) isAwaited(controller cluster.Workload, g *group) bool {
	_, owes := s.w.Ledger.owed[controller]
	return g.trial || owes && !s.settled[controller]
}

// replacementMissing stands in the way of evictions while the pods that were evicted before have no replacement.
func (t *turn) replacementMissing() (Reason, bool) {
	if s, short := t.short[t.d.Pod.Controller]; short {
		return Reason{Code: ReplacementMissing, Have: s.Present, Want: s.Wanted, For: t.now.Sub(s.Since)}, true
	}
	return Reason{}, false
}
