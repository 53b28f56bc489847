// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/decision"
)

// A slot is the position of an action in the order of execution. The namespaces alternate, the least recently served first, so that
// no namespace uses all requests and the whole rate limit for changes that are refused or fail.
type slot struct {
	round  int       // number of earlier actions of its namespace
	served time.Time // when an action on a pod of the namespace was last tried
	late   bool      // a resize that needs room comes after the resizes on its node that give room back
}

func (s slot) compare(o slot) int {
	if c := cmp.Or(cmp.Compare(s.round, o.round), s.served.Compare(o.served)); c != 0 || s.late == o.late {
		return c
	}
	if s.late {
		return 1
	}
	return -1
}

// share assigns each action its slot.
func (s *pass) share(ds []entry) {
	var acts []*entry
	for i := range ds {
		if ds[i].Do != decision.Leave {
			acts = append(acts, &ds[i])
		}
	}
	slices.SortFunc(acts, func(a, b *entry) int { return byPriority(*a, *b) })
	rounds := map[string]int{}
	for _, d := range acts {
		ns := d.Pod.Namespace
		d.slot = slot{round: rounds[ns], served: s.w.Ledger.Served(ns)}
		rounds[ns]++
	}
	s.shrinkFirst(acts)
}
