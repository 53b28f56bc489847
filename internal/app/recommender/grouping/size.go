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
	lessBy = 0.1
	keepBy = 0.03
)

// A Sizing has what the recommendation of a workload depends on.
type Sizing struct {
	Profile    recommend.Profile
	Autoscaler *cluster.Autoscaler
	MaxAllowed cluster.Resources
	LimitsCPU  bool // CPU must not exceed that of the status (sizing.LimitCPU)
}

// Apply returns the recommendation of a workload, raised to that of its largest group, with the sizes of groups that need less. These have memory only
// if the user asks for it: a follower that becomes the leader needs more memory at once, while its CPU can be raised then. A group whose size is not
// known any more keeps that of the status, and the recommendation does not decrease meanwhile.
func (b *Book) Apply(s *Sizing, all []cluster.Advice) []cluster.Advice {
	a := s.Autoscaler
	w := b.workloads[a.Target]
	if w == nil || !a.SizesByRole() || a.Rules.RoleLabel != w.Autoscaler.Rules.RoleLabel {
		return all // the groups are those of another VPA for the same workload
	}
	sizes := make([][]cluster.Advice, len(w.roles))
	for n, role := range w.roles {
		of := a.Target.InGroup(role)
		if b.absence(of) < max(b.history, 24*time.Hour) {
			sizes[n] = recommend.Workload(s.Profile.Params, s.Profile.Estimator, b.Store, a, of, b.now)
			sizes[n] = slices.DeleteFunc(sizes[n], func(v cluster.Advice) bool { return !b.isLearnt(b.Store.Series(of, v.Container)) })
			sizes[n] = policy.Cap(a, sizes[n], s.MaxAllowed, s.Profile.Node)
		}
		for i := range all {
			own, status := adviceOf(sizes[n], all[i].Container), a.AdviceFor(all[i].Container)
			switch {
			case own != nil:
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
			size := cluster.GroupSize{Role: role, Target: less(a, &all[i], role, adviceOf(sizes[n], all[i].Container))}
			if !size.Target.Has.Empty() {
				all[i].Groups = append(all[i].Groups, size)
			}
		}
	}
	return all
}

// less returns the targets of a container of a group that are lower than those of the largest one, and that the user wants apart.
func less(a *cluster.Autoscaler, largest *cluster.Advice, role string, own *cluster.Advice) (out cluster.Resources) {
	apart := cluster.Of(cluster.CPU)
	if a.Rules.Followers == "own" {
		apart = cluster.Both
	}
	var before cluster.Resources
	if status := a.AdviceFor(largest.Container); status != nil && status.SizeOf(role) != nil {
		before = status.SizeOf(role).Target
	}
	if own == nil {
		return before
	}
	for _, res := range cluster.All {
		by := lessBy
		if before.Has.Has(res) {
			by = keepBy
		}
		amount := own.Target.Amount(res)
		if amount > 0 && apart.Has(res) && float64(amount) <= (1-by)*float64(largest.Target.Amount(res)) {
			out = out.Set(res, amount)
		}
	}
	return out
}

// Keep sets the sizes of groups to those of the status, while the model state of the groups may be incomplete.
func Keep(a *cluster.Autoscaler, all []cluster.Advice) {
	for i := range all {
		if before := a.AdviceFor(all[i].Container); before != nil {
			all[i].Groups = before.Groups
		}
	}
}

func adviceOf(all []cluster.Advice, container string) *cluster.Advice {
	return cluster.Find(all, func(a *cluster.Advice) bool { return a.Container == container })
}
