// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

const (
	// ModelStateTTL is how long model state is kept after the last autoscaler that references the workload is gone.
	ModelStateTTL = 24 * time.Hour

	// NodeHold is how long the smallest node of a day counts for profiles that size memory by nodes.
	NodeHold = 24 * time.Hour

	// ResetHold is how long recommendations do not decrease after model state has started empty.
	ResetHold = 24 * time.Hour
)

// Workloads contains the State of each workload. The package comment describes the states and transitions.
type Workloads map[cluster.Workload]*State

// A State describes a workload that is or was referenced by an autoscaler with a usable profile.
type State struct {
	// Edition is the profile that Apply last assigned to the workload. The model state in the usage.Store belongs to it.
	Edition Edition

	// Node are the sizes of the smallest node that pods of the workload may run on; zero values if they are unknown, or if the profile does not
	// depend on them.
	Node fleet.NodeSizes

	// Declared is what the pods said about the criticality of the workload when some were last live. It is empty if the profile does not
	// depend on it.
	Declared criticality.Declared

	// Limits is the rule for memory limits: that of the annotation of the autoscaler, or else of the profile.
	Limits cluster.LimitRule

	// strictest is when Node was last as strict as it is, see hold.
	strictest time.Time

	// NoUsableNode is true while Node is unknown although pods live and nodes exist, for example because all nodes are cordoned
	// since the process started.
	NoUsableNode bool

	// HoldUntil is when recommendations may decrease again; zero if they may.
	HoldUntil time.Time

	// UnreferencedSince is when Apply first found no autoscaler that references the workload; zero while one does.
	UnreferencedSince time.Time

	// Restoring is true from the first reference in this process until Restored is called: the model state is empty, and stored model state
	// may replace it.
	Restoring bool
}

// State returns a copy of the State of a workload, or the zero value if it has none.
func (ws Workloads) State(w cluster.Workload) State {
	if s := ws[w]; s != nil {
		return *s
	}
	return State{}
}

// Apply changes the model state in the store as the assignments require, and updates the State of each workload. nodes may be nil if
// no profile is bound by nodes (Assignments.NodeBound).
func (ws Workloads) Apply(store *usage.Store, now time.Time, snapshot *cluster.Snapshot, assignments Assignments, nodes *fleet.Nodes) {
	for workload, assignment := range assignments {
		state := ws[workload]
		if state != nil {
			state.UnreferencedSince = time.Time{}
		}
		if !assignment.Choice.Usable {
			continue // the model state is kept until the profile is usable
		}
		if state == nil {
			state = &State{}
			ws[workload] = state
		}
		state.bound(now, assignment, snapshot.PodsOf(workload), nodes)
		state.assign(store, now, workload, assignment.Choice)
	}
	for workload, state := range ws {
		if _, referenced := assignments[workload]; !referenced && state.unreferenced(store, now, workload) {
			delete(ws, workload)
		}
		if !now.Before(state.HoldUntil) {
			state.HoldUntil = time.Time{}
		}
	}
}

// bound updates what bounds the sizes: the limit rule of the profile, the smallest node, and the criticality.
func (s *State) bound(now time.Time, assignment Assignment, pods []*cluster.Pod, nodes *fleet.Nodes) {
	choice := assignment.Choice
	s.Limits = assignment.By.MemoryLimits.Under(choice.MemoryLimits)
	if !choice.IsByNode() {
		s.unbound()
		return
	}
	if smallest := nodes.Smallest(pods); smallest.Allocatable > 0 {
		s.hold(now, &smallest)
		s.Node = smallest
	}
	declared, live := criticality.DeclaredBy(pods)
	if live {
		declared.AddScaled(assignment.By, pods)
		s.Declared = declared
	}
	s.NoUsableNode = s.Node.Allocatable == 0 && nodes.Known && live
}

// hold keeps the smallest memory of a node and the most pods on one for NodeHold. So a small node that an autoscaler adds and removes, or an HPA that
// adds and removes replicas, changes requests once and not each time.
func (s *State) hold(now time.Time, to *fleet.NodeSizes) {
	held := *to
	if s.Node.Memory > 0 {
		held.Memory = min(to.Memory, s.Node.Memory)
	}
	held.Copies = max(to.Copies, s.Node.Copies)
	now = now.Truncate(time.Second) // as stored
	if held == *to || now.Sub(s.strictest) >= NodeHold || now.Before(s.strictest) {
		s.strictest = now
		return
	}
	*to = held
}

// HeldNodes returns, as texts to be stored, the memory of a node, the pods on one and since when they are held (hold), of each workload that has them.
func (ws Workloads) HeldNodes() map[cluster.Workload]string {
	out := map[cluster.Workload]string{}
	for w, s := range ws {
		if s.Node.Memory > 0 {
			out[w] = fmt.Sprintf("%d %d %d", s.Node.Memory, s.Node.Copies, s.strictest.Unix())
		}
	}
	return out
}

// Recall continues the holds of the last process. A text that is not one of HeldNodes is ignored.
func (ws Workloads) Recall(nodes map[cluster.Workload]string) {
	for w, text := range nodes {
		var s State
		var strictest int64
		_, err := fmt.Sscanf(text, "%d %d %d", &s.Node.Memory, &s.Node.Copies, &strictest)
		if err == nil && s.Node.Memory > 0 {
			s.strictest = time.Unix(strictest, 0)
			ws[w] = &s
		}
	}
}

// unbound removes what is only known for a profile that depends on the pods.
func (s *State) unbound() {
	s.Node = fleet.NodeSizes{}
	s.Declared = criticality.Declared{}
	s.NoUsableNode = false
}

// assign changes the Edition of a referenced workload.
func (s *State) assign(store *usage.Store, now time.Time, workload cluster.Workload, choice *Choice) {
	before := s.Edition
	if before == choice.Edition {
		return
	}
	s.Edition = choice.Edition
	switch {
	case choice.Edition.ModelState && before == (Edition{}):
		store.Extend(workload, choice.Extend)
		s.Restoring = true
	case choice.Edition.ModelState:
		if started := store.Replace(workload, choice.Extend); len(started) > 0 {
			s.HoldUntil = now.Add(ResetHold)
		}
	case before.ModelState:
		store.Extend(workload, nil)
	}
}

// unreferenced updates the State of a workload that no autoscaler references. It reports whether the State has expired.
func (s *State) unreferenced(store *usage.Store, now time.Time, w cluster.Workload) (expired bool) {
	s.HoldUntil = time.Time{}
	s.unbound()
	s.UnreferencedSince = cmp.Or(s.UnreferencedSince, now)
	if now.Sub(s.UnreferencedSince) < ModelStateTTL {
		return false
	}
	if s.Edition.ModelState {
		store.Extend(w, nil)
	}
	return true
}

// Restoring returns the workloads whose model state has started empty in this process and was not yet passed to Restored, sorted.
func (ws Workloads) Restoring() []cluster.Workload {
	var restoring []cluster.Workload
	for w, s := range ws {
		if s.Restoring {
			restoring = append(restoring, w)
		}
	}
	slices.SortFunc(restoring, cluster.Workload.Compare)
	return restoring
}

// Restored ends the restoring of a workload: its stored model state, if there is any, is in the store. The workload is held if a container
// has a recommendation, but no model state was restored: the profile or its version has changed while no process was running. It
// is also held if the restored model state started less than ResetHold ago, unless no older usage is known. autoscaler is the one
// that governs the workload; nil if there is none.
func (ws Workloads) Restored(store *usage.Store, now time.Time, workload cluster.Workload, autoscaler *cluster.Autoscaler) {
	state := ws[workload]
	if state == nil || !state.Restoring {
		return
	}
	state.Restoring = false
	if autoscaler == nil {
		return
	}
	for i := range autoscaler.Advice {
		started := now
		history := store.Series(workload, autoscaler.Advice[i].Container)
		if history != nil && history.Recalled() {
			started = time.Time{}
			if extension := history.Extension(); extension != nil {
				started = extension.Since()
			}
			if !usedBefore(autoscaler, history, started) {
				continue
			}
		}
		if until := started.Add(ResetHold); until.After(now) && until.After(state.HoldUntil) {
			state.HoldUntil = until
		}
	}
}

// usedBefore reports whether a container was sized by usage from before its model state was started. Model state that was started with
// the first sample did not replace any.
func usedBefore(a *cluster.Autoscaler, history *usage.ContainerHistory, started time.Time) bool {
	first := a.Created
	for _, r := range cluster.All {
		if seen := history.Seen(r); seen.Count > 0 && seen.First.Before(first) {
			first = seen.First
		}
	}
	return first.Before(started.Add(-time.Hour))
}

// SkipRestore ends the restoring of all workloads: no model state is stored, it is built from usage history.
func (ws Workloads) SkipRestore() {
	for _, s := range ws {
		s.Restoring = false
	}
}

// EndHolds ends the holds of a namespace: its usage history is complete, so its model state is, too.
func (ws Workloads) EndHolds(namespace string) {
	for w, s := range ws {
		if w.Namespace == namespace {
			s.HoldUntil = time.Time{}
		}
	}
}

// Held reports whether recommendations of a profile for a workload must not decrease. A profile without model state is never held.
func (ws Workloads) Held(choice *Choice, w cluster.Workload, now time.Time) bool {
	return choice.Edition.ModelState && now.Before(ws.State(w).HoldUntil)
}

// AwaitsNode reports whether sizes depend on the smallest node, and that node is not known: no pod shows on which nodes the workload may run.
func (ws Workloads) AwaitsNode(choice *Choice, w cluster.Workload) bool {
	node := ws.State(w).Node
	return choice.MostOfNode > 0 && node.Allocatable == 0 || choice.Packs() && node.Memory == 0
}

// LimitsCPU reports whether a profile limits CPU to a share of the smallest node, and no node that exists can be used, for example
// because all are cordoned since the process started. Then CPU must not exceed the last recommendation, which was within the limit.
func (ws Workloads) LimitsCPU(choice *Choice, w cluster.Workload) bool {
	return choice.MostOfNode > 0 && ws.State(w).NoUsableNode
}

// Profile returns the profile of a choice as it applies to a workload: with its criticality, and limited by the nodes that its pods may run
// on.
func (ws Workloads) Profile(choice *Choice, w cluster.Workload) recommend.Profile {
	state := ws.State(w)
	profile := choice.Profile
	if profile.Packs() {
		profile.MemoryLimits = state.Limits
	}
	return profile.For(state.Declared, state.Node)
}

// Hold returns recommendations that are nowhere lower than those in the status of an autoscaler. It adds the containers, of those that
// exist, that have a recommendation in the status only. The arguments are sorted by container. The caller applies the policies of
// the autoscaler afterwards.
func Hold(a *cluster.Autoscaler, containers []string, recommended []cluster.Advice) []cluster.Advice {
	held := slices.Clone(recommended)
	for _, container := range containers {
		status := a.AdviceFor(container)
		controls := a.Policy(container).Controls()
		if status == nil || controls.Empty() {
			continue
		}
		target := status.Uncapped.Or(status.Target).Only(controls)
		if target.Has.Empty() {
			continue
		}
		i, found := slices.BinarySearchFunc(held, container, func(x cluster.Advice, name string) int { return strings.Compare(x.Container, name) })
		if !found {
			held = slices.Insert(held, i, cluster.Advice{Container: container})
		}
		h := &held[i]
		h.Target = higher(h.Target, target)
		h.Upper = higher(higher(h.Upper, status.Upper.Only(controls)), h.Target)
		h.Lower = higher(h.Lower, status.Lower.Only(controls))
		h.Uncapped = h.Target
	}
	return held
}

// LimitCPU returns recommendations whose CPU is at most the target in the status of an autoscaler. The uncapped target stays. A container
// without recommendation for CPU in the status is not limited.
func LimitCPU(a *cluster.Autoscaler, recommended []cluster.Advice) []cluster.Advice {
	limited := slices.Clone(recommended)
	for i := range limited {
		l := &limited[i]
		status := cmp.Or(a.AdviceFor(l.Container), new(cluster.Advice))
		most, ok := status.Target.Get(cluster.CPU) // the uncapped target is not limited by nodes
		if !ok {
			continue
		}
		for _, r := range []*cluster.Resources{&l.Lower, &l.Target, &l.Upper} {
			if v, has := r.Get(cluster.CPU); has {
				*r = r.Set(cluster.CPU, min(v, most))
			}
		}
	}
	return limited
}

func higher(a, b cluster.Resources) cluster.Resources {
	for _, r := range cluster.All {
		if v, ok := b.Get(r); ok && v > a.Amount(r) {
			a = a.Set(r, v)
		}
	}
	return a
}
