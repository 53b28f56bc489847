// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rescue

import (
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
)

// A Book is what the rescues of a pass have in common. It is not safe for concurrent use.
type Book struct {
	Mode     Mode
	Counter  *disruption.Counter
	Delays   *attempt.Delays
	Nodes    []cluster.Node
	Governed []cluster.Governed
	Budgets  map[string][]cluster.DisruptionBudget // of the namespaces with crashing pods; others have unknown ones

	crashing map[string][]*cluster.Pod           // pods that are down because of OOM kills, by namespace
	lacking  map[*cluster.DisruptionBudget]int32 // the number of these that a disruption budget counts
}

// IsCrashing reports whether a pod is not ready because of OOM kills.
func (b *Book) IsCrashing(p *cluster.Pod) bool {
	return p.Crash != nil && p.Live() && !p.Ready && b.Counter.Health(p).IsDown()
}

// crashingIn returns the pods of a namespace that are not ready because of OOM kills.
func (b *Book) crashingIn(namespace string) []*cluster.Pod {
	if b.crashing == nil {
		b.crashing = map[string][]*cluster.Pod{}
		for _, g := range b.Governed {
			for _, p := range g.Pods {
				if b.IsCrashing(p) {
					b.crashing[p.Namespace] = append(b.crashing[p.Namespace], p)
				}
			}
		}
	}
	return b.crashing[namespace]
}

// crashingOf returns how many of the pods that a disruption budget counts are not ready because of OOM kills. Each budget is counted once in a
// pass, so that many such pods of one tenant do not slow the pass for others.
func (b *Book) crashingOf(of *cluster.DisruptionBudget, namespace string) int32 {
	return cluster.Memo(&b.lacking, of, func() (n int32) {
		for _, p := range b.crashingIn(namespace) {
			if of.Selector.Matches(p.Crash.Labels) {
				n++
			}
		}
		return n
	})
}

// BudgetOfOthers returns why a pod is not deleted, unless exactly one disruption budget selects it, and it would allow the eviction if the
// OOM-killed pods were ready, and as many evicted ones as have no replacement only because their controller waits for this pod.
func (b *Book) BudgetOfOthers(p *cluster.Pod, missing int) (decision.Reason, bool) {
	all, known := b.Budgets[p.Namespace]
	if !known {
		return decision.Reason{Code: decision.BudgetsUnknown}, true
	}
	budgets := cluster.Selecting(all, p.Crash.Labels)
	if len(budgets) > 1 {
		return decision.Reason{Code: decision.BudgetOfOthers, Text: budgets[0].Name + ", " + budgets[1].Name}, true
	}
	if len(budgets) == 0 || !budgets[0].Current || budgets[0].AlwaysAllow || budgets[0].Healthy >= budgets[0].Desired {
		// The disruption budget has changed since, so the eviction is tried again after its back-off.
		r, _ := b.Counter.Ledger.LastFailure(p, decision.Evict)
		return r.Reason(*b.Delays, decision.Evict), true
	}
	of := budgets[0]
	have := int(of.Healthy+b.crashingOf(of, p.Namespace)) + missing
	return decision.Reason{Code: decision.BudgetOfOthers, Text: of.Name, Have: have, Want: int(of.Desired)}, have < int(of.Desired)
}

// A Gate tells whether pods of one autoscaler may be deleted in a pass. It is not safe for concurrent use.
type Gate struct {
	*Book
	Pods []*cluster.Pod

	deleted      map[cluster.Workload]*cluster.Pod // the pod that this pass deletes
	replacements map[key]state                     // see stateOf
}

// Begin notes that this pass deletes a pod.
func (g *Gate) Begin(p *cluster.Pod) { cluster.Put(&g.deleted, p.Workload(), p) }

// End lets the pass delete a pod of the workload again.
func (g *Gate) End(p *cluster.Pod) { delete(g.deleted, p.Workload()) }

// InProgress returns why the deletion of a pod waits: until the replacement of the last deleted pod of the workload is ready. If it was
// OOM-killed too, the next pod is deleted after a back-off, and only with noticeably more memory. isFirst reports that the controller creates the
// replacement only when this pod is ready (disruption.Counter).
func (g *Gate) InProgress(d *decision.Decision, isFirst bool) (decision.Reason, bool) {
	p := d.Pod
	workload := d.Pod.Workload()
	if other := g.deleted[workload]; other != nil && other != p {
		return decision.Reason{Code: decision.RescueInProgress, Text: other.Name}, true
	}
	last, ok := g.Counter.Ledger.LastDeletion(workload)
	if !ok {
		return decision.Reason{}, false
	}
	state := g.stateOf(p, last)
	if state == replacementAbsent && !isFirst {
		return decision.Reason{Code: decision.RescueInProgress, For: g.Counter.Now.Sub(last.At)}, true
	}
	if !g.IsRepeated(p) {
		return decision.Reason{}, false
	}
	if until := last.At.Add(g.Delays.Backoff(last.Again + 1)); g.Counter.Now.Before(until) {
		return decision.Reason{Code: decision.BackingOff, Until: until, Have: last.Again + 1, Text: "deletion"}, true
	}
	kill, _ := KillOf(g.Counter.Now, rescuedFor, d.Autoscaler, p, d.With)
	return decision.Reason{Code: decision.NotEnoughMemory, From: last.Memory, To: kill.To}, float64(kill.To) < noticeablyMore*float64(last.Memory)
}

// IsRepeated reports whether a deletion would follow one that did not help: the pod is a replacement itself, or the replacement of the
// last deleted pod is not ready because of OOM kills.
func (g *Gate) IsRepeated(p *cluster.Pod) bool {
	last, ok := g.Counter.Ledger.LastDeletion(p.Workload())
	return ok && (p.Created.After(last.Newest) || g.stateOf(p, last) == replacementKilled)
}

// FewKills returns how often a container of a pod was OOM-killed in a row, and whether that is too few for a deletion.
func (g *Gate) FewKills(p *cluster.Pod) (decision.Reason, bool) {
	most := 0
	for i := range p.Containers {
		if e := p.Containers[i].Exit; e != nil && e.OOM {
			most = max(most, int(e.Kills))
		}
	}
	return decision.Reason{Code: decision.FewKills, Have: most, Want: MinKills}, most < MinKills
}

// Refused returns why a deletion waits: the back-off after a refusal.
func (g *Gate) Refused(p *cluster.Pod) (decision.Reason, bool) {
	r, ok := g.Counter.Ledger.LastFailure(p, decision.Delete)
	if !ok || !g.Counter.Now.Before(r.Until(*g.Delays)) {
		return decision.Reason{}, false
	}
	return r.Reason(*g.Delays, decision.Delete), true
}

// A state is the state of the replacement of a deleted pod.
type state uint8

const (
	replacementAbsent state = iota // does not exist, or is not ready yet
	replacementServing
	replacementKilled // not ready because of OOM kills
	replacementStuck  // not ready for another reason, for so long that it does not recover by itself
)

// A key has what the state of a replacement depends on within a pass.
type key struct {
	controller          cluster.Workload
	deleted             string // UID
	missing, unreplaced bool   // some evicted pod has no replacement yet; the deleted one has none
}

// stateOf returns the state of the replacement of the last deleted pod. It is the same for all pods of a controller.
func (g *Gate) stateOf(p *cluster.Pod, last ledger.DeletionState) state {
	controller := p.Controller
	missing := g.Counter.Ledger.Missing(controller) > 0 && !g.Counter.Complete[controller]
	k := key{controller, last.UID, missing, missing && g.Counter.Ledger.IsMissing(controller, last.UID)}
	return cluster.Memo(&g.replacements, k, func() state { return g.replacementOf(p.Workload(), last, k) })
}

func (g *Gate) replacementOf(workload cluster.Workload, last ledger.DeletionState, k key) state {
	var serving, killed, waiting, isNew, isStuck bool
	settled := !g.Counter.Now.Before(last.At.Add(attempt.WatchDelay))
	for _, p := range g.Pods {
		switch {
		case p.Workload() != workload || !p.Live():
		case p.UID == last.UID:
			if settled {
				return replacementServing // the deletion, whose outcome was unknown, was not carried out
			}
		case !p.Created.After(last.Newest):
		case p.Serves():
			serving = true
		case g.IsCrashing(p):
			killed = true
		case g.Counter.Health(p) == disruption.Stuck:
			isStuck = true
		default:
			waiting = true
			isNew = isNew || g.Counter.Now.Sub(p.Created) < g.Counter.Limits.StuckFor
		}
	}
	switch {
	case serving && (isNew || waiting && k.controller.Kind == "StatefulSet"):
		// Of several new pods, it is not known which one replaces the deleted pod. In a StatefulSet, each of them replaces a pod.
		return replacementAbsent
	case serving && !k.unreplaced: // otherwise it replaces a pod that was evicted before
		return replacementServing
	case killed:
		return replacementKilled
	case waiting:
		return replacementAbsent
	case isStuck:
		return replacementStuck
	case settled && !k.missing:
		return replacementServing // created within the second of the newest pod, so that its age does not show that it is newer
	}
	return replacementAbsent
}
