// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// Each eviction is a probe: its replacement shows whether an eviction helps. Otherwise a workload whose replacements do not get the
// recommended requests would lose as many pods as its disruption budget allows, and all those that are down, before that is known. At most
// openEvictions of a workload are without a replacement. It is one for OOM rescues, which do not wait for each other in another way, and after
// evictions without effect and the back-off. The oldest pod is then the probe, so that a replacement without the expected requests goes to the
// end of the queue and another pod is the next probe.

// openEvictions is the maximum number of evictions of a workload whose effect is not known yet.
const openEvictions = 2

// A Gate tells which pods of one autoscaler are not evicted because of other evictions. It is not safe for concurrent use.
type Gate struct {
	*Book
	Effective map[cluster.Workload]bool // see ledger.Ledger.Effective
	Open      map[cluster.Workload]int  // earlier evictions whose effect is not known

	probes map[cluster.Workload][]*cluster.Pod // the pods that this pass evicts
}

// Ineffective returns why an eviction waits: earlier ones had no effect.
func (g *Gate) Ineffective(p *cluster.Pod) (decision.Reason, bool) {
	r, blocked := g.NotSized(p)
	if !r.Until.IsZero() {
		return r, blocked
	}
	n, last := g.Ledger.IneffectiveEvictions(p.Workload(), g.Effective)
	r, blocked = g.after(n, last, g.Delays.EvictionBackoff, "eviction")
	if !blocked {
		return decision.Reason{}, false
	}
	if r.Have = n - g.Ledger.UnknownEffect(p.Workload()); r.Have <= 0 {
		r = decision.Reason{Code: decision.EffectUnknown, Until: r.Until}
	}
	return r, true
}

// HadNoEffect reports whether the last eviction of a workload had no effect.
func (g *Gate) HadNoEffect(w cluster.Workload) bool {
	n, _ := g.Ledger.IneffectiveEvictions(w, g.Effective)
	return n > 0 && !g.Need.UpstreamRules
}

// Begin records that this pass evicts the pod.
func (g *Gate) Begin(p *cluster.Pod) {
	if w := p.Workload(); !slices.Contains(g.probes[w], p) {
		cluster.Put(&g.probes, w, append(g.probes[w], p))
	}
}

// End allows another pod to be the probe instead of this one.
func (g *Gate) End(p *cluster.Pod) {
	if i := slices.Index(g.probes[p.Workload()], p); i >= 0 {
		g.probes[p.Workload()] = slices.Delete(g.probes[p.Workload()], i, i+1)
	}
}

// Probing returns why an eviction waits: it is not known whether those of other pods of the workload help. isFirst reports that the controller
// replaces these only after the pod (disruption.Counter), which does not wait for them then, but is not a third one within the back-off.
func (g *Gate) Probing(d *decision.Decision, isFirst bool) (decision.Reason, bool) {
	r := decision.Reason{Code: decision.Probing}
	p := d.Pod
	w := p.Workload()
	probes := g.probes[w]
	if g.Need.UpstreamRules || slices.Contains(probes, p) {
		return r, false
	}
	if g.HadNoEffect(w) {
		return r, len(probes) > 0
	}
	others := g.Open[w]
	_, last := g.Ledger.IneffectiveEvictions(w, g.Effective)
	if isFirst && (others < openEvictions || g.Now.Sub(last) >= g.Delays.EvictionBackoff) {
		others = 0
	} else if g.Ledger.MayBeEvicted(g.Now, p) || g.Ledger.IsUnproven(p, d.With) { // it counts already
		others--
	}
	return r, len(probes)+others > 0 && (d.Rescue || len(probes)+others >= openEvictions)
}
