// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// WholePod stands for a role in the key of the history of what pods use as a whole (Workload.InGroup). No label has this value.
const WholePod = "*"

// SharesHeadroom reports whether pods with pod-level requests may get less than the sum of the targets of their containers. They do not beside canaries,
// limits of steps and HPAs, which compare requests with the targets, and not if the VPA sets whole cores or the memory for each core of a container.
func (a *Autoscaler) SharesHeadroom() bool {
	r := &a.Rules
	return !a.Canary.On && len(a.Horizontal) == 0 && len(a.IntegerCPU) == 0 && r.MaxStep.Value == (MaxStep{}) && r.MemoryPerCPU.Value == (MemoryPerCPU{})
}

// Shares returns what a pod needs as a whole, and the sum of the targets of its containers, for the resources of which it gets the former.
func (a *Autoscaler) Shares(p *Pod) (whole, sum Resources) {
	if p.PodLevel == nil || !a.SharesHeadroom() || a.HasGroups(p) {
		return whole, sum
	}
	for _, res := range All {
		part, all := int64(0), int64(0)
		missing := 0 // containers that have a part and are not in the pod
		for i := range a.Advice {
			if a.Advice[i].Shared.Has.Has(res) {
				missing++
			}
		}
		for i := range p.Containers {
			switch c := &p.Containers[i]; {
			case c.Role == Init:
			case !a.shares(c, res):
				part, all = -1, 0
			case part >= 0:
				v := a.AdviceFor(c.Name)
				part, all = part+v.Shared.Amount(res), all+v.Target.Amount(res)
				missing--
			}
		}
		if missing == 0 && part > 0 && part < all && p.PodLevel.Requests.Has.Has(res) {
			whole, sum = whole.Set(res, part), sum.Set(res, all)
		}
	}
	return whole, sum
}

// shares reports whether the request of a container may be below its target, because the rest is part of the pod-level request. A limit that follows the
// request would be too low then.
func (a *Autoscaler) shares(c *Container, res Resource) bool {
	v := a.AdviceFor(c.Name)
	rule := a.Policy(c.Name)
	if v == nil || !c.IsSized() || !rule.Controls().Has(res) {
		return false
	}
	part := v.Shared.Amount(res)
	_, limits := c.Running()
	hasLimit := limits.Amount(res) > 0 || c.Limits.Amount(res) > 0
	return part > 0 && part <= v.Target.Amount(res) && (!hasLimit || rule != nil && rule.RequestsOnly)
}

// sharing returns the autoscaler with the parts of what a pod needs as a whole as targets.
func (a *Autoscaler) sharing(p *Pod) *Autoscaler {
	whole, _ := a.Shares(p)
	if whole.Has.Empty() {
		return a
	}
	out := *a
	out.Advice = slices.Clone(a.Advice)
	for i := range out.Advice {
		for _, res := range All {
			if whole.Has.Has(res) {
				out.Advice[i].Estimate = out.Advice[i].scaled(res, out.Advice[i].Shared.Amount(res))
			}
		}
	}
	return &out
}
