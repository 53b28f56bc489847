// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package canary tells which pod of a workload is the canary of a pass, and which pods wait for it. Package rollout has the states of a canary, and
// package ledger stores them.
package canary

import (
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rollout"
)

// A Book is the canaries of the cluster in a pass.
type Book struct {
	Now       time.Time
	States    map[cluster.Workload]rollout.State
	NotStored bool // the ledger cannot be stored, so that the admission controller does not know which sizes were reverted
}

// Hold returns the autoscaler with the recommendation that applies to a pod: the previous size, if a newer one was reverted.
func (b *Book) Hold(a *cluster.Autoscaler, p *cluster.Pod) *cluster.Autoscaler {
	return b.States[p.Workload()].Hold(b.Now, a)
}

// IsFailed reports whether a pod is not ready and has a size that was reverted. The CPU of a boosted pod does not show which size it has,
// so it is one only if the sizes differ in memory: a replacement with the previous size must not be replaced again.
func (b *Book) IsFailed(a *cluster.Autoscaler, p *cluster.Pod) bool {
	state := b.States[p.Workload()]
	return a.Canary.On && state.Phase == rollout.Held && !p.Ready && rollout.HasSize(p, state.After) &&
		!(p.IsBoosted() && rollout.HasSize(p, state.Before))
}

// A Gate tells which pods of one autoscaler wait for a canary. It is not safe for concurrent use.
type Gate struct {
	*Book

	chosen map[cluster.Workload]*cluster.Pod // the pod that this pass changes as a canary
}

// Awaits returns why a change waits: another pod of the workload shows whether the new size works, or has shown that it does not. A container
// that was OOM-killed does not wait.
func (g *Gate) Awaits(d *decision.Decision) (decision.Reason, bool) {
	a := d.Autoscaler
	p := d.Pod
	if !a.Canary.On || d.Wanted.Code == decision.OutOfMemory {
		return decision.Reason{}, false
	}
	s := g.States[p.Workload()]
	switch {
	case s.Phase == rollout.Held:
		return decision.Reason{Code: decision.Reverted, Text: s.Text(), Until: s.Until}, !rollout.HasSize(p, s.After)
	case s.Phase == rollout.Watching && s.Missed == rollout.NotKnownYet:
		return decision.Reason{Code: decision.AwaitingCanary, Text: s.Pod, Note: "The query of the annotation podfit.dev/canary-query must hold first, and " + s.Missed + "."}, true
	case s.Phase == rollout.Watching && s.Missed != "":
		return decision.Reason{Code: decision.ObjectiveMissed, Text: s.Missed, Note: s.Detail}, true
	case s.Phase == rollout.Watching:
		return decision.Reason{Code: decision.AwaitingCanary, Text: s.Pod, Until: s.Since.Add(max(a.Canary.Watch, a.Canary.Objective.Span)), Note: s.Comparison.Text()}, true
	case s.Phase == rollout.Starting:
		return decision.Reason{Code: decision.AwaitingCanary, Text: s.Pod}, s.UID != p.UID // when its watch begins is not known yet
	case s.Accepts(ledger.SizesOf(d.With)):
		return decision.Reason{}, false
	}
	first := g.chosen[p.Workload()]
	switch {
	case first == nil && d.Wanted.Code == decision.Fits: // a change only to make room for another pod is no canary
		return decision.Reason{Code: decision.AwaitingCanary, Text: p.Name}, true
	case first == nil || first == p:
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.AwaitingCanary, Text: first.Name, Until: g.Now.Add(max(a.Canary.Watch, a.Canary.Objective.Span))}, true
}

// NoWayBack returns why a pod of a workload with canaries is not evicted if the ledger cannot be stored: the admission controller would give the
// replacement a size that was reverted. Until a canary has run well with a size, the size is tried and reverted by resizes only.
func (g *Gate) NoWayBack(d *decision.Decision) (decision.Reason, bool) {
	lost := d.Autoscaler.Canary.On && g.NotStored && d.Wanted.Code != decision.OutOfMemory
	return decision.Reason{Code: decision.NoWayBack}, lost && !g.States[d.Pod.Workload()].Accepts(ledger.SizesOf(d.With))
}

// IsNeeded reports whether the change of a pod needs a canary, and the workload has none yet. For other limits alone, there is no size to go back to.
func (g *Gate) IsNeeded(d *decision.Decision) bool {
	if !d.Autoscaler.Canary.On || d.Wanted.Code == decision.BoostOver {
		return false
	}
	s := g.States[d.Pod.Workload()]
	hasCanary := s.Phase == rollout.Held || s.Phase == rollout.Watching || s.Phase == rollout.Starting && s.UID != d.Pod.UID
	return !hasCanary && !s.Accepts(ledger.SizesOf(d.With)) && change.OfRequests(d.Pod, d.With)
}

// Choose makes a pod the canary of its workload if its change needs one, and reports whether the pod is the canary. The rescue of an
// OOM-killed pod does not wait for the canary, and does not replace it.
func (g *Gate) Choose(d *decision.Decision) bool {
	if !g.IsNeeded(d) {
		return false
	}
	w := d.Pod.Workload()
	if g.chosen[w] == nil {
		cluster.Put(&g.chosen, w, d.Pod)
	}
	return g.chosen[w] == d.Pod
}

// End lets another pod of the workload be the canary.
func (g *Gate) End(w cluster.Workload) { delete(g.chosen, w) }
