// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
)

// lessBy is the share of the target of a container by which pods of a role must need less to get a size of their own, and keepBy that by which they
// must need less to keep it, so that sizes do not change to and fro.
const (
	lessBy = 0.2
	keepBy = 0.05
)

// A Sizing has what the recommendation of a workload depends on.
type Sizing struct {
	Profile    recommend.Profile
	Autoscaler *cluster.Autoscaler
	MaxAllowed cluster.Resources
	LimitsCPU  bool // CPU must not exceed that of the status (sizing.LimitCPU)
}

// Apply returns the recommendation of a workload, raised to that of its largest group, with the sizes of groups that need less. These have memory only
// if the user asks for it, or if roles do not move: a follower that becomes the leader needs more memory at once, while its CPU can be raised then. A
// group whose size is not known any more keeps that of the status, and the recommendation does not decrease meanwhile.
func (b *Book) Apply(s *Sizing, all []cluster.Advice) []cluster.Advice {
	a := s.Autoscaler
	w := b.workloads[a.Target]
	if w == nil || !a.SizesByRole() || a.RoleLabel() != w.Autoscaler.RoleLabel() {
		return all // the groups are those of another VPA for the same workload
	}
	plain := slices.Clone(all)
	sizes := make([][]cluster.Advice, len(w.roles))
	lowers := make([]cluster.Resources, len(all)) // the highest lower bound of a group, by container
	for n, role := range w.roles {
		of := a.Target.InGroup(role)
		if b.absence(of) < max(b.history, 24*time.Hour) {
			sizes[n] = recommend.Workload(s.Profile.Params, s.Profile.Estimator, b.Store, a, of, b.now)
			sizes[n] = slices.DeleteFunc(sizes[n], func(v cluster.Advice) bool { return !b.isLearnt(of, v.Container, b.history) })
			sizes[n] = policy.Cap(a, sizes[n], s.MaxAllowed, s.Profile.Node)
		}
		for i := range all {
			own, status := adviceOf(sizes[n], all[i].Container), a.AdviceFor(all[i].Container)
			switch {
			case own != nil:
				lowers[i] = lowers[i].Highest(own.Lower)
				all[i].Estimate = all[i].Larger(own.Estimate)
				all[i].Uncapped = all[i].Uncapped.Highest(own.Uncapped)
			case status != nil && len(status.Groups) > 0 && b.pods[of] > 0:
				all[i].Estimate = all[i].Larger(status.Estimate)
				all[i].Uncapped = all[i].Uncapped.Highest(status.Uncapped)
			}
		}
	}
	if s.LimitsCPU {
		all = sizing.LimitCPU(a, all)
	}
	all = policy.Cap(a, all, s.MaxAllowed, s.Profile.Node) // the largest sizes of several containers can be those of several groups
	for i := range all {
		all[i].Groups = nil
		for n, role := range w.roles {
			g := cluster.GroupSize{Role: role, Target: b.target(a, role, &all[i], adviceOf(sizes[n], all[i].Container), lowers[i])}
			listed := a.SizesByUsage() && role == cluster.Quiet
			if listed {
				g.Pods = b.levels[a.Target].listed()
			}
			if !g.Target.Has.Empty() && listed == (g.Pods != "") {
				all[i].Groups = append(all[i].Groups, g)
			}
		}
		if a.SizesByNode() {
			lower(&all[i], plain[i])
		}
	}
	return all
}

// target returns the size of a group for a container, given the recommendation of the largest group and the highest lower bound of all groups. While the
// usage of the group is not known (own is nil), it keeps its size of the status.
func (b *Book) target(a *cluster.Autoscaler, role string, largest, own *cluster.Advice, highest cluster.Resources) cluster.Resources {
	var before cluster.Resources
	if status := a.AdviceFor(largest.Container); status != nil && status.SizeOf(role) != nil {
		before = status.SizeOf(role).Target
	}
	if own == nil {
		return before
	}
	return less(largest, own, b.apart(a, role, own, highest)|before.Has&mayDiffer(a), before.Has)
}

// lower sets the recommendation back to that of all pods, for resources of which no group gets a size of its own. Otherwise pods on all nodes would get
// more because of the pods on one size of nodes.
func lower(raised *cluster.Advice, plain cluster.Advice) {
	for _, res := range cluster.All {
		target, set := plain.Target.Get(res)
		if !set || slices.ContainsFunc(raised.Groups, func(g cluster.GroupSize) bool { return g.Target.Has.Has(res) }) {
			continue
		}
		raised.Target = raised.Target.Set(res, target)
		raised.Lower = raised.Lower.Set(res, plain.Lower.Amount(res))
		raised.Upper = raised.Upper.Set(res, plain.Upper.Amount(res))
		raised.Uncapped = raised.Uncapped.Set(res, plain.Uncapped.Amount(res))
	}
}

// mayDiffer returns the resources of which groups may have sizes of their own.
func mayDiffer(a *cluster.Autoscaler) cluster.Set {
	if a.Rules.Followers == "own" || a.SizesByNode() && a.Rules.Followers == "" {
		return cluster.Both
	}
	return cluster.Of(cluster.CPU)
}

// apart returns the resources of a container of which a group may get a size of its own. If roles are sizes of nodes, that is not the user's decision:
// the lower bound must differ from the highest one of a group, too, because a single peak can make a difference of targets, and memory comes after
// some daily peaks.
func (b *Book) apart(a *cluster.Autoscaler, role string, own *cluster.Advice, highest cluster.Resources) cluster.Set {
	out := mayDiffer(a)
	if !a.SizesByNode() {
		return out
	}
	for _, res := range cluster.All {
		isAlike := float64(own.Lower.Amount(res)) > (1-keepBy)*float64(highest.Amount(res))
		if isAlike || res == cluster.Memory && !b.isLearnt(a.Target.InGroup(role), own.Container, 3*b.history) {
			out &^= cluster.Of(res)
		}
	}
	return out
}

// less returns the targets of a container of a group that are lower than those of the largest one, of the resources that may differ. had are those of
// which the group has a size already.
func less(largest, own *cluster.Advice, apart, had cluster.Set) (out cluster.Resources) {
	for _, res := range cluster.All {
		by := lessBy
		if had.Has(res) {
			by = keepBy
		}
		amount := own.Target.Amount(res)
		if amount > 0 && apart.Has(res) && float64(amount) <= (1-by)*float64(largest.Target.Amount(res)) {
			out = out.Set(res, amount)
		}
	}
	return out
}

// Keep sets the sizes of groups and the parts of whole pods to those of the status, while the model state of the groups may be incomplete.
// Without --role-history there are none.
func (b *Book) Keep(a *cluster.Autoscaler, all []cluster.Advice) {
	for i := range all {
		if before := a.AdviceFor(all[i].Container); before != nil && b.history > 0 {
			all[i].Groups, all[i].Shared = before.Groups, before.Shared
		}
	}
}

func adviceOf(all []cluster.Advice, container string) *cluster.Advice {
	return cluster.Find(all, func(a *cluster.Advice) bool { return a.Container == container })
}
