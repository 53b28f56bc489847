// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
)

// next returns what the next pass does with the pods: first the changes in the order of execution, then the pods that wait, then those that
// need no change. Pods with the same reason are one step.
func next(in *Input) []Step {
	if a := in.Autoscaler; a != nil && !a.Mode.Applies() && len(in.Decisions) == 0 && len(in.Pods) > 0 {
		// The updater does not look at the pods, so there are no decisions.
		r := decision.Reason{Code: decision.ModeOff, Text: a.Mode.String()}
		pods := cluster.Each(in.Pods, func(p **cluster.Pod) string { return in.nameOf(*p) })
		return []Step{{Pods: pods, Act: decision.Leave, Code: r.Code.String(), Reason: r.String(), Gates: []gate.Gate{{Name: gate.Mode, Blocked: true, Reason: r}}}}
	}
	var out []Step
	for _, d := range in.Decisions {
		s := Step{
			Act: d.Do, Code: d.Reason.Code.String(), Reason: d.Reason.String(), NotBefore: notBefore(&d),
			Fallback: fallback(in, &d), Gates: in.Gates[d.Pod.UID],
		}
		if d.Do != decision.Leave {
			s.By = in.Now.Add(in.Interval)
		}
		if d.Do == decision.Evict && in.Subject.Kind != OfNode { // the pods of a node have different labels
			s.Refused = in.pdbBlocks(d.Pod.Ready)
		}
		if in.Paused != "" && s.Act != decision.Leave {
			s = Step{Act: decision.Leave, Code: UpdaterPaused, Reason: in.Paused + " Otherwise: " + s.Act.String() + ". " + s.Reason, Gates: s.Gates}
		}
		sameGate := func(x, y gate.Gate) bool { return x.Name == y.Name && x.Blocked == y.Blocked }
		same := cluster.FindOrAdd(&out, func(o *Step) bool {
			return o.Act == s.Act && o.Code == s.Code && o.Reason == s.Reason && o.NotBefore.Equal(s.NotBefore) && o.Fallback == s.Fallback && o.Refused == s.Refused && slices.EqualFunc(o.Gates, s.Gates, sameGate)
		}, s)
		same.Pods = append(same.Pods, in.nameOf(d.Pod))
	}
	slices.SortStableFunc(out, func(a, b Step) int { return cmp.Compare(a.rank(), b.rank()) })
	return out
}

// nameOf returns the name of a pod, with its namespace if the subject has pods of several.
func (in *Input) nameOf(p *cluster.Pod) string {
	if in.Subject.Kind == OfNode {
		return p.Key.String()
	}
	return p.Name
}

// mayBeEarlier are the reasons whose time is no lower bound: they end earlier if more pods are ready, or if capacity is provided.
var mayBeEarlier = map[decision.ReasonCode]bool{decision.DisruptionBudget: true, decision.AwaitingCapacity: true, decision.Surging: true}

// notBefore returns when the reason to leave a pod ends by itself; zero if that is not known.
func notBefore(d *decision.Decision) time.Time {
	if d.Do != decision.Leave || mayBeEarlier[d.Reason.Code] {
		return time.Time{}
	}
	return d.Reason.Until
}

// rank is the group of a step in the list, in ascending order: changes, pods that wait for a change, all others.
func (s *Step) rank() int {
	switch {
	case s.Act != decision.Leave:
		return 0
	case s.Waits():
		return 1
	}
	return 2
}

// Waits reports whether the pods should change and wait for something.
func (s *Step) Waits() bool {
	return s.Act == decision.Leave && slices.ContainsFunc(s.Gates, func(g gate.Gate) bool { return g.Name == gate.Need && !g.Blocked })
}

// Blocked returns the gates that block, besides the first, which is the reason of the step.
func (s *Step) Blocked() []gate.Gate {
	blocked := slices.DeleteFunc(slices.Clone(s.Gates), func(g gate.Gate) bool { return !g.Blocked })
	return blocked[min(1, len(blocked)):]
}

// fallback describes the eviction of a pod whose resize waits, or is tried.
func fallback(in *Input, d *decision.Decision) string {
	if d.Autoscaler == nil || !d.Autoscaler.Mode.Evicts() {
		return ""
	}
	switch {
	case d.Do == decision.Resize && d.Fallback:
		return "If the API server refuses the resize, the pod is evicted."
	case d.Do != decision.Leave || !d.Pod.IsResizing() || d.Pod.Resize.Since.IsZero() || d.Wanted.Code == decision.BoostOver: // the end of a boost evicts no pod
		return ""
	}
	var at time.Time
	switch d.Reason.Code {
	case decision.ResizeWaiting:
		if d.Wanted.Code == decision.Incomplete { // its requests are within their bounds
			return ""
		}
		at = d.Pod.Resize.Since.Add(in.Budget.DeferredFor)
	case decision.ResizeRunning:
		at = d.Pod.Resize.Since.Add(in.Budget.InProgressFor)
	default:
		return ""
	}
	text := "If it still waits at " + clock(in.Now, at) + ", the pod is evicted"
	var blocked []string
	for _, g := range in.EvictionGates[d.Pod.UID] {
		if g.Blocked && g.Name == gate.Protection {
			return strings.TrimPrefix(g.Reason.String(), d.Reason.Note) // nothing if the reason says it
		}
		if g.Blocked {
			blocked = append(blocked, strings.TrimRight(g.Reason.String(), "."))
		}
	}
	if why := in.pdbBlocks(d.Pod.Ready); why != "" {
		blocked = append(blocked, why)
	}
	if len(blocked) == 0 {
		return text + "."
	}
	return text + " unless that is blocked as it is now: " + strings.Join(blocked, ". ") + "."
}

// disagreements reports reasons that the running updater recorded and that this plan has for no pod, although the pods exist: the updater
// probably runs with other flags.
func disagreements(in *Input, steps []Step) []string {
	var out []string
	for _, s := range in.Waiting {
		planned := slices.ContainsFunc(steps, func(o Step) bool { return o.Code == s.Reason })
		exists := slices.ContainsFunc(in.Decisions, func(d decision.Decision) bool { return d.Pod.Name == s.First })
		if exists && !planned && !passing[s.Reason] {
			out = append(out, fmt.Sprintf("The running updater left %s for the reason %s, and this command plans something else. Either the cause is gone, or the updater runs with other flags.",
				s.First, s.Reason))
		}
	}
	return out
}

// passing are reasons that often end before the next pass.
var passing = map[string]bool{
	decision.BudgetSpent.String(): true, decision.RateLimited.String(): true, decision.OutOfTime.String(): true, decision.NotReady.String(): true,
	decision.ResizeRunning.String(): true, decision.Probing.String(): true, decision.AwaitingReplacement.String(): true, decision.ServerNotReached.String(): true,
	decision.RoomReserved.String(): true,
}

// pdbBlocks describes the PodDisruptionBudget that allows no eviction of a pod now; "" if none does.
func (in *Input) pdbBlocks(ready bool) string {
	switch b := in.blockingPDB(ready); {
	case b == nil:
		return ""
	case !b.Current:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction now (its status is older than its spec)", b.Name)
	default:
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction now (%d healthy, %d required)", b.Name, b.Healthy, b.Desired)
	}
}

// blockingPDB returns the PodDisruptionBudget that allows no eviction of a pod now; nil if none does. As in the API server, a status that is older than
// the spec allows none, and a pod that is not ready may also be evicted if the budget always allows that, or if all required pods are healthy.
func (in *Input) blockingPDB(ready bool) *cluster.DisruptionBudget {
	if in.Labels == nil {
		return nil
	}
	for _, b := range cluster.Selecting(in.Disruption, in.Labels) {
		allowed := b.Current && b.Healthy > b.Desired
		if !ready {
			allowed = allowed || b.AlwaysAllow || b.Desired > 0 && b.Healthy >= b.Desired
		}
		if !allowed {
			return b
		}
	}
	return nil
}
