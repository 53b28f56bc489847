// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strings"
)

// MaxGroups is the largest number of groups of a workload that have a size of their own.
const MaxGroups = 8

// PodIndex is the label with the ordinal of a pod of a StatefulSet.
const PodIndex = "apps.kubernetes.io/pod-index"

// A GroupSize is the recommendation for a group of the pods of a workload: those with one role (Settings.RoleLabel). It has only resources of which
// these pods need less than others.
type GroupSize struct {
	Role   string
	Target Resources
}

// Equal reports whether two recommendations are the same.
func (a Advice) Equal(b Advice) bool {
	return a.Container == b.Container && a.Estimate == b.Estimate && a.Uncapped == b.Uncapped && a.Learnt == b.Learnt && slices.Equal(a.Groups, b.Groups)
}

// Role returns the value of a label of the pod, "" if that is not known. Labels are known of pods whose controller is a StatefulSet or not
// one of Kubernetes' own.
func (p *Pod) Role(label string) string {
	if label == PodIndex && p.Controller.Kind == "StatefulSet" {
		ordinal, _ := strings.CutPrefix(p.Name, p.Controller.Name+"-")
		return ordinal
	}
	if label == "" || p.Marks == nil {
		return ""
	}
	for pair := range strings.SplitSeq(p.Marks.Labels, ",") {
		if key, value, _ := strings.Cut(pair, "="); key == label {
			return value
		}
	}
	return ""
}

// InGroup returns the key of the usage history of the pods of a workload that have a role. No workload has such a name.
func (w Workload) InGroup(role string) Workload {
	w.Name += "/" + role
	return w
}

// Ungrouped returns the workload of a group, and false if w is no group.
func (w Workload) Ungrouped() (Workload, bool) {
	name, _, isGroup := strings.Cut(w.Name, "/")
	w.Name = name
	return w, isGroup
}

// SizesByRole reports whether pods are sized by their role: a label names it, and pods can be resized in place, because a role can move from pod to pod.
// Canaries and limits of steps compare pods of one size, HPAs and the memory for each core depend on all pods; beside these, roles have no effect.
func (a *Autoscaler) SizesByRole() bool {
	r := &a.Rules
	return r.RoleLabel != "" && r.RoleLabel != "none" && a.Mode.Resizes() && !a.Canary.On && len(a.Horizontal) == 0 &&
		r.MaxStep.Value == (MaxStep{}) && r.MemoryPerCPU.Value == (MemoryPerCPU{})
}

// HasGroups reports whether the role of a pod decides its size: it has a role, and a group has a size of its own.
func (a *Autoscaler) HasGroups(p *Pod) bool {
	return a.SizesByRole() && p.Role(a.Rules.RoleLabel) != "" && slices.ContainsFunc(a.Advice, func(v Advice) bool {
		return !v.apart(p.Container(v.Container)).Empty()
	})
}

// For returns the autoscaler with the recommendation that applies to a pod: that of its group, or else its own. If groups have sizes of their own, the
// bounds are close to the target, so that a pod whose role changes is resized at once.
func (a *Autoscaler) For(p *Pod) *Autoscaler {
	if !a.HasGroups(p) {
		return a
	}
	role := p.Role(a.Rules.RoleLabel)
	out := *a
	out.Advice = slices.Clone(a.Advice)
	for i := range out.Advice {
		v := &out.Advice[i]
		apart := v.apart(p.Container(v.Container))
		var own Resources
		if size := v.SizeOf(role); size != nil {
			own = size.Target
		}
		for _, res := range All {
			if apart.Has(res) {
				v.Estimate = v.sized(res, own.Amount(res))
			}
		}
	}
	return &out
}

// SizeOf returns the size of the pods with a role, nil if that is the target.
func (a *Advice) SizeOf(role string) *GroupSize {
	return Find(a.Groups, func(g *GroupSize) bool { return g.Role == role })
}

// apart returns the resources that groups have sizes of their own for, without those whose resize restarts the container, or which is nil: a restart
// could move the role to another pod, and so on without end.
func (a *Advice) apart(c *Container) Set {
	var out Set
	for i := range a.Groups {
		out |= a.Groups[i].Target.Has
	}
	if c == nil {
		return 0
	}
	return out &^ c.Restart
}

// The bounds of pods with a role, relative to their target.
const (
	lowerOfRole = 0.85
	upperOfRole = 1.2
)

// sized returns the estimate with the target of a group for one resource, if that is lower, and with close bounds.
func (e Estimate) sized(res Resource, to int64) Estimate {
	target, set := e.Target.Get(res)
	if !set {
		return e
	}
	if to > 0 && to < target {
		share := float64(to) / float64(target)
		e.Lower = e.Lower.Set(res, int64(float64(e.Lower.Amount(res))*share))
		e.Upper = e.Upper.Set(res, int64(float64(e.Upper.Amount(res))*share))
		target = to
	}
	e.Target = e.Target.Set(res, target)
	e.Lower = e.Lower.Set(res, max(e.Lower.Amount(res), int64(float64(target)*lowerOfRole)))
	e.Upper = e.Upper.Set(res, max(target, min(e.Upper.Amount(res), int64(float64(target)*upperOfRole))))
	return e
}

// Represents reports whether a pod shows the size of its workload better than another one, which may be nil: pods of a smaller group come last, and of
// the others the newest is first. The autoscaler may be nil.
func (a *Autoscaler) Represents(p, than *Pod) bool {
	switch {
	case than == nil:
		return true
	case a != nil && a.isSmall(p) != a.isSmall(than):
		return a.isSmall(than)
	}
	return p.Created.After(than.Created)
}

// isSmall reports whether the role of a pod has a size of its own.
func (a *Autoscaler) isSmall(p *Pod) bool {
	role := p.Role(a.Rules.RoleLabel)
	return a.HasGroups(p) && slices.ContainsFunc(a.Advice, func(v Advice) bool { return v.SizeOf(role) != nil })
}

// Larger returns the estimate with the larger target, for each resource.
func (e Estimate) Larger(o Estimate) Estimate {
	for _, res := range All {
		if o.Target.Amount(res) > e.Target.Amount(res) {
			e.Lower = e.Lower.Set(res, o.Lower.Amount(res))
			e.Target = e.Target.Set(res, o.Target.Amount(res))
			e.Upper = e.Upper.Set(res, o.Upper.Amount(res))
		}
	}
	return e
}
