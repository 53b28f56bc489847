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
	since      time.Time // of the first eviction
	n          int       // evicted pods
}

// lateFor is how long an evicted pod that the watch still shows as running counts as gone.
const lateFor = 5 * time.Minute

// owe notes that a pod was evicted, or may have been, and needs a replacement.
func (l *Ledger) owe(now time.Time, d Decision) {
	if d.Pod.Controller.IsZero() {
		return
	}
	o, ok := l.owed[d.Pod.Controller]
	if !ok {
		o = debt{autoscaler: d.Autoscaler.Key, since: now}
	}
	o.n++
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
	return ok && r.Kind == OutcomeIsUnknown && now.Before(r.at.Add(lateFor))
}

// A Shortage is a controller that did not replace evicted pods in time.
type Shortage struct {
	Controller      cluster.Workload
	Autoscaler      *cluster.Autoscaler
	Evicted         int
	Present, Wanted int // pods that are there, waiting for a node or being deleted; pods that should be there
	Since           time.Time
}

// shortages returns the controllers that have had fewer pods than they want since one was evicted a while ago, sorted.
// It also returns those that have all their pods again, or of which there is nothing to evict any more.
func (l *Ledger) shortages(now time.Time, w World, b Budget) (short []Shortage, settled []cluster.Workload) {
	if l == nil || len(l.owed) == 0 {
		return nil, nil
	}
	type count struct{ there, leaving int }
	counts := map[cluster.Workload]count{}
	as := map[cluster.Key]*cluster.Autoscaler{}
	for _, g := range w.Governed {
		as[g.Autoscaler.Key] = g.Autoscaler
		for _, p := range g.Pods {
			if _, owes := l.owed[p.Controller]; !owes || p.Phase == cluster.Succeeded || p.Phase == cluster.Failed {
				continue
			}
			c := counts[p.Controller]
			if p.Deleting || l.isEvicted(now, p) {
				c.leaving++
			} else {
				c.there++
			}
			counts[p.Controller] = c
		}
	}
	for _, controller := range l.Owing() {
		o, c := l.owed[controller], counts[controller]
		wanted, known := replicas(controller, w.Scales[controller], c.there)
		switch {
		case as[o.autoscaler] == nil, c == count{} && now.Sub(o.since) > remember:
			settled = append(settled, controller) // nothing of it would be evicted
		case wanted <= c.there && (known || w.Scales[controller].Known):
			settled = append(settled, controller)
		case known && c.there+c.leaving < wanted && !now.Before(o.since.Add(b.ReplacementFor)):
			short = append(short, Shortage{
				Controller: controller, Autoscaler: as[o.autoscaler], Evicted: o.n,
				Present: c.there + c.leaving, Wanted: wanted, Since: o.since,
			})
		}
	}
	return short, settled
}

// isAwaited reports whether evicted pods of the group have no replacement yet, or one is evicted in this pass to
// find out whether it gets one.
func (s *pass) isAwaited(controller cluster.Workload, g *group) bool {
	_, owes := s.w.Ledger.owed[controller]
	return g.trial || owes && !slices.Contains(s.settled, controller)
}

// replacementMissing stands in the way of evictions while the pods that were evicted before have no replacement.
func (t *turn) replacementMissing() (Reason, bool) {
	for _, s := range t.short {
		if s.Controller == t.d.Pod.Controller {
			return Reason{Why: ReplacementMissing, Have: s.Present, Want: s.Wanted, For: t.now.Sub(s.Since)}, true
		}
	}
	return Reason{}, false
}
