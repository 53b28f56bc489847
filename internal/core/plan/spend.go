// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "podfit.dev/podfit/internal/core/cluster"

// addSpends adds what earlier passes have spent to the groups.
func (s *pass) addSpends(groups map[cluster.Workload]*group, pods []*cluster.Pod) {
	if s.b.Window == 0 {
		return
	}
	for _, p := range pods {
		g := groups[p.Controller]
		if g != nil && !p.Deleting && p.Node != "" && p.Serves() && s.hasSpent(p, serving) &&
			!s.w.Ledger.IsEvicted(s.now, p) && !s.w.Ledger.MayBeEvicted(s.now, p) {
			g.spent++
		}
	}
	if s.revived == nil {
		s.revived = s.w.Ledger.Revived(s.now)
	}
	for controller, g := range groups {
		g.revived = s.revived[controller]
	}
}

// hasSpent reports whether an earlier pass has taken the budget for a change of the pod within Budget.Window.
func (s *pass) hasSpent(p *cluster.Pod, h health) bool {
	return s.b.Window > 0 && !h.isDown() && s.w.Ledger.HasSpent(s.now, p, h == stuck)
}

// spend records that the budget of a decision stays spent after this pass.
func (p *Pass) spend(d *entry) {
	if p.b.Window == 0 || d.health.isDown() || !d.taken && !p.hasSpent(d.Pod, d.health) {
		return
	}
	p.w.Ledger.Spend(d.attempt(p.now, *d.Decision), d.health == stuck, p.now.Add(p.b.Window))
}
