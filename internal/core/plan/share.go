// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A place is where an action stands in the order of execution. The namespaces take turns, the one that was served least
// recently first, so that none takes all requests and the whole rate limit for pods whose changes are refused or fail.
type slot struct {
	round  int       // how many actions of its namespace come before
	served time.Time // when an action on a pod of the namespace was tried last
}

func (s slot) compare(o slot) int {
	return cmp.Or(cmp.Compare(s.round, o.round), s.served.Compare(o.served))
}

// share gives each action its place in the order of execution.
func (s *pass) share(ds []Decision) {
	var acts []*Decision
	for i := range ds {
		if ds[i].Do != Leave {
			acts = append(acts, &ds[i])
		}
	}
	slices.SortFunc(acts, func(a, b *Decision) int { return byPriority(*a, *b) })
	rounds := map[string]int{}
	for _, d := range acts {
		ns := d.Pod.Namespace
		d.slot = slot{rounds[ns], s.w.Ledger.served[ns]}
		rounds[ns]++
	}
}

// serve notes that an action on a pod was tried.
func (l *Ledger) markServed(now time.Time, d Decision) { l.served[d.Pod.Namespace] = now }

// forgetServed forgets namespaces of which nothing was tried for long.
func (l *Ledger) forgetServed(now time.Time) {
	maps.DeleteFunc(l.served, func(_ string, at time.Time) bool { return now.Sub(at) > historyTTL })
}
